//! Lending pages: whoever keeps a record of its own of what lies in them fills them first, and has blocks mapped to
//! them when the record counts.
//!
//! A page of which that record still speaks stays lent, so that nobody fills it anew, also where the entry that named
//! it has another page by now.

use crate::error::{Result, TableError};
use crate::format::Config;
use crate::table::PageTable;
use ondol_block::{MapPart, Mapped, Own, PageLender, PageUse, Pinned};
use ondol_medium::PAGE;
use std::ops::Range;

/// So great a part of the reserve is not lent, and never less than what one writer takes at once.
const SPARE: u64 = 4;

impl Config {
    /// Of the blocks that have a page, each has one, and those that have none can get one; what is lent comes out of
    /// the reserve.
    pub(crate) fn lendable(&self) -> u64 {
        let reserve = self.pages - self.blocks;
        reserve.saturating_sub(self.at_once().max(reserve / SPARE))
    }
}

impl PageTable {
    /// What can be lent to fill: all of that, but for the share of views.
    fn to_fill(&self) -> u64 {
        self.lendable() - self.pins.set_aside()
    }

    pub(crate) fn lendable(&self) -> u64 {
        self.config.lendable()
    }

    fn set_entries(&self, entries: &[(u64, u32)]) -> Result<()> {
        self.may_change()?;
        entries.iter().try_for_each(|(block, _)| self.in_range(*block, 0, 0))?;
        let mut state = self.state.write();
        let mut seen = std::collections::BTreeSet::new();
        for (block, page) in entries {
            // It has it, for its readers or durably.
            let (now, durable) = (state.map[*block as usize], state.late.get(block).map_or(0, |late| late.old));
            let has = page.checked_add(1).is_some_and(|entry| entry == now || entry == durable);
            if !seen.insert(page) || !(has || self.free.lock().is_for_an_entry(*page)) {
                return Err(TableError::NotLent { pool: self.nvm.name().into(), block: *block, page: *page });
            }
        }
        for (block, page) in entries {
            if state.map[*block as usize] != page + 1 {
                self.switch(&mut state, *block, Some(*page));
                self.free.lock().is_named(*page);
            }
        }
        Ok(())
    }
}

impl PageLender for PageTable {
    fn page_bytes(&self) -> u32 {
        PAGE as u32
    }

    fn lent(&self) -> u64 {
        self.free.lock().lent()
    }

    fn most_lent(&self) -> u64 {
        self.to_fill()
    }

    fn pin_page(&self, page: u32, bounded: bool) -> ondol_block::Result<Option<Pinned>> {
        self.lease_page(page, bounded).map_err(|e| self.failed("read", 0, PAGE, e))
    }

    fn map(&self, parts: &[MapPart<'_>]) -> ondol_block::Result<Option<Box<dyn Mapped>>> {
        self.map_parts(parts).map_err(|e| self.failed("read", 0, 0, e))
    }

    fn own(&self, blocks: &[Range<u64>]) -> ondol_block::Result<Own> {
        let len = blocks.iter().map(|run| run.end.saturating_sub(run.start)).sum::<u64>() * PAGE;
        self.own_blocks(blocks).map_err(|e| self.failed("own", blocks.first().map_or(0, |run| run.start), len, e))
    }

    fn page_use(&self) -> PageUse {
        self.pins.stats(self.config.pages)
    }

    fn lend(&self, count: u64) -> ondol_block::Result<Option<Vec<u32>>> {
        self.may_change().map_err(|e| self.failed("lend", 0, count * PAGE, e))?;
        // The share of views is set aside under this lock.
        let lend = || {
            let (mut free, most) = (self.free.lock(), self.to_fill());
            let lent = free.lend(count, most);
            let lacks_pages = lent.is_none() && free.lent() + count <= most;
            (lent, lacks_pages)
        };
        match lend() {
            (None, true) => {
                self.pins.part_held(count);
                Ok(lend().0)
            }
            (lent, _) => Ok(lent),
        }
    }

    fn claim(&self, pages: &[u32]) {
        let mut free = self.free.lock();
        pages.iter().for_each(|page| free.claim(*page));
    }

    fn remap(&self, entries: &[(u64, u32)]) -> ondol_block::Result<()> {
        let len = entries.len() as u64 * PAGE;
        self.set_entries(entries).map_err(|e| self.failed("remap", 0, len, e))
    }

    fn give(&self, pages: &[u32]) {
        let mut free = self.free.lock();
        pages.iter().for_each(|page| free.end_loan(*page));
    }
}
