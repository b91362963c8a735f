//! Engine `swap` (papers/1): jbd2's log, whose blocks a checkpoint puts into the places of those at home instead of
//! copying them.
//!
//! ```text
//!            before                        one exchange                        after
//!   ring  │ B newest │ ...      map: B at home ⇄ B in the ring      ring  │ B as it was, of no account │
//!   home  │ B old    │          journal superblock: the new tail    home  │ B newest                   │
//! ```
//!
//! The paper writes data once: at a commit, into the journal. Its checkpoint exchanges the two entries of a persistent
//! page table, and writes the journal's superblock in the same transaction of that table, so that a checkpoint happens
//! entirely or not at all: after half of one, the next would swap back.
//!
//! Commit, log and recovery are those of engine `classic` ([`crate::jbd2`]); the kernel and e2fsck read the log. What
//! is swapped and what is copied, and why what enters the ring this way does no harm there, is in
//! `docs/design/swap.md`.

use crate::area::{Area, LogMap};
use crate::block_engine::{AboutLog, LogFormat, Logged, Sealed, Swap};
use crate::jbd2::{Jbd2Log, open_log};
use crate::names::Tid;
use crate::{Ground, JournalError, Result};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_format::jbd2::{SUPERBLOCK_SIZE, is_escape_needed};

/// Whether `store` can carry this engine for a journal and a volume in blocks of `block_size` bytes, both on it.
pub fn is_possible(store: &dyn BlockStore, block_size: u32) -> bool {
    store.caps().swap.is_some_and(|swap| swap.block == block_size && swap.bytes as usize >= SUPERBLOCK_SIZE)
}

/// The log of engine `swap`, and its first transaction.
///
/// # Errors
/// `Unsupported`: the store cannot exchange blocks, or blocks of another size; as for `classic`.
pub(crate) fn log(ground: &Ground, map: LogMap) -> Result<(Box<dyn LogFormat>, Tid)> {
    let (store, block_size) = (&ground.store, map.block_size());
    let swaps = store.caps().swap.filter(|_| is_possible(&**store, block_size as u32));
    let Some(swaps) = swaps else {
        let what =
            format!("{} does not exchange blocks of {block_size} bytes: engine swap cannot run on it", store.name());
        return Err(JournalError::Unsupported(what));
    };
    let (log, first) = open_log(ground, map)?;
    Ok((Box::new(SwapLog { log, store: store.clone(), most: swaps.pairs }), first))
}

/// A jbd2 log on a store that exchanges blocks.
struct SwapLog {
    log: Jbd2Log,
    store: Arc<dyn BlockStore>,
    most: u64,
}

impl LogFormat for SwapLog {
    fn about(&self) -> AboutLog {
        AboutLog { name: "swap", ..self.log.about() }
    }

    fn area(&self) -> &Area {
        self.log.area()
    }

    fn cost(&self, images: u64, revokes: u64) -> u64 {
        self.log.cost(images, revokes)
    }

    fn log(&self, at: u64, tx: &Sealed) -> Result<Logged> {
        self.log.log(at, tx)
    }

    fn set_tail(&self, tid: Tid, at: Option<u64>) -> Result<()> {
        self.log.set_tail(tid, at)
    }

    fn swap(&self) -> Option<(&dyn Swap, u64)> {
        Some((self, self.most))
    }
}

impl Swap for SwapLog {
    fn places(&self, at: u64, tx: &Sealed) -> Vec<Option<u64>> {
        self.log.places(at, tx)
    }

    /// All blocks of the log begin with a number that no image in it begins with. What cannot be read does not enter
    /// either: a copy heals it.
    fn may_enter(&self, block: u64) -> bool {
        let mut begin = [0; 4];
        let read = self.store.read(block * self.area().block_size() as u64, &mut begin);
        read.is_ok() && !is_escape_needed(&begin)
    }

    fn swap_home(&self, swaps: &[(u64, u64)], tid: Tid, at: Option<u64>) -> Result<()> {
        let area = self.area();
        area.exchange(swaps, |sb| sb.set_start(at.map(|at| area.file_block(at)), tid.low()))
    }
}
