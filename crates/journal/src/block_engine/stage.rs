//! New data on its way home: contents of newly allocated blocks that are written in place before the transaction that names them.
//!
//! No committed state reaches these blocks, so they may be written at any time before the transaction counts, and more than once. A commit
//! writes what its log wants at home. Operations that bring more new data than the committer takes away write some of it themselves before
//! they go on: each waits for as much as it brings, several write at once, and the commit finds it done.

use super::Core;
use super::running::{Frozen, Switched};
use crate::Block;
use crate::Result;
use crate::area::{MERGE, runs, write_runs};
use crate::cache::{Buf, Cache};
use crate::contract::Extent;
use ondol_env::plant::{self, Defect};
use ondol_env::reach::{self, Place};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};
use std::collections::VecDeque;

/// Images by rising block number.
pub(super) type BlockImages = Vec<(u64, Block)>;

/// Says of a run of new data whether it goes home.
type Decides<'a> = &'a dyn Fn(&[(u64, Block)]) -> bool;

/// Runs of new data that nobody has begun to write home, oldest first.
#[derive(Debug)]
pub(super) struct Runs<T> {
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
    fn add(&self, run: &[T]) {
        for part in run.chunks(MERGE) {
            // Counted before anybody can take it.
            self.blocks.fetch_add(part.len() as u64, Relaxed);
            self.runs.lock().push_back(part.to_vec());
        }
    }

    /// Takes the oldest run.
    pub(super) fn take(&self) -> Option<Vec<T>> {
        let run = self.runs.lock().pop_front()?;
        self.blocks.fetch_sub(run.len() as u64, Relaxed);
        Some(run)
    }

    /// Forgets them all.
    pub(super) fn clear(&self) {
        self.runs.lock().clear();
        self.blocks.store(0, Relaxed);
    }

    /// So many of the blocks need not be written any more.
    pub(super) fn lose(&self, blocks: u64) {
        self.blocks.fetch_sub(blocks, Relaxed);
    }

    /// Blocks in all of them.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }
}

impl Runs<Arc<Buf>> {
    /// Adds the runs of consecutive blocks in `bufs` that have `least` blocks and more.
    pub(super) fn add_long(&self, bufs: &[Arc<Buf>], least: u32) {
        let runs = bufs.chunk_by(|a, b| a.block + 1 == b.block);
        for run in runs.filter(|run| run.len() >= least as usize) {
            run.iter().for_each(|buf| buf.state.lock().queued = true);
            self.add(run);
        }
    }

    /// Takes the oldest run; those of its blocks that are not needed any more do not count.
    pub(super) fn take_bufs(&self) -> Option<Vec<Arc<Buf>>> {
        let run = self.runs.lock().pop_front()?;
        let queued = |buf: &&Arc<Buf>| std::mem::take(&mut buf.state.lock().queued);
        self.lose(run.iter().filter(queued).count() as u64);
        Some(run)
    }

    /// Takes out the blocks that are not needed any more.
    pub(super) fn sweep(&self) {
        self.runs.lock().retain_mut(|run| {
            run.retain(|buf| buf.state.lock().queued);
            !run.is_empty()
        });
    }
}

impl Core {
    /// Lends a hand if much new data waits for its way home: one run of it.
    pub(super) fn stage_some(&self) -> Result<()> {
        let waiting = self.running.waiting() + self.committing.blocks();
        if waiting * self.block_size as u64 >= self.config.dirty_bytes / 4 {
            self.stage_one()?;
        }
        Ok(())
    }

    /// Writes one run of new data home, of the transaction that is being committed or else of the running one; false when there is none.
    /// It is not durable then, and what names it is not yet in the log.
    pub(super) fn stage_one(&self) -> Result<bool> {
        let began = self.env.monotonic_ns();
        let wrote = self.write_one();
        self.stats.lock().staging_ns += self.env.monotonic_ns() - began;
        wrote
    }

    fn write_one(&self) -> Result<bool> {
        // Commits wait for this: their logs must find the run written, and later transactions must find nobody writing.
        let _writing = self.staging.read();
        let write = |images: &[(u64, Block)]| self.write_data_runs(images);
        if let Some(images) = self.committing.take() {
            reach::hit(Place::StagedByHand);
            self.or_abort(write(&images))?;
            return Ok(true);
        }
        let staged = self.or_abort(self.running.stage_run(write))?;
        self.stats.lock().staged_early_blocks += staged.unwrap_or(0);
        Ok(staged.is_some())
    }

    fn write_data_runs(&self, images: &[(u64, Block)]) -> Result<()> {
        self.data_runs.fetch_add(runs(images).count() as u64, Relaxed);
        write_runs(&*self.store, self.block_size, images)
    }

    /// Whether a transaction that is not gone from the log has a block of `extent`.
    pub(super) fn knows(&self, cache: &Cache, extent: Extent) -> bool {
        let mut blocks = (0..u64::from(extent.len)).map(|i| extent.start + i);
        blocks.clone().any(|block| cache.is_running(block)) || {
            let pending = self.pending.lock();
            pending.is_staged(extent) || blocks.any(|block| pending.is_logged(block))
        }
    }

    /// Closes the running transaction to further handles when nobody writes its new data: what is home then is known to be.
    pub(super) fn switch(&self) -> Option<Switched> {
        let _nobody_writes = (!plant::is(Defect::UnawaitedStaging)).then(|| self.staging.write());
        self.running.switch()
    }

    /// What goes into the log, what goes home, and what of that is not there yet: of runs of data in newly allocated blocks the log decides,
    /// unless its ring has no room for what was promised little: then all of it goes home.
    pub(super) fn choose(
        &self,
        blocks: &[Frozen],
        images: BlockImages,
        promised: u64,
    ) -> (BlockImages, BlockImages, BlockImages) {
        let mut goes = decide(blocks, &images, &|run| self.log.goes_home(run));
        let logged = goes.iter().filter(|goes| !**goes).count();
        let named = self.log.new_data_cost((goes.len() - logged) as u32);
        let over = (logged as u64 + u64::from(named)).saturating_sub(promised);
        if over > 0 && !self.space.takes_more(promised, over) {
            reach::hit(Place::NoRoomForNewData);
            goes = decide(blocks, &images, &|_| true);
        }
        let (mut logged, mut staged, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for ((image, goes), block) in images.into_iter().zip(goes).zip(blocks) {
            if goes && !block.home {
                missing.push(image.clone());
            }
            if goes { &mut staged } else { &mut logged }.push(image);
        }
        (logged, staged, missing)
    }

    /// Writes `images` home, together with whoever lends a hand.
    pub(super) fn stage(&self, images: &[(u64, Block)]) -> Result<()> {
        images.chunk_by(|(a, _), (b, _)| a + 1 == *b).for_each(|run| self.committing.add(run));
        while let Some(run) = self.committing.take() {
            self.write_data_runs(&run)?;
        }
        drop(self.staging.write());
        self.check_alive()
    }
}

/// Which images go home: runs of new data that are there already, or of which `home` says so.
fn decide(blocks: &[Frozen], images: &[(u64, Block)], home: Decides<'_>) -> Vec<bool> {
    let mut goes = Vec::with_capacity(images.len());
    while goes.len() < images.len() {
        let at = goes.len();
        let follows = |i: &usize| blocks[at + i].newborn && images[at + i].0 == images[at].0 + *i as u64;
        let run = (0..images.len() - at).take_while(follows).count();
        let end = at + run.max(1);
        let goes_home = run > 0 && (blocks[at..end].iter().all(|b| b.home) || home(&images[at..end]));
        goes.resize(end, goes_home);
    }
    goes
}
