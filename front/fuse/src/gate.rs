//! The gate between requests and the volume: requests pass while it is open, and whoever closes it waits for the last
//! one.
//!
//! Requests of different threads share no cache line: each thread has a slot of its own. After closing, threads may go
//! on reading requests (a lazily unmounted file system with open files); they find the gate closed.

use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More slots than serving threads, so that threads seldom share one; sharing is correct, only slower.
const SLOTS: usize = 64;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
}

/// The calling thread's slot, below [`SLOTS`].
fn slot() -> usize {
    SLOT.with(Cell::get)
}

#[repr(align(128))]
struct Slot<T> {
    value: RwLock<Option<Arc<T>>>,
}

/// Holds a `T` that many threads use until one takes it back.
pub(crate) struct Gate<T> {
    slots: Box<[Slot<T>]>,
}

impl<T> Gate<T> {
    pub(crate) fn new(value: T) -> Self {
        let value = Arc::new(value);
        Self { slots: (0..SLOTS).map(|_| Slot { value: RwLock::new(Some(Arc::clone(&value))) }).collect() }
    }

    /// Runs `f` on the value; `None` when the gate is closed.
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let guard = self.slots.get(slot())?.value.read();
        guard.as_deref().map(f)
    }

    /// Closes the gate, waits for those inside, and hands back the value; `None` when it was closed before.
    pub(crate) fn close(&self) -> Option<T> {
        let mut last = None;
        for slot in &self.slots {
            last = slot.value.write().take();
        }
        last.and_then(Arc::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::Gate;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn close_waits_for_everybody_inside_and_nobody_enters_after() {
        let gate = Arc::new(Gate::new(AtomicU64::new(0)));
        let entered = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (gate, entered) = (Arc::clone(&gate), Arc::clone(&entered));
                std::thread::spawn(move || {
                    while gate.enter(|n| n.fetch_add(1, Ordering::Relaxed)).is_some() {
                        entered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        while entered.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        let value = gate.close().expect("open until now");
        let at_close = value.load(Ordering::Relaxed);
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(entered.load(Ordering::Relaxed), at_close);
        assert!(gate.close().is_none());
    }
}
