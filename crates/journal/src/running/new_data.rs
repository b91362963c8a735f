//! What becomes of new data, which is contents of blocks that the transaction itself has allocated.

use crate::Block;
use ondol_format::unit;

/// Where new data goes in data modes that do not journal it, and what the log then says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewData {
    /// Into the log, as all else; or in place before the commit, which flushes it before the transaction counts.
    Logged,
    /// It waits in memory for the commit, which writes it in place before the transaction counts. The log says nothing
    /// of it.
    Kept,
    /// Long runs go in place, and the transaction names their blocks; the rest goes into the log.
    Named(Named),
}

/// Of new data that a transaction names. Nothing orders it before the transaction: recovery finds by the sums whether
/// it has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// Bytes in consecutive blocks from which on they go in place, and the same of data that does not compress.
    pub(crate) plain: usize,
    pub(crate) dense: usize,
    /// Bytes in one run from which on they may be written at any time before the commit.
    pub(crate) early: usize,
    /// Bytes of the transaction that name a block.
    pub(crate) entry: usize,
    /// What is said of a block's contents.
    pub(crate) sum: fn(&[u8]) -> u32,
}

impl NewData {
    /// Whether transactions name it, and do not wait for it.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self, Self::Named(_))
    }

    /// What the transaction says of a block that is home, beside its number.
    pub(crate) fn sum(&self, image: &[u8]) -> Option<u32> {
        let Self::Named(named) = self else { return None };
        Some((named.sum)(image))
    }

    /// Whether `run`, contents of consecutive blocks, goes in place at the commit.
    pub(crate) fn goes_home(&self, run: &[(u64, Block)]) -> bool {
        let Self::Named(named) = self else { return matches!(self, Self::Kept) };
        let bytes: usize = run.iter().map(|(_, image)| image.len()).sum();
        // One block in eight tells for the run.
        let is_dense = || run.iter().step_by(8).all(|(_, image)| unit::looks_random(image));
        bytes >= named.plain || bytes >= named.dense && is_dense()
    }

    /// How many consecutive blocks may be written in place at any time before the commit, if any may.
    pub(crate) fn stages_from(&self, block_size: usize) -> Option<u32> {
        match self {
            Self::Logged => None,
            Self::Kept => Some(1),
            Self::Named(named) => Some(named.early.div_ceil(block_size) as u32),
        }
    }

    /// How many images' room `blocks` blocks of it are promised.
    pub(crate) fn cost(&self, blocks: u32, block_size: usize) -> u32 {
        match self {
            Self::Logged => blocks,
            Self::Kept => 0,
            // Runs of a block each in the tables, if all of it goes home.
            Self::Named(named) => (blocks as usize * named.entry).div_ceil(block_size) as u32 + u32::from(blocks > 0),
        }
    }

    /// How much of a promise comes back of `blocks` blocks that are freed in the transaction that has them: no more
    /// than leaves the others what [`NewData::cost`] says.
    pub(crate) fn given_back(&self, blocks: u32, block_size: usize) -> u32 {
        match self {
            // Of entries what is whole: those of the others are rounded up.
            Self::Named(named) => (blocks as usize * named.entry / block_size) as u32,
            _ => self.cost(blocks, block_size),
        }
    }
}
