//! The engine as the volume knows it.

use super::data_pages::{DataPages, NoPages};
use super::freed::Freed;
use super::home_pages::HomePages;
use super::pages::Pages;
use super::steps;
use super::waiting_since::WaitingSince;
use super::{Dirty, ScalableCore, record};
use crate::cache::{AtHome, Home};
use crate::common::{self, Common};
use crate::contract::{About, Engine};
use crate::device::{Bound, Passing};
use crate::in_place::IN_PLACE;
use crate::names::Tid;
use crate::placement::{Before, Placement, Run, first_run};
use crate::stats::EngineStats;
use crate::turn::Turns;
use crate::{Config, Ground, JournalError, Result, WriteSet};
use ondol_env::Step;
use ondol_env::apart::Striped;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64};
use ondol_env::sync::{Arc, Mutex};
use ondol_nvm_log::{Log, PageArea};

fn common(ground: Ground, home: Arc<dyn Home>) -> Common {
    let Config { device, dirty_bytes, kept_bytes, .. } = ground.config;
    Common::new(ground, home, Bound::new(device, dirty_bytes, kept_bytes))
}

/// A journal engine whose log is in NVM.
pub(crate) struct ScalableEngine {
    core: Arc<ScalableCore>,
}

impl ScalableEngine {
    /// An engine over an empty log, with the pages beside it for file data, of a volume of so many blocks.
    pub(crate) fn new(ground: Ground, log: Log, blocks: u64) -> Self {
        let home = Arc::new(AtHome::of(&ground));
        let pages: Arc<dyn DataPages> = match log.pages() {
            Some(area) => Arc::new(Pages::new(area, ground.block_size, ground.config.dirty_bytes)),
            None => Arc::new(NoPages),
        };
        Self::with(common(ground, home), log, blocks, pages, Arc::default())
    }

    /// The same, whose records name free pages of the home, which are those of `area`.
    pub(crate) fn over_table(ground: Ground, log: Log, blocks: u64, area: PageArea) -> Self {
        let dirty: Arc<Dirty> = Arc::default();
        let pages = Arc::new(HomePages::new(ground.store.clone(), area, dirty.clone()));
        Self::with(common(ground, pages.clone()), log, blocks, pages, dirty)
    }

    fn with(common: Common, log: Log, blocks: u64, pages: Arc<dyn DataPages>, dirty: Arc<Dirty>) -> Self {
        let device = common.config.device;
        let core = Arc::new_cyclic(|this| ScalableCore {
            this: this.clone(),
            common,
            blocks,
            log,
            dirty,
            freed: Freed::default(),
            counters: std::array::from_fn(|_| Mutex::default()),
            turns: Turns::default(),
            tried: AtomicU64::new(0),
            pages,
            passing: Passing::new(device),
            handles: Striped::default(),
            brought: Striped::default(),
            passed: Striped::default(),
            data_runs: Striped::default(),
            is_full: AtomicBool::new(false),
            is_flooded: AtomicBool::new(false),
            waiting_since: WaitingSince::default(),
        });
        Self { core }
    }
}

impl Engine for ScalableEngine {
    fn common(&self) -> &Common {
        &self.core
    }

    fn about(&self) -> About {
        let blocks = record::blocks_in(self.core.log.most(), self.core.block_size);
        let max_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        About { name: self.core.pages.engine(), max_blocks, logs_bytes: true }
    }

    fn reserve(&self, blocks: u32) -> Result<()> {
        self.core.check_alive()?;
        let max = self.about().max_blocks;
        if blocks > max {
            return Err(JournalError::TooBig { need: blocks, max });
        }
        // Room is promised when it is known how much; here, where no lock is held, those wait who bring more than goes
        // home.
        self.core.check_home()?;
        self.core.lend_a_hand()
    }

    fn extend(&self, _blocks: u32) -> bool {
        true
    }

    fn unreserve(&self, _blocks: u32) {}

    fn publish(&self, set: WriteSet<'_>, _reserved: u32) -> Tid {
        // Where the log has failed the engine has stopped, which every wait reports.
        self.core.publish(set).unwrap_or(Tid(u64::MAX))
    }

    fn place(&self, run: &Run) -> (Placement, u32) {
        let core = &self.core;
        let knows = |block| core.dirty.has(block) || core.cache.is_running(block);
        match run.before {
            Before::New => {
                let through = core.pages.let_pass()
                    && !core.failing.rests(core.env.monotonic_ns())
                    && core.passing.passes(run.bytes);
                (if through { Placement::InPlace } else { Placement::Page }, run.extent.len)
            }
            Before::Stored if !run.journaled && run.bytes >= IN_PLACE => match first_run(run.extent, knows) {
                (true, blocks) => (Placement::Logged, blocks),
                (false, blocks) => (Placement::InPlace, blocks),
            },
            Before::Unwritten | Before::Stored => (Placement::Logged, run.extent.len),
        }
    }

    fn write_new(&self, block: u64, bytes: &[u8]) -> Result<bool> {
        let core = &self.core;
        core.check_alive()?;
        match core.in_place.write_or_leave(bytes.len(), || core.write_in_place(block, 0, bytes)) {
            Ok(dirty) => {
                core.passed.add(bytes.len() as i64);
                core.data_runs.add(1);
                core.is_dirty(dirty);
                Ok(true)
            }
            Err(e) => {
                drop(core.home_fails(e));
                Ok(false)
            }
        }
    }

    fn new_data_cost(&self, blocks: u32) -> u32 {
        blocks
    }

    fn tid(&self) -> Tid {
        self.core.tid()
    }

    fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        let core = &self.core;
        if core.log.durable() <= tid.0 {
            core.pages.somebody_syncs();
        }
        core.wait_for(tid, written)
    }

    fn checkpoint(&self) -> Result<bool> {
        self.core.check_alive()?;
        self.core.checkpoint()
    }

    fn checkpoint_all(&self) -> Result<()> {
        self.core.commit_late(self.tid(), true)?;
        self.core.checkpoint_everything()
    }

    fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>> {
        common::steps(&self.core, &steps::PARTS)
    }

    fn stats(&self) -> EngineStats {
        let log = self.core.log.stats();
        let (pages, all_pages) = self.core.pages.used();
        let blocks = |lines: u64| (lines * ondol_nvm_log::LINE).div_ceil(self.core.block_size as u64);
        let stats = *self.core.stats.lock();
        EngineStats {
            dirty_bound: self.core.bound.dirty,
            uncommitted_bytes: self.core.log.uncommitted() * ondol_nvm_log::LINE,
            uncommitted_ns: self.core.uncommitted_ns().unwrap_or(0),
            unflushed_bytes: self.core.in_place.not_durable(),
            not_home_bytes: self.core.dirty.bytes(self.core.block_size),
            commits: log.commits,
            handles: self.core.handles.sum().cast_unsigned(),
            journal_blocks: blocks(log.lines),
            log_lines: log.lines,
            log_voided: log.voided,
            journal_used_blocks: blocks(log.used),
            journal_ring_blocks: blocks(log.capacity),
            buffer_used_blocks: pages,
            buffer_blocks: all_pages,
            data_runs: self.core.data_runs.sum().cast_unsigned(),
            passed_bytes: self.core.passed.sum().cast_unsigned(),
            staged_early_blocks: stats.staged_early_blocks + self.core.brought.sum().cast_unsigned(),
            ..stats
        }
    }
}
