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
//! **Locks**, in order: checkpoint, the turn to commit, commit, staging, barrier, a running shard, a buffer, early,
//! pending. None of them is an inode lock, so a thread that holds inode locks may commit or checkpoint.

mod checkpoint;
mod commit;
mod log;
mod pending;
mod space;
mod stage;
mod steps;

pub use checkpoint::BATCH;
pub(crate) use log::{AboutLog, LogFormat, Logged, Sealed, Swap};
pub use space::HANDLE_SHARE;

use crate::Block;
use crate::cache::{AtHome, Home};
use crate::common::{self, Common};
use crate::contract::{About, Engine};
use crate::device::Bound;
use crate::in_place::IN_PLACE;
use crate::index::Index;
use crate::names::{Extent, Kind, Tid};
use crate::placement::{Before, Placement, Run, first_run, may_delay};
use crate::running::{NewData, Running, Runs};
use crate::stats::EngineStats;
use crate::turn::Turns;
use crate::{Config, Ground, JournalError, Result, WriteSet};
use commit::Committed;
use ondol_env::Step;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, RwLock};
use pending::Pending;
use space::Space;
use std::ops::Deref;

/// The shared state of one engine.
pub(crate) struct BlockCore {
    common: Common,
    log: Box<dyn LogFormat>,
    new_data: NewData,
    running: Running,
    space: Space,
    pending: Arc<Mutex<Pending>>,
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
}

/// A journal engine that logs whole blocks.
pub(crate) struct BlockEngine {
    core: Arc<BlockCore>,
}

impl BlockEngine {
    /// An engine over an empty log whose next transaction is `first`.
    pub(crate) fn new(ground: Ground, log: Box<dyn LogFormat>, first: Tid) -> Self {
        let Config { device, dirty_bytes, kept_bytes, journaled_data, .. } = ground.config;
        let index = Arc::<Index>::default();
        let pending = Arc::new(Mutex::new(Pending::new(index.clone())));
        let newest = Newest { home: AtHome::of(&ground), pending: pending.clone(), index };
        let common = Common::new(ground, Arc::new(newest), Bound::new(device, dirty_bytes, kept_bytes));
        let core = BlockCore {
            pending,
            journaled_data: AtomicBool::new(journaled_data),
            running: Running::new(first),
            space: Space::new(log.as_ref(), common.waiters.clone()),
            new_data: log.about().new_data,
            log,
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
            common,
        };
        Self { core: Arc::new(core) }
    }
}

impl Deref for BlockCore {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

/// What is newer than home, and not in the cache.
struct Newest {
    home: AtHome,
    pending: Arc<Mutex<Pending>>,
    /// Of the images in `pending`.
    index: Arc<Index>,
}

impl Home for Newest {
    fn committed(&self, block: u64) -> Option<Block> {
        if self.index.home_from(block) > 0 { None } else { self.pending.lock().image(block) }
    }

    fn home_from(&self, block: u64) -> u64 {
        self.index.home_from(block)
    }

    fn read_home(&self, block: u64, bytes: &mut [u8]) -> Result<()> {
        self.home.read_home(block, bytes)
    }
}

impl Engine for BlockEngine {
    fn common(&self) -> &Common {
        &self.core
    }

    fn about(&self) -> About {
        About { name: self.core.log.about().name, max_blocks: self.core.space.max_handle(), logs_bytes: false }
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
        let core = &self.core;
        let forget = |freed: &[(Extent, Kind)]| core.cache.forget_all(freed.iter().map(|(extent, _)| *extent));
        let published = core.running.publish(set, core.block_size, core.env.as_ref(), forget, core.new_data);
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

    fn place(&self, run: &Run) -> (Placement, u32) {
        let (core, all) = (&self.core, run.extent.len);
        if run.journaled && !core.journaled_data.load(Relaxed) {
            core.journaled_data.store(true, SeqCst);
        }
        let delays = matches!(core.new_data, NewData::Kept);
        // The log says of new data whether it has arrived in place.
        let tells = core.new_data.is_named();
        let knows = |block| core.knows(Extent { start: block, len: 1 });
        match run.before {
            Before::New if tells || delays && !run.journaled => {
                let in_place = core.log.passes(run.bytes) || delays && !may_delay(run, core.block_size);
                (if in_place { Placement::InPlace } else { Placement::Delayed }, all)
            }
            _ if run.journaled => (Placement::Logged, all),
            Before::Unwritten if tells => (Placement::Logged, all),
            // A transaction may have yet to write what was there before it was made unwritten.
            Before::Unwritten if delays && core.knows(run.extent) => (Placement::Delayed, all),
            Before::Stored if delays => match first_run(run.extent, knows) {
                (true, blocks) => (Placement::Delayed, blocks),
                (false, blocks) => (Placement::InPlace, blocks),
            },
            Before::Stored if tells && run.bytes < IN_PLACE => (Placement::Logged, all),
            Before::Stored if tells => match first_run(run.extent, knows) {
                (true, blocks) => (Placement::Logged, blocks),
                (false, blocks) => (Placement::InPlace, blocks),
            },
            Before::New | Before::Unwritten | Before::Stored => (Placement::InPlace, all),
        }
    }

    fn write_new(&self, block: u64, bytes: &[u8]) -> Result<bool> {
        self.core.write_data(block, 0, bytes)?;
        self.core.passed_bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.core.data_runs.fetch_add(1, Relaxed);
        Ok(true)
    }

    fn new_data_cost(&self, blocks: u32) -> u32 {
        self.core.new_data.cost(blocks, self.core.block_size)
    }

    fn tid(&self) -> Tid {
        self.core.running.tid()
    }

    fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        self.core.wait_for(tid, written)
    }

    fn checkpoint(&self) -> Result<bool> {
        self.core.check_alive()?;
        self.core.checkpoint_some()
    }

    fn checkpoint_all(&self) -> Result<()> {
        self.core.wait_for(self.tid(), self.core.in_place.written())?;
        self.core.checkpoint_everything()
    }

    fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>> {
        common::steps(&self.core, &steps::PARTS)
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
