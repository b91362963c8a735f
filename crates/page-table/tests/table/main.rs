//! The page table, tried from outside: what callers are promised, power cuts anywhere, damage, and interleavings.

mod behaviour;
mod flat;
mod golden;
mod in_place;
mod lending;
mod model;
#[allow(dead_code, reason = "shared with what plants faults")]
mod rig;
mod schedules_of_lent;
