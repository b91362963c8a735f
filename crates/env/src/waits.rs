//! Long waits, told to whoever keeps a number of threads at work.
//!
//! A server wants as many threads running as there are processors: fewer leave a processor idle, more take turns for
//! nothing. A thread that waits for a disk or for another thread does not run, but only the place that waits knows. So
//! that place says so ([`long`]), and whoever set up the thread is told ([`watched`]). Condition variables and sleeping
//! say it by themselves. On a thread that nobody watches it costs one load.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
}

/// Who wants to know of a thread's waits. Both are called on that thread, which may hold locks: they must not wait for
/// it.
pub trait Watch: Send + Sync {
    /// The thread is about to wait.
    fn begins(&self);
    /// It has waited.
    fn ends(&self);
}

/// Runs `f` with `watch` being told of the calling thread's waits.
pub fn watched<R>(watch: Arc<dyn Watch>, f: impl FnOnce() -> R) -> R {
    struct Unwatched(Option<Arc<dyn Watch>>);
    impl Drop for Unwatched {
        fn drop(&mut self) {
            IS_WATCHED.set(self.0.is_some());
            WATCH.set(self.0.take());
        }
    }
    let _unwatched = Unwatched(WATCH.replace(Some(watch)));
    IS_WATCHED.set(true);
    f()
}

/// Whether somebody wants to know of the calling thread's waits.
#[inline]
pub fn is_watched() -> bool {
    IS_WATCHED.get()
}

/// Does what may make the thread wait for long. A wait within a wait is one.
#[inline]
pub fn long<R>(wait: impl FnOnce() -> R) -> R {
    if IS_WATCHED.get() { told(wait) } else { wait() }
}

#[cold]
fn told<R>(wait: impl FnOnce() -> R) -> R {
    struct Ended(Arc<dyn Watch>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.ends();
            IS_WATCHED.set(true);
        }
    }
    let Some(watch) = WATCH.with_borrow(Clone::clone) else { return wait() };
    IS_WATCHED.set(false);
    watch.begins();
    let _ended = Ended(watch);
    wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Condvar, Mutex, OwnedRwLock};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;

    #[derive(Default)]
    struct Counts {
        begun: AtomicU32,
        ended: AtomicU32,
    }

    impl Counts {
        fn read(&self) -> (u32, u32) {
            (self.begun.load(SeqCst), self.ended.load(SeqCst))
        }
    }

    impl Watch for Counts {
        fn begins(&self) {
            self.begun.fetch_add(1, SeqCst);
        }

        fn ends(&self) {
            self.ended.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn waits_are_told_while_they_are_watched() {
        let counts = Arc::new(Counts::default());
        long(|| ());
        let inner = watched(counts.clone(), || {
            let during = long(|| long(|| counts.read()));
            let wait = |mutex: &Mutex<()>| Condvar::new().wait_for(&mut mutex.lock(), Duration::from_millis(1));
            assert!(wait(&Mutex::new(())).timed_out());
            during
        });
        assert_eq!((inner, counts.read()), ((1, 0), (2, 2)));
        long(|| ());
        assert_eq!(counts.read(), (2, 2));
    }

    #[test]
    fn a_long_wait_for_an_owned_lock_is_told() {
        let (counts, lock) = (Arc::new(Counts::default()), OwnedRwLock::new(7));
        let held = lock.write();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| watched(counts.clone(), || *lock.read()));
            while counts.read().0 == 0 {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(waiter.join().unwrap(), 7);
        });
        assert_eq!(counts.read(), (1, 1));
        assert_eq!(watched(counts.clone(), || *lock.read()), 7);
        assert_eq!(counts.read(), (1, 1), "nobody has it");
    }

    #[test]
    fn a_wait_that_panics_has_ended() {
        let counts = Arc::new(Counts::default());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            watched(counts.clone(), || long(|| panic!("on purpose")));
        }));
        assert!(panicked.is_err());
        assert_eq!(counts.read(), (1, 1));
    }
}
