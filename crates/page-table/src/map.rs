//! The map as it is read when a table is attached or checked: every entry checks itself, and no two of them name one
//! page.

use crate::error::{MapFault, Result};
use crate::format::{Config, ENTRY, Seal};
use crate::free;
use ondol_medium::{Nvm, NvmError, PAGE};
use std::collections::BTreeMap;

/// What the map says.
pub(crate) struct Map {
    /// For each block the number of its page plus one, or zero.
    pub(crate) pages: Vec<u32>,
    /// A bit for each page that is named.
    pub(crate) used: Vec<u64>,
    /// What is wrong with it: the first faults, and how many there are.
    pub(crate) faults: Vec<MapFault>,
    pub(crate) fault_count: u64,
}

/// Faults that are kept.
const MOST_FAULTS: usize = 1000;

impl Map {
    /// Reads it. `instead`: entries that are to be taken for those that are there.
    pub(crate) fn read(nvm: &Nvm, config: &Config, seal: Seal, instead: &BTreeMap<u64, u64>) -> Result<Self> {
        let mut map = Self {
            pages: vec![0; config.blocks as usize],
            used: free::none(config.pages),
            faults: Vec::new(),
            fault_count: 0,
        };
        let mut bytes = [0; PAGE as usize];
        let each = PAGE / ENTRY;
        for first in (0..config.blocks).step_by(each as usize) {
            let count = each.min(config.blocks - first);
            let part = &mut bytes[..(count * ENTRY) as usize];
            match nvm.read(config.entry_at(first), part) {
                Ok(()) => {}
                Err(NvmError::Poisoned { .. }) => {
                    map.one_by_one(nvm, config, seal, first..first + count, instead)?;
                    continue;
                }
                Err(e) => return Err(e.into()),
            }
            for (block, word) in (first..).zip(part.chunks_exact(ENTRY as usize)) {
                let word = word.first_chunk().copied().map_or(0, u64::from_le_bytes);
                map.take(config, seal, block, instead.get(&block).copied().unwrap_or(word));
            }
        }
        Ok(map)
    }

    /// Where the medium has lost lines: which entries are in them.
    fn one_by_one(
        &mut self,
        nvm: &Nvm,
        config: &Config,
        seal: Seal,
        blocks: std::ops::Range<u64>,
        instead: &BTreeMap<u64, u64>,
    ) -> Result<()> {
        for block in blocks {
            match nvm.load_u64(config.entry_at(block)) {
                Ok(word) => self.take(config, seal, block, instead.get(&block).copied().unwrap_or(word)),
                Err(NvmError::Poisoned { offset, .. }) => self.fault(MapFault::Lost { block, offset }),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn take(&mut self, config: &Config, seal: Seal, block: u64, word: u64) {
        match seal.page(block, word) {
            None => self.fault(MapFault::Checksum { block, word }),
            Some(None) => {}
            Some(Some(page)) if u64::from(page) >= config.pages => {
                self.fault(MapFault::Range { block, page, pages: config.pages });
            }
            Some(Some(page)) if free::mark(&mut self.used, page) => self.fault(MapFault::Shared { block, page }),
            Some(Some(page)) => self.pages[block as usize] = page + 1,
        }
    }

    fn fault(&mut self, fault: MapFault) {
        self.fault_count += 1;
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }
}
