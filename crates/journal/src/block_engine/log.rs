//! What an engine must say of its log: how a transaction looks there, and what becomes of new data, which is contents
//! of blocks that the transaction itself has allocated.

use crate::area::Area;
use crate::contract::Tid;
use crate::stats::EngineStats;
use crate::{Block, Result};
use ondol_format::unit;

/// The sealed images of one transaction and what it frees, ready for the journal area.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) tid: Tid,
    /// Images by rising block number.
    pub(crate) images: Vec<(u64, Block)>,
    /// Blocks that the transaction has allocated, by rising number, whose contents were written home and may not have
    /// arrived; and [`Named::sum`] of these.
    pub(crate) staged: Vec<(u64, u32)>,
    /// Blocks whose older images in the log must not be replayed.
    pub(crate) revoked: Vec<u64>,
}

/// What never changes of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AboutLog {
    /// The engine's name as in `journal=`.
    pub(crate) name: &'static str,
    /// How many different blocks may have images in the log for each block of its ring: as many can be revoked by one
    /// transaction.
    pub(crate) images_per_block: u64,
    pub(crate) new_data: NewData,
}

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
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Self::Named(_))
    }

    /// What the transaction says of a block that is home, beside its number.
    pub(super) fn sum(&self, image: &[u8]) -> Option<u32> {
        let Self::Named(named) = self else { return None };
        Some((named.sum)(image))
    }

    /// Whether `run`, contents of consecutive blocks, goes in place at the commit.
    pub(super) fn goes_home(&self, run: &[(u64, Block)]) -> bool {
        let Self::Named(named) = self else { return matches!(self, Self::Kept) };
        let bytes: usize = run.iter().map(|(_, image)| image.len()).sum();
        // One block in eight tells for the run.
        let is_dense = || run.iter().step_by(8).all(|(_, image)| unit::looks_random(image));
        bytes >= named.plain || bytes >= named.dense && is_dense()
    }

    /// How many consecutive blocks may be written in place at any time before the commit, if any may.
    pub(super) fn stages_from(&self, block_size: usize) -> Option<u32> {
        match self {
            Self::Logged => None,
            Self::Kept => Some(1),
            Self::Named(named) => Some(named.early.div_ceil(block_size) as u32),
        }
    }

    /// How many images' room `blocks` blocks of it are promised.
    pub(super) fn cost(&self, blocks: u32, block_size: usize) -> u32 {
        match self {
            Self::Logged => blocks,
            Self::Kept => 0,
            // Runs of a block each in the tables, if all of it goes home.
            Self::Named(named) => (blocks as usize * named.entry).div_ceil(block_size) as u32 + u32::from(blocks > 0),
        }
    }

    /// How much of a promise comes back of `blocks` blocks that are freed in the transaction that has them: no more
    /// than leaves the others what [`NewData::cost`] says.
    pub(super) fn given_back(&self, blocks: u32, block_size: usize) -> u32 {
        match self {
            // Of entries what is whole: those of the others are rounded up.
            Self::Named(named) => (blocks as usize * named.entry / block_size) as u32,
            _ => self.cost(blocks, block_size),
        }
    }
}

/// How transactions look in the journal area, and how the area's superblock is kept.
pub(crate) trait LogFormat: Send + Sync {
    /// What never changes.
    fn about(&self) -> AboutLog;
    /// Where the transactions go.
    fn area(&self) -> &Area;
    /// Upper bound of the area's blocks that `images` images and `revokes` revoke records take.
    fn cost(&self, images: u64, revokes: u64) -> u64;
    /// Whether new data of `bytes` bytes that lies together is to be written home now, and named by no transaction.
    fn passes(&self, bytes: usize) -> bool {
        let _ = bytes;
        false
    }
    /// Writes the transaction from position `at` of the ring on; it counts when the store has been flushed once more.
    /// What has to be durable before the rest is written is made so by `barrier`. Returns the blocks written, which lie
    /// directly behind `at`.
    fn log(&self, at: u64, tx: &Sealed, barrier: &mut dyn FnMut() -> Result<()>) -> Result<u64>;
    /// Transaction `tid` is durable.
    fn durable(&self, tid: Tid) {
        let _ = tid;
    }
    /// Records where recovery starts: `None` for an empty log whose next transaction is `tid`.
    fn set_tail(&self, tid: Tid, at: Option<u64>) -> Result<()>;
    /// How checkpoints swap blocks of the ring with those at home, and the most that one can; `None` where they copy.
    fn swap(&self) -> Option<(&dyn Swap, u64)> {
        None
    }
    /// Adds what the format counts by itself.
    fn count(&self, stats: &mut EngineStats) {
        let _ = stats;
    }
}

/// A log whose blocks can change places with those at home.
pub(crate) trait Swap {
    /// Where the transaction that was written from position `at` of the ring on has its images, in their order: the
    /// position of each that lies there as it is, `None` of one in another form.
    fn places(&self, at: u64, tx: &Sealed) -> Vec<Option<u64>>;
    /// Whether what lies at home in `block` may come to lie in the ring.
    fn may_enter(&self, block: u64) -> bool;
    /// Swaps blocks at home with positions of the ring, and does what [`LogFormat::set_tail`] does: all of it happens
    /// or nothing. Durable when this returns, and with it what was written before.
    fn swap_home(&self, swaps: &[(u64, u64)], tid: Tid, at: Option<u64>) -> Result<()>;
}
