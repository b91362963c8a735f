//! What all whole-block engines share: the running transaction, journal space, commit, and the checkpoint.
//!
//! ```text
//!   publish ──▶ running (Buf list) ──switch──▶ images ──seal──▶ LogFormat::log ──flush──▶ pending ──▶ home
//!                  └── runs of new data ──▶ home, before the commit or with it (`stage`)
//! ```
//!
//! A [`LogFormat`] is how a transaction looks in the journal area; everything else (who waits for what, which image is
//! the newest, when a freed block may be reused) is here once.
//!
//! **Locks**, in order: checkpoint, the turn to commit, commit, staging, barrier, a running shard, a buffer, early, pending. None of them is an inode lock, so a
//! thread that holds inode locks may commit or checkpoint.

mod checkpoint;
mod commit;
mod early;
mod log;
mod pending;
pub(crate) mod running;
pub(crate) mod seal;
mod space;
mod stage;
mod steps;
pub(crate) mod turn;

pub use checkpoint::BATCH;
pub(crate) use log::{LogFormat, Sealed, Swap};
pub use space::HANDLE_SHARE;

use crate::Block;
use crate::cache::{Cache, Home};
use crate::common::Common;
use crate::contract::{Client, Engine, Extent, Kind, Tid};
use crate::device::Bound;
use crate::piece::{Piece, Sources};
use crate::stats::EngineStats;
use crate::{JournalError, Result, WriteSet};
use commit::{Committed, of_data_too};
use ondol_block::{BlockStore, DeviceClass};
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, RwLock};
use ondol_env::{Env, Step};
use pending::Pending;
use running::Running;
use space::Space;
use stage::Runs;
use std::ops::Deref;
use turn::Turns;

/// How a block engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Seconds after which a running transaction is committed without anybody asking (`commit=`).
    pub commit_interval: u64,
    /// Bytes that may wait before a commit is started, or before they are written home, however fast the disk is (`dirty=`).
    pub dirty_bytes: u64,
    /// Bytes of new data that may wait for their commit before they are written home; `None`: what the device writes in a stated time, which then bounds all that waits.
    pub kept_bytes: Option<u64>,
    /// The class of the device below, which bounds what waits and decides what is compressed or written through (`device=`).
    pub device: DeviceClass,
    /// Bytes of the block cache. Blocks of transactions that are not committed are among them: operations wait rather than bring more.
    pub cache_bytes: usize,
    /// Bytes of committed images that may wait for their checkpoint in memory, and of new data that is home before its commit.
    pub pending_bytes: u64,
    /// File data is journaled from the beginning (`data=journal`): freed data blocks may have pending images.
    pub journaled_data: bool,
    /// Blocks are discarded once their freeing is durable (`discard`).
    pub discard: bool,
    /// Blocks of the journal area are overwritten with zeros when their transactions are home (`zeroing`).
    pub zeroing: bool,
    /// Threads that write home at a checkpoint, from 1 on (`checkpoint_threads=`); `None`: as many as seem good.
    pub checkpoint_threads: Option<usize>,
}

impl Config {
    pub(crate) fn writers(&self, env: &dyn Env) -> usize {
        self.checkpoint_threads.unwrap_or_else(|| crate::area::writers(env)).max(1)
    }
}

/// Bytes over stored ones from which on they are written in place, where the log does not order that before its transactions: the commit
/// then flushes first.
pub const IN_PLACE: usize = 64 << 10;

/// The shared state of one engine.
pub(crate) struct Core {
    common: Common,
    log: Box<dyn LogFormat>,
    running: Running,
    space: Space,
    bound: Bound,
    pending: Mutex<Pending>,
    turns: Turns,
    /// The newest durable transaction, by its number.
    durable: AtomicU64,
    commit_lock: Mutex<Committed>,
    /// Blocks of the transaction that is being committed, and bytes of images that wait for their checkpoint.
    committing_blocks: AtomicU64,
    waiting_bytes: AtomicU64,
    /// New data of the transaction that is being committed on its way home.
    committing: Runs<(u64, Block)>,
    /// Held shared by whoever lends a hand with new data.
    staging: RwLock<()>,
    checkpoint_lock: Mutex<()>,
    handles: AtomicU64,
    /// New data that passed, and all writes of new data.
    passed_bytes: AtomicU64,
    data_runs: AtomicU64,
    /// Data blocks may be in the log, and newer in the cache than at home.
    journaled_data: AtomicBool,
    /// Data blocks may be newer in the cache than at home.
    cached_data: AtomicBool,
}

/// A journal engine that logs whole blocks.
pub struct BlockEngine {
    core: Arc<Core>,
    cache: Arc<Cache>,
}

impl BlockEngine {
    /// An engine over an empty log whose next transaction is `first`.
    pub(crate) fn new(
        store: Arc<dyn BlockStore>,
        block_size: usize,
        client: Arc<dyn Client>,
        env: Arc<dyn Env>,
        config: Config,
        log: Box<dyn LogFormat>,
        first: Tid,
    ) -> Self {
        let common = Common::new(store, block_size, client.clone(), env, config);
        let (config, space) = (common.config, Space::new(log.as_ref(), common.waiters.clone()));
        let core = Arc::new(Core {
            common,
            journaled_data: AtomicBool::new(config.journaled_data),
            cached_data: AtomicBool::new(config.journaled_data),
            log,
            running: Running::new(first),
            space,
            bound: Bound::new(config.device, config.dirty_bytes, config.kept_bytes),
            pending: Mutex::default(),
            turns: Turns::default(),
            durable: AtomicU64::new(first.0 - 1),
            commit_lock: Mutex::new(Committed::before(first)),
            committing_blocks: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            committing: Runs::default(),
            staging: RwLock::new(()),
            checkpoint_lock: Mutex::default(),
            handles: AtomicU64::new(0),
            passed_bytes: AtomicU64::new(0),
            data_runs: AtomicU64::new(0),
        });
        let home: Arc<dyn Home> = core.clone();
        let cache = Arc::new(Cache::new(block_size, config.cache_bytes, home, client));
        Self { core, cache }
    }
}

impl Deref for Core {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Home for Core {
    fn committed(&self, block: u64) -> Option<Block> {
        self.pending.lock().image(block)
    }

    fn committed_data(&self, block: u64) -> Option<Block> {
        if self.journaled_data.load(Relaxed) { self.committed(block) } else { None }
    }

    fn read_home(&self, block: u64, bytes: &mut [u8]) -> Result<()> {
        Ok(self.store.read(self.byte_offset(block), bytes)?)
    }
}

impl Engine for BlockEngine {
    fn name(&self) -> &'static str {
        self.core.log.name()
    }

    fn cache(&self) -> &Cache {
        &self.cache
    }

    fn max_blocks(&self) -> u32 {
        self.core.space.max_handle()
    }

    fn reserve(&self, blocks: u32) -> Result<()> {
        self.core.check_alive()?;
        self.core.reserve(blocks)
    }

    fn extend(&self, blocks: u32) -> bool {
        self.core.space.try_promise(blocks)
    }

    fn unreserve(&self, blocks: u32) {
        self.core.space.give_back(blocks);
    }

    fn publish(&self, mut set: WriteSet<'_>, reserved: u32) -> Tid {
        set.own();
        self.core.handles.fetch_add(1, Relaxed);
        let caches = || set.blocks.iter().any(|staged| staged.kind == Kind::DATA);
        if !self.core.cached_data.load(Relaxed) && caches() {
            self.core.cached_data.store(true, SeqCst);
        }
        let forget = |freed: &[(Extent, Kind)]| {
            let cached = of_data_too(freed, self.core.cached_data.load(SeqCst));
            let blocks = cached.flat_map(|extent| extent.start..extent.start + u64::from(extent.len));
            blocks.filter_map(|block| self.cache.forget(block)).collect()
        };
        let (env, log) = (self.core.env.as_ref(), Some(self.core.log.as_ref()));
        let published = self.core.running.publish(set, self.core.block_size, env, forget, log);
        self.core.space.joined(reserved, published.joined);
        if published.given_back > 0 {
            self.core.space.give_back(published.given_back);
        }
        if self.core.running_is_large() {
            self.core.bells.committer.ring();
        }
        if self.core.much_waits() {
            self.core.bells.flusher.ring();
        }
        published.tid
    }

    fn write_data(&self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.core.check_alive()?;
        let core = &self.core;
        let write = || {
            let written = core.store.write(core.byte_offset(block) + offset as u64, bytes);
            self.cache.follow(block, offset, bytes, written.is_ok());
            Ok(written?)
        };
        let dirty = core.in_place.write(bytes.len(), write)?;
        if dirty >= core.bound.dirty {
            core.bells.flusher.ring();
        }
        Ok(())
    }

    fn takes_new_data(&self) -> bool {
        !self.core.log.orders_staged()
    }

    fn keeps_new_data(&self) -> bool {
        self.core.log.keeps_new_data()
    }

    fn pass_new_data(&self, block: u64, bytes: &[u8]) -> Result<bool> {
        self.write_data(block, 0, bytes)?;
        self.core.passed_bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.core.data_runs.fetch_add(1, Relaxed);
        Ok(true)
    }

    fn new_data_cost(&self, blocks: u32) -> u32 {
        self.core.log.new_data_cost(blocks)
    }

    fn passes_new_data(&self, bytes: usize) -> bool {
        self.core.log.passes(bytes)
    }

    fn takes_over(&self, extent: Extent, bytes: usize) -> bool {
        if self.keeps_new_data() {
            return self.core.cached_data.load(SeqCst) && self.core.knows(&self.cache, extent);
        }
        let knows = || self.core.knows(&self.cache, extent);
        let takes = self.takes_new_data() && (bytes < IN_PLACE || knows());
        takes
    }

    fn read_data(&self, block: u64, offset: usize, buf: &mut [u8]) -> Result<()> {
        if !self.core.cached_data.load(SeqCst) {
            return Ok(self.core.store.read(self.core.byte_offset(block) + offset as u64, buf)?);
        }
        crate::data::read(&self.cache, &*self.core.store, self.core.byte_offset(block), block, offset, buf)
    }

    fn view_data(&self, block: u64, offset: usize, len: usize, bounded: bool, pieces: &mut Vec<Piece>) -> Result<()> {
        let cache = Some(&self.cache).filter(|_| self.core.cached_data.load(SeqCst));
        let (store, block_size) = (&*self.core.store, self.cache.block_size());
        Sources { cache: cache.map(|cache| &**cache), store, block_size, bounded }.view(block, offset, len, pieces)
    }

    fn journal_data(&self) {
        if !self.core.journaled_data.load(Relaxed) {
            self.core.journaled_data.store(true, SeqCst);
            self.core.cached_data.store(true, SeqCst);
        }
    }

    fn discard(&self, extent: Extent) -> Result<bool> {
        self.core.check_alive()?;
        self.core.discard(extent)
    }

    fn tid(&self) -> Tid {
        self.core.running.tid()
    }

    fn written(&self) -> u64 {
        self.core.in_place.written()
    }

    fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        self.core.wait_for(tid, written)
    }

    fn checkpoint(&self) -> Result<bool> {
        self.core.check_alive()?;
        self.core.checkpoint_some()
    }

    fn checkpoint_all(&self) -> Result<()> {
        self.wait(self.tid())?;
        self.core.checkpoint_everything()
    }

    fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>> {
        steps::steps(&self.core)
    }

    fn stop(&self, why: &str) {
        self.core.abort(&JournalError::Aborted(why.into()));
    }

    fn aborted(&self) -> Option<String> {
        self.core.aborted.get().cloned()
    }

    fn stats(&self) -> EngineStats {
        let mut stats = *self.core.stats.lock();
        stats.handles = self.core.handles.load(Relaxed);
        stats.dead_blocks = self.core.running.dead();
        stats.passed_bytes = self.core.passed_bytes.load(Relaxed);
        stats.data_runs = self.core.data_runs.load(Relaxed);
        stats.journal_ring_blocks = self.core.log.area().ring_blocks();
        stats.journal_used_blocks = self.core.space.used();
        self.core.measure(&mut stats);
        stats.dirty_bound = self.core.bound.dirty;
        self.core.log.count(&mut stats);
        stats
    }
}
