//! Where file data goes: what an engine decides about it, once for each run of blocks.
//!
//! Design: `docs/design/data.md`.

use crate::Extent;

/// What blocks held before data is written to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// The operation allocates them, and no committed state reaches what they held in any way.
    New,
    /// They belong to the file, or to a cluster that stays in use, and nothing of what they hold is to be seen: they
    /// begin as zeros.
    Unwritten,
    /// Bytes of the file, which are written over.
    Stored,
}

/// A run of blocks that data is about to be written to.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The blocks; those that are yet to be allocated are from [`Run::UNALLOCATED`] on.
    pub extent: Extent,
    /// Bytes of the data. `usize::MAX`: nothing else changes, so that it may as well go in place if it can.
    pub bytes: usize,
    /// What they held.
    pub before: Before,
    /// The data of this file goes through the journal: `data=journal`, or `chattr +j`.
    pub journaled: bool,
    /// Blocks of new data that the operation has delayed already.
    pub delayed: u32,
}

/// Where the data of a run goes, and when it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To its final location in the call (`write_data`, [`crate::Engine::write_new`]); it is flushed before the next
    /// commit.
    InPlace,
    /// Into memory ([`crate::Handle::put_data`]): its commit writes it in place before it counts, or into the log where
    /// that is better.
    Delayed,
    /// Into the transaction, which has it in the log.
    Logged,
    /// Into a page of NVM that a record of the log names.
    Page,
}

impl Run {
    /// The number of no block.
    pub const UNALLOCATED: u64 = 1 << 62;
}

/// Bytes of data, to be put into a handle of lifetime `'v`.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'v, 'b> {
    /// They stay where they are as long as the handle: whole blocks need no copy before the journal's.
    Lent(&'v [u8]),
    /// They are copied at once.
    Passing(&'b [u8]),
}

impl<'v, 'b> Bytes<'v, 'b> {
    /// The bytes, as long as this call.
    pub fn now(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Passing(bytes) => bytes,
        }
    }

    /// Some of them.
    pub fn part(self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::Lent(bytes) => Self::Lent(&bytes[range]),
            Self::Passing(bytes) => Self::Passing(&bytes[range]),
        }
    }
}

/// Whether `holds` is so of the first of these blocks, and of how many from there on.
pub(crate) fn first_run(extent: Extent, holds: impl Fn(u64) -> bool) -> (bool, u32) {
    let first = holds(extent.start);
    let is_other = |i: &u32| holds(extent.start + u64::from(*i)) != first;
    (first, (1..extent.len).find(is_other).unwrap_or(extent.len))
}

/// Blocks of new data that an operation delays, of `size` bytes each, where it need not: more is written in place at
/// once.
pub(crate) fn may_delay(run: &Run, size: usize) -> bool {
    u64::from(run.delayed + run.extent.len) * size as u64 <= DELAYED_MOST + size as u64
}

/// What one write has at most.
const DELAYED_MOST: u64 = 1 << 20;
