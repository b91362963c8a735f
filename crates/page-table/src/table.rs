//! A table in use: the map in memory, what of it is not durable yet, and reading.

use crate::error::{Result, TableError};
use crate::format::{Config, Seal};
use crate::free::Free;
use crate::map::Map;
use crate::pins::{Pins, Sight};
use crate::view::Views;
use ondol_block::Counters;
use ondol_env::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex, RwLock};
use ondol_medium::{Nvm, PAGE};
use std::collections::BTreeMap;

/// A page table in NVM, attached. Any number of threads read, write and swap at the same time.
///
/// Dropping it leaves what is durable where it is, for [`PageTable::attach`].
#[derive(Debug)]
pub struct PageTable {
    pub(crate) nvm: Arc<Nvm>,
    /// As messages name it.
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) seal: Seal,
    pub(crate) state: RwLock<State>,
    /// Locked after the state, or alone.
    pub(crate) free: Arc<Mutex<Free>>,
    pub(crate) pins: Arc<Pins>,
    pub(crate) counters: Counters,
    /// A change of the map has failed on its way.
    pub(crate) failed: AtomicBool,
    /// Pages as undoing leaves them, of a table that is only read.
    pub(crate) patched: BTreeMap<u32, Vec<u8>>,
}

/// The map.
#[derive(Debug)]
pub(crate) struct State {
    /// For each block the number of its page plus one, or zero: what readers see.
    pub(crate) map: Vec<u32>,
    /// Blocks whose entry on the medium is another.
    pub(crate) late: BTreeMap<u64, Late>,
    /// Number of the next transaction.
    pub(crate) number: u32,
    pub(crate) views: Views,
}

/// A block that was written since the map was made durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// What the durable entry has: a page plus one, or zero. It is free once the new entry is durable.
    pub(crate) old: u32,
    /// The new page is not durable either.
    pub(crate) unfenced: bool,
}

/// A page that is nobody's: filled, then given to [`crate::Transaction::remap`]. One that is dropped is free again
/// after the next attach.
#[derive(Debug)]
#[must_use = "a page that is dropped is lost until the table is attached again"]
pub struct Page(pub(crate) u32);

impl Page {
    /// Its physical block number.
    pub fn number(&self) -> u32 {
        self.0
    }
}

/// How a table is used now. Numbers of blocks and pages, 4096 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Blocks of the image.
    pub blocks: u64,
    /// Pages of the data area.
    pub pages: u64,
    /// Pages that nothing needs.
    pub free: u64,
    /// Blocks whose newest contents are not durable.
    pub late: u64,
    /// Pages that nothing but pins keeps.
    pub held: u64,
}

impl PageTable {
    pub(crate) fn new(nvm: Arc<Nvm>, config: Config, map: Map, number: u32, patched: BTreeMap<u32, Vec<u8>>) -> Self {
        let mut free = Free::all_but(config.pages, &map.used);
        let sight = Sight::new(nvm.clone(), config.page_at(0));
        free.heed(sight.clone());
        let free = Arc::new(Mutex::new(free));
        let pins = Arc::new(Pins::new(sight, free.clone(), config.lendable()));
        Self {
            name: format!("nvm:{}", nvm.name()),
            nvm,
            seal: Seal::new(config.uuid),
            config,
            state: RwLock::new(State { map: map.pages, late: BTreeMap::new(), number, views: Views::default() }),
            free,
            pins,
            counters: Counters::default(),
            failed: AtomicBool::new(false),
            patched,
        }
    }

    /// The memory below.
    pub fn nvm(&self) -> &Arc<Nvm> {
        &self.nvm
    }

    /// How it is used now.
    pub fn stats(&self) -> TableStats {
        let late = self.state.read().late.len() as u64;
        let (free, held) = {
            let free = self.free.lock();
            (free.count(), free.held().len() as u64)
        };
        TableStats { blocks: self.config.blocks, pages: self.config.pages, free, late, held }
    }

    /// Lines of 64 bytes that the undo records of one transaction can have.
    pub fn log_lines(&self) -> u64 {
        self.config.log_lines()
    }

    /// The page that a block is mapped to, if any: what readers see, durable or not.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn page(&self, block: u64) -> Result<Option<u32>> {
        self.in_range(block, 0, 0)?;
        Ok(self.state.read().map[block as usize].checked_sub(1))
    }

    pub(crate) fn in_range(&self, block: u64, offset: u64, len: u64) -> Result<()> {
        let (blocks, end) = (self.config.blocks, offset.saturating_add(len));
        if block < blocks && end <= PAGE {
            return Ok(());
        }
        Err(TableError::OutOfRange { pool: self.nvm.name().into(), block, offset, end, blocks })
    }

    /// Reads bytes of the image, which are in its range. Blocks without a page are zeros.
    pub(crate) fn read_at(&self, mut offset: u64, mut buf: &mut [u8]) -> Result<()> {
        let state = self.state.read();
        while !buf.is_empty() {
            let (block, within) = (offset / PAGE, offset % PAGE);
            let len = buf.len().min((PAGE - within) as usize);
            let (part, rest) = buf.split_at_mut(len);
            self.read_page(state.map[block as usize], within, part)?;
            (offset, buf) = (offset + len as u64, rest);
        }
        Ok(())
    }

    /// Reads bytes of what an entry of the map says.
    pub(crate) fn read_page(&self, entry: u32, within: u64, buf: &mut [u8]) -> Result<()> {
        let Some(page) = entry.checked_sub(1) else {
            buf.fill(0);
            return Ok(());
        };
        if let Some(bytes) = self.patched.get(&page).and_then(|page| page.get(within as usize..)?.get(..buf.len())) {
            buf.copy_from_slice(bytes);
            return Ok(());
        }
        Ok(self.nvm.read(self.config.page_at(page) + within, buf)?)
    }

    /// Whether it may be changed.
    pub(crate) fn may_change(&self) -> Result<()> {
        let pool = || self.nvm.name().to_owned();
        if self.nvm.is_read_only() {
            return Err(TableError::ReadOnly { pool: pool() });
        }
        if self.failed.load(Relaxed) {
            return Err(TableError::Stopped { pool: pool() });
        }
        Ok(())
    }

    /// Nobody knows what the medium has of the map now: nothing is changed any more.
    pub(crate) fn fail<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.failed.store(true, Relaxed);
        }
        result
    }
}
