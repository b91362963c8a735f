//! The end of loops that run beside a test.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Sets its flag when dropped, also by a panic: a thread that loops until then ends with the test that failed, where it
/// would otherwise keep the test's scope waiting for ever.
pub struct SetWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
