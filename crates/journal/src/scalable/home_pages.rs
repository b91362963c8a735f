//! Free pages of the home for whole blocks of file data: what a record names there needs no copy home, but an entry of
//! the home's map.

use super::ScalableCore;
use super::data_pages::{DataPages, Delays};
use super::dirty::Dirty;
use super::named::{Image, Named, PART, Rests, at_once, bytes_in, whole};
use super::record::{self, InPage};
use crate::cache::{Buf, Home};
use crate::change::Base;
use crate::names::Kind;
use crate::write_set::Staged;
use crate::{Block, JournalError, Result};
use ondol_block::{BlockStore, PageLender, Pinned};
use ondol_env::sync::Arc;
use ondol_nvm_log::{PageArea, PageWrites};

/// How often an operation makes room before its data goes into its record.
const ROUNDS: usize = 2;

/// The pages of the home of one engine.
pub(super) struct HomePages {
    store: Arc<dyn BlockStore>,
    area: PageArea,
    /// As many as a block has.
    page_bytes: usize,
    /// Which blocks are in pages.
    dirty: Arc<Dirty>,
}

impl HomePages {
    pub(super) fn new(store: Arc<dyn BlockStore>, area: PageArea, dirty: Arc<Dirty>) -> Self {
        let page_bytes = store.lender().map_or(0, |lender| lender.page_bytes() as usize);
        Self { store, area, page_bytes, dirty }
    }

    fn lender(&self) -> Result<&dyn PageLender> {
        self.store.lender().ok_or_else(|| JournalError::Unsupported("the home lends no pages".into()))
    }

    fn borrow(&self, core: &ScalableCore, count: usize) -> Vec<u32> {
        let Ok(lender) = self.lender() else { return Vec::new() };
        let count = (count as u64).min(lender.most_lent());
        if count == 0 {
            return Vec::new();
        }
        for round in 0..=ROUNDS {
            match lender.lend(count) {
                Ok(Some(pages)) => return pages,
                // Where the map has failed, the record does without it, and the checkpoint says so.
                Err(_) => break,
                Ok(None) if round == ROUNDS => break,
                Ok(None) => {
                    if core.make_room().is_err() {
                        break;
                    }
                }
            }
        }
        Vec::new()
    }

    /// Reads bytes of the page that has a block.
    fn read_part(&self, block: u64, page: u32, offset: usize, into: &mut [u8]) -> Result<()> {
        match self.area.read_part(page, self.page_bytes, offset, into)? {
            true => Ok(()),
            false => Err(JournalError::LostData { block }),
        }
    }
}

impl DataPages for HomePages {
    fn engine(&self) -> &'static str {
        "remap"
    }

    /// Borrows pages for the blocks of file data of which much is written, also of those that build on what they held.
    /// What finds none goes into the record. Not before the handle is closed: every failure until then would have to
    /// give pages back, and blocks that the operation reads or changes again would be read from NVM.
    fn name<'p>(&self, core: &ScalableCore, arena: &[u8], blocks: &mut [Staged<'p>]) -> Vec<Named<'p>> {
        let size = self.page_bytes;
        let takes = |staged: &Staged<'_>| staged.kind == Kind::DATA && size <= PART * bytes_in(staged, true);
        let taking: Vec<usize> = (0..blocks.len()).filter(|n| takes(&blocks[*n])).collect();
        let pages = self.borrow(core, taking.len());
        taking[pages.len()..].iter().for_each(|n| blocks[*n].own());
        let named = taking.into_iter().zip(pages).map(|(staged, page)| {
            let block = &mut blocks[staged];
            if matches!(block.base, Base::Live) {
                // Whoever else could change it waits for a lock of its file.
                block.base = Base::Whole(block.buf.snapshot());
            }
            let image = match block.base {
                Base::Lent(bytes) if block.changes.is_empty() => Image::Lent(bytes),
                _ => Image::Held(whole(block, arena, size)),
            };
            let at = InPage { page, sum: record::sum(image.bytes()), or_home: false };
            Named { staged, block: block.buf.block, at, image, rests: Rests::InPage }
        });
        named.collect()
    }

    fn store(&self, named: &[Named<'_>]) -> Result<Option<PageWrites<'_>>> {
        Ok(Some(self.area.write(at_once(named))?))
    }

    fn give(&self, pages: &[u32]) {
        if let Ok(lender) = self.lender() {
            lender.give(pages);
        }
    }

    /// Nobody reads its page any more.
    fn freed(&self, buf: &Arc<Buf>, _position: u64) {
        self.dirty.leave_page(buf);
    }

    fn is_there(&self, _page: u32) -> bool {
        true
    }

    fn read(&self, block: u64, page: u32, image: &mut [u8]) -> Result<bool> {
        self.read_part(block, page, 0, image).map(|()| true)
    }

    fn are_of_home(&self) -> bool {
        true
    }

    fn set_entries(&self, entries: &[(u64, u32)]) -> Result<()> {
        Ok(self.lender()?.remap(entries)?)
    }

    fn used(&self) -> (u64, u64) {
        self.lender().map_or((0, 0), |lender| (lender.lent(), lender.most_lent()))
    }

    fn are_scarce(&self, part: u64) -> bool {
        let (lent, most) = self.used();
        lent > most / part
    }
}

impl Delays for HomePages {}

impl Home for HomePages {
    /// Whatever is newer than home is live, or lies in a page.
    fn committed(&self, _block: u64) -> Option<Block> {
        None
    }

    /// Whose bytes lie in a page is in the cache.
    fn home_from(&self, _block: u64) -> u64 {
        u64::MAX
    }

    fn read_home(&self, block: u64, bytes: &mut [u8]) -> Result<()> {
        if self.read_elsewhere(block, 0, bytes)? {
            return Ok(());
        }
        Ok(self.store.read(block * self.page_bytes as u64, bytes)?)
    }

    fn read_elsewhere(&self, block: u64, offset: usize, into: &mut [u8]) -> Result<bool> {
        let read = self.dirty.in_page(block, |page| self.read_part(block, page, offset, into));
        read.map_or(Ok(false), |read| read.map(|()| true))
    }

    /// The page stays that of the block as long as the lock in `dirty` is held.
    fn pin_elsewhere(&self, block: u64, bounded: bool) -> Result<Option<Option<Pinned>>> {
        let pin = |page| Ok(self.lender()?.pin_page(page, bounded)?);
        self.dirty.in_page(block, pin).transpose()
    }
}
