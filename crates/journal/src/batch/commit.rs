//! Commit: switch, seal, submit; and, one after the other, settle.
//!
//! Whoever waits for a transaction takes the turn to settle, and then commits: what others have closed while the settle
//! before it was under way is in the same batch, whose shared blocks are in it once. A commit that nobody waits for (a
//! large transaction, an old one, a full batch) takes no turn, and is submitted beside a settle.

use super::BatchCore;
use crate::names::{Extent, Kind, Tid};
use crate::running::{Switched, seal};
use crate::{Block, JournalError, Result};
use ondol_env::sync::atomic::Ordering::SeqCst;
use std::mem::take;

/// A batch that is not settled.
#[derive(Debug)]
pub(super) struct Submitted {
    tid: Tid,
    /// Its number at home.
    number: u64,
    bytes: u64,
}

/// What is `freed`, by rising block number and each block once, without what is written all the same. Only a damaged
/// volume has blocks that are freed twice, or belong to somebody else as well.
fn apart(images: &[(u64, Block)], freed: &[Extent]) -> Vec<Extent> {
    let (mut discards, mut seen) = (Vec::with_capacity(freed.len()), 0);
    for extent in freed {
        let end = extent.start + u64::from(extent.len);
        let mut at = extent.start.max(seen);
        let first = images.partition_point(|(block, _)| *block < at);
        let written = images.iter().skip(first).map(|(block, _)| *block).take_while(|block| *block < end);
        for to in written.chain([end]) {
            if at < to {
                discards.push(Extent { start: at, len: (to - at) as u32 });
            }
            at = at.max(to + 1);
        }
        seen = seen.max(end);
    }
    discards
}

impl BatchCore {
    /// See [`crate::Engine::wait_for`].
    pub(super) fn wait_for(&self, tid: Tid, written: u64) -> Result<()> {
        let is_durable = || tid.0 <= self.durable.load(SeqCst);
        let is_flushed = || self.in_place.covers(written);
        let turn = self.turns.take(|| is_durable() && is_flushed());
        self.check_alive()?;
        if turn.is_some() {
            self.commit_upto(tid)?;
            if is_flushed() { self.settle() } else { self.flush() }?;
        }
        Ok(())
    }

    /// Submits the running transaction, if `tid` is not submitted yet.
    fn commit_upto(&self, tid: Tid) -> Result<()> {
        let _committing = self.commit_lock.lock();
        self.check_alive()?;
        if tid.0 > self.newest.load(SeqCst) { self.commit() } else { Ok(()) }
    }

    /// Submits the running transaction, on nobody's behalf.
    pub(super) fn commit_running(&self) -> Result<()> {
        let _committing = self.commit_lock.lock();
        self.check_alive()?;
        self.commit()?;
        self.bells.flusher.ring();
        Ok(())
    }

    /// With the commit lock.
    fn commit(&self) -> Result<()> {
        let Some(mut switched) = self.running.switch() else { return Ok(()) };
        let _watch = self.watch();
        let result = self.submit(&mut switched);
        if result.is_err() {
            self.running.keep(switched.blocks.into_iter().map(|block| block.buf));
        }
        self.or_abort(result)
    }

    /// Hands a transaction to the store as one batch, and then says so.
    ///
    /// A crash leaves it whole or not at all, and no later one without it: the store takes batches as wholes and in
    /// their order ([`ondol_block::BlockStore::submit`]). It is durable when it is settled.
    fn submit(&self, switched: &mut Switched) -> Result<()> {
        let (tid, promised, freed) = (switched.tid, switched.promised, take(&mut switched.freed));
        let blocks = &mut switched.blocks;
        let bytes = blocks.len() as u64 * self.block_size as u64;
        self.unsettled.fetch_add(bytes, SeqCst);
        self.room.switched(promised);
        blocks.sort_unstable_by_key(|f| f.buf.block);
        let images = seal(&*self.client, blocks);
        let freed = self.freed(freed);
        let number = self.submit_images(&images, &freed)?;
        self.submitted.lock().push_back(Submitted { tid, number, bytes });
        self.newest.store(tid.0, SeqCst);
        // Held until here, so that the cache evicts no block whose image is neither live nor at home.
        drop(take(blocks));
        let mut stats = self.stats.lock();
        stats.commits += 1;
        stats.images += images.len() as u64;
        drop(stats);
        if !freed.is_empty() {
            self.client.release(&freed);
        }
        Ok(())
    }

    /// What a transaction frees, by rising block number.
    fn freed(&self, freed: Vec<(Extent, Kind)>) -> Vec<Extent> {
        let mut freed: Vec<Extent> = freed.into_iter().map(|(extent, _)| extent).collect();
        freed.sort_unstable_by_key(|extent| extent.start);
        freed
    }

    fn submit_images(&self, images: &[(u64, Block)], freed: &[Extent]) -> Result<u64> {
        let writes: Vec<(u64, &[u8])> =
            images.iter().map(|(block, image)| (self.byte_offset(*block), &**image)).collect();
        let discards: Vec<(u64, u64)> = apart(images, freed).into_iter().map(|extent| self.bytes_of(extent)).collect();
        Ok(self.store.submit(&writes, &discards)?)
    }

    /// Settles what is submitted now. With the turn.
    pub(super) fn settle(&self) -> Result<()> {
        self.check_alive()?;
        let newest = self.submitted.lock().back().map(|batch| (batch.tid, batch.number));
        let Some((tid, number)) = newest else { return Ok(()) };
        self.or_abort(self.store.settle(number).map_err(JournalError::from))?;
        // Somebody else may have had an error meanwhile.
        self.check_alive()?;
        self.is_durable(tid);
        Ok(())
    }

    /// Makes what was written beside batches durable, and every batch with it. With the turn.
    pub(super) fn flush(&self) -> Result<()> {
        let newest = self.submitted.lock().back().map(|batch| batch.tid);
        self.common.flush()?;
        if let Some(tid) = newest {
            self.is_durable(tid);
        }
        Ok(())
    }

    fn is_durable(&self, tid: Tid) {
        let mut submitted = self.submitted.lock();
        let count = submitted.partition_point(|batch| batch.tid <= tid);
        let bytes: u64 = submitted.drain(..count).map(|batch| batch.bytes).sum();
        self.unsettled.fetch_sub(bytes, SeqCst);
        if submitted.is_empty() {
            self.running.committed();
        }
        self.durable.store(tid.0, SeqCst);
    }

    /// Whether something waits to be settled.
    pub(super) fn has_submitted(&self) -> bool {
        !self.submitted.lock().is_empty()
    }

    /// It is time to commit the running transaction, so that nobody ever has to wait for room in it.
    pub(super) fn running_is_large(&self) -> bool {
        let held = self.running.held();
        held * self.block_size as u64 >= self.config.dirty_bytes || self.room.is_filling(self.running.promised())
    }

    /// So much is not durable that operations wait.
    fn is_behind(&self) -> bool {
        self.not_durable() > (2 * self.config.dirty_bytes).min(self.config.cache_bytes as u64)
    }

    /// Promises room for `blocks`; commits and settles on this thread where the background has not kept up.
    pub(super) fn reserve(&self, blocks: u32) -> Result<()> {
        let max = self.room.max_handle();
        if blocks > max {
            return Err(JournalError::TooBig { need: blocks, max });
        }
        if !self.is_behind() && self.room.try_promise(blocks) {
            return Ok(());
        }
        let began = self.env.monotonic_ns();
        let result = self.reserve_slowly(blocks);
        self.stats.lock().stall_ns += self.env.monotonic_ns() - began;
        result
    }

    fn reserve_slowly(&self, blocks: u32) -> Result<()> {
        loop {
            self.check_alive()?;
            if self.is_behind() {
                self.catch_up()?;
            } else if self.room.try_promise(blocks) {
                return Ok(());
            } else if self.running.promised() > 0 {
                self.stats.lock().foreground_commits += 1;
                self.commit_running()?;
            } else {
                self.waiters.wait_for_change();
            }
        }
    }

    /// Commits and settles until little enough is not durable.
    fn catch_up(&self) -> Result<()> {
        let Some(_turn) = self.turns.take(|| !self.is_behind() || self.aborted.get().is_some()) else { return Ok(()) };
        self.stats.lock().foreground_commits += 1;
        self.commit_upto(self.running.tid())?;
        self.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_block_is_in_a_batch_twice() {
        let image = |block: u64| (block, Block::from(vec![0; 8]));
        let extent = |(start, len)| Extent { start, len };
        type Case<'c> = (&'c [u64], &'c [(u64, u32)]);
        let cases: [Case<'_>; 6] = [
            (&[], &[(3, 4), (9, 1)]),
            (&[5], &[(3, 4)]),
            (&[3, 6], &[(3, 4)]),
            (&[4, 5], &[(3, 4), (4, 1), (5, 9), (20, 1), (20, 1)]),
            (&[0, 1, 2], &[(0, 3)]),
            (&[8], &[(1, 20), (2, 2), (9, 1)]),
        ];
        for (written, freed) in cases {
            let images: Vec<_> = written.iter().copied().map(image).collect();
            let freed: Vec<Extent> = freed.iter().copied().map(extent).collect();
            let blocks = |extents: &[Extent]| -> Vec<u64> {
                extents.iter().flat_map(|e| e.start..e.start + u64::from(e.len)).collect()
            };
            let expected: BTreeSet<u64> = blocks(&freed).into_iter().filter(|block| !written.contains(block)).collect();
            assert_eq!(
                blocks(&apart(&images, &freed)),
                expected.into_iter().collect::<Vec<_>>(),
                "{written:?} {freed:?}"
            );
        }
    }
}
