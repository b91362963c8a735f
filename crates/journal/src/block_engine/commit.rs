//! Commit: the list of what happens to a transaction, in [`BlockCore::log_transaction`].
//!
//! One thread commits at a time, on behalf of everybody whose handles are in the transaction; all who wait meanwhile
//! are woken together, find their own handles committed too, or one of them commits next (group commit without a
//! hand-over to another thread).
//!
//! How many flushes make a transaction durable is the log's affair: jbd2's takes two, one before its commit record and
//! one behind it.

use super::{BlockCore, Logged, Sealed};
use crate::Block;
use crate::names::{Extent, Kind, Tid};
use crate::running::{BYTES_KNOWN, Switched, seal};
use crate::stats::EngineStats;
use crate::{Config, JournalError, Result};
use ondol_env::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::mem::take;

/// Why a transaction is committed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// Somebody waits for it.
    Asked,
    /// It is old.
    Age,
    /// It has as much that nobody has written as may wait.
    Dirty,
    /// It keeps as much in memory as may be kept.
    Kept,
    /// So much journal space is promised.
    Promises,
}

impl Why {
    fn count(self, stats: &mut EngineStats) {
        let count = match self {
            Self::Asked => &mut stats.commits_asked,
            Self::Age => &mut stats.commits_age,
            Self::Dirty => &mut stats.commits_dirty,
            Self::Kept => &mut stats.commits_kept,
            Self::Promises => &mut stats.commits_promises,
        };
        *count += 1;
    }
}

/// What the commit lock protects.
pub(crate) struct Committed {
    /// The newest durable transaction.
    last: Tid,
    /// Ring position behind it.
    head: u64,
}

impl Committed {
    /// The state of an empty log whose next transaction is `first`.
    pub(crate) fn before(first: Tid) -> Self {
        Self { last: Tid(first.0 - 1), head: 0 }
    }

    /// The transaction after the newest durable one.
    pub(crate) fn next_tid(&self) -> Tid {
        self.last.next()
    }
}

impl BlockCore {
    /// See [`crate::Engine::wait_for`].
    pub(crate) fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        let data_flushed = || self.in_place.covers(written);
        let durable = || Tid(self.durable.load(SeqCst));
        let turn = self.turns.take(|| tid <= durable() && data_flushed());
        self.check_alive()?;
        if turn.is_some() {
            let mut committed = self.commit_lock.lock();
            self.check_alive()?;
            if tid > committed.last {
                self.commit(&mut committed, Why::Asked)?;
            }
            if !data_flushed() {
                self.flush()?;
            }
        }
        drop(turn);
        self.bound_pending()
    }

    /// It is time to commit the running transaction, so that nobody ever has to wait for room in it.
    pub(crate) fn running_is_large(&self) -> bool {
        self.too_large().is_some()
    }

    /// Why it is, if it is. New data that can be written home without a commit is no reason.
    pub(super) fn too_large(&self) -> Option<Why> {
        let fills = || self.space.transaction_is_filling(self.running.promised()).then_some(Why::Promises);
        self.holds_too_much(self.running.held().saturating_sub(self.running.waiting()), 1).or_else(fills)
    }

    /// Whether the running transaction has more than it should, or even `times` as much: `unwritten` blocks, or new
    /// data at home of which it knows.
    pub(super) fn holds_too_much(&self, unwritten: u64, times: u64) -> Option<Why> {
        let Config { dirty_bytes, pending_bytes, .. } = self.config;
        let most = self.bound.dirty;
        let known = self.running.early.blocks() * BYTES_KNOWN;
        // Nothing is never too much, whatever the bounds: to commit it would be of no help.
        let is_too_much = |bytes: u64, most: u64| bytes > 0 && bytes >= times * most;
        let kept = || is_too_much(known, pending_bytes.min(4 * dirty_bytes)).then_some(Why::Kept);
        if is_too_much(unwritten * self.block_size as u64, most) { Some(Why::Dirty) } else { kept() }
    }

    /// A timer's or a size's commit.
    pub(super) fn commit_running(&self, why: Why) -> Result<()> {
        let mut committed = self.commit_lock.lock();
        self.check_alive()?;
        self.commit(&mut committed, why)
    }

    pub(super) fn commit(&self, committed: &mut Committed, why: Why) -> Result<()> {
        let Some(mut switched) = self.switch() else { return Ok(()) };
        why.count(&mut self.stats.lock());
        let _watch = self.watch();
        let result = self.log_transaction(committed, &mut switched);
        if result.is_err() {
            self.running.keep(switched.blocks.into_iter().map(|block| block.buf));
        }
        self.or_abort(result)
    }

    /// What is to be written of a transaction, and new data that goes home with it. In memory alone.
    fn prepare(&self, switched: &mut Switched) -> (Sealed, Vec<(u64, Block)>) {
        let Switched { tid, blocks, promised, .. } = switched;
        let (tid, promised) = (*tid, *promised);
        let early = take(&mut switched.early);
        self.committing_blocks.store(blocks.len() as u64, Relaxed);
        self.stats.lock().kept_blocks += blocks.iter().filter(|block| block.newborn).count() as u64;
        self.space.switched(promised);
        let owed = || blocks.iter().filter(|block| !block.newborn).count() as u64;
        debug_assert!(owed() <= promised, "{} blocks of a transaction that was promised {promised}", owed());
        blocks.sort_unstable_by_key(|f| f.buf.block);
        let images = seal(&*self.client, blocks);
        let (images, home) = self.choose(blocks, images, promised, early.len());
        let tx = Sealed { tid, images, staged: self.named(early, &home), revoked: self.to_revoke(&switched.freed) };
        (tx, home)
    }

    /// Makes a transaction durable, and then says so.
    ///
    /// A crash leaves all of it or nothing. Until what makes it count has arrived (its record, or the last of its
    /// blocks), recovery takes the log to end before it; what is written in place by then is in blocks that nothing
    /// durable refers to, and no block that it frees has been given to anybody. What makes it count arrives, if at all,
    /// behind everything that it stands for, or has the sums of that.
    fn log_transaction(&self, committed: &mut Committed, switched: &mut Switched) -> Result<()> {
        let (tx, home) = self.prepare(switched);
        let (tid, start) = (tx.tid, committed.head);
        self.must_fit(&tx)?;

        // An empty log begins here: its superblock says so before anything counts.
        if self.pending.lock().is_empty() {
            self.log.set_tail(tid, Some(start))?;
        }
        // What the log names by its sum, written in place before, is durable before the log says so.
        if self.new_data.is_named() && !self.in_place.covers(self.in_place.written()) {
            self.flush()?;
            self.stats.lock().early_flushes += 1;
        }
        // New data goes to blocks that nothing which is durable refers to.
        self.stage(&home)?;
        let Logged { blocks, record } = self.log.log(start, &tx)?;
        let mut behind = self.ring_add(start, blocks);
        // The record counts with all before it: that is durable first.
        if let Some(record) = &record {
            self.flush()?;
            self.log.area().write(behind, &[record])?;
            behind = self.ring_add(behind, 1);
        }
        // With this flush it is durable.
        self.flush()?;
        self.log.durable(tid);

        (committed.last, committed.head) = (tid, behind);
        self.count(&tx, blocks + u64::from(record.is_some()));
        self.completed(tx, start, behind, take(&mut switched.freed));
        // Held until here, so that the cache evicts no block whose image is neither live, nor pending, nor home.
        drop(take(&mut switched.blocks));
        // Last: whoever finds it durable may begin a checkpoint of it.
        self.durable.store(tid.0, SeqCst);
        Ok(())
    }

    /// Space was promised before any of this was published. Should that be wrong, the log on the medium is worth more
    /// than this transaction.
    fn must_fit(&self, tx: &Sealed) -> Result<()> {
        let staged = u64::from(self.new_data.cost(tx.staged.len() as u32, self.block_size));
        let need = self.log.cost(tx.images.len() as u64, tx.revoked.len() as u64) + staged;
        let left = self.log.area().ring_blocks().saturating_sub(self.space.used());
        if need <= left { Ok(()) } else { Err(JournalError::Overrun { need, left }) }
    }

    fn to_revoke(&self, freed: &[(Extent, Kind)]) -> Vec<u64> {
        let pending = self.pending.lock();
        let mut runs: Vec<Extent> = of_data_too(freed, self.journaled_data.load(SeqCst)).collect();
        let total: u64 = runs.iter().map(|e| u64::from(e.len)).sum();
        let mut revoked: Vec<u64> = if total <= pending.len() as u64 {
            let blocks = runs.iter().flat_map(|e| e.start..e.start + u64::from(e.len));
            blocks.filter(|&b| pending.is_logged(b)).collect()
        } else {
            // No block is freed twice in one transaction, so the last run that begins at or before a block decides.
            runs.sort_unstable_by_key(|e| e.start);
            let inside = |b: &u64| {
                let before = runs.partition_point(|e| e.start <= *b);
                before.checked_sub(1).and_then(|i| runs.get(i)).is_some_and(|e| b - e.start < u64::from(e.len))
            };
            pending.logged_blocks().filter(inside).collect()
        };
        revoked.sort_unstable();
        revoked
    }

    /// What is durable is found in the log, and what it has freed may be given away.
    fn completed(&self, tx: Sealed, start: u64, head: u64, freed: Vec<(Extent, Kind)>) {
        let places = self.log.swap().map(|(swap, _)| swap.places(start, &tx)).unwrap_or_default();
        let released = {
            let mut pending = self.pending.lock();
            for &block in &tx.revoked {
                pending.revoked(block);
            }
            pending.committed(tx, &places, start, head);
            self.waiting_bytes.store(pending.bytes(), Relaxed);
            self.committing_blocks.store(0, Relaxed);
            self.running.committed();
            self.running.early.committed();
            let tail = pending.tail().map_or(head, |(_, start)| start);
            let used = pending.distance_from(tail, self.log.area().ring_blocks());
            self.space.completed(used, pending.len() as u64);
            pending.release(freed.into_iter().map(|(extent, _)| extent).collect())
        };
        self.release(&released);
        if self.space.half_full() || self.pending.lock().bytes() > self.config.pending_bytes / 2 {
            self.bells.checkpointer.ring();
        }
    }

    fn ring_add(&self, at: u64, blocks: u64) -> u64 {
        (at + blocks) % self.log.area().ring_blocks()
    }

    fn count(&self, tx: &Sealed, written: u64) {
        let mut stats = self.stats.lock();
        stats.commits += 1;
        stats.journal_blocks += written;
        stats.images += (tx.images.len() + tx.staged.len()) as u64;
        stats.staged_blocks += tx.staged.len() as u64;
        stats.revokes += tx.revoked.len() as u64;
    }
}

/// The runs in `freed`, those of data among them `if_so`.
pub(super) fn of_data_too(freed: &[(Extent, Kind)], if_so: bool) -> impl Iterator<Item = Extent> + '_ {
    freed.iter().filter(move |(_, kind)| if_so || *kind != Kind::DATA).map(|(extent, _)| *extent)
}
