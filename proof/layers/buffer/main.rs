//! The NVM write buffer under faults that are put into it: power cuts and interleavings.

#[allow(dead_code, reason = "shared with the buffer's own tests")]
#[path = "../../../crates/write-buffer/tests/common/mod.rs"]
mod common;
mod planted;
mod schedules;
