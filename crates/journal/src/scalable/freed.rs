//! When freed blocks may be allocated again: once their freeing is committed, and no checkpoint is at work.
//!
//! So a checkpoint that begins knows every block that may have a next owner, and meanwhile there are no others. What its records have of such a block and the freeing is
//! behind them, it leaves alone: no crash brings the old owner back, and what the next one has of it lies in the log.

use crate::NumberHash;
use crate::cache::Buf;
use crate::contract::Extent;
use ondol_env::plant::{self, Defect};
use ondol_env::reach::{self, Place};
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use std::collections::{BTreeMap, HashSet};

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
    /// Behind the newest record whose blocks were released.
    released: u64,
    /// Buffers of blocks with older records, by the position of the record that frees them.
    dead: BTreeMap<u64, Vec<Arc<Buf>>>,
}

impl Freed {
    /// The complete record at `position` frees these, of which the log has older records of `bufs`.
    pub(super) fn add(&self, position: u64, extents: Vec<Extent>, bufs: Vec<Arc<Buf>>) {
        let mut state = self.state.lock();
        if !bufs.is_empty() {
            state.dead.insert(position, bufs);
        }
        state.waiting.insert(position, extents);
        self.waiting.store(state.waiting.len() as u64, SeqCst);
    }

    /// A checkpoint begins that takes everything below `end`. Returns the blocks that later records have freed and others may have by now.
    pub(super) fn begin_checkpoint(&self, end: u64) -> HashSet<u64, NumberHash> {
        let mut state = self.state.lock();
        state.checkpoint = true;
        if state.released <= end || plant::is(Defect::UntoldOwner) {
            return HashSet::default();
        }
        let later = state.dead.range(end..state.released);
        later.flat_map(|(_, bufs)| bufs).map(|buf| buf.block).collect()
    }

    /// Nobody gets a block that was freed, until [`Freed::end_checkpoint`].
    pub(super) fn hold(&self) {
        self.state.lock().checkpoint = true;
    }

    /// Buffers that records below `end` have freed: nothing of them is in the log any more. Those of a later owner of the same block are others.
    pub(super) fn take_dead(&self, end: u64) -> Vec<Arc<Buf>> {
        let mut state = self.state.lock();
        let later = state.dead.split_off(&end);
        std::mem::replace(&mut state.dead, later).into_values().flatten().collect()
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
        if state.checkpoint && !plant::is(Defect::ReuseDuringCheckpoint) {
            reach::hit(Place::FreedBesideCheckpoint);
            return;
        }
        let later = state.waiting.split_off(&durable);
        let now = std::mem::replace(&mut state.waiting, later);
        self.waiting.store(state.waiting.len() as u64, SeqCst);
        let Some((newest, _)) = now.last_key_value() else { return };
        state.released = newest + 1;
        let extents: Vec<Extent> = now.into_values().flatten().collect();
        release(&extents);
    }
}
