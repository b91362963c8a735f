//! The NVM log under faults that are put into it: power cuts, damage and interleavings.

mod behaviour;
mod hostile;
mod planted;
mod power;
#[allow(dead_code, reason = "shared with the log's own tests")]
#[path = "../../../crates/nvm-log/tests/log/rig.rs"]
mod rig;
mod schedules;
