//! The NVM log under faults that are put into it: power cuts, damage and interleavings.

mod behaviour;
mod hostile;
mod planted;
mod power;
mod schedules;
