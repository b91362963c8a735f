//! What an engine must say of its log: how a transaction looks there, and what it does with new data.

use crate::area::Area;
use crate::contract::Tid;
use crate::stats::EngineStats;
use crate::{Block, Result};

/// The sealed images of one transaction and what it frees, ready for the journal area.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) tid: Tid,
    /// Images by rising block number.
    pub(crate) images: Vec<(u64, Block)>,
    /// Blocks that the transaction has allocated, by rising number, whose contents were written home and may not have
    /// arrived; and [`LogFormat::sum`] of these.
    pub(crate) staged: Vec<(u64, u32)>,
    /// Blocks whose older images in the log must not be replayed.
    pub(crate) revoked: Vec<u64>,
}

/// How transactions look in the journal area, and how the area's superblock is kept.
pub(crate) trait LogFormat: Send + Sync {
    /// The engine's name as in `journal=`.
    fn name(&self) -> &'static str;
    /// Where the transactions go.
    fn area(&self) -> &Area;
    /// Upper bound of the area's blocks that `images` images and `revokes` revoke records take.
    fn cost(&self, images: u64, revokes: u64) -> u64;
    /// How many different blocks may have images in the log for each block of its ring: as many can be revoked by one
    /// transaction.
    fn images_per_block(&self) -> u64 {
        1
    }
    /// Whether new data is kept until the commit in data modes that do not journal it: the transaction says nothing of
    /// it, and it is home before the transaction counts.
    fn keeps_new_data(&self) -> bool {
        false
    }
    /// Whether `run`, contents of consecutive blocks that the transaction has allocated, is to be written home instead
    /// of into the log. The log must then tell whether it arrived, or count only if it has.
    fn goes_home(&self, run: &[(u64, Block)]) -> bool {
        let _ = run;
        false
    }
    /// What a transaction says of a block of new data that is home, beside its number, so that recovery can tell
    /// whether it has arrived; `None` where it says nothing of such blocks.
    fn sum(&self, image: &[u8]) -> Option<u32> {
        let _ = image;
        None
    }
    /// How many consecutive blocks of new data may be written home at any time before the commit, if any may.
    fn stages_from(&self) -> Option<u32> {
        None
    }
    /// Whether new data of `bytes` bytes that lies together is to be written home now, and named by no transaction.
    fn passes(&self, bytes: usize) -> bool {
        let _ = bytes;
        false
    }
    /// How many images' room contents of `blocks` newly allocated blocks are promised.
    fn new_data_cost(&self, blocks: u32) -> u32 {
        blocks
    }
    /// How much of a promise comes back of `blocks` newly allocated blocks that are freed in the transaction that has
    /// them: no more than leaves the others what [`LogFormat::new_data_cost`] says.
    fn given_back(&self, blocks: u32) -> u32 {
        blocks
    }
    /// Writes the transaction from position `at` of the ring on; it counts when the store has been flushed once more.
    /// What has to be durable before the rest is written is made so by `barrier`. Returns the blocks written, which lie
    /// directly behind `at`.
    fn log(&self, at: u64, tx: &Sealed, barrier: &mut dyn FnMut() -> Result<()>) -> Result<u64>;
    /// Whether data written home before [`LogFormat::log`] is durable when the transaction counts.
    fn orders_staged(&self) -> bool;
    /// Transaction `tid` is durable.
    fn durable(&self, tid: Tid) {
        let _ = tid;
    }
    /// Records where recovery starts: `None` for an empty log whose next transaction is `tid`.
    fn set_tail(&self, tid: Tid, at: Option<u64>) -> Result<()>;
    /// How checkpoints swap blocks of the ring with those at home; `None` where they copy.
    fn swap(&self) -> Option<&dyn Swap> {
        None
    }
    /// Adds what the format counts by itself.
    fn count(&self, stats: &mut EngineStats) {
        let _ = stats;
    }
}

/// A log whose blocks can change places with those at home.
pub(crate) trait Swap {
    /// The most blocks that one checkpoint can swap.
    fn most(&self) -> u64;
    /// Where the transaction that was written from position `at` of the ring on has its images, in their order: the
    /// position of each that lies there as it is, `None` of one in another form.
    fn places(&self, at: u64, tx: &Sealed) -> Vec<Option<u64>>;
    /// Whether what lies at home in `block` may come to lie in the ring.
    fn may_enter(&self, block: u64) -> bool;
    /// Swaps blocks at home with positions of the ring, and does what [`LogFormat::set_tail`] does: all of it happens
    /// or nothing. Durable when this returns, and with it what was written before.
    fn swap_home(&self, swaps: &[(u64, u64)], tid: Tid, at: Option<u64>) -> Result<()>;
}
