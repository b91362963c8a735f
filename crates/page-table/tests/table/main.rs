//! The page table, tried from outside: what callers are promised, power cuts anywhere, damage, and interleavings.

mod behaviour;
mod flat;
mod golden;
mod hostile;
mod in_place;
mod lending;
mod memory;
mod model;
mod pins;
mod planted;
mod power;
mod rig;
mod schedules;
mod schedules_of_lent;
mod views;
