//! Pages in the pool for whole blocks of file data, which records name in place of carrying them.
//!
//! ```text
//!   named ─┬─▶ stored, under the fence of its record             while programs sync
//!          ├─▶ waits ─┬─▶ stored, before the commit's line        an fsync comes first
//!          │          └─▶ home and flushed, before the commit     nobody syncs: the page is never written
//!          └─▶ home, by its operation, without a page             nobody has synced for long, and much waits
//! ```
//!
//! Only what lies in blocks that the operation has allocated may wait or go there: it may be home before it is committed, since no committed state reaches it.

use crate::Block;
use crate::{NumberHash, Result};
use ondol_env::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::thread_number;
use ondol_nvm_log::PageArea;
use std::collections::HashSet;

const SHARDS: usize = 16;

/// So great a part of what may be dirty one thread may have stored at once since the last commit, and no more than so many bytes; what is more waits.
const AT_ONCE: u64 = 32;
const MOST_AT_ONCE: u64 = 1 << 20;

/// The number of a page that there is not: home alone has the contents.
pub(super) const NOWHERE: u32 = u32::MAX;

/// So many commits that no program waits for, one behind the other, and operations that bring much write it home themselves.
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

/// New data that is in memory alone. Its record names a page that does not hold it yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    page: u32,
    block: u64,
    image: Block,
    /// Where its record lies, once that is complete.
    position: AtomicU64,
    /// Where the record lies that frees the block, once that is complete.
    freed: AtomicU64,
}

impl Waiting {
    /// Its record is complete.
    pub(super) fn named_at(&self, position: u64) {
        self.position.store(position, Release);
    }

    /// A complete record frees its block.
    pub(crate) fn freed_at(&self, position: u64) {
        self.freed.store(position, Release);
    }

    /// What commits everything below `end` needs nothing of it.
    fn is_freed_below(&self, end: u64) -> bool {
        (1..end).contains(&self.freed.load(Acquire))
    }
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

    pub(super) fn area(&self) -> &PageArea {
        &self.area
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

    /// Nothing names these any more.
    pub(super) fn give(&self, pages: &[u32]) {
        let mut pages: Vec<u32> = pages.iter().copied().filter(|page| *page != NOWHERE).collect();
        pages.sort_unstable();
        pages.iter().for_each(|page| self.set(*page, FREE));
        for of_one in pages.chunk_by(|a, b| a / self.per_shard == b / self.per_shard) {
            self.shards[(of_one[0] / self.per_shard) as usize].free.lock().extend(of_one.iter().rev());
        }
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

    /// A program waits for a commit, or one is made that none waits for.
    pub(super) fn somebody_syncs(&self, does: bool) {
        match does {
            false => drop(self.unawaited.fetch_add(1, Relaxed)),
            true if self.unawaited.load(Relaxed) > 0 => self.unawaited.store(0, Relaxed),
            true => {}
        }
    }

    /// No program has waited for a commit for so long that one may soon be waited for by a flush of the disk.
    pub(super) fn is_quiet(&self) -> bool {
        self.unawaited.load(Relaxed) >= QUIET
    }

    /// The page holds what its record says, with that record's fence.
    pub(super) fn is_stored(&self, page: u32) {
        self.set(page, STORED);
    }

    /// These wait, each to be stored in its page if it must: page, block, image. Also says whether somebody should look how much waits by now.
    pub(super) fn wait(&self, new: impl Iterator<Item = (u32, u64, Block)>) -> (Vec<Arc<Waiting>>, bool) {
        let waiting: Vec<Arc<Waiting>> = new
            .map(|(page, block, image)| {
                self.set(page, WAITS);
                Arc::new(Waiting { page, block, image, position: AtomicU64::new(0), freed: AtomicU64::new(0) })
            })
            .collect();
        if waiting.is_empty() {
            return (waiting, false);
        }
        let (added, part) = ((waiting.len() * self.block_size) as u64, self.at_once.max(1));
        let shard = self.shard();
        let mut all = shard.waiting.lock();
        all.extend(waiting.iter().cloned());
        let before = shard.waiting_bytes.fetch_add(added, Relaxed);
        (waiting, before / part != (before + added) / part)
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.shards.iter().map(|shard| shard.waiting_bytes.load(Relaxed)).sum()
    }

    /// Pages that are named, and all of them.
    pub(super) fn used(&self) -> (u64, u64) {
        let free: usize = self.shards.iter().map(|shard| shard.free.lock().len()).sum();
        ((self.states.len() - free) as u64, self.states.len() as u64)
    }

    /// Stores what waits, durably: whoever commits everything below `end` does so before it counts. What records in there have freed is needed no more.
    pub(super) fn store_waiting(&self, end: u64) -> Result<()> {
        let mut taken: Vec<Arc<Waiting>> = Vec::new();
        for shard in self.shards.iter().filter(|shard| shard.waiting_bytes.load(Relaxed) > 0) {
            let mut waiting = shard.waiting.lock();
            taken.append(&mut waiting);
            shard.waiting_bytes.store(0, Relaxed);
        }
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

    /// Whether home has what this page was named for.
    pub(super) fn is_home(&self, page: u32) -> bool {
        page == NOWHERE || self.states.get(page as usize).is_some_and(|state| state.load(Acquire) == HOME)
    }
}

/// The images of what goes home, by block.
pub(super) fn images(waiting: &[Arc<Waiting>]) -> Vec<(u64, Block)> {
    waiting.iter().map(|waiting| (waiting.block, waiting.image.clone())).collect()
}
