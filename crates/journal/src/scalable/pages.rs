//! Pages in the pool for whole blocks of file data, which records name in place of carrying them.
//!
//! ```text
//!   named ─┬─▶ stored, under the fence of its record             while programs sync
//!          ├─▶ waits ─┬─▶ stored, before the commit's line        an fsync comes first
//!          │          └─▶ home and flushed, before the commit     nobody syncs: the page is never written
//!          └─▶ home, by its operation, without a page             nobody has synced for long, and much waits
//! ```
//!
//! Only what lies in blocks that the operation has allocated may wait or go there: it may be home before it is
//! committed, since no committed state reaches it.

use super::ScalableCore;
use super::data_pages::{DataPages, Delays};
use super::named::{Image, Named, PART, Rests, at_once, bytes_in, whole};
use super::record::{self, InPage};
use crate::Block;
use crate::cache::Buf;
use crate::logged::Waiting;
use crate::names::Kind;
use crate::write_set::Staged;
use crate::{JournalError, NumberHash, Result};
use ondol_env::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::thread_number;
use ondol_nvm_log::{PageArea, PageWrites};
use std::collections::HashSet;

const SHARDS: usize = 16;

/// So great a part of what may be dirty one thread may have stored at once since the last commit, and no more than so
/// many bytes; what is more waits.
const AT_ONCE: u64 = 32;
const MOST_AT_ONCE: u64 = 1 << 20;

/// The number of a page that there is not: home alone has the contents.
pub(super) const NOWHERE: u32 = u32::MAX;

/// So great a part of the memory for blocks that are not home may wait, however fast home is, and of the pages: each
/// that waits has one.
const PARTS: u64 = 2;

/// So many commits that no program waits for, one behind the other, and operations that bring much write it home
/// themselves.
const QUIET: u32 = 8;

/// Where what a page was named for is.
const FREE: u8 = 0;
const STORED: u8 = 1;
const WAITS: u8 = 2;
const HOME: u8 = 3;

/// The pages of one engine.
pub(super) struct Pages {
    area: PageArea,
    block_size: usize,
    states: Vec<AtomicU8>,
    shards: [Shard; SHARDS],
    /// Pages that a shard has at first, one behind the other.
    per_shard: u32,
    /// Bytes of new data that one thread may have stored at once.
    at_once: u64,
    /// Commits that no program waited for, since one did.
    unawaited: AtomicU32,
}

/// What one thread, or a few, have.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    free: Mutex<Vec<u32>>,
    waiting: Mutex<Vec<Arc<Waiting>>>,
    waiting_bytes: AtomicU64,
    /// Bytes stored at once since the commit up to `since`.
    stored: AtomicU64,
    since: AtomicU64,
}

impl Pages {
    pub(super) fn new(area: &PageArea, block_size: usize, dirty_bytes: u64) -> Self {
        let pages = area.pages(block_size);
        let per_shard = pages.div_ceil(SHARDS as u32).max(1);
        let shards: [Shard; SHARDS] = Default::default();
        for (n, shard) in (0..).zip(&shards) {
            // The lowest is taken first.
            *shard.free.lock() = (per_shard * n..pages.min(per_shard * (n + 1))).rev().collect();
        }
        let states = (0..pages).map(|_| AtomicU8::new(FREE)).collect();
        let at_once = (dirty_bytes / AT_ONCE).min(MOST_AT_ONCE);
        Self { area: area.clone(), block_size, states, shards, per_shard, at_once, unawaited: AtomicU32::new(0) }
    }

    fn shard(&self) -> &Shard {
        &self.shards[thread_number() as usize % SHARDS]
    }

    /// So many pages that are free, or as many as there are: of this thread's, then of others'.
    pub(super) fn take(&self, count: usize) -> Vec<u32> {
        let (from, mut taken) = (thread_number() as usize, Vec::new());
        for n in 0..SHARDS {
            if taken.len() == count {
                break;
            }
            let mut free = self.shards[(from + n) % SHARDS].free.lock();
            let left = free.len().saturating_sub(count - taken.len());
            taken.extend(free.drain(left..).rev());
        }
        taken
    }

    fn set(&self, page: u32, state: u8) {
        self.states[page as usize].store(state, Release);
    }

    /// Whether `bytes` of new data are to wait, where everything below what `durable` answers is committed.
    pub(super) fn are_to_wait(&self, bytes: u64, durable: impl FnOnce() -> u64) -> bool {
        if bytes == 0 || self.unawaited.load(Relaxed) > 0 {
            return bytes > 0;
        }
        let durable = durable();
        let shard = self.shard();
        if shard.since.load(Relaxed) != durable {
            shard.since.store(durable, Relaxed);
            shard.stored.store(0, Relaxed);
        }
        shard.stored.fetch_add(bytes, Relaxed) + bytes > self.at_once
    }

    /// What waits and may go home: its records are complete. In the order of blocks.
    pub(super) fn to_bring_home(&self) -> Vec<Arc<Waiting>> {
        let mut found: Vec<Arc<Waiting>> = Vec::new();
        for shard in &self.shards {
            let is_named = |waiting: &&Arc<Waiting>| waiting.position.load(Acquire) > 0;
            let waiting = shard.waiting.lock();
            found.extend(waiting.iter().filter(is_named).filter(|w| !w.is_freed_below(u64::MAX)).cloned());
        }
        found.sort_unstable_by_key(|waiting| waiting.block);
        found
    }

    /// These are home, durably; hands each to `told`. Those that somebody has stored meanwhile count as stored.
    pub(super) fn are_home(&self, home: &[Arc<Waiting>], told: impl Fn(u64, &Block)) {
        for waiting in home {
            let state = &self.states[waiting.page as usize];
            if state.compare_exchange(WAITS, HOME, AcqRel, Acquire).is_ok() {
                told(waiting.block, &waiting.image);
            }
        }
        let pages: HashSet<u64, NumberHash> = home.iter().map(|waiting| u64::from(waiting.page)).collect();
        for shard in &self.shards {
            let mut waiting = shard.waiting.lock();
            let before = waiting.len();
            waiting.retain(|waiting| !pages.contains(&u64::from(waiting.page)));
            let gone = (before - waiting.len()) * self.block_size;
            shard.waiting_bytes.fetch_sub(gone as u64, Relaxed);
        }
    }
}

impl DataPages for Pages {
    fn name<'p>(&self, core: &ScalableCore, arena: &[u8], blocks: &mut [Staged<'p>]) -> Vec<Named<'p>> {
        blocks.iter_mut().for_each(Staged::own);
        let size = self.block_size;
        let takes = |staged: &Staged<'_>| staged.kind == Kind::DATA && size <= PART * bytes_in(staged, false);
        let new = blocks.iter().filter(|staged| staged.newborn && takes(staged)).count();
        let all = blocks.iter().filter(|staged| takes(staged)).count();
        let mut named = Vec::new();
        if new > 0 && core.brings_home() {
            named = core.write_new_home(arena, blocks, &takes);
        }
        let (all, new) = (all - named.len(), new - named.len());
        if all == 0 {
            return named;
        }
        let are_to_wait = self.are_to_wait((new * size) as u64, || core.log.durable());
        let at_home: Vec<usize> = named.iter().map(|named| named.staged).collect();
        let whole_ones =
            blocks.iter_mut().enumerate().filter(|(n, block)| takes(block) && at_home.binary_search(n).is_err());
        for ((staged, block), page) in whole_ones.zip(self.take(all)) {
            let image = whole(block, arena, size);
            let at = InPage { page, sum: record::sum(&image), or_home: block.newborn && are_to_wait };
            let (block, image) = (block.buf.block, Image::Held(image));
            named.push(Named { staged, block, at, image, rests: Rests::InMemory });
        }
        // The record takes them as its blocks come.
        named.sort_unstable_by_key(|named| named.staged);
        named
    }

    fn store(&self, named: &[Named<'_>]) -> Result<Option<PageWrites<'_>>> {
        at_once(named).for_each(|(page, _)| self.set(page, STORED));
        Ok(Some(self.area.write(at_once(named))?))
    }

    fn give(&self, pages: &[u32]) {
        let mut pages: Vec<u32> = pages.iter().copied().filter(|page| *page != NOWHERE).collect();
        pages.sort_unstable();
        pages.iter().for_each(|page| self.set(*page, FREE));
        for of_one in pages.chunk_by(|a, b| a / self.per_shard == b / self.per_shard) {
            self.shards[(of_one[0] / self.per_shard) as usize].free.lock().extend(of_one.iter().rev());
        }
    }

    fn freed(&self, buf: &Arc<Buf>, position: u64) {
        let waiting = buf.state.lock().logged.take_waiting();
        waiting.into_iter().for_each(|waiting| waiting.freed_at(position));
    }

    fn is_there(&self, page: u32) -> bool {
        page == NOWHERE || self.states.get(page as usize).is_some_and(|state| state.load(Acquire) == HOME)
    }

    fn read(&self, block: u64, page: u32, image: &mut [u8]) -> Result<bool> {
        match self.is_there(page) {
            true => Ok(false),
            false if self.area.read(page, image)? => Ok(true),
            false => Err(JournalError::LostData { block }),
        }
    }

    fn used(&self) -> (u64, u64) {
        let free: usize = self.shards.iter().map(|shard| shard.free.lock().len()).sum();
        ((self.states.len() - free) as u64, self.states.len() as u64)
    }
}

impl Delays for Pages {
    fn let_pass(&self) -> bool {
        true
    }

    fn wait(&self, blocks: &[Staged<'_>], named: &[Named<'_>]) -> (Vec<Arc<Waiting>>, bool) {
        let waits = |named: &&Named<'_>| named.at.or_home && named.at.page != NOWHERE;
        let waiting = named.iter().filter(waits).filter_map(|named| {
            let (page, image) = (named.at.page, named.image.held()?.clone());
            self.set(page, WAITS);
            let (position, freed) = (AtomicU64::new(0), AtomicU64::new(0));
            Some(Arc::new(Waiting { page, block: named.block, image, position, freed }))
        });
        let waiting: Vec<Arc<Waiting>> = waiting.collect();
        if waiting.is_empty() {
            return (waiting, false);
        }
        let (added, part) = ((waiting.len() * self.block_size) as u64, self.at_once.max(1));
        let shard = self.shard();
        let mut all = shard.waiting.lock();
        all.extend(waiting.iter().cloned());
        let before = shard.waiting_bytes.fetch_add(added, Relaxed);
        drop(all);
        for (named, waiting) in named.iter().filter(waits).zip(&waiting) {
            blocks[named.staged].buf.state.lock().logged.wait(waiting);
        }
        (waiting, before / part != (before + added) / part)
    }

    fn somebody_syncs(&self) {
        if self.unawaited.load(Relaxed) > 0 {
            self.unawaited.store(0, Relaxed);
        }
    }

    fn is_quiet(&self) -> bool {
        self.unawaited.load(Relaxed) >= QUIET
    }

    fn store_waiting(&self, end: u64) -> Result<()> {
        let mut taken: Vec<Arc<Waiting>> = Vec::new();
        for shard in self.shards.iter().filter(|shard| shard.waiting_bytes.load(Relaxed) > 0) {
            let mut waiting = shard.waiting.lock();
            taken.append(&mut waiting);
            shard.waiting_bytes.store(0, Relaxed);
        }
        // What records in there have freed is needed no more.
        taken.retain(|waiting| !waiting.is_freed_below(end));
        if taken.is_empty() {
            return Ok(());
        }
        self.area.write(taken.iter().map(|waiting| (waiting.page, &*waiting.image)))?.fence()?;
        for waiting in taken {
            let state = &self.states[waiting.page as usize];
            // It may have come home meanwhile.
            let _was_home = state.compare_exchange(WAITS, STORED, AcqRel, Acquire);
        }
        Ok(())
    }

    fn waiting(&self) -> u64 {
        self.shards.iter().map(|shard| shard.waiting_bytes.load(Relaxed)).sum()
    }

    fn much_waits(&self, core: &ScalableCore, flooded: bool) -> bool {
        let all = self.area.pages(self.block_size) as u64 * self.block_size as u64;
        let most = core.bound.kept.min(core.config.pending_bytes / PARTS).min(all / PARTS);
        let most = most.max(self.block_size as u64);
        self.waiting() >= if flooded { 2 * most } else { most }
    }

    fn drain(&self, core: &ScalableCore, waits: bool) -> u64 {
        self.unawaited.fetch_add(1, Relaxed);
        core.drain(self, waits)
    }
}

/// The images of what goes home, by block.
pub(super) fn images(waiting: &[Arc<Waiting>]) -> Vec<(u64, Block)> {
    waiting.iter().map(|waiting| (waiting.block, waiting.image.clone())).collect()
}
