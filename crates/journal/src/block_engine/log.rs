//! What an engine must say of its log: how a transaction looks there.

use crate::area::Area;
use crate::names::Tid;
use crate::running::NewData;
use crate::stats::EngineStats;
use crate::{Block, Result};

/// The sealed images of one transaction and what it frees, ready for the journal area.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) tid: Tid,
    /// Images by rising block number.
    pub(crate) images: Vec<(u64, Block)>,
    /// Blocks that the transaction has allocated, by rising number, whose contents were written home and may not have
    /// arrived; and [`crate::running::Named::sum`] of these.
    pub(crate) staged: Vec<(u64, u32)>,
    /// Blocks whose older images in the log must not be replayed.
    pub(crate) revoked: Vec<u64>,
}

/// What is written of a transaction.
#[derive(Debug)]
pub(crate) struct Logged {
    /// Blocks of the ring, directly behind the position.
    pub(crate) blocks: u64,
    /// What makes it count: it takes the block behind them, once they are durable. `None`: they say themselves whether
    /// all of them are there.
    pub(crate) record: Option<Vec<u8>>,
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
    /// Writes the transaction from position `at` of the ring on, all but its commit record if it has one.
    fn log(&self, at: u64, tx: &Sealed) -> Result<Logged>;
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
