//! Stores that are shared between processes now, with no way to the medium of their own: locks and counters of who is
//! running, and bytes that somebody makes durable later ([`crate::Stored::others`]). After a crash any of them may be
//! there.

use crate::nvm::exchange;
use crate::{Nvm, Result};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// A word that processes share, to be read often.
#[derive(Clone, Copy, Debug)]
pub struct SharedWord<'a>(&'a AtomicU64);

impl SharedWord<'_> {
    /// As it is now; counted as no read of the medium, as by [`Shared::load_u64`].
    #[inline]
    pub fn get(self) -> u64 {
        u64::from_le(self.0.load(Acquire))
    }
}

/// A medium as a place where processes meet.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'n> {
    nvm: &'n Nvm,
}

impl Nvm {
    /// The medium for what processes share now.
    pub fn shared(&self) -> Shared<'_> {
        Shared { nvm: self }
    }
}

impl<'n> Shared<'n> {
    /// Stores `bytes` at any `offset`.
    ///
    /// # Errors
    /// As for [`crate::Stored::store`].
    pub fn store(self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.nvm.put(offset, bytes)
    }

    /// A word that processes share, as it is now. Such words lie in the processor's caches: this is counted as no read
    /// of the medium, and takes as long as it does.
    ///
    /// # Errors
    /// As for [`Nvm::load_u64`].
    pub fn load_u64(self, offset: u64) -> Result<u64> {
        let word = self.word(offset)?;
        Ok(self.nvm.loaded(offset, 8, || word.get()))
    }

    /// Such a word, checked once and read many times.
    ///
    /// # Errors
    /// As for [`Nvm::load_u64`].
    pub fn word(self, offset: u64) -> Result<SharedWord<'n>> {
        self.nvm.mapped.word("read", offset).map(SharedWord)
    }

    /// Stores a word in one step; who sees it sees what this thread has stored before.
    ///
    /// # Errors
    /// As for [`crate::Stored::store_u64`].
    pub fn store_u64(self, offset: u64, word: u64) -> Result<()> {
        self.nvm.change_word(offset, |at| (at.store(word.to_le(), Release), Some(word)))
    }

    /// Stores `new` if the word is `old`, in one step. Otherwise answers the word that is there.
    ///
    /// # Errors
    /// As for [`crate::Stored::store_u64`].
    pub fn cas_u64(self, offset: u64, old: u64, new: u64) -> Result<std::result::Result<(), u64>> {
        self.nvm.change_word(offset, |at| exchange(at, old, new))
    }

    /// Adds to a word in one step, wrapping around; answers what it was.
    ///
    /// # Errors
    /// As for [`crate::Stored::store_u64`].
    pub fn fetch_add(self, offset: u64, add: u64) -> Result<u64> {
        self.nvm.change_word(offset, |at| {
            let sum = |word: u64| Some(u64::from_le(word).wrapping_add(add).to_le());
            let old = u64::from_le(at.fetch_update(AcqRel, Acquire, sum).unwrap_or_else(|word| word));
            (old, Some(old.wrapping_add(add)))
        })
    }
}
