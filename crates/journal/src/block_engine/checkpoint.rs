//! Checkpoint: the newest committed images go home, then the tail moves and journal space is free again.
//!
//! Order: home writes, flush, tail, flush. Only then may the log blocks behind the old tail be written again.

use super::Core;
use crate::Result;
use crate::cache::Block;
use ondol_env::plant::{self, Defect};
use std::io::IoSlice;

/// Images per background checkpoint: bounds how long freed blocks are held back.
const BATCH: usize = 1024;

/// The most blocks merged into one write.
const MERGE: usize = 256;

impl Core {
    /// Checkpoints the oldest transactions. False when there is none.
    pub(crate) fn checkpoint_some(&self) -> Result<bool> {
        self.checkpoint(BATCH)
    }

    /// Checkpoints until the log is empty.
    pub(crate) fn checkpoint_everything(&self) -> Result<()> {
        while self.checkpoint(usize::MAX)? {}
        Ok(())
    }

    /// Keeps the images that wait in memory within their bound.
    pub(crate) fn bound_pending(&self) -> Result<()> {
        while self.pending.lock().bytes() > self.config.pending_bytes {
            self.stats.lock().foreground_checkpoints += 1;
            if !self.checkpoint(BATCH)? {
                break;
            }
        }
        Ok(())
    }

    fn checkpoint(&self, blocks: usize) -> Result<bool> {
        let _one_at_a_time = self.checkpoint_lock.lock();
        self.check_alive()?;
        let begun = self.pending.lock().begin_checkpoint(blocks);
        let Some((upto, images)) = begun else { return Ok(false) };
        let result = self.write_home(&images).and_then(|()| self.move_tail(upto, &images));
        let released = self.pending.lock().end_checkpoint();
        self.or_abort(result)?;
        self.release(&released);
        Ok(true)
    }

    fn write_home(&self, images: &[(u64, Block)]) -> Result<()> {
        let images = &images[..images.len() - usize::from(plant::is(Defect::LostHomeWrite) && !images.is_empty())];
        let mut at = 0;
        while at < images.len() {
            let first = images[at].0;
            let run = images[at..].iter().take(MERGE).enumerate();
            let len = run.take_while(|(i, (block, _))| *block == first + *i as u64).count();
            let bufs: Vec<IoSlice<'_>> = images[at..at + len].iter().map(|(_, image)| IoSlice::new(image)).collect();
            self.store.write_vectored(self.byte_offset(first), &bufs)?;
            at += len;
        }
        self.stats.lock().checkpoint_blocks += images.len() as u64;
        if images.is_empty() || plant::is(Defect::MissingFlushBeforeTail) { Ok(()) } else { self.flush() }
    }

    fn move_tail(&self, upto: crate::Tid, images: &[(u64, Block)]) -> Result<()> {
        self.pending.lock().written(images);
        // The commit lock keeps a new transaction from starting where the tail is about to be declared empty.
        let committed = self.commit_lock.lock();
        let next = self.pending.lock().tail_after(upto);
        match next {
            Some(_) if plant::is(Defect::TailTooFar) => self.log.set_tail(committed.next_tid(), None)?,
            None if plant::is(Defect::ReusedTid) => {
                let oldest = self.pending.lock().tail().map_or(upto, |(tid, _)| tid);
                self.log.set_tail(oldest, None)?;
            }
            Some((tid, at)) => self.log.set_tail(tid, Some(at))?,
            None => self.log.set_tail(committed.next_tid(), None)?,
        }
        if !plant::is(Defect::MissingFlushAfterTail) {
            self.flush()?;
        }
        let mut pending = self.pending.lock();
        pending.forget_upto(upto);
        let used = pending.tail().map_or(0, |(_, start)| committed.distance_from(start, self.log.ring_blocks()));
        self.space.set_used(used, 0);
        Ok(())
    }
}
