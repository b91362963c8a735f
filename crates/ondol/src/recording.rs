//! Which volumes have a transaction being recorded in this thread. Their calls would not be part of it, and so they are
//! refused.

use crate::mounted::Mounted;
use std::cell::RefCell;
use std::ptr;

thread_local! {
    static RECORDED: RefCell<Vec<*const Mounted>> = const { RefCell::new(Vec::new()) };
}

/// A volume is recorded until this is dropped, which may be by a panic.
pub(crate) struct Recording(());

impl Recording {
    pub(crate) fn of(mounted: &Mounted) -> Self {
        RECORDED.with_borrow_mut(|recorded| recorded.push(ptr::from_ref(mounted)));
        Self(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Closures end in the reverse order in which they began.
        RECORDED.with_borrow_mut(Vec::pop);
    }
}

/// Whether this thread records a transaction of it.
pub(crate) fn has(mounted: &Mounted) -> bool {
    RECORDED.with_borrow(|recorded| recorded.contains(&ptr::from_ref(mounted)))
}
