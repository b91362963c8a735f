//! Transactions: swaps, remaps and bytes in place, all of them or none.

use crate::error::{Result, TableError};
use crate::format::{ENTRIES, Undo};
use crate::log::Log;
use crate::table::{Page, PageTable, State};
use crate::write::Source;
use ondol_env::sync::RwLockWriteGuard;
use std::collections::BTreeMap;

/// Changes of the map, and of bytes in pages, that happen together: collected first, made by [`Transaction::commit`].
/// Dropped, it has changed nothing.
#[derive(Debug)]
#[must_use = "nothing happens before the commit"]
pub struct Transaction<'t> {
    table: &'t PageTable,
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Swap(u64, u64),
    /// The page is kept here until the block has it.
    Remap(u64, Page),
    Store {
        block: u64,
        offset: u32,
        bytes: Vec<u8>,
    },
}

impl Change {
    /// The blocks that it names. Pages that a transaction changes are pages of blocks that it names.
    fn blocks(&self) -> impl Iterator<Item = u64> {
        let (first, other) = match self {
            Self::Swap(a, b) => (*a, Some(*b)),
            Self::Remap(block, _) | Self::Store { block, .. } => (*block, None),
        };
        std::iter::once(first).chain(other)
    }
}

/// What the changes come to.
#[derive(Default)]
struct Plan {
    /// The new entries: a page plus one, or zero.
    entries: BTreeMap<u64, u32>,
    /// Page, offset, new bytes; in their order.
    stores: Vec<(u32, u32, Vec<u8>)>,
    /// Entries that are replaced, and free afterwards.
    replaced: Vec<u32>,
    undo: Vec<Undo>,
}

impl PageTable {
    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction { table: self, changes: Vec::new() }
    }

    /// Exchanges the contents of two blocks without copying them. Durable when this returns; after a crash before that
    /// both have been exchanged, or neither.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn swap(&self, a: u64, b: u64) -> Result<()> {
        let mut transaction = self.transaction();
        transaction.swap(a, b);
        transaction.commit()
    }

    /// Maps a block to a page that was filled before; its old page is free. Durable when this returns, and atomic.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn remap(&self, block: u64, page: Page) -> Result<()> {
        let mut transaction = self.transaction();
        transaction.remap(block, page);
        transaction.commit()
    }
}

impl Transaction<'_> {
    /// Exchanges the contents of two blocks.
    pub fn swap(&mut self, a: u64, b: u64) {
        self.changes.push(Change::Swap(a, b));
    }

    /// Maps a block to a page that was filled before ([`PageTable::fill`]).
    pub fn remap(&mut self, block: u64, page: Page) {
        self.changes.push(Change::Remap(block, page));
    }

    /// Stores bytes into a block in place: not into a copy of its page, since other bytes of it may be somebody's who
    /// knows of no transaction (a superblock, say). The block needs to have a page.
    pub fn store(&mut self, block: u64, offset: u32, bytes: &[u8]) {
        self.changes.push(Change::Store { block, offset, bytes: bytes.to_vec() });
    }

    /// Lines of 64 bytes that its undo records take of [`PageTable::log_lines`], at most.
    pub fn lines(&self) -> u64 {
        let (mut entries, mut lines) = (0, 0);
        for change in &self.changes {
            match change {
                Change::Swap(..) => entries += 2,
                Change::Remap(..) => entries += 1,
                Change::Store { bytes, .. } => lines += Self::lines_of(bytes.len() as u32),
            }
        }
        lines + u64::div_ceil(entries, ENTRIES as u64)
    }

    /// Lines that the undo record of so many bytes takes.
    pub(crate) fn lines_of(bytes: u32) -> u64 {
        Undo::Bytes { page: 0, offset: 0, old: vec![0; bytes as usize] }.lines()
    }

    /// Makes the changes, in their order. Durable when this returns; after a crash before that there are all of them or
    /// none. Everything that was written before is durable, too.
    ///
    /// Four fences: undo records, the transaction is open, changes, it is committed. A single entry that changes alone
    /// is one word, and takes one fence.
    ///
    /// # Errors
    /// `OutOfRange`, `Unmapped`, `TooLarge`, `ReadOnly`, or a lost line in bytes that are to be replaced: nothing was
    /// changed. The medium's failure on the way, after which nothing is changed any more and attaching undoes it.
    pub fn commit(mut self) -> Result<()> {
        let done = self.make();
        if done.is_err() && !self.table.failed.load(ondol_env::sync::atomic::Ordering::Relaxed) {
            let pages = self.changes.drain(..).filter_map(|change| match change {
                Change::Remap(_, page) => Some(page),
                _ => None,
            });
            pages.for_each(|page| self.table.give_back(page));
        }
        done
    }

    fn make(&self) -> Result<()> {
        let table = self.table;
        table.may_change()?;
        let (mut state, plan) = self.begin()?;
        let state = &mut *state;
        let lines = plan.undo.iter().map(Undo::lines).sum::<u64>();
        if lines > table.log_lines() {
            return Err(TableError::TooLarge { pool: table.nvm.name().into(), lines, most: table.log_lines() });
        }
        // The durable map is the one that readers see, from here on.
        table.persist_state(state)?;
        let plan = self.plan(state)?;
        self.changes.iter().flat_map(Change::blocks).for_each(|block| state.views.hide(block));
        table.fail(match (plan.entries.len(), plan.stores.is_empty()) {
            (0, true) => Ok(()),
            (1, true) => table.publish_one(&plan),
            _ => table.apply(&plan, state.number),
        })?;
        state.number = (state.number + 1) % crate::format::LogState::NUMBERS;
        for (block, entry) in &plan.entries {
            state.map[*block as usize] = *entry;
            state.views.changed(*block, &state.map);
        }
        state.views.remap(&state.map);
        let mut free = table.free.lock();
        plan.replaced.iter().for_each(|page| free.give(*page));
        Ok(())
    }

    /// The map, held alone, and what the changes come to: no page that bytes go to in place is read in place by
    /// somebody.
    fn begin(&self) -> Result<(RwLockWriteGuard<'_, State>, Plan)> {
        loop {
            let state = self.table.state.write();
            let plan = self.plan(&state)?;
            let pinned = plan.stores.iter().map(|(page, ..)| *page).find(|page| self.table.is_pinned(*page));
            let mut blocks = self.changes.iter().flat_map(Change::blocks);
            let has = |page: u32, block: &u64| state.map[*block as usize] == page + 1;
            match pinned.and_then(|page| blocks.find(|block| has(page, block))) {
                None => return Ok((state, plan)),
                Some(block) => {
                    drop(state);
                    // A part of nothing: it gets a copy.
                    self.table.write_part(block, 0, &Source::new(&[]), 0, 0)?;
                }
            }
        }
    }

    fn plan(&self, state: &State) -> Result<Plan> {
        let table = self.table;
        let mut plan = Plan::default();
        let now = |entries: &BTreeMap<u64, u32>, block: u64| -> Result<u32> {
            table.in_range(block, 0, 0)?;
            Ok(entries.get(&block).copied().unwrap_or(state.map[block as usize]))
        };
        for change in &self.changes {
            match change {
                Change::Swap(a, b) => {
                    let (of_a, of_b) = (now(&plan.entries, *a)?, now(&plan.entries, *b)?);
                    plan.entries.extend([(*a, of_b), (*b, of_a)]);
                }
                Change::Remap(block, page) => {
                    plan.replaced.extend(now(&plan.entries, *block)?.checked_sub(1));
                    plan.entries.insert(*block, page.0 + 1);
                }
                Change::Store { block, offset, bytes } => {
                    table.in_range(*block, u64::from(*offset), bytes.len() as u64)?;
                    let page = now(&plan.entries, *block)?.checked_sub(1);
                    let unmapped = || TableError::Unmapped { pool: table.nvm.name().into(), block: *block };
                    let page = page.ok_or_else(unmapped)?;
                    if !bytes.is_empty() {
                        let mut old = vec![0; bytes.len()];
                        table.nvm.read(table.config.page_at(page) + u64::from(*offset), &mut old)?;
                        // Bytes that this transaction stores twice are what they were before the first.
                        plan.overlay(page, *offset, &mut old);
                        plan.undo.push(Undo::Bytes { page, offset: *offset, old });
                        plan.stores.push((page, *offset, bytes.clone()));
                    }
                }
            }
        }
        plan.entries.retain(|block, entry| *entry != state.map[*block as usize]);
        let word = |block: &u64| (*block, table.seal.entry(*block, state.map[*block as usize].checked_sub(1)));
        let words: Vec<(u64, u64)> = plan.entries.keys().map(word).collect();
        plan.undo.extend(words.chunks(ENTRIES).map(|words| Undo::Entries(words.to_vec())));
        Ok(plan)
    }
}

impl Plan {
    /// Puts what was stored so far over `old`, as it is when the next store comes.
    fn overlay(&self, page: u32, offset: u32, old: &mut [u8]) {
        for (at, byte) in old.iter_mut().enumerate() {
            let place = offset as usize + at;
            let stored = self.stores.iter().rev().filter(|(of, ..)| *of == page);
            let found = stored.filter_map(|(_, from, bytes)| bytes.get(place.checked_sub(*from as usize)?)).next();
            *byte = found.copied().unwrap_or(*byte);
        }
    }
}

impl PageTable {
    /// One entry is one word: it needs no undo record.
    fn publish_one(&self, plan: &Plan) -> Result<()> {
        self.nvm.fenced_by_others().publish_all(&self.words(plan))?;
        Ok(())
    }

    fn words(&self, plan: &Plan) -> Vec<(u64, u64)> {
        let word = |(block, entry): (&u64, &u32)| {
            (self.config.entry_at(*block), self.seal.entry(*block, entry.checked_sub(1)))
        };
        plan.entries.iter().map(word).collect()
    }

    fn apply(&self, plan: &Plan, number: u32) -> Result<()> {
        let log = Log { nvm: &self.nvm, config: &self.config, seal: self.seal };
        let mut batch = self.nvm.stored();
        log.open(number, &plan.undo)?;
        for (at, word) in self.words(plan) {
            batch.store_u64(at, word)?;
        }
        for (page, offset, bytes) in &plan.stores {
            batch.store(self.config.page_at(*page) + u64::from(*offset), bytes)?;
        }
        let fenced = batch.write_back().fence()?;
        log.close(&fenced, number)
    }
}
