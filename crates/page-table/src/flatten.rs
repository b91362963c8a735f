//! Flattening: every block that has a page gets the page of its own number, in place, so that what lies side by side in
//! the image lies side by side in memory.
//!
//! ```text
//!   for some pages at once:   copy who else lies there to free pages ─▶ fence ─▶ entries ─▶ fence
//!                             ─▶ copy the blocks that belong there ─▶ fence ─▶ entries ─▶ fence
//! ```
//!
//! A block is copied to a free page first and its entry follows, one word: at any instant each block has its contents,
//! whatever of this is durable. So a crash leaves a table that is partly flat, and flattening it again goes on from
//! there.

use crate::error::{Result, TableError};
use crate::format::{Config, Seal};
use crate::free::Free;
use crate::table::PageTable;
use ondol_medium::{Nvm, PAGE};

/// Pages that are made right at once, at most: so many share four fences.
const AT_ONCE: u64 = 256;

/// What flattening has done. Numbers of blocks and pages, 4096 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flattened {
    /// Blocks that have a page.
    pub mapped: u64,
    /// Blocks that were in another page than their own.
    pub moved: u64,
    /// Pages that were copied: one for each of those blocks, and one more for each that had to make room.
    pub copied: u64,
}

/// How far a map is from the identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flatness {
    /// Ranges of blocks whose pages follow each other: mappings that a view of all blocks takes, but for those of
    /// zeros.
    pub extents: u64,
    /// Blocks that have another page than that of their own number.
    pub displaced: u64,
}

impl Flatness {
    /// Of entries: a page plus one each, or zero.
    pub(crate) fn of(map: &[u32]) -> Self {
        let mut flatness = Self::default();
        let mut before = 0;
        for (block, entry) in (0u64..).zip(map) {
            if *entry != 0 {
                flatness.extents += u64::from(before == 0 || *entry != before + 1);
                flatness.displaced += u64::from(u64::from(*entry) != block + 1);
            }
            before = *entry;
        }
        flatness
    }
}

impl PageTable {
    /// How far the map that readers see is from the identity.
    pub fn flatness(&self) -> Flatness {
        Flatness::of(&self.state.read().map)
    }

    /// Gives every block that has a page the page of its own number. Durable when this returns, and everything that was
    /// written before; a crash on the way leaves every block as it was, and a part of the work done. Takes 4 bytes of
    /// memory for each page, copies each block at most twice, and leaves blocks without a page alone.
    ///
    /// # Errors
    /// `ReadOnly`, `Stopped`, `NoPages` where not one page is free; `InHands` where somebody holds, has borrowed or
    /// reads pages in place; the medium's failure: a lost line in a page that would have to move stops it there.
    pub fn flatten(&mut self) -> Result<Flattened> {
        self.may_change()?;
        self.persist()?;
        let (state, mut free) = (&mut *self.state.write(), self.free.lock());
        let (blocks, mapped) = (self.config.blocks, state.map.iter().filter(|entry| **entry != 0).count() as u64);
        let is_pinned = |entry: &&u32| entry.checked_sub(1).is_some_and(|page| self.is_pinned(page));
        let pinned = state.map.iter().filter(is_pinned).count() as u64;
        let beside = self.config.pages - mapped - free.count() + pinned;
        if beside > 0 {
            return Err(TableError::InHands { pool: self.nvm.name().into(), pages: beside });
        }
        if free.count() == 0 {
            return Err(TableError::NoPages { pool: self.nvm.name().into() });
        }
        let mut owners = vec![0; self.config.pages as usize];
        for (block, entry) in (0..).zip(&state.map).filter(|(_, entry)| **entry != 0) {
            owners[*entry as usize - 1] = block + 1;
        }
        let done = Flattened { mapped, ..Flattened::default() };
        let (nvm, config, seal) = (&*self.nvm, &self.config, self.seal);
        let spare = self.config.pages - 1;
        let mut work = Work { nvm, config, seal, map: &mut state.map, owners, free: &mut free, spare, done };
        let mut first = 0;
        while first < blocks {
            let end = (first + AT_ONCE.min(work.free.count())).min(blocks);
            if let Err(e) = work.settle(first..end) {
                // What is durable of it nobody knows; of the copies that were made before, nothing is lost.
                self.failed.store(true, ondol_env::sync::atomic::Ordering::Relaxed);
                return Err(e);
            }
            first = end;
        }
        Ok(work.done)
    }
}

/// A block that goes from a page to another.
struct Move {
    block: u64,
    from: u32,
    to: u32,
}

struct Work<'t> {
    nvm: &'t Nvm,
    config: &'t Config,
    seal: Seal,
    map: &'t mut [u32],
    /// For each page the block that it belongs to plus one, or zero.
    owners: Vec<u32>,
    free: &'t mut Free,
    /// Where the search for a free page goes on, downwards: the reserve lies at the end.
    spare: u64,
    done: Flattened,
}

impl Work<'_> {
    /// Puts the blocks of a range into their pages. There are as many free pages.
    fn settle(&mut self, range: std::ops::Range<u64>) -> Result<()> {
        let is_wrong = |map: &[u32], block: &u64| {
            let entry = map[*block as usize];
            entry != 0 && u64::from(entry) != block + 1
        };
        let wrong: Vec<u64> = range.clone().filter(|block| is_wrong(self.map, block)).collect();
        let mut away = Vec::new();
        for page in &wrong {
            if let Some(block) = self.owners[*page as usize].checked_sub(1) {
                let to = self.room_for(u64::from(block), &range)?;
                away.push(Move { block: block.into(), from: *page as u32, to });
            }
        }
        self.go(&away)?;
        // Some were put into their own pages already, to make room.
        let wrong = wrong.into_iter().filter(|block| is_wrong(self.map, block));
        let home: Vec<Move> =
            wrong.map(|block| Move { block, from: self.map[block as usize] - 1, to: block as u32 }).collect();
        for to in &home {
            let taken = self.free.take_this(to.to);
            debug_assert!(taken, "page {} is free now", to.to);
        }
        self.go(&home)
    }

    /// Takes a free page: the block's own, or one outside of `range`.
    fn room_for(&mut self, block: u64, range: &std::ops::Range<u64>) -> Result<u32> {
        if self.free.take_this(block as u32) {
            return Ok(block as u32);
        }
        for _ in 0..self.config.pages {
            let page = self.spare;
            self.spare = page.checked_sub(1).unwrap_or(self.config.pages - 1);
            if !range.contains(&page) && self.free.take_this(page as u32) {
                return Ok(page as u32);
            }
        }
        Err(TableError::NoPages { pool: self.nvm.name().into() })
    }

    /// Copies, then changes the entries; after that the old pages are free.
    fn go(&mut self, moves: &[Move]) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        let (mut batch, mut bytes) = (self.nvm.stored(), [0; PAGE as usize]);
        for Move { from, to, .. } in moves {
            self.nvm.read(self.config.page_at(*from), &mut bytes)?;
            batch.copy(self.config.page_at(*to), &bytes)?;
        }
        let word = |of: &Move| (self.config.entry_at(of.block), self.seal.entry(of.block, Some(of.to)));
        let words: Vec<(u64, u64)> = moves.iter().map(word).collect();
        let fenced = batch.write_back().fence()?;
        fenced.publish_all(&words)?;
        for Move { block, from, to } in moves {
            self.map[*block as usize] = to + 1;
            self.owners[*from as usize] = 0;
            self.owners[*to as usize] = *block as u32 + 1;
            self.free.give(*from);
            self.done.moved += u64::from(u64::from(*to) == *block);
        }
        self.done.copied += moves.len() as u64;
        Ok(())
    }
}
