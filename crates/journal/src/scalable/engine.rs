//! The engine as the volume knows it.

use super::freed::Freed;
use super::home_pages::HomePages;
use super::pages::Pages;
use super::steps;
use super::turn::Turns;
use super::waiting_since::WaitingSince;
use super::{AtHome, Core, Dirty, Failing, record};
use crate::block_engine::{Config, IN_PLACE};
use crate::cache::Cache;
use crate::common::Common;
use crate::contract::{Client, Engine, Extent, Tid};
use crate::device::{Bound, Passing};
use crate::piece::{Piece, Sources};
use crate::stats::EngineStats;
use crate::{JournalError, Kind, Result, WriteSet};
use ondol_block::BlockStore;
use ondol_env::apart::Striped;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Step};
use ondol_nvm_log::Log;

/// A journal engine whose log is in NVM.
pub struct ScalableEngine {
    core: Arc<Core>,
}

/// What an engine stands on.
pub struct Ground {
    /// Where home is.
    pub store: Arc<dyn BlockStore>,
    /// Bytes of a block, and blocks of the volume.
    pub block_size: usize,
    /// See `block_size`.
    pub blocks: u64,
    /// Its log, which is empty.
    pub log: Log,
    /// The volume.
    pub client: Arc<dyn Client>,
    /// Clock and processors.
    pub env: Arc<dyn Env>,
}

impl ScalableEngine {
    /// An engine over an empty log, with the pages beside it for file data.
    pub fn new(ground: Ground, config: Config) -> Self {
        Self::with(ground, config, false)
    }

    /// An engine over an empty log whose records name free pages of the home.
    pub(crate) fn over_table(ground: Ground, config: Config) -> Self {
        Self::with(ground, config, true)
    }

    fn with(ground: Ground, config: Config, over_table: bool) -> Self {
        let Ground { store, block_size, blocks, log, client, env } = ground;
        let common = Common::new(store.clone(), block_size, client.clone(), env, config);
        let config = common.config;
        let area = log.pages().cloned();
        let (home_pages, pages) = match over_table {
            true => (area.map(|area| Arc::new(HomePages::new(store.clone(), area))), None),
            false => (None, area.map(|area| Pages::new(&area, block_size, config.dirty_bytes))),
        };
        let dirty = Arc::new(Dirty::default());
        let in_pages = home_pages.clone().map(|home| (home, dirty.clone()));
        let home = Arc::new(AtHome { store: store.clone(), block_size, pages: in_pages });
        let core = Arc::new_cyclic(|this| Core {
            this: this.clone(),
            cache: Arc::new(Cache::new(block_size, config.cache_bytes, home, client)),
            common,
            blocks,
            log,
            bound: Bound::new(config.device, config.dirty_bytes, config.kept_bytes),
            dirty,
            freed: Freed::default(),
            counters: std::array::from_fn(|_| Mutex::default()),
            turns: Turns::default(),
            tried: AtomicU64::new(0),
            pages,
            home_pages,
            failing: Failing::default(),
            passing: Passing::new(config.device),
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
    fn name(&self) -> &'static str {
        if self.core.home_pages.is_some() { "remap" } else { "scalable" }
    }

    fn cache(&self) -> &Cache {
        &self.core.cache
    }

    fn take_as_empty(&self, _: u64, _: Kind) {}

    fn max_blocks(&self) -> u32 {
        let blocks = record::blocks_in(self.core.log.most(), self.core.block_size);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    fn reserve(&self, blocks: u32) -> Result<()> {
        self.core.check_alive()?;
        let max = self.max_blocks();
        if blocks > max {
            return Err(JournalError::TooBig { need: blocks, max });
        }
        // Room is promised when it is known how much; here, where no lock is held, those wait who bring more than goes home.
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

    fn write_data(&self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        let core = &self.core;
        core.check_alive()?;
        let dirty = core.in_place.write(bytes.len(), || core.write_in_place(block, offset, bytes))?;
        core.is_dirty(dirty);
        Ok(())
    }

    fn takes_new_data(&self) -> bool {
        true
    }

    fn passes_new_data(&self, bytes: usize) -> bool {
        self.core.pages.is_some() && !self.core.home_rests() && self.core.passing.passes(bytes)
    }

    fn pass_new_data(&self, block: u64, bytes: &[u8]) -> Result<bool> {
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

    fn takes_over(&self, extent: Extent, bytes: usize) -> bool {
        let knows = |block| self.core.dirty.has(block) || self.core.cache.is_running(block);
        bytes < IN_PLACE || (0..u64::from(extent.len)).any(|i| knows(extent.start + i))
    }

    fn derives(&self) -> bool {
        true
    }

    fn journal_data(&self) {}

    fn read_data(&self, block: u64, offset: usize, buf: &mut [u8]) -> Result<()> {
        let core = &self.core;
        crate::data::read(&self.core.cache, &*core.store, core.byte_offset(block), block, offset, buf)
    }

    fn view_data(&self, block: u64, offset: usize, len: usize, bounded: bool, pieces: &mut Vec<Piece>) -> Result<()> {
        let core = &self.core;
        let (cache, store, block_size) = (Some(&*core.cache), &*core.store, core.block_size);
        Sources { cache, store, block_size, bounded }.view(block, offset, len, pieces)
    }

    fn discard(&self, extent: Extent) -> Result<bool> {
        self.core.check_alive()?;
        self.core.discard(extent)
    }

    fn tid(&self) -> Tid {
        self.core.tid()
    }

    fn written(&self) -> u64 {
        self.core.in_place.written()
    }

    fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        let core = &self.core;
        if let Some(pages) = core.pages.as_ref().filter(|_| core.log.durable() <= tid.0) {
            pages.somebody_syncs(true);
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
        steps::steps(&self.core)
    }

    fn stop(&self, why: &str) {
        self.core.abort(&JournalError::Aborted(why.into()));
    }

    fn aborted(&self) -> Option<String> {
        self.core.aborted.get().cloned()
    }

    fn home_failure(&self) -> Option<String> {
        self.core.home_failure()
    }

    fn stats(&self) -> EngineStats {
        let log = self.core.log.stats();
        let of_home = || self.core.home_pages.as_ref().map_or((0, 0), |home| home.used());
        let (pages, all_pages) = self.core.pages.as_ref().map_or_else(of_home, Pages::used);
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
