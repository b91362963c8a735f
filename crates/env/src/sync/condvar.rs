//! Condition variables.

use super::schedule::{current, is_any, point};
use parking_lot::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Waiting for what another thread does under a mutex. Returns without cause are possible: the caller looks again.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    /// How often tasks of a scheduler have notified.
    notified: AtomicU64,
}

/// How a wait with a timeout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult {
    timed_out: bool,
}

impl WaitTimeoutResult {
    /// Whether time ran out before a notification came.
    pub fn timed_out(self) -> bool {
        self.timed_out
    }
}

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self { inner: parking_lot::Condvar::new(), notified: AtomicU64::new(0) }
    }

    /// Releases the mutex, waits for a notification, and has the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        if !is_any() || self.wait_for_turn(guard, true).is_none() {
            crate::waits::long(|| self.inner.wait(guard));
        }
    }

    /// As [`Condvar::wait`], but no longer than `timeout`. A scheduler may let that be over at any time.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        if is_any()
            && let Some(result) = self.wait_for_turn(guard, false)
        {
            return result;
        }
        WaitTimeoutResult { timed_out: crate::waits::long(|| self.inner.wait_for(guard, timeout)).timed_out() }
    }

    /// Wakes one that waits; under a scheduler all of them, which they must bear.
    pub fn notify_one(&self) {
        point();
        if is_any() {
            self.notified.fetch_add(1, Relaxed);
        }
        self.inner.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        point();
        if is_any() {
            self.notified.fetch_add(1, Relaxed);
        }
        self.inner.notify_all();
    }

    /// The wait of a task: until a notification, or for one turn of the others. `None` where no scheduler decides.
    #[cold]
    #[inline(never)]
    fn wait_for_turn<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, patient: bool) -> Option<WaitTimeoutResult> {
        let scheduler = current()?;
        scheduler.point();
        let before = self.notified.load(Relaxed);
        let is_notified = || self.notified.load(Relaxed) != before;
        let mutex = MutexGuard::mutex(guard);
        MutexGuard::unlocked(guard, || {
            // Releasing it is something done: who found it locked can go on.
            scheduler.point();
            scheduler.blocked();
            while patient && !is_notified() {
                scheduler.blocked();
            }
            // Acquiring it again must not block the thread that all tasks share.
            while mutex.is_locked() {
                scheduler.blocked();
            }
        });
        Some(WaitTimeoutResult { timed_out: !is_notified() })
    }
}
