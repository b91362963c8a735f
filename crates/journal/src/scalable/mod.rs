//! Engine `scalable` (papers/5): operations become records of an NVM log, side by side; what is committed there goes
//! home in batches.
//!
//! ```text
//!   publish ──▶ promise ─▶ claim ─▶ live blocks ─▶ record: one fence       (no lock that different files share)
//!   wait    ──▶ one line of the log: one fence
//!   checkpoint ─▶ images (live blocks, or what they were and records) ─▶ seal ─▶ home, flush ─▶ the log's tail
//! ```
//!
//! Design, invariants and failure cases: `docs/design/scalable.md`.
//!
//! **Locks**, in order: checkpoint, counters, a shard of the cache, a buffer, dirty. None of them is an inode lock, so
//! a thread that holds inode locks may commit or checkpoint, also in `publish` when the ring is full.

mod blocks;
mod checkpoint;
mod data_pages;
mod dirty;
mod drain;
mod engine;
mod failing;
mod freed;
mod home_pages;
mod images;
mod named;
mod pages;
mod record;
mod recover;
mod steps;
mod waiting_since;

pub(crate) use engine::ScalableEngine;
pub(crate) use recover::pages;
pub use recover::{Geometry, Replayed, changed, recover};

use crate::cache::{Buf, Closed};
use crate::change::Base;
use crate::common::Common;
use crate::device::Passing;
use crate::names::{Extent, Kind, Tid};
use crate::turn::Turns;
use crate::write_set::Staged;
use crate::{JournalError, Result, WriteSet};
use data_pages::DataPages;
use dirty::Dirty;
use freed::Freed;
use named::{Named, Naming};
use ondol_env::apart::Striped;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex, MutexGuard, thread};
use ondol_nvm_log::{Log, LogError, Promise};
use record::Draft;
use std::ops::Deref;
use std::sync::Weak;
use waiting_since::WaitingSince;

/// Numbers that operations share are read and logged under a lock of their block; blocks share them.
const COUNTERS: usize = 64;

/// After so many handles of a thread it looks whether there is something to do for the steps: that takes counts from
/// many lines.
const LOOKS: u64 = 16;
/// Also after a record of so many bytes.
const LARGE: usize = 64 << 10;

/// The shared state of one engine.
pub(crate) struct ScalableCore {
    /// Itself, for threads that help it.
    this: Weak<Self>,
    common: Common,
    /// Blocks of the volume.
    blocks: u64,
    log: Log,
    dirty: Arc<Dirty>,
    freed: Freed,
    counters: [Mutex<()>; COUNTERS],
    turns: Turns,
    /// Where the furthest of what a checkpoint has sealed is committed. Changed by who has the turn.
    tried: AtomicU64,
    /// Pages for file data.
    pages: Arc<dyn DataPages>,
    passing: Passing,
    /// Handles closed.
    handles: Striped,
    /// Blocks of new data that operations wrote home.
    brought: Striped,
    /// Bytes of new data that passed.
    passed: Striped,
    /// Writes of new data to its home.
    data_runs: Striped,
    /// More memory is pinned than the cache allows.
    is_full: AtomicBool,
    /// Twice as much waits as may.
    is_flooded: AtomicBool,
    waiting_since: WaitingSince,
}

impl Deref for ScalableCore {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl ScalableCore {
    /// What has been written in place is durable when this returns.
    fn flush_data(&self) -> Result<()> {
        self.flush_first(self.in_place.written())
    }

    /// The first `written` writes in place are durable when this returns.
    fn flush_first(&self, written: u64) -> Result<()> {
        if self.in_place.covers(written) {
            return Ok(());
        }
        self.flush()?;
        self.stats.lock().early_flushes += 1;
        Ok(())
    }

    /// What has been written is durable when this returns. Where that fails over what was written in place, the engine
    /// stops: it is nowhere else.
    fn flush(&self) -> Result<()> {
        let failed = |e: &JournalError, in_place: bool| {
            if in_place {
                self.abort(e);
            }
        };
        self.in_place.flush(&*self.store, failed, || self.check_alive())
    }

    /// How long the oldest operation has waited that is not durable, in nanoseconds; `None` when there is none, or
    /// nobody has seen it yet.
    fn uncommitted_ns(&self) -> Option<u64> {
        let since = self.waiting_since.oldest(self.log.durable()).filter(|_| self.log.uncommitted() > 0)?;
        Some(self.since(since))
    }

    fn tid(&self) -> Tid {
        Tid(self.log.newest().unwrap_or(self.log.durable() - 1))
    }

    fn wait(&self, tid: Tid) -> Result<()> {
        self.wait_for(tid, self.in_place.written())
    }

    fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        self.check_alive()?;
        self.or_abort(self.log.commit_after(tid.0, |end| {
            self.waiting_since.commit(end);
            self.passing.committed();
            self.flush_data()?;
            self.pages.store_waiting(end)
        }))?;
        // There may be data that no record names.
        self.or_abort(self.flush_first(written))?;
        self.release_freed();
        Ok(())
    }

    /// Tells the volume which freed blocks may be allocated again.
    fn release_freed(&self) {
        self.freed.release(self.log.durable(), |extents| self.release(extents));
    }

    /// Room for a record. Where there is none the caller makes it.
    fn promise(&self, bytes: u64) -> Result<Promise<'_>> {
        let mut began = None;
        loop {
            match self.log.promise(bytes) {
                Ok(promise) => {
                    if let Some(began) = began {
                        self.stats.lock().stall_ns += self.env.monotonic_ns() - began;
                    }
                    return Ok(promise);
                }
                Err(LogError::Full { .. }) => {
                    began = began.or_else(|| Some(self.env.monotonic_ns()));
                    self.or_abort(self.make_room())?;
                }
                Err(e) => return self.or_abort(Err(e.into())),
            }
        }
    }

    /// Checkpoints on the calling thread, and commits where nothing is committed.
    fn make_room(&self) -> Result<()> {
        self.stats.lock().foreground_checkpoints += 1;
        if self.checkpoint()? {
            return Ok(());
        }
        self.commit_late(self.tid(), true)?;
        if !self.checkpoint()? {
            // What is in the way is in the hands of others, who are about to be done.
            thread::yield_now();
        }
        Ok(())
    }

    /// Before an operation begins where more memory is pinned than the cache allows: one slice goes home, this thread's
    /// or that of another who is at it. More would let those who come meanwhile fill again what this one has emptied;
    /// one is more than an operation brings.
    fn lend_a_hand(&self) -> Result<()> {
        if self.brings_home() {
            self.bells.committer.ring();
        } else if self.is_flooded.load(Relaxed) {
            let home = self.commit_late(self.tid(), true)?;
            self.stats.lock().staged_early_blocks += home;
            self.is_flooded.store(self.much_waits(true), Relaxed);
        }
        if !self.is_full.load(Relaxed) || !self.see_whether_full() {
            return Ok(());
        }
        let began = self.env.monotonic_ns();
        let made = self.make_room();
        self.stats.lock().stall_ns += self.env.monotonic_ns() - began;
        made
    }

    fn see_whether_full(&self) -> bool {
        let is_full = self.is_crowded(1);
        self.is_full.store(is_full, Relaxed);
        is_full
    }

    /// Whether there is something to do for the steps.
    fn look(&self) {
        if self.much_is_uncommitted() || self.much_waits(false) {
            self.bells.committer.ring();
        }
        self.is_flooded.store(self.much_waits(true), Relaxed);
        if self.is_crowded(2) {
            self.bells.checkpointer.ring();
        }
        self.see_whether_full();
    }

    /// A checkpoint takes whole commits: larger ones would make it longer.
    fn much_is_uncommitted(&self) -> bool {
        self.log.uncommitted() > self.slice() / 2
    }

    fn is_crowded(&self, part: u64) -> bool {
        let log = self.log.stats();
        log.used > log.capacity / part
            || self.holds_more_than(self.config.pending_bytes / part)
            || self.pages.are_scarce(part)
    }

    /// Applies one staged block to the live one, and fills in what its counters are then.
    fn apply(&self, n: usize, staged: Staged<'_>, arena: &[u8], page: Option<u32>, draft: &mut Draft) {
        let Staged { buf, kind, base, changes, .. } = staged;
        let closed = page.map(|page| (page, self.cache.close(buf.block)));
        let mut state = buf.state.lock();
        // What home has is as good as what was before its record, which says all of it.
        let builds_on = matches!(base, Base::Live);
        let is_held = !state.logged.is_home();
        let begins = !is_held || state.home;
        if begins {
            let before = if builds_on { state.image() } else { None };
            state.logged.set_before(before);
        }
        state.logged.add(builds_on);
        // This operation has the buffer, and those that have records.
        let is_sole = |closed: &Closed<'_>| closed.is_sole(&buf, 1 + usize::from(is_held));
        let needs_base = page.is_some() && state.logged.needs_base();
        if let Some((page, _closed)) = closed.filter(|(_, closed)| !needs_base && is_sole(closed)) {
            state.lies_in_page(kind, self.block_size);
            self.dirty.add(&buf, Some(page));
            return;
        }
        if begins {
            self.dirty.add(&buf, None);
        }
        state.apply(kind, base, changes.as_slice(), arena, self.block_size);
        if draft.counters.iter().any(|counter| counter.staged == n) {
            draft.fill_in(n, &state.image().unwrap_or_default());
        }
    }

    /// Locks the counters of a draft. They stay locked until its record is complete: who reads a counter then builds on
    /// what cannot be voided any more.
    fn lock_counters(&self, draft: &Draft, blocks: &[Staged<'_>]) -> Vec<MutexGuard<'_, ()>> {
        let shard = |staged: usize| (blocks[staged].buf.block % COUNTERS as u64) as usize;
        let mut shards: Vec<usize> = draft.counters.iter().map(|counter| shard(counter.staged)).collect();
        shards.sort_unstable();
        shards.dedup();
        shards.into_iter().map(|shard| self.counters[shard].lock()).collect()
    }

    /// The record of an operation. Blocks that are freed are named in it where older records of them are in the log.
    fn draft(
        &self,
        arena: &[u8],
        blocks: &[Staged<'_>],
        named: &[Named<'_>],
        freed: &[(Extent, Kind)],
    ) -> Result<(Draft, Vec<Arc<Buf>>)> {
        loop {
            let bufs =
                if freed.is_empty() { Vec::new() } else { self.dirty.inside(freed.iter().map(|(extent, _)| *extent)) };
            let known = record::runs_of(bufs.iter().map(|buf| buf.block));
            let draft = Draft::new(arena, blocks, &known, named, self.block_size);
            if draft.bytes.len() as u64 <= self.log.most() || known.is_empty() {
                return Ok((draft, bufs));
            }
            // Many and scattered: when they are home they need no names.
            self.or_abort(self.make_room())?;
        }
    }

    /// Puts an operation into the log, and so into memory.
    ///
    /// A crash leaves all of it or nothing, and nothing of what came behind it and builds on it: its record is durable
    /// with what its pages hold, under one fence, before it is complete; who builds on it claims a later place; and
    /// recovery takes what is complete up to the newest commit, which makes none that is not.
    fn publish(&self, set: WriteSet<'_>) -> Result<Tid> {
        let WriteSet { arena, mut blocks, freed } = set;
        drop(self.cache.forget_all(freed.iter().map(|(extent, _)| *extent)));
        blocks.retain(|staged| is_changed(staged) && !staged.buf.state.lock().freed);
        if blocks.is_empty() && freed.is_empty() {
            return Ok(self.tid());
        }
        // What fails until the record has its place leaves nothing: pages and room are given back.
        let naming = Naming::new(&*self.pages, self.pages.name(self, &arena, &mut blocks));
        let (mut draft, dead) = self.draft(&arena, &blocks, naming.as_slice(), &freed)?;
        let promise = self.promise(draft.bytes.len() as u64)?;
        let counters = self.lock_counters(&draft, &blocks);
        let naming = naming.begin(&blocks);
        // Pages are on their way before anything names them.
        let pages = self.or_abort(naming.store())?;
        // Who builds on this operation waits for one of its locks, and so claims later.
        let slot = promise.claim(draft.bytes.len() as u64);
        self.waiting_since.begin(&*self.env);
        let mut lent = naming.lent().peekable();
        for (n, staged) in blocks.into_iter().enumerate() {
            let page = lent.next_if(|(staged, _)| *staged == n).map(|(_, page)| page);
            self.apply(n, staged, &arena, page, &mut draft);
        }
        drop(lent);
        let nth = self.handles.add(1).cast_unsigned();
        // One fence for record and pages; then it is complete.
        let position = self.or_abort(slot.complete_with(&draft.bytes, pages).map_err(JournalError::from))?;
        // Only now: memory lets go of what pages have, others read counters, and what is freed waits for its commit.
        let bytes = draft.bytes.len() + naming.bytes();
        let much = naming.completed(position, |block, image, page| self.let_go(block, image, page));
        dead.iter().for_each(|buf| self.pages.freed(buf, position));
        drop(counters);
        if !freed.is_empty() {
            let extents: Vec<Extent> = freed.into_iter().map(|(extent, _)| extent).collect();
            self.stats.lock().revokes += extents.len() as u64;
            self.freed.add(position, extents, dead);
        }
        if much || nth.is_multiple_of(LOOKS) || bytes >= LARGE {
            self.look();
        }
        Ok(Tid(position))
    }
}

fn is_changed(staged: &Staged<'_>) -> bool {
    !matches!(staged.base, Base::Live) || !staged.changes.is_empty()
}
