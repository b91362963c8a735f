//! A gate: many go through without meeting, and one who closes it is alone with what lies behind.
//!
//! A reader-writer lock whose readers share no cache line and never wait: they are told that the gate is closed, and
//! take another way.
#![expect(unsafe_code, reason = "shares what lies behind the gate")]

// Not by their own names: a model checker looks at this file with others.
use super::meeting::{
    Apart, AtomicBool, AtomicU64,
    Ordering::{Release, SeqCst},
    STRIPES, stripe, yield_now,
};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// Something behind a gate.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    closed: AtomicBool,
    /// How many are inside, each counted in one of these.
    inside: [Apart<AtomicU64>; STRIPES],
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached by many through `Entered` (needs `Sync`) or by one, in any thread, through `Closed` (needs
// `Send`), and never by both: see `enter` and `close`.
unsafe impl<T: Send + Sync> Sync for Gate<T> {}

/// Someone is inside.
pub(crate) struct Entered<'g, T> {
    gate: &'g Gate<T>,
    stripe: usize,
}

/// The gate is closed, and nobody is inside.
pub(crate) struct Closed<'g, T>(&'g Gate<T>);

impl<T> Gate<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { closed: AtomicBool::new(false), inside: Default::default(), value: UnsafeCell::new(value) }
    }

    /// Goes inside; `None` while the gate is closed.
    pub(crate) fn enter(&self) -> Option<Entered<'_, T>> {
        let entered = Entered { gate: self, stripe: stripe() };
        // First counted, then looked, both in the one order of all such operations, as `close` first closes and then
        // counts: one of the two sees the other.
        self.inside[entered.stripe].fetch_add(1, SeqCst);
        // Dropped, it is not counted any more.
        (!self.closed.load(SeqCst)).then_some(entered)
    }

    /// Closes it, and waits until nobody is inside. Whoever is inside, or has closed it already, must not call this: it
    /// would wait for itself.
    pub(crate) fn close(&self) -> Closed<'_, T> {
        while self.closed.swap(true, SeqCst) {
            yield_now();
        }
        for part in &self.inside {
            while part.load(SeqCst) != 0 {
                yield_now();
            }
        }
        Closed(self)
    }
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this one is counted inside and has seen the gate open after that, so `close` has not returned since,
        // and does not before it is dropped.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        // What was done inside comes before what is done when the gate is closed.
        self.gate.inside[self.stripe].fetch_sub(1, Release);
    }
}

impl<T> Deref for Closed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: as below.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Closed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the gate is closed by this one alone, nobody was inside after it was closed, and whoever enters
        // before it is opened sees it closed.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Closed<'_, T> {
    fn drop(&mut self) {
        self.0.closed.store(false, SeqCst);
    }
}
