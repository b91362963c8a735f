//! Free pages of the home for whole blocks of file data: what a record names there needs no copy home, but an entry of the home's map.

use super::Core;
use super::named::{Image, Named, Naming, PART, bytes_in, whole};
use super::record::{self, InPage};
use crate::contract::Kind;
use crate::handle::{Base, Staged};
use crate::{JournalError, Result};
use ondol_block::{BlockStore, PageLender, Pinned};
use ondol_env::sync::Arc;
use ondol_nvm_log::PageArea;

/// How often an operation makes room before its data goes into its record.
const ROUNDS: usize = 2;

/// The pages of the home of one engine.
pub(super) struct HomePages {
    store: Arc<dyn BlockStore>,
    area: PageArea,
    page_bytes: usize,
}

impl HomePages {
    pub(super) fn new(store: Arc<dyn BlockStore>, area: PageArea) -> Self {
        let page_bytes = store.lender().map_or(0, |lender| lender.page_bytes() as usize);
        Self { store, area, page_bytes }
    }

    pub(super) fn area(&self) -> &PageArea {
        &self.area
    }

    fn lender(&self) -> Result<&dyn PageLender> {
        self.store.lender().ok_or_else(|| JournalError::Unsupported("the home lends no pages".into()))
    }

    /// Pages that are lent, and how many can be.
    pub(super) fn used(&self) -> (u64, u64) {
        self.lender().map_or((0, 0), |lender| (lender.lent(), lender.most_lent()))
    }

    /// Whether more than a part of what can be is lent.
    pub(super) fn are_scarce(&self, part: u64) -> bool {
        let (lent, most) = self.used();
        lent > most / part
    }

    /// These blocks, of which all that is committed lies in a page, have it, `(block, page)`: durably with the next flush.
    pub(super) fn remap(&self, entries: &[(u64, u32)]) -> Result<()> {
        Ok(self.lender()?.remap(entries)?)
    }

    /// No record names these any more.
    pub(super) fn give(&self, pages: &[u32]) {
        if let Ok(lender) = self.lender() {
            lender.give(pages);
        }
    }

    /// Reads bytes of the page that has a block.
    pub(super) fn read(&self, block: u64, page: u32, offset: usize, into: &mut [u8]) -> Result<()> {
        match self.area.read_part(page, self.page_bytes, offset, into)? {
            true => Ok(()),
            false => Err(JournalError::LostData { block }),
        }
    }
}

impl HomePages {
    /// Lends a page that has a block, and keeps it as long as the caller's lock is held.
    pub(super) fn pin(&self, page: u32, bounded: bool) -> Result<Option<Pinned>> {
        Ok(self.lender()?.pin_page(page, bounded)?)
    }
}

impl Core {
    /// Borrows pages for the blocks of file data of which much is written, also of those that build on what they held. What finds none goes into the record.
    /// Not before the handle is closed: every failure until then would have to give pages back, and blocks that the
    /// operation reads or changes again would be read from NVM.
    pub(super) fn name_home_pages<'p>(
        &self,
        home: &'p HomePages,
        arena: &[u8],
        blocks: &mut [Staged<'p>],
    ) -> Naming<'p> {
        let takes = |staged: &Staged<'_>| staged.kind == Kind::DATA && self.block_size <= PART * bytes_in(staged, true);
        let taking: Vec<usize> = (0..blocks.len()).filter(|n| takes(&blocks[*n])).collect();
        let pages = self.borrow(home, taking.len());
        taking[pages.len()..].iter().for_each(|n| blocks[*n].own());
        let named = taking.into_iter().zip(pages).map(|(staged, page)| {
            let block = &mut blocks[staged];
            if matches!(block.base, Base::Live) {
                // Whoever else could change it waits for a lock of its file.
                block.base = Base::Whole(block.buf.snapshot());
            }
            let image = match block.base {
                Base::Lent(bytes) if block.changes.is_empty() => Image::Lent(bytes),
                _ => Image::Held(whole(block, arena, self.block_size)),
            };
            Named { staged, at: InPage { page, sum: record::sum(image.bytes()), or_home: false }, image }
        });
        Naming::in_home(home, named.collect())
    }

    fn borrow(&self, home: &HomePages, count: usize) -> Vec<u32> {
        let Ok(lender) = home.lender() else { return Vec::new() };
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
                    if self.make_room().is_err() {
                        break;
                    }
                }
            }
        }
        Vec::new()
    }

    /// Has the home's readers see the committed contents of blocks that lie in pages. Durable with the next flush.
    pub(super) fn set_entries(&self, entries: &[(u64, u32)]) -> Result<()> {
        match &self.home_pages {
            Some(home) => home.remap(entries),
            _ => Ok(()),
        }
    }
}
