//! The page table under faults that are put into it: power cuts, damage, interleavings, pins and memory.

mod hostile;
mod memory;
mod pins;
mod planted;
mod power;
#[allow(dead_code, reason = "shared with the table's own tests")]
#[path = "../../../crates/page-table/tests/table/rig.rs"]
mod rig;
mod schedules;
mod views;
