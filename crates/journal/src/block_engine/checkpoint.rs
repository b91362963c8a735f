//! Checkpoint: the newest committed images go home, then the tail moves and journal space is free again.
//!
//! Order: home writes, flush, tail, flush. Only then may the log blocks behind the old tail be written again. Where the
//! log swaps, the tail and all swaps are one change that is durable at once, and with it the few home writes that are
//! left.

use super::commit::Committed;
use super::pending::Due;
use super::{BlockCore, Swap};
use crate::Block;
use crate::area::{MERGE, write_many};
use crate::{Result, Tid};
use ondol_env::sync::atomic::Ordering::Relaxed;

/// Images per background checkpoint: bounds how long freed blocks are held back.
pub const BATCH: usize = 1024;

impl BlockCore {
    /// Checkpoints the oldest transactions. False when there is none.
    pub(crate) fn checkpoint_some(&self) -> Result<bool> {
        self.checkpoint(BATCH)
    }

    /// Checkpoints until the log is empty.
    pub(crate) fn checkpoint_everything(&self) -> Result<()> {
        while self.checkpoint(usize::MAX)? {}
        Ok(())
    }

    /// More images wait for their checkpoint than may.
    pub(crate) fn too_many_wait(&self) -> bool {
        self.waiting_bytes.load(Relaxed) > self.config.pending_bytes
    }

    /// Keeps the images that wait in memory within their bound.
    pub(crate) fn bound_pending(&self) -> Result<()> {
        while self.too_many_wait() {
            let began = self.env.monotonic_ns();
            let more = self.checkpoint(BATCH)?;
            let mut stats = self.stats.lock();
            stats.foreground_checkpoints += 1;
            stats.stall_ns += self.env.monotonic_ns() - began;
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn checkpoint(&self, blocks: usize) -> Result<bool> {
        let _one_at_a_time = self.checkpoint_lock.lock();
        self.check_alive()?;
        let begun = self.pending.lock().begin_checkpoint(blocks, self.log.swap().map(|(_, most)| most));
        let Some(mut due) = begun else { return Ok(false) };
        let result = self.bring_home(&mut due);
        let released = self.pending.lock().end_checkpoint();
        self.or_abort(result)?;
        self.release(&released);
        Ok(true)
    }

    fn bring_home(&self, due: &mut Due) -> Result<()> {
        if let Some((swap, _)) = self.log.swap() {
            keep_out_of_the_ring(swap, due);
        }
        self.write_home(&due.copies)?;
        self.move_tail(due)
    }

    fn write_home(&self, images: &[(u64, Block)]) -> Result<()> {
        write_many(&self.store, self.config.writers(&*self.env), self.block_size, images)?;
        self.stats.lock().checkpoint_blocks += images.len() as u64;
        let with_the_tail = images.is_empty() || self.log.swap().is_some();
        if with_the_tail { Ok(()) } else { self.flush() }
    }

    fn move_tail(&self, due: &Due) -> Result<()> {
        if self.pending.lock().tail_after(due.upto).is_some() {
            return self.set_tail(due, None);
        }
        // The lock keeps a new transaction from starting where the tail is about to be declared empty.
        let committed = self.commit_lock.lock();
        // What a commit that failed has left in the log is not passed either.
        self.check_alive()?;
        self.set_tail(due, Some(&committed))
    }

    /// Moves the tail behind what was due; without the commit lock only if something follows that.
    fn set_tail(&self, due: &Due, committed: Option<&Committed>) -> Result<()> {
        let upto = due.upto;
        let (old, next, head) = {
            let pending = self.pending.lock();
            (pending.tail(), pending.tail_after(upto), pending.head())
        };
        match (next, committed) {
            (Some((tid, at)), _) => {
                self.put_tail(due, tid, Some(at))?;
            }
            (None, Some(committed)) => {
                self.put_tail(due, committed.next_tid(), None)?;
            }
            (None, None) => return Ok(()),
        }
        if let Some((_, from)) = old.filter(|_| self.config.zeroing) {
            let to = next.map_or(head, |(_, at)| at);
            self.zero(from, to)?;
        }
        let mut pending = self.pending.lock();
        pending.written(due);
        self.waiting_bytes.store(pending.bytes(), Relaxed);
        pending.forget_upto(upto);
        let used = pending.tail().map_or(0, |(_, start)| pending.distance_from(start, self.log.area().ring_blocks()));
        self.space.set_used(used, pending.len() as u64);
        Ok(())
    }

    /// Records where recovery starts, durably, and with it swaps home what is due to be.
    fn put_tail(&self, due: &Due, tid: Tid, at: Option<u64>) -> Result<()> {
        let Some((swap, _)) = self.log.swap() else {
            self.log.set_tail(tid, at)?;
            return self.flush();
        };
        let swaps: Vec<(u64, u64)> = due.swaps.iter().map(|(block, _, place)| (*block, *place)).collect();
        swap.swap_home(&swaps, tid, at)?;
        self.stats.lock().swapped_blocks += swaps.len() as u64;
        Ok(())
    }

    /// Overwrites the ring from `from` to `to`, which holds nothing that counts, with zeros. They are durable before
    /// the blocks are used again.
    fn zero(&self, from: u64, to: u64) -> Result<()> {
        let area = self.log.area();
        let ring = area.ring_blocks();
        let blocks = (to + ring - from) % ring;
        let zeros = vec![0; MERGE * self.block_size];
        let mut done = 0;
        while done < blocks {
            let n = (blocks - done).min(MERGE as u64);
            area.write((from + done) % ring, &[&zeros[..n as usize * self.block_size]])?;
            done += n;
        }
        self.stats.lock().zeroed_blocks += blocks;
        self.flush()
    }
}

/// A swap puts into the ring what lies at home, and there recovery looks for blocks of the log. What would be taken for
/// one is written over by a copy instead.
fn keep_out_of_the_ring(swap: &dyn Swap, due: &mut Due) {
    let mut swaps = Vec::with_capacity(due.swaps.len());
    for (block, image, place) in std::mem::take(&mut due.swaps) {
        if swap.may_enter(block) {
            swaps.push((block, image, place));
        } else {
            due.copies.push((block, image));
        }
    }
    due.swaps = swaps;
    due.copies.sort_unstable_by_key(|(block, _)| *block);
}
