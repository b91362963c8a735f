//! What waits goes home before it is committed, where no program waits for the commit.

use super::ScalableCore;
use super::data_pages::Delays;
use super::named::{Image, Named, Rests, whole};
use super::pages::{self, NOWHERE, Pages};
use super::record::{self, InPage};
use crate::area::{runs, write_many, write_runs};
use crate::names::Tid;
use crate::write_set::Staged;
use crate::{Block, Result};
use ondol_env::sync::atomic::Ordering::Relaxed;

impl ScalableCore {
    /// Whether so much waits that the background should bring it home; or twice as much as may.
    pub(super) fn much_waits(&self, flooded: bool) -> bool {
        self.pages.much_waits(self, flooded)
    }

    /// Whether operations write their new data home themselves: there is more of it than goes home, and no program
    /// waits for commits, which have to flush it first.
    pub(super) fn brings_home(&self) -> bool {
        self.is_flooded.load(Relaxed) && !self.failing.rests(self.env.monotonic_ns()) && self.pages.is_quiet()
    }

    /// Writes new data home, before its record is made: no committed state reaches its blocks. All or nothing of it;
    /// what is written is flushed before it is committed.
    pub(super) fn write_new_home<'p>(
        &self,
        arena: &[u8],
        blocks: &mut [Staged<'p>],
        takes: &dyn Fn(&Staged<'_>) -> bool,
    ) -> Vec<Named<'p>> {
        let new = blocks.iter_mut().enumerate().filter(|(_, block)| block.newborn && takes(block));
        let mut images: Vec<(u64, Block, usize)> =
            new.map(|(n, block)| (block.buf.block, whole(block, arena, self.block_size), n)).collect();
        images.sort_unstable_by_key(|(block, ..)| *block);
        let home: Vec<(u64, Block)> = images.iter().map(|(block, image, _)| (*block, image.clone())).collect();
        let bytes = home.len() * self.block_size;
        let write = || write_runs(&*self.store, self.block_size, &home);
        let dirty = match self.in_place.write_or_leave(bytes, write) {
            Ok(dirty) => dirty,
            Err(e) => {
                drop(self.home_fails(e));
                return Vec::new();
            }
        };
        self.is_dirty(dirty);
        self.brought.add(home.len() as i64);
        self.data_runs.add(runs(&home).count() as i64);
        images.sort_unstable_by_key(|(.., n)| *n);
        let named = images.into_iter().map(|(block, image, staged)| {
            let at = InPage { page: NOWHERE, sum: record::sum(&image), or_home: true };
            Named { staged, block, at, image: Image::Held(image), rests: Rests::AtHome }
        });
        named.collect()
    }

    /// Whether blocks that are not home take more memory than this, without what waits: no checkpoint brings that home.
    pub(super) fn holds_more_than(&self, bytes: u64) -> bool {
        let held = self.dirty.bytes(self.block_size);
        held > bytes && held.saturating_sub(self.pages.waiting()) > bytes
    }

    /// Commits `tid`, what waits being home before that: nobody needs it soon. While a checkpoint is at work, it is
    /// waited for, or all of it stays for the commit to store. Returns how many blocks have gone home.
    pub(super) fn commit_late(&self, tid: Tid, waits: bool) -> Result<u64> {
        self.check_alive()?;
        let home = self.pages.drain(self, waits);
        self.wait(tid)?;
        Ok(home)
    }

    /// Writes what waits home, durably. Where that fails it goes on waiting: the commit stores it in the pool.
    pub(super) fn drain(&self, pages: &Pages, waits: bool) -> u64 {
        if pages.waiting() == 0 || self.failing.rests(self.env.monotonic_ns()) {
            return 0;
        }
        // No checkpoint writes meanwhile, and no block gets another owner: what is written late must not be written
        // over what is newer.
        let Some(turn) = self.turns.take_next(waits) else { return 0 };
        if self.aborted.get().is_some() {
            return 0;
        }
        self.freed.hold();
        let waiting = pages.to_bring_home();
        let home = match self.write_waiting(&pages::images(&waiting)) {
            Ok(()) => {
                pages.are_home(&waiting, |block, image| self.let_go(block, Some(image), None));
                if !waiting.is_empty() {
                    self.failing.works();
                }
                self.stats.lock().staged_blocks += waiting.len() as u64;
                waiting.len() as u64
            }
            Err(e) => {
                drop(self.home_fails(e));
                0
            }
        };
        self.freed.end_checkpoint();
        drop(turn);
        self.release_freed();
        home
    }

    /// Memory need not have what home has, or `page`.
    pub(super) fn let_go(&self, block: u64, image: Option<&Block>, page: Option<u32>) {
        // Beside the cache, those that have records hold it.
        if let Some(image) = image {
            let _is_lighter = self.cache.let_go(block, image, 1, |buf| self.dirty.lighten(buf, page));
        }
    }

    fn write_waiting(&self, images: &[(u64, Block)]) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        write_many(&self.store, self.config.writers(&*self.env), self.block_size, images)?;
        self.data_runs.add(runs(images).count() as i64);
        self.flush()
    }
}
