//! Views: blocks of the image at addresses that lie in a row, whatever pages hold them (papers/1, §III.2: `VADDR +
//! LBN·4096 → PADDR + PBN·4096`).
//!
//! The paper changes the processor's table with each swap. Here a block is *hidden* from views before its page or its
//! bytes change, and read by look-up until it is shown again: once for each transaction and flush, neighbours in one
//! call; or at once, to measure what that costs. So a view never shows what its block does not hold.
//!
//! To leave pages unused until views are mapped anew would take them from the reserve as long as nobody flushes. To
//! read first, and ask afterwards whether something has changed, could meet a mapping that the kernel takes away.

use crate::error::{Result, TableError};
use crate::table::PageTable;
use ondol_env::apart::Striped;
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{ClosedWindows, PAGE, Windows, WindowsSpec, WindowsStats};
use std::collections::BTreeSet;
use std::ops::{Deref, Range};
use std::sync::Weak;

/// Calls to the kernel that a transaction or flush makes for a view, at most: they take microseconds each, and others
/// wait.
const CALLS_AT_ONCE: usize = 256;
/// Blocks that are shown at once when a view is made, and others wait.
const BLOCKS_AT_ONCE: u64 = 4096;

/// When a block that has changed is shown again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remapping {
    /// With the transaction or flush that makes it durable.
    #[default]
    Transaction,
    /// With each change of an entry, each by a call of its own: the paper's way.
    Immediate,
}

/// A view to be made.
#[derive(Clone, Debug, Default)]
pub struct ViewSpec {
    /// The blocks.
    pub blocks: Range<u64>,
    /// When changed blocks are shown again.
    pub remapping: Remapping,
    /// Pages are entered in the processor's table when they are shown, not when they are read first.
    pub populate: bool,
    /// Mappings of the process that it may take; `None`: what other windows leave ([`ondol_medium::most_mappings`]).
    pub most_mappings: Option<u64>,
}

/// Some blocks of a table, mapped. Any number of threads read, beside others that write, swap and commit.
#[derive(Debug)]
pub struct View<T: Deref<Target = PageTable>> {
    table: T,
    shared: Arc<Shared>,
}

/// How a view is used now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewStats {
    /// Blocks that are read through the processor's table.
    pub shown: u64,
    /// Blocks that have changed and wait for the next transaction or flush.
    pub waiting: u64,
    /// Mappings that it takes of those that the process can have.
    pub mappings: u64,
    /// Calls to the kernel that changed them.
    pub calls: u64,
    /// Reads that were made by look-up, since something that they read was hidden.
    pub looked_up: u64,
    /// Why nothing is mapped at all, if so.
    pub unmapped: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    blocks: Range<u64>,
    remapping: Remapping,
    /// First byte of the data area.
    data: u64,
    /// Pages that are read elsewhere.
    patched: BTreeSet<u32>,
    windows: std::result::Result<Windows, String>,
    /// Blocks to be shown again. Locked after the table's state, before the windows.
    waiting: Mutex<BTreeSet<u64>>,
    looked_up: Striped,
}

impl<T: Deref<Target = PageTable>> View<T> {
    /// Makes a view. Where the medium cannot be mapped again, or the process has no mappings left, reads are look-ups:
    /// [`ViewStats`] says so.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn new(table: T, spec: &ViewSpec) -> Result<Self> {
        let ViewSpec { blocks, remapping, populate, most_mappings } = spec.clone();
        table.in_range(blocks.end.max(1) - 1, 0, 0)?;
        table.in_range(blocks.start, 0, 0)?;
        let data = table.config.page_at(0);
        let (pages, congruent) = (blocks.end.saturating_sub(blocks.start), data + blocks.start * PAGE);
        let windows = Windows::reserve(table.nvm(), WindowsSpec { pages, congruent, most: most_mappings, populate });
        let shared = Arc::new(Shared {
            blocks: blocks.clone(),
            remapping,
            data,
            patched: table.patched.keys().copied().collect(),
            windows: windows.map_err(|e| e.to_string()),
            waiting: Mutex::default(),
            looked_up: Striped::default(),
        });
        table.state.write().views.0.push(Arc::downgrade(&shared));
        for first in blocks.clone().step_by(BLOCKS_AT_ONCE as usize) {
            // What changes before it is shown here waits, and showing it again is free.
            let state = table.state.read();
            shared.show(first..(first + BLOCKS_AT_ONCE).min(blocks.end), &state.map, usize::MAX);
        }
        Ok(Self { table, shared })
    }

    /// The blocks.
    pub fn blocks(&self) -> Range<u64> {
        self.shared.blocks.clone()
    }

    /// Reads bytes from `offset` on, counted from the first block: what [`ondol_block::BlockStore::read`] of the table
    /// would find at some moment of this call. A block is never torn, and a transaction is seen whole or not at all.
    ///
    /// # Errors
    /// `OutsideView`; the medium's failure, a lost line among them.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let Shared { blocks, windows, looked_up, .. } = &*self.shared;
        let (end, size) = (offset.saturating_add(buf.len() as u64), blocks.end.saturating_sub(blocks.start) * PAGE);
        if end > size {
            return Err(TableError::OutsideView { pool: self.table.nvm().name().into(), offset, end, size });
        }
        if let Ok(windows) = windows
            && windows.read(offset, buf)?
        {
            return Ok(());
        }
        looked_up.add(1);
        self.table.read_at(blocks.start * PAGE + offset, buf)
    }

    /// Shows again what has changed and waits.
    pub fn refresh(&self) {
        let state = self.table.state.read();
        self.shared.remap(&state.map);
    }

    /// How it is used now.
    pub fn stats(&self) -> ViewStats {
        let waiting = self.shared.waiting.lock().len() as u64;
        let looked_up = self.shared.looked_up.sum() as u64;
        let (windows, unmapped) = match &self.shared.windows {
            Ok(windows) => (windows.stats(), None),
            Err(why) => (WindowsStats::default(), Some(why.clone())),
        };
        let WindowsStats { shown, mappings, calls } = windows;
        ViewStats { shown, waiting, mappings, calls, looked_up, unmapped }
    }
}

/// The views of a table. They are changed under the table's lock, held alone or, to show what the map has, with others.
#[derive(Debug, Default)]
pub(crate) struct Views(Vec<Weak<Shared>>);

impl Views {
    fn of(&self, block: u64) -> impl Iterator<Item = Arc<Shared>> {
        self.0.iter().filter_map(Weak::upgrade).filter(move |view| view.blocks.contains(&block))
    }

    /// The page or the bytes of a block are about to change: it is read by look-up from now on, which waits for the
    /// table's lock.
    pub(crate) fn hide(&self, block: u64) {
        for view in self.of(block) {
            if let Ok(windows) = &view.windows {
                view.waiting.lock().insert(block);
                let page = block - view.blocks.start;
                windows.close().hide(page..page + 1);
            }
        }
    }

    /// A block has changed: who asked for it has it mapped at once.
    pub(crate) fn changed(&self, block: u64, map: &[u32]) {
        for view in self.of(block).filter(|view| view.remapping == Remapping::Immediate) {
            view.waiting.lock().remove(&block);
            view.show(block..block + 1, map, usize::MAX);
        }
    }

    /// The map is durable: what has changed is shown again.
    pub(crate) fn remap(&mut self, map: &[u32]) {
        self.0.retain(|view| view.upgrade().map(|view| view.remap(map)).is_some());
    }
}

impl Shared {
    fn remap(&self, map: &[u32]) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_empty() {
            let mut calls = CALLS_AT_ONCE;
            let mut left = std::mem::take(&mut *waiting).into_iter().peekable();
            while let Some(first) = left.next_if(|_| calls > 0) {
                let mut end = first + 1;
                while left.next_if_eq(&end).is_some() {
                    end += 1;
                }
                let done = self.show(first..end, map, calls);
                calls -= done.1;
                waiting.extend(done.0..end);
            }
            waiting.extend(left);
        }
    }

    /// Shows blocks, neighbours whose pages are neighbours in one call; at most `calls`. The first block that was not
    /// tried, and the calls that were made.
    fn show(&self, blocks: Range<u64>, map: &[u32], calls: usize) -> (u64, usize) {
        let Ok(windows) = &self.windows else { return (blocks.end, 0) };
        let mut closed = windows.close();
        let (mut block, mut made) = (blocks.start, 0);
        while block < blocks.end && made < calls {
            let entry = map[block as usize];
            let follows = |n: &u64| map[(block + n) as usize] == if entry == 0 { 0 } else { entry + *n as u32 };
            let is_one = |n: &u64| follows(n) && !self.is_patched(map[(block + n) as usize]);
            let alone = self.is_patched(entry);
            let count = 1 + (1..blocks.end - block).take_while(|n| !alone && is_one(n)).count() as u64;
            self.show_run(&mut closed, block..block + count, entry);
            (block, made) = (block + count, made + 1);
        }
        (block, made)
    }

    fn is_patched(&self, entry: u32) -> bool {
        entry.checked_sub(1).is_some_and(|page| self.patched.contains(&page))
    }

    fn show_run(&self, closed: &mut ClosedWindows<'_>, blocks: Range<u64>, entry: u32) {
        let pages = blocks.start - self.blocks.start..blocks.end - self.blocks.start;
        let is_shown = match entry.checked_sub(1) {
            _ if self.is_patched(entry) => Ok(false),
            None => Ok(closed.show_zeros(pages.clone())),
            Some(page) => closed.show(pages.clone(), self.data + u64::from(page) * PAGE),
        };
        if !matches!(is_shown, Ok(true)) {
            closed.hide(pages);
        }
    }
}
