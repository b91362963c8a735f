//! The NVM log, tried from outside; and its core, under a model checker.

/// What the core is given instead of the crate's atomics.
#[allow(dead_code, reason = "the core as the tests use it")]
mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    pub(crate) fn pause(_: u32) {
        loom::thread::yield_now();
    }
}

mod model;
#[allow(dead_code, reason = "the core as the tests use it")]
#[path = "../../src/ring.rs"]
mod ring;
