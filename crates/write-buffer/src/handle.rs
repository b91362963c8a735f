//! An open file, as callers have it.

use crate::Result;
use crate::file::FileState;
use crate::home::Identity;
use crate::shared::Core;
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::SeqCst;
use std::fmt;

/// An open file of a [`crate::Buffer`]. Every write is durable when it returns. Several threads may use it at once.
pub struct File {
    core: Arc<Core>,
    state: Arc<FileState>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.state.handles.fetch_sub(1, SeqCst);
    }
}

impl Clone for File {
    fn clone(&self) -> Self {
        Self::new(self.core.clone(), self.state.clone())
    }
}

impl File {
    pub(crate) fn new(core: Arc<Core>, state: Arc<FileState>) -> Self {
        state.handles.fetch_add(1, SeqCst);
        Self { core, state }
    }

    pub(crate) fn state(&self) -> &Arc<FileState> {
        &self.state
    }

    /// What the home finds it by.
    pub fn identity(&self) -> &Identity {
        &self.state.identity
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.state.whole.lock().size
    }

    /// Writes `data` at byte `offset`; the file grows if need be. It is durable when this returns. May wait for blocks,
    /// in turn with other writers.
    ///
    /// After a crash before that, each piece of it (by block of the buffer) is there whole or not at all.
    ///
    /// # Errors
    /// `Range`, `Removed`; `Full` when the home fails and nothing can be emptied; the NVM's failure. Parts may be
    /// written then.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.core.write(&self.state, offset, data)
    }

    /// Reads up to `buf.len()` bytes at `offset`; returns how many there were before the file's end.
    ///
    /// # Errors
    /// `Removed`, or the home's or the NVM's failure.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.core.read(&self.state, offset, buf)
    }

    /// Cuts the file to `len` bytes, or makes it longer with zeros. Durable when this returns.
    ///
    /// # Errors
    /// As for [`File::write_at`].
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.core.set_len(&self.state, len)
    }

    /// Everything that was written is durable without it. Reports, once, that the home has failed in the background
    /// since the last call: the bytes are still in NVM, and are tried again.
    ///
    /// # Errors
    /// `Home`.
    pub fn fsync(&self) -> Result<()> {
        self.state.failed.lock().take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Brings everything of the file home, durably.
    ///
    /// # Errors
    /// The home's or the NVM's failure.
    pub fn settle(&self) -> Result<()> {
        self.core.settle(std::slice::from_ref(&self.state))
    }
}
