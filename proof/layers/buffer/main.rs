//! The NVM write buffer under faults that are put into it: power cuts and interleavings.

#[path = "../../../crates/write-buffer/tests/common/mod.rs"]
mod common;
mod planted;
mod schedules;
