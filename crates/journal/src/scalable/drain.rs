//! What waits goes home before it is committed, where no program waits for the commit.

use super::Core;
use super::pages::{self, Pages};
use crate::Result;
use crate::area::{runs, write_many};
use crate::contract::Tid;

/// So great a part of the memory for blocks that are not home may wait, however fast home is, and of the pages: each that waits has one.
const PARTS: u64 = 2;

impl Core {
    /// Whether so much waits that the background should bring it home; or twice as much as may.
    pub(super) fn much_waits(&self, flooded: bool) -> bool {
        let Some(pages) = &self.pages else { return false };
        let all = pages.area().pages(self.block_size) as u64 * self.block_size as u64;
        let most = self.bound.kept.min(self.config.pending_bytes / PARTS).min(all / PARTS);
        let most = most.max(self.block_size as u64);
        pages.waiting() >= if flooded { 2 * most } else { most }
    }

    /// Whether blocks that are not home take more memory than this, without what waits: no checkpoint brings that home.
    pub(super) fn holds_more_than(&self, bytes: u64) -> bool {
        let held = self.dirty.bytes(self.block_size);
        let waiting = || self.pages.as_ref().map_or(0, Pages::waiting);
        held > bytes && held.saturating_sub(waiting()) > bytes
    }

    /// Commits `tid`, what waits being home before that: nobody needs it soon. While a checkpoint is at work, it is waited for, or all of it stays for the commit to store. Returns how many blocks have gone home.
    pub(super) fn commit_late(&self, tid: Tid, waits: bool) -> Result<u64> {
        self.check_alive()?;
        let mut home = 0;
        if let Some(pages) = &self.pages {
            pages.somebody_syncs(false);
            home = self.drain(pages, waits);
        }
        self.wait(tid)?;
        Ok(home)
    }

    /// Writes what waits home, durably. Where that fails it goes on waiting: the commit stores it in the pool.
    fn drain(&self, pages: &Pages, waits: bool) -> u64 {
        if pages.waiting() == 0 || self.home_rests() {
            return 0;
        }
        // No checkpoint writes meanwhile, and no block gets another owner: what is written late must not be written over what is newer.
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
                    self.home_works();
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
    pub(super) fn let_go(&self, block: u64, image: Option<&crate::Block>, page: Option<u32>) {
        // Beside the cache, those that have records hold it.
        if let Some(image) = image {
            let _is_lighter = self.cache.let_go(block, image, 1, |buf| self.dirty.lighten(buf, page));
        }
    }

    fn write_waiting(&self, images: &[(u64, crate::Block)]) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        write_many(&self.store, self.config.writers(&*self.env), self.block_size, images)?;
        self.data_runs.add(runs(images).count() as i64);
        self.flush()
    }
}
