//! The undo log: what a transaction leaves there before it changes anything, and how it is undone.
//!
//! Line 0 begins with the state, one word. The records of the transaction follow from line 1 on; they count only while
//! the state says that this transaction is open, which is stored after they are durable. So all of them are there then,
//! and one that is not is damage.

use crate::error::{LogFault, Result, TableError};
use crate::format::{Config, LINE, LogState, Place, Seal, Undo};
use ondol_medium::{Fenced, Nvm, NvmError, PAGE, Published};
use std::collections::BTreeMap;

/// The log of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log<'t> {
    pub(crate) nvm: &'t Nvm,
    pub(crate) config: &'t Config,
    pub(crate) seal: Seal,
}

/// What a log is found to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) state: LogState,
    /// Of an open transaction: its undo records, oldest first.
    pub(crate) undo: Vec<Undo>,
}

impl<'t> Log<'t> {
    /// Reads the log. Changes nothing.
    pub(crate) fn read(&self) -> Result<Found> {
        let word = match self.nvm.load_u64(self.config.line_at(0)) {
            Err(NvmError::Poisoned { offset, .. }) => return Err(self.damaged(LogFault::Lost(offset))),
            other => other?,
        };
        let state = self.seal.log_state(word).ok_or_else(|| self.damaged(LogFault::State(word)))?;
        let mut undo = Vec::new();
        if state.open {
            let mut line = 1;
            loop {
                let (total, record) = self.record(state.number, line)?;
                line += record.lines() as u32;
                undo.push(record);
                if line == total.saturating_add(1) {
                    break;
                }
                if line > total {
                    return Err(self.damaged(LogFault::Record { number: state.number, line }));
                }
            }
        }
        Ok(Found { state, undo })
    }

    fn record(&self, number: u32, line: u32) -> Result<(u32, Undo)> {
        let broken = || self.damaged(LogFault::Record { number, line });
        let most = self.config.log_lines();
        if u64::from(line) > most {
            return Err(broken());
        }
        let mut head = [0; LINE as usize];
        self.read_lines(line, &mut head)?;
        let len = Seal::record_len(&head).ok_or_else(broken)?;
        if u64::from(line) + len as u64 / LINE > most + 1 {
            return Err(broken());
        }
        let mut bytes = vec![0; len];
        self.read_lines(line, &mut bytes)?;
        let (total, undo) = self.seal.decode(&bytes, number, line).ok_or_else(broken)?;
        let in_range = match &undo {
            Undo::Entries(entries) => entries.iter().all(|(block, word)| self.is_entry(*block, *word)),
            Undo::Bytes { page, offset, old } => {
                u64::from(*page) < self.config.pages && u64::from(*offset) + old.len() as u64 <= PAGE
            }
        };
        if in_range && u64::from(total) <= most { Ok((total, undo)) } else { Err(broken()) }
    }

    /// Whether the map can have this word for this block.
    fn is_entry(&self, block: u64, word: u64) -> bool {
        let in_range = |page: Option<u32>| page.is_none_or(|page| u64::from(page) < self.config.pages);
        block < self.config.blocks && self.seal.page(block, word).is_some_and(in_range)
    }

    fn read_lines(&self, line: u32, buf: &mut [u8]) -> Result<()> {
        match self.nvm.read(self.config.line_at(line), buf) {
            Err(NvmError::Poisoned { offset, .. }) => Err(self.damaged(LogFault::Lost(offset))),
            other => Ok(other?),
        }
    }

    fn damaged(&self, what: LogFault) -> TableError {
        TableError::Log { pool: self.nvm.name().into(), what }
    }

    /// Makes the undo records of a transaction durable, then opens it.
    pub(crate) fn open(&self, number: u32, undo: &[Undo]) -> Result<Published<'t>> {
        let total = undo.iter().map(Undo::lines).sum::<u64>() as u32;
        let mut batch = self.nvm.stored();
        let mut line = 1;
        for record in undo {
            let place = Place { number, line, total };
            batch.store(self.config.line_at(line), &self.seal.encode(place, record))?;
            line += record.lines() as u32;
        }
        let open = self.seal.state(LogState { number, open: true });
        let fenced = batch.write_back().fence()?;
        Ok(fenced.publish(self.config.line_at(0), open)?)
    }

    /// No transaction is open any more: it is committed, or undone.
    pub(crate) fn close(&self, fenced: &Fenced<'_>, number: u32) -> Result<()> {
        fenced.publish(self.config.line_at(0), self.seal.state(LogState { number, open: false }))?;
        Ok(())
    }

    /// Undoes what an open transaction may have changed, the newest first, and closes it. It can be cut anywhere, and
    /// repeated.
    pub(crate) fn undo(&self, found: &Found) -> Result<()> {
        let mut batch = self.nvm.stored();
        let records: Vec<&Undo> = found.undo.iter().rev().collect();
        for record in records {
            match record {
                Undo::Entries(entries) => {
                    for (block, word) in entries.iter().rev() {
                        batch.store_u64(self.config.entry_at(*block), *word)?;
                    }
                }
                Undo::Bytes { page, offset, old } => {
                    batch.store(self.config.page_at(*page) + u64::from(*offset), old)?;
                }
            }
        }
        let fenced = batch.write_back().fence()?;
        self.close(&fenced, found.state.number)
    }
}

/// Entries of the map by block, and pages by number.
pub(crate) type Undone = (BTreeMap<u64, u64>, BTreeMap<u32, Vec<u8>>);

/// What undoing would make of the map and of pages, for a table that is only read.
pub(crate) fn undone(nvm: &Nvm, config: &Config, found: &Found) -> Result<Undone> {
    let mut pages = BTreeMap::new();
    for record in found.undo.iter().rev() {
        match record {
            Undo::Entries(_) => {}
            Undo::Bytes { page, offset, old } => {
                let bytes: &mut Vec<u8> = match pages.entry(*page) {
                    std::collections::btree_map::Entry::Occupied(kept) => kept.into_mut(),
                    std::collections::btree_map::Entry::Vacant(free) => {
                        let mut bytes = vec![0; PAGE as usize];
                        nvm.read(config.page_at(*page), &mut bytes)?;
                        free.insert(bytes)
                    }
                };
                bytes[*offset as usize..*offset as usize + old.len()].copy_from_slice(old);
            }
        }
    }
    Ok((undone_entries(found), pages))
}

/// The entries alone: no page is read.
pub(crate) fn undone_entries(found: &Found) -> BTreeMap<u64, u64> {
    let old = found.undo.iter().rev().filter_map(|record| match record {
        Undo::Entries(old) => Some(old.iter().rev().copied()),
        Undo::Bytes { .. } => None,
    });
    old.flatten().collect()
}
