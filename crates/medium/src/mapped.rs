//! The bytes of an NVM: their mapping, and which of them are lost. What is asked of them is checked here.

use crate::map::Map;
use crate::poison::Poison;
use crate::{NvmError, Result};
use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// A mapping with a name, and its poison.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) name: String,
    pub(crate) map: Map,
    pub(crate) poison: Poison,
}

impl Mapped {
    pub(crate) fn new(name: String, map: Map) -> Self {
        Self { name, map, poison: Poison::default() }
    }

    /// All words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.map.words()
    }

    /// The range of `len` bytes at `offset`, for `op`.
    pub(crate) fn check(&self, op: &'static str, offset: u64, len: u64) -> Result<Range<u64>> {
        match offset.checked_add(len) {
            Some(end) if end <= self.map.len() as u64 => Ok(offset..end),
            _ => Err(self.out_of_range(op, offset, len)),
        }
    }

    /// The word at `offset`, for `op`.
    pub(crate) fn word(&self, op: &'static str, offset: u64) -> Result<&AtomicU64> {
        let bytes = self.check(op, offset, 8)?;
        if !offset.is_multiple_of(8) {
            return Err(NvmError::Misaligned { name: self.name.clone(), offset });
        }
        self.require_whole(bytes)?;
        let word = self.words().get(offset as usize / 8);
        word.ok_or_else(|| self.out_of_range(op, offset, 8))
    }

    /// Refuses what has lost lines.
    pub(crate) fn require_whole(&self, bytes: Range<u64>) -> Result<()> {
        self.poison.first(bytes).map_or(Ok(()), |line| Err(self.poisoned(line)))
    }

    /// Heals the lost lines that are stored to as a whole. Refuses those of which some bytes were to be kept.
    pub(crate) fn heal(&self, bytes: &Range<u64>) -> Result<()> {
        if let Some(line) = self.poison.first_partial(bytes) {
            return Err(self.poisoned(line));
        }
        self.poison.heal(bytes);
        Ok(())
    }

    fn out_of_range(&self, op: &'static str, offset: u64, len: u64) -> NvmError {
        NvmError::OutOfRange { op, name: self.name.clone(), offset, len, size: self.map.len() as u64 }
    }

    fn poisoned(&self, offset: u64) -> NvmError {
        NvmError::Poisoned { name: self.name.clone(), offset }
    }
}
