//! When freed blocks may be allocated again: once their freeing is committed, and no checkpoint is at work.
//!
//! So a checkpoint that begins knows every block that may have a next owner, and meanwhile there are no others. What
//! its records have of such a block and the freeing is behind them, it leaves alone: no crash brings the old owner
//! back, and what the next one has of it lies in the log.

use crate::NumberHash;
use crate::cache::Buf;
use crate::names::Extent;
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Freed {
    /// How many wait: nearly always none, and then nobody takes the lock.
    waiting: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the position of their record.
    waiting: BTreeMap<u64, Vec<Extent>>,
    checkpoint: bool,
    /// Behind the newest record whose blocks were released: it only grows.
    released: u64,
    /// Buffers of blocks with older records, by the position of the record that frees them.
    dead: BTreeMap<u64, Vec<Arc<Buf>>>,
    /// The positions of these records by block. A block can be freed again before the tail has passed the first of
    /// them.
    freed_at: HashMap<u64, Vec<u64>, NumberHash>,
}

impl Freed {
    /// The complete record at `position` frees these, of which the log has older records of `bufs`.
    pub(super) fn add(&self, position: u64, extents: Vec<Extent>, bufs: Vec<Arc<Buf>>) {
        let mut state = self.state.lock();
        if !bufs.is_empty() {
            bufs.iter().for_each(|buf| state.freed_at.entry(buf.block).or_default().push(position));
            state.dead.insert(position, bufs);
        }
        state.waiting.insert(position, extents);
        self.waiting.store(state.waiting.len() as u64, SeqCst);
    }

    /// A checkpoint begins that takes everything below `end`. Returns where the later records lie whose blocks others
    /// may have by now: until [`Freed::end_checkpoint`] it stays so.
    pub(super) fn begin_checkpoint(&self, end: u64) -> Range<u64> {
        let mut state = self.state.lock();
        state.checkpoint = true;
        end..state.released.max(end)
    }

    /// Which of `blocks` records in `later` have freed, if the log has older records of them.
    pub(super) fn freed_in(&self, later: &Range<u64>, blocks: impl Iterator<Item = u64>) -> HashSet<u64, NumberHash> {
        if later.is_empty() {
            return HashSet::default();
        }
        let state = self.state.lock();
        let is_freed = |block: &u64| state.freed_at.get(block).is_some_and(|at| at.iter().any(|at| later.contains(at)));
        blocks.filter(is_freed).collect()
    }

    /// Nobody gets a block that was freed, until [`Freed::end_checkpoint`].
    pub(super) fn hold(&self) {
        self.state.lock().checkpoint = true;
    }

    /// Buffers that records below `end` have freed: nothing of them is in the log any more. Those of a later owner of
    /// the same block are others.
    pub(super) fn take_dead(&self, end: u64) -> Vec<Arc<Buf>> {
        let mut state = self.state.lock();
        let later = state.dead.split_off(&end);
        let dead: Vec<Arc<Buf>> = std::mem::replace(&mut state.dead, later).into_values().flatten().collect();
        for buf in &dead {
            if let Some(at) = state.freed_at.get_mut(&buf.block) {
                at.retain(|at| *at >= end);
                if at.is_empty() {
                    state.freed_at.remove(&buf.block);
                }
            }
        }
        dead
    }

    pub(super) fn end_checkpoint(&self) {
        self.state.lock().checkpoint = false;
    }

    /// Hands over what was freed by records below `durable`, unless a checkpoint is at work.
    pub(super) fn release(&self, durable: u64, release: impl FnOnce(&[Extent])) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut state = self.state.lock();
        if state.checkpoint {
            return;
        }
        let later = state.waiting.split_off(&durable);
        let now = std::mem::replace(&mut state.waiting, later);
        self.waiting.store(state.waiting.len() as u64, SeqCst);
        let Some((newest, _)) = now.last_key_value() else { return };
        // A record may tell what it frees after later ones have: those have owners already.
        let before = state.released;
        state.released = before.max(newest + 1);
        let extents: Vec<Extent> = now.into_values().flatten().collect();
        release(&extents);
    }
}
