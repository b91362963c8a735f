//! New data on its way home: contents of newly allocated blocks that are written in place before the transaction that
//! names them.
//!
//! No committed state reaches these blocks, so they may be written at any time before the transaction counts, and more
//! than once. A commit writes what its log wants at home. While more waits than may, the flusher writes, and operations
//! write some of it themselves before they go on: each waits for as much as it brings, and several write at once. The
//! oldest goes first: what is deleted in time is never written. What is home then, and does not change, is an ordinary
//! block of the cache, and the transaction only knows of it ([`crate::running`]).

use super::BlockCore;
use crate::Block;
use crate::Result;
use crate::area::{runs, write_runs};
use crate::names::Extent;
use crate::running::{BlockImages, Frozen, NewData, Switched};
use ondol_env::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

/// Says of a run of new data whether it goes home.
type Decides<'a> = &'a dyn Fn(&[(u64, Block)]) -> bool;

impl BlockCore {
    /// More new data waits for its way home than so many bytes.
    fn waits_more_than(&self, bytes: u64) -> bool {
        let waiting = self.running.waiting() + self.committing.blocks();
        waiting * self.block_size as u64 > bytes
    }

    /// So much that the background should write.
    pub(super) fn much_waits(&self) -> bool {
        self.waits_more_than(self.bound.kept)
    }

    /// Lends a hand if much new data waits for its way home: one run of it.
    pub(super) fn stage_some(&self) -> Result<()> {
        if self.waits_more_than(self.bound.kept) {
            self.stage_one()?;
        }
        Ok(())
    }

    /// Writes new data home until an eighth less waits than may. False: so little waits.
    pub(super) fn stage_much(&self) -> Result<bool> {
        let most = self.bound.kept;
        if !self.waits_more_than(most) {
            return Ok(false);
        }
        self.check_alive()?;
        let eighth = most as usize / 8 / self.block_size;
        while self.waits_more_than(most / 8 * 7) && self.write_early(eighth.max(1))? {}
        Ok(true)
    }

    /// Writes one run of new data home, of the transaction that is being committed or else of the running one; false
    /// when there is none. It is not durable then, and what names it is not yet in the log.
    pub(super) fn stage_one(&self) -> Result<bool> {
        let began = self.env.monotonic_ns();
        let wrote = self.write_early(1);
        self.stats.lock().staging_ns += self.env.monotonic_ns() - began;
        wrote
    }

    /// As [`BlockCore::stage_one`], of about `most` blocks where they are the running transaction's.
    fn write_early(&self, most: usize) -> Result<bool> {
        // Commits wait for this: their logs must find the run written, and later transactions must find nobody writing.
        let _writing = self.staging.read();
        if let Some(images) = self.committing.take() {
            self.or_abort(self.write_data_runs(&images))?;
            return Ok(true);
        }
        let write = |images: &[(u64, Block)]| self.write_unnamed(images);
        let staged = self.or_abort(self.running.stage_runs(most, |image| self.new_data.sum(image), write))?;
        self.stats.lock().staged_early_blocks += staged.unwrap_or(0);
        Ok(staged.is_some())
    }

    /// Writes new data home of which the log may say nothing: then it waits for a flush as all that is written in
    /// place.
    fn write_unnamed(&self, images: &[(u64, Block)]) -> Result<()> {
        if !matches!(self.new_data, NewData::Kept) {
            return self.write_data_runs(images);
        }
        let dirty = self.in_place.write(images.len() * self.block_size, || self.write_data_runs(images))?;
        self.is_dirty(dirty);
        Ok(())
    }

    fn write_data_runs(&self, images: &[(u64, Block)]) -> Result<()> {
        self.data_runs.fetch_add(runs(images).count() as u64, Relaxed);
        write_runs(&*self.store, self.block_size, images)
    }

    /// Whether a transaction that is not gone from the log has a block of `extent`.
    pub(super) fn knows(&self, extent: Extent) -> bool {
        let mut blocks = (0..u64::from(extent.len)).map(|i| extent.start + i);
        blocks.clone().any(|block| self.cache.is_running(block))
            || self.running.early.has(extent)
            || self.journaled_data.load(SeqCst) && {
                let pending = self.pending.lock();
                pending.is_staged(extent) || blocks.any(|block| pending.is_logged(block))
            }
    }

    /// Closes the running transaction to further handles when nobody writes its new data: what is home then is known to
    /// be.
    pub(super) fn switch(&self) -> Option<Switched> {
        let _nobody_writes = self.staging.write();
        self.running.switch()
    }

    /// What goes into the log, and what goes home: of runs of data in newly allocated blocks the log decides, unless
    /// its ring has no room for what was promised little: then all of it goes home. `early` blocks of it are home
    /// already.
    pub(super) fn choose(
        &self,
        blocks: &[Frozen],
        images: BlockImages,
        promised: u64,
        early: usize,
    ) -> (BlockImages, BlockImages) {
        let mut goes = decide(blocks, &images, &|run| self.new_data.goes_home(run));
        let logged = goes.iter().filter(|goes| !**goes).count();
        let named = self.new_data.cost((goes.len() - logged + early) as u32, self.block_size);
        let over = (logged as u64 + u64::from(named)).saturating_sub(promised);
        if over > 0 && !self.space.takes_more(promised, over) {
            goes = decide(blocks, &images, &|_| true);
        }
        let (mut logged, mut home) = (Vec::new(), Vec::new());
        for (image, goes) in images.into_iter().zip(goes) {
            if goes { &mut home } else { &mut logged }.push(image);
        }
        (logged, home)
    }

    /// What a transaction says of its new data that is home when it is logged: what was `early`, and `home`, both by
    /// rising number.
    pub(super) fn named(&self, early: Vec<(u64, u32)>, home: &[(u64, Block)]) -> Vec<(u64, u32)> {
        let mut named = early;
        named.extend(home.iter().filter_map(|(block, image)| Some((*block, self.new_data.sum(image)?))));
        named.sort_unstable();
        named
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

/// Which images go home: runs of new data of which `home` says so.
fn decide(blocks: &[Frozen], images: &[(u64, Block)], home: Decides<'_>) -> Vec<bool> {
    let mut goes = Vec::with_capacity(images.len());
    while goes.len() < images.len() {
        let at = goes.len();
        let follows = |i: &usize| blocks[at + i].newborn && images[at + i].0 == images[at].0 + *i as u64;
        let run = (0..images.len() - at).take_while(follows).count();
        let end = at + run.max(1);
        let goes_home = run > 0 && home(&images[at..end]);
        goes.resize(end, goes_home);
    }
    goes
}
