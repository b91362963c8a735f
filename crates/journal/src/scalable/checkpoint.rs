//! The checkpoint: what is committed goes home, the oldest first and some at a time, then the log's tail moves.
//!
//! The image of a block is what it is now, where nobody has changed it since; or what it held when the last checkpoint
//! took it, and the committed records since then. Operations on the same blocks go on all the while.

use super::ScalableCore;
use super::blocks::{Blocks, Changed, Piece};
use super::images::{Batch, Homing, Part, in_order, needed, put_in, sealed, to_seal};
use super::record::InPage;
use crate::Block;
use crate::area::WORTH_THREADS;
use crate::cache::Buf;
use crate::names::Tid;
use crate::together::each;
use crate::{JournalError, NumberHash, Ranges, Result};
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_env::sync::{Arc, thread};
use ondol_nvm_log::Batch as Committed;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// A checkpoint takes so great a part of the log: who waits for room waits for that much. Blocks that change all the
/// time are written once for each.
const SLICES: u64 = 8;

/// Lines that a checkpoint takes: so few that those who wait for it do not wait long, and so many that its flushes are
/// not most of its time.
const SLICE: u64 = (1 << 20) / ondol_nvm_log::LINE;

/// So many records, or images, a thread claims at a time.
const RECORDS: usize = 64;
const IMAGES: usize = 16;

/// What the threads of one checkpoint look at.
struct Found {
    blocks: Blocks,
    /// Bytes that are to be sealed anew because of other blocks.
    derived: BTreeMap<u64, Ranges>,
    /// Blocks that later records have freed, and that others have by now.
    others: HashSet<u64, NumberHash>,
}

/// What one checkpoint takes.
struct Slice {
    batch: Batch,
    /// Their buffers, and how many records of each it takes.
    bufs: BTreeMap<u64, (Arc<Buf>, u32)>,
    /// Pages that its records name.
    pages: Vec<u32>,
    /// Blocks that one of those has, of a home that needs no more than to know it.
    entries: Vec<(u64, u32)>,
}

impl ScalableCore {
    /// Lines of the log that one checkpoint takes at most while others may wait for it, but for a commit that has more.
    fn most(&self) -> u64 {
        (self.log.stats().capacity / SLICES).min(self.most_in_memory())
    }

    /// Lines that a checkpoint has in memory, for which the cache has a share.
    fn most_in_memory(&self) -> u64 {
        self.config.pending_bytes / 4 / ondol_nvm_log::LINE
    }

    /// Lines that the next one takes.
    pub(super) fn slice(&self) -> u64 {
        self.most().min(SLICE)
    }

    /// Writes the oldest of what is committed home; or waits for whoever is at it, which is as good for who wants room.
    /// False: there is nothing, or nothing yet.
    pub(super) fn checkpoint(&self) -> Result<bool> {
        self.checkpoint_of(self.slice())
    }

    /// The same, of so many lines.
    fn checkpoint_of(&self, slice: u64) -> Result<bool> {
        let Some(turn) = self.turns.take_or_share() else { return Ok(true) };
        self.check_alive()?;
        let mut batches: Vec<Committed> = self.log.first_batch().into_iter().collect();
        let Some(first) = batches.first().map(|first| first.from) else { return Ok(false) };
        let tried = self.tried.load(Relaxed);
        // One that failed may have left derived values in blocks that are to go home with others of it.
        let wants = |last: &&Committed| last.commit - first < slice || last.commit < tried;
        while let Some(next) = batches.last().filter(wants).and_then(|last| self.log.batch_after(last)) {
            batches.push(next);
        }
        let done = self.bring_home(&mut batches);
        self.freed.end_checkpoint();
        done?;
        self.see_whether_full();
        turn.done();
        self.release_freed();
        Ok(true)
    }

    /// Until the log is empty. Nobody waits for a part of it, so each takes what it can have in memory: what changes
    /// all the time is written once.
    pub(super) fn checkpoint_everything(&self) -> Result<()> {
        while self.log.tail() < self.log.durable() {
            if !self.checkpoint_of(self.most_in_memory())? {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn bring_home(&self, batches: &mut Vec<Committed>) -> Result<()> {
        let Slice { batch, bufs, pages, entries } = match self.slice_from(batches) {
            Err(e @ JournalError::Block(_)) => return Err(self.home_fails(e)),
            made => self.or_abort(made)?,
        };
        self.tried.fetch_max(end_of(batches), Relaxed);
        let parts = in_order(&batch, &*self.client, self.pages.are_of_home());
        let written = self.write_home(&parts, &entries);
        if let Err(e) = written {
            give_back(&batch, &bufs);
            // A thread that has failed is a defect, and no disk that may work again.
            return match e {
                JournalError::Aborted(_) => self.or_abort(Err(e)),
                e => Err(self.home_fails(e)),
            };
        }
        self.failing.works();
        self.or_abort(self.log.release(batches).map_err(JournalError::from))?;
        self.pages.give(&pages);
        // Not before: as long as the log has records of a block, whoever frees it must say so there.
        for (block, homing) in batch {
            if let Some((buf, records)) = bufs.get(&block) {
                self.is_home(buf, homing.image, *records);
            }
        }
        self.freed.take_dead(end_of(batches)).iter().for_each(|buf| self.dirty.remove(buf));
        self.stats.lock().checkpoint_blocks += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Durably, the first part before the second, and the entries with one of them.
    fn write_home(&self, parts: &[Part; 2], entries: &[(u64, u32)]) -> Result<()> {
        self.pages.set_entries(entries)?;
        for part in needed(parts, entries) {
            part.write(&self.store, self.config.writers(&*self.env), self.block_size)?;
            self.flush()?;
        }
        Ok(())
    }

    /// What `work` makes of each number below `count`: by several threads, which claim `at_once` of them at a time,
    /// where that many are worth it.
    fn each<T: Send + 'static>(
        &self,
        count: usize,
        at_once: usize,
        worth: usize,
        work: impl Fn(&Self, usize) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        // More than there is to claim would have nothing to do.
        let most = self.env.processors().min(count.div_ceil(at_once));
        let threads = self.config.writers(&*self.env).of(count, worth).min(most);
        match self.this.upgrade() {
            Some(core) if threads > 1 => each(threads, count, at_once, "ondol-images", move |n| work(&core, n)),
            _ => Ok((0..count).map(|n| work(self, n)).collect()),
        }
    }

    /// What the batches have changed. Where that needs a page that is lost, more of them are taken: what is committed
    /// later may replace it.
    fn slice_from(&self, batches: &mut Vec<Committed>) -> Result<Slice> {
        let mut commits = true;
        loop {
            let later = self.freed.begin_checkpoint(end_of(batches));
            match self.slice_of(batches, &later) {
                Err(JournalError::LostData { .. }) if self.take_more(batches, &mut commits)? => {}
                made => return made,
            }
        }
    }

    /// Adds as many of what is committed as there are, or, once, what is not committed yet. Whether there was any.
    fn take_more(&self, batches: &mut Vec<Committed>, commits: &mut bool) -> Result<bool> {
        let before = batches.len();
        loop {
            while batches.len() < 2 * before
                && let Some(next) = batches.last().and_then(|last| self.log.batch_after(last))
            {
                batches.push(next);
            }
            if batches.len() > before {
                return Ok(true);
            }
            if self.log.durable() > end_of(batches) + 1 {
                // Somebody is about to see that his record was voided, unless the engine has stopped.
                self.check_alive()?;
                thread::yield_now();
                continue;
            }
            match self.log.newest().filter(|_| std::mem::take(commits)) {
                Some(newest) => self.wait(Tid(newest))?,
                None => return Ok(false),
            }
        }
    }

    /// The images of what the batches have changed, sealed. Blocks that records in `later` have freed others may have
    /// by now.
    fn slice_of(&self, batches: &[Committed], later: &Range<u64>) -> Result<Slice> {
        let found = Arc::new(self.found(batches, later)?);
        let count = found.blocks.changed().len();
        let images = {
            let found = found.clone();
            move |core: &Self, n: usize| found.homing(core, &found.blocks.changed()[n])
        };
        let made = self.each(count, IMAGES, WORTH_THREADS, images)?;
        let (mut images, mut bufs, mut failed) = (Vec::with_capacity(count), BTreeMap::new(), None);
        let mut entries = Vec::new();
        for (changed, made) in found.blocks.changed().iter().zip(made) {
            match made {
                Ok(Some((buf, image))) => {
                    images.push((changed.block, image));
                    bufs.insert(changed.block, (buf, changed.records));
                    entries.extend(self.entry(changed).map(|page| (changed.block, page)));
                }
                Ok(None) => {}
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        let batch: Batch = images.into_iter().collect();
        if let Some(e) = failed {
            give_back(&batch, &bufs);
            return Err(e);
        }
        let batch = self.seal(batch, &bufs)?;
        Ok(Slice { batch, bufs, pages: found.blocks.pages.clone(), entries })
    }

    /// Reads the records of the batches.
    fn found(&self, batches: &[Committed], later: &Range<u64>) -> Result<Found> {
        let positions: Vec<u64> = batches.iter().flat_map(|batch| &batch.records).copied().collect();
        let pieces = positions.len().div_ceil(RECORDS);
        let read = move |core: &Self, n: usize| {
            let to = positions.len().min((n + 1) * RECORDS);
            let read = |position, into: &mut Vec<u8>| core.log.read(position, into);
            Piece::read(&positions[n * RECORDS..to], core.blocks, read)
        };
        let pieces = self.each(pieces, 1, WORTH_THREADS / RECORDS, read)?;
        let mut blocks = Blocks::of(pieces.into_iter().collect::<Result<Vec<_>>>()?);
        let derived = blocks.add_derived(&*self.client);
        let others = self.freed.freed_in(later, blocks.changed().iter().map(|changed| changed.block));
        Ok(Found { blocks, derived, others })
    }

    /// Puts the derived values into the images, and into the live bytes.
    fn seal(&self, batch: Batch, bufs: &BTreeMap<u64, (Arc<Buf>, u32)>) -> Result<Batch> {
        let blocks = to_seal(&batch);
        let batch = Arc::new(batch);
        let values = {
            let (batch, blocks) = (batch.clone(), blocks.clone());
            move |core: &Self, n: usize| sealed(&batch, blocks[n], &*core.client)
        };
        let values = self.each(blocks.len(), IMAGES, WORTH_THREADS, values)?;
        let mut batch = Arc::unwrap_or_clone(batch);
        put_in(&mut batch, blocks.into_iter().zip(values), |block, image, patches| {
            if let Some((buf, _)) = bufs.get(&block) {
                buf.state.lock().take_seal(image, patches);
            }
        });
        Ok(batch)
    }

    /// The page of the home that has all that is committed of a block, if one has.
    fn entry(&self, changed: &Changed) -> Option<u32> {
        changed.page.filter(|_| self.pages.are_of_home()).map(|at| at.page)
    }

    /// Home has `image`, and with it so many records of the block.
    fn is_home(&self, buf: &Arc<Buf>, image: Block, records: u32) {
        let mut state = buf.state.lock();
        state.built = false;
        if state.logged.bring_home(records) {
            state.logged.set_before(None);
            self.dirty.remove(buf);
            drop(state);
            self.cache.leave(buf, 1);
        } else {
            // What was let go says before what it was when it is changed.
            if !image.is_empty() {
                state.logged.set_before(Some(image));
            }
        }
    }
}

impl Found {
    /// What is to be written of a block. None: it has no owner any more, or others own it.
    fn homing(&self, core: &ScalableCore, changed: &Changed) -> Result<Option<(Arc<Buf>, Homing)>> {
        let derived = self.derived.get(&changed.block);
        if self.others.contains(&changed.block) {
            return Ok(None);
        }
        // Freed meanwhile or not: as long as that is not committed, a crash brings it back.
        let buf = match (core.dirty.get(changed.block), derived) {
            (Some(buf), _) => buf,
            (None, Some(_)) => core.cache.get(changed.block, changed.kind)?,
            (None, None) => return Ok(None),
        };
        let mut homing = self.image(core, &buf, changed)?;
        homing.dirty.add_all(derived);
        Ok(Some((buf, homing)))
    }

    fn image(&self, core: &ScalableCore, buf: &Buf, changed: &Changed) -> Result<Homing> {
        let mut state = buf.state.lock();
        let (kind, built) = (changed.kind, state.built);
        let there = changed.page.is_some_and(|at| core.pages.is_there(at.page));
        if state.logged.has(changed.records) {
            let dirty = std::mem::take(&mut state.dirty);
            let image = state.image().or_else(|| there.then(Block::default));
            let image = image.ok_or(JournalError::LostData { block: buf.block })?;
            return Ok(Homing { kind, image, dirty, built, there });
        }
        if there && !state.logged.needs_base() {
            // What came later says all of the block.
            return Ok(Homing { kind, image: Block::default(), dirty: Ranges::default(), built, there });
        }
        let before = state.logged.before();
        drop(state);
        let mut dirty = Ranges::default();
        let mut image = match before.filter(|_| !changed.fresh) {
            Some(before) => before.to_vec(),
            None => {
                dirty.add(0..core.block_size as u32);
                vec![0; core.block_size]
            }
        };
        let fetch = &mut |at, image: &mut [u8]| fetch(core, buf.block, at, changed, image);
        self.blocks.apply(changed, &mut image, &mut dirty, fetch)?;
        Ok(Homing { kind, image: image.into(), dirty, built, there })
    }
}

/// What a committed record says lies in a page.
fn fetch(core: &ScalableCore, block: u64, at: InPage, changed: &Changed, image: &mut [u8]) -> Result<()> {
    if !core.pages.read(block, at.page, image)? {
        core.store.read(core.byte_offset(block), image)?;
        if changed.page.is_none() {
            // A checkpoint that failed may have brought later changes there, which come again.
            return Ok(());
        }
    }
    if at.is(image) { Ok(()) } else { Err(JournalError::LostData { block }) }
}

/// Where the last of them is committed.
fn end_of(batches: &[Committed]) -> u64 {
    batches.last().map_or(0, |last| last.commit)
}

/// The next checkpoint seals them again.
fn give_back(batch: &Batch, bufs: &BTreeMap<u64, (Arc<Buf>, u32)>) {
    for (block, (buf, _)) in bufs {
        let dirty = batch.get(block).map(|homing| homing.dirty.clone()).unwrap_or_default();
        dirty.iter().for_each(|range| buf.state.lock().dirty.add(range.clone()));
    }
}
