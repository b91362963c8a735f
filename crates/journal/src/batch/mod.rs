//! Engine `batch`: for a home that takes batches, each transaction is one.
//!
//! ```text
//!   publish ──▶ running ──switch──▶ images ──seal──▶ BlockStore::submit ──▶ BlockStore::settle
//!                                                     readers see it          durable
//! ```
//!
//! There is no journal area, no checkpoint and no replay: what a home holds after a crash is what some number of the
//! first transactions made of it. File data goes the same way in every data mode, since anything else would save
//! nothing.
//!
//! **Invariants**
//! - Everything that a transaction changes is in one batch, and nothing of it reaches the home before.
//! - Batches are submitted in the order of transactions, under the commit lock.
//! - [`Engine::wait_for`] succeeds only when that batch, or a later one, is settled.
//! - A block that a transaction frees is discarded in its batch, and is allocated again only when that is submitted: no
//!   batch has it twice, and whoever takes it comes later in the order.
//! - After the first failure of [`BlockStore::submit`] or [`BlockStore::settle`] the engine submits nothing any more,
//!   and no fsync succeeds.
//!
//! **Locks**, in order: the turn to settle, commit, barrier, a running shard, a buffer, submitted. None of them is an
//! inode lock.
//!
//! Design: `docs/design/object-home.md`.

mod commit;
mod room;
mod steps;

use crate::cache::AtHome;
use crate::common::{self, Common};
use crate::contract::{About, Engine};
use crate::device::Bound;
use crate::names::{Extent, Tid};
use crate::running::{NewData, Running};
use crate::stats::EngineStats;
use crate::turn::Turns;
use crate::{Ground, JournalError, Placement, Result, Run, WriteSet};
use commit::Submitted;
use ondol_block::BlockStore;
use ondol_env::Step;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use room::Room;
use std::collections::VecDeque;
use std::ops::Deref;

/// Blocks for which a batch must have room.
pub const LEAST_BLOCKS: u64 = 256;

/// Whether `store` takes batches that are large enough for a volume with blocks of so many bytes.
pub fn is_possible(store: &dyn BlockStore, block_size: u32) -> bool {
    store.caps().batch.is_some_and(|bytes| bytes / u64::from(block_size.max(1)) >= LEAST_BLOCKS)
}

/// Bytes of the largest batch.
///
/// # Errors
/// `Unsupported`: the store takes no batches, or too small ones.
pub(crate) fn most(ground: &Ground) -> Result<u64> {
    let store = &ground.store;
    let most = store.caps().batch.filter(|_| is_possible(&**store, ground.block_size as u32));
    most.ok_or_else(|| {
        let what = format!("journal=batch needs a home that takes batches, which {} does not", store.name());
        JournalError::Unsupported(what)
    })
}

/// The shared state of one engine.
struct BatchCore {
    common: Common,
    running: Running,
    room: Room,
    /// Whose turn it is to settle.
    turns: Turns,
    /// Held from the switch until the batch is submitted.
    commit_lock: Mutex<()>,
    /// Batches that are not settled, oldest first.
    submitted: Mutex<VecDeque<Submitted>>,
    /// The newest transaction that is submitted, and the newest that is durable, by their numbers.
    newest: AtomicU64,
    durable: AtomicU64,
    /// Bytes of transactions that are closed to handles and not durable.
    unsettled: AtomicU64,
    handles: AtomicU64,
}

/// A journal engine that makes each transaction one batch.
pub(crate) struct BatchEngine {
    core: Arc<BatchCore>,
}

impl BatchEngine {
    /// An engine with batches of at most so many bytes.
    pub(crate) fn new(most: u64, ground: Ground) -> Self {
        // From its submission on, a home that takes batches shows what is in one.
        let home = Arc::new(AtHome::of(&ground));
        let dirty = ground.config.dirty_bytes;
        let common = Common::new(ground, home, Bound { kept: dirty, dirty });
        let first = Tid(1);
        let core = BatchCore {
            running: Running::new(first),
            room: Room::new(most / common.block_size as u64, common.waiters.clone()),
            turns: Turns::default(),
            commit_lock: Mutex::default(),
            submitted: Mutex::default(),
            newest: AtomicU64::new(first.0 - 1),
            durable: AtomicU64::new(first.0 - 1),
            unsettled: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            common,
        };
        Self { core: Arc::new(core) }
    }
}

impl Deref for BatchCore {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl BatchCore {
    /// An extent in bytes: where, and how many.
    fn bytes_of(&self, extent: Extent) -> (u64, u64) {
        (self.byte_offset(extent.start), u64::from(extent.len) * self.block_size as u64)
    }

    /// What waits now.
    fn measure(&self, stats: &mut EngineStats) {
        stats.uncommitted_bytes = self.not_durable();
        stats.uncommitted_ns = self.running.oldest().map_or(0, |started| self.since(started));
        stats.unflushed_bytes = self.in_place.not_durable();
    }
}

impl Engine for BatchEngine {
    fn common(&self) -> &Common {
        &self.core
    }

    fn about(&self) -> About {
        About { name: "batch", max_blocks: self.core.room.max_handle(), logs_bytes: false }
    }

    fn reserve(&self, blocks: u32) -> Result<()> {
        self.core.check_alive()?;
        self.core.reserve(blocks)
    }

    fn extend(&self, blocks: u32) -> bool {
        self.core.room.try_promise(blocks)
    }

    fn unreserve(&self, blocks: u32) {
        self.core.room.give_back(blocks);
    }

    fn publish(&self, mut set: WriteSet<'_>, reserved: u32) -> Tid {
        set.own();
        let core = &self.core;
        core.handles.fetch_add(1, Relaxed);
        let forget = |freed: &[(Extent, _)]| core.cache.forget_all(freed.iter().map(|(extent, _)| *extent));
        let published = core.running.publish(set, core.block_size, core.env.as_ref(), forget, NewData::Logged);
        core.room.joined(reserved, published.joined);
        core.room.give_back(published.given_back);
        if core.running_is_large() {
            core.bells.committer.ring();
        }
        published.tid
    }

    fn place(&self, run: &Run) -> (Placement, u32) {
        (Placement::Logged, run.extent.len)
    }

    fn write_new(&self, block: u64, bytes: &[u8]) -> Result<bool> {
        self.core.write_data(block, 0, bytes).map(|()| true)
    }

    fn new_data_cost(&self, blocks: u32) -> u32 {
        blocks
    }

    fn tid(&self) -> Tid {
        self.core.running.tid()
    }

    fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        self.core.wait_for(tid, written)
    }

    /// Nothing that is committed is anywhere else than at home.
    fn checkpoint(&self) -> Result<bool> {
        self.core.check_alive().map(|()| false)
    }

    fn checkpoint_all(&self) -> Result<()> {
        self.core.wait_for(self.tid(), self.core.in_place.written())
    }

    fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>> {
        common::steps(&self.core, &steps::PARTS)
    }

    fn stats(&self) -> EngineStats {
        let mut stats = *self.core.stats.lock();
        stats.handles = self.core.handles.load(Relaxed);
        stats.dead_blocks = self.core.running.dead();
        self.core.measure(&mut stats);
        stats.dirty_bound = self.core.config.dirty_bytes;
        stats
    }
}

impl BatchCore {
    /// Bytes that are not durable: of the running transaction, and of those after it.
    fn not_durable(&self) -> u64 {
        let held = self.running.held();
        held * self.block_size as u64 + self.unsettled.load(SeqCst)
    }
}
