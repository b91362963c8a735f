//! The atomics of [`crate::ring`], which a test replaces by those of a model checker.

pub(crate) use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Waits a moment for another thread, for the `turn`-th time in a row.
pub(crate) fn pause(turn: u32) {
    /// So often the other is taken to be running: it will be done within a microsecond.
    const SPINS: u32 = 50;
    if turn < SPINS && ondol_env::sync::task().is_none() {
        std::hint::spin_loop();
    } else {
        ondol_env::sync::thread::yield_now();
    }
}
