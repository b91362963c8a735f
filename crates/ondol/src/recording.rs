//! Which volumes have a transaction being recorded in this thread. Their calls would not be part of it, and so they are refused.

use crate::{Error, Result, Volume};
use ondol_volume::Volume as Inodes;
use std::cell::RefCell;
use std::ptr;

thread_local! {
    static RECORDED: RefCell<Vec<*const Volume>> = const { RefCell::new(Vec::new()) };
}

/// A volume is recorded until this is dropped, which may be by a panic.
pub(crate) struct Recording(());

impl Recording {
    pub(crate) fn of(volume: &Volume) -> Self {
        RECORDED.with_borrow_mut(|recorded| recorded.push(ptr::from_ref(volume)));
        Self(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Closures end in the reverse order in which they began.
        RECORDED.with_borrow_mut(Vec::pop);
    }
}

impl Volume {
    /// The inodes, for a call that is made of the library itself.
    ///
    /// # Errors
    /// [`Error::Recording`] within the closure of this volume's [`Volume::transaction`].
    pub(crate) fn usable(&self) -> Result<&Inodes> {
        match RECORDED.with_borrow(|recorded| recorded.contains(&ptr::from_ref(self))) {
            true => Err(Error::Recording),
            false => Ok(self.inodes()),
        }
    }
}
