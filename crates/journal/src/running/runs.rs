//! Runs of new data that wait for their way to their final location.

use crate::area::MERGE;
use crate::cache::Buf;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};
use std::collections::VecDeque;

/// Runs of new data that nobody has begun to write home, oldest first.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    runs: Mutex<VecDeque<Vec<T>>>,
    blocks: AtomicU64,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Mutex::default(), blocks: AtomicU64::new(0) }
    }
}

impl<T: Clone> Runs<T> {
    /// Adds a run, in parts that are not too long to be waited for.
    pub(crate) fn add(&self, run: &[T]) {
        for part in run.chunks(MERGE) {
            // Counted before anybody can take it.
            self.blocks.fetch_add(part.len() as u64, Relaxed);
            self.runs.lock().push_back(part.to_vec());
        }
    }

    /// Takes the oldest run.
    pub(crate) fn take(&self) -> Option<Vec<T>> {
        let run = self.runs.lock().pop_front()?;
        self.blocks.fetch_sub(run.len() as u64, Relaxed);
        Some(run)
    }

    /// So many of the blocks need not be written any more.
    pub(crate) fn lose(&self, blocks: u64) {
        self.blocks.fetch_sub(blocks, Relaxed);
    }

    /// Blocks in all of them.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }
}

impl Runs<Arc<Buf>> {
    /// Takes the runs of consecutive blocks in `bufs` that have `least` blocks and more, and gives the others back.
    pub(crate) fn add_long(&self, bufs: Vec<Arc<Buf>>, least: u32) -> Vec<Arc<Buf>> {
        let mut short = Vec::new();
        for run in bufs.chunk_by(|a, b| a.block + 1 == b.block) {
            if run.len() < least as usize {
                short.extend_from_slice(run);
                continue;
            }
            run.iter().for_each(|buf| buf.state.lock().queued = true);
            self.add(run);
        }
        short
    }

    /// Takes the oldest runs, of about `most` blocks, and what continues the last of them; those of its blocks that are
    /// not needed any more do not count.
    pub(crate) fn take_bufs(&self, most: usize) -> Vec<Arc<Buf>> {
        let mut bufs: Vec<Arc<Buf>> = Vec::new();
        let mut runs = self.runs.lock();
        while let Some(next) = runs.front() {
            let follows = |last: &Arc<Buf>| next.first().is_some_and(|first| first.block == last.block + 1);
            let continues = bufs.len() + next.len() <= MERGE && bufs.last().is_some_and(follows);
            if !bufs.is_empty() && bufs.len() >= most && !continues {
                break;
            }
            bufs.extend(runs.pop_front().unwrap_or_default());
        }
        drop(runs);
        let queued = |buf: &&Arc<Buf>| std::mem::take(&mut buf.state.lock().queued);
        self.lose(bufs.iter().filter(queued).count() as u64);
        bufs
    }

    /// Takes out the blocks that are not needed any more.
    pub(crate) fn sweep(&self) {
        self.runs.lock().retain_mut(|run| {
            run.retain(|buf| buf.state.lock().queued);
            !run.is_empty()
        });
    }
}
