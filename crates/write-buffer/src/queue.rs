//! Queues between the stages.

use crate::file::FileState;
use ondol_env::sync::{Arc, Mutex};
use std::collections::VecDeque;

/// What is to be written home of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Its length.
    Length,
    /// The contents of an LBN.
    Block(u64),
}

/// An entry of a dirty queue.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) file: Arc<FileState>,
    pub(crate) place: Place,
    /// When it came, by the monotonic clock.
    pub(crate) since: u64,
}

/// LBNs of a run of so many go to the same dirty queue, so that neighbours are written together.
const RUN: u64 = 64;

/// The dirty queues, one for each flusher.
#[derive(Debug)]
pub(crate) struct DirtyQueues(Vec<Mutex<VecDeque<Due>>>);

impl DirtyQueues {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count.max(1)).map(|_| Mutex::default()).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Puts an entry into its queue. Returns how long that is now.
    pub(crate) fn push(&self, due: Due) -> usize {
        let run = match due.place {
            Place::Length => 0,
            Place::Block(lbn) => lbn / RUN,
        };
        let at = run.wrapping_add(due.file.number()) % self.0.len() as u64;
        let mut queue = self.0[at as usize].lock();
        queue.push_back(due);
        queue.len()
    }

    /// The number of entries, and when the oldest came.
    pub(crate) fn state(&self, queue: usize) -> (usize, Option<u64>) {
        let queue = self.0[queue].lock();
        (queue.len(), queue.front().map(|due| due.since))
    }

    /// Takes the oldest entries out.
    pub(crate) fn take(&self, queue: usize, most: usize) -> Vec<Due> {
        let mut queue = self.0[queue].lock();
        let count = most.min(queue.len());
        queue.drain(..count).collect()
    }
}

/// Files with something written home that is not synced.
#[derive(Debug, Default)]
pub(crate) struct SyncQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    files: VecDeque<(Arc<FileState>, u64)>,
    /// Blocks that were written home since, about.
    blocks: u64,
}

impl SyncQueue {
    /// So many blocks of a file were written home.
    pub(crate) fn push(&self, file: &Arc<FileState>, blocks: u64, now: u64) {
        let mut waiting = self.0.lock();
        waiting.blocks += blocks;
        if !waiting.files.iter().any(|(other, _)| Arc::ptr_eq(other, file)) {
            waiting.files.push_back((file.clone(), now));
        }
    }

    /// Blocks that a sync would make clean, about, and since when the oldest file waits.
    pub(crate) fn state(&self) -> (u64, Option<u64>) {
        let waiting = self.0.lock();
        (waiting.blocks, waiting.files.front().map(|(_, since)| *since))
    }

    /// Takes all files out.
    pub(crate) fn take_all(&self) -> Vec<Arc<FileState>> {
        let mut waiting = self.0.lock();
        waiting.blocks = 0;
        waiting.files.drain(..).map(|(file, _)| file).collect()
    }
}
