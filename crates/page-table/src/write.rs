//! Writing, copy-on-write: a page that the durable map names is never stored to. New contents go to a free page,
//! readers see it at once, and the entry follows when the map is made durable; only then is the old page free.

use crate::error::{Result, TableError};
use crate::format::Config;
use crate::table::{Late, Page, PageTable, State};
use ondol_env::sync::thread;
use ondol_medium::{Domain, PAGE, Stored};
use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::io::IoSlice;

/// Pages that a writer takes at once, at most.
const AT_ONCE: u64 = 64;
/// With so many blocks whose entries are not durable, they are made so.
const MOST_LATE: usize = 16_384;

/// The bytes of several buffers, one behind the other.
pub(crate) struct Source<'b> {
    bufs: &'b [IoSlice<'b>],
    /// A buffer and the place of its first byte: the last that was looked at, since a commit has thousands, and they
    /// are taken in order.
    seen: Cell<(usize, u64)>,
}

impl<'b> Source<'b> {
    pub(crate) fn new(bufs: &'b [IoSlice<'b>]) -> Self {
        Self { bufs, seen: Cell::new((0, 0)) }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bufs.iter().map(|buf| buf.len() as u64).sum()
    }

    /// Calls `each` for the parts of `len` bytes from `from` on, with the place of each among those.
    fn parts(&self, from: u64, len: u64, mut each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let end = from + len;
        let (mut at, mut start) = if self.seen.get().1 <= from { self.seen.get() } else { (0, 0) };
        while start < end && at < self.bufs.len() {
            self.seen.set((at, start));
            let buf = &self.bufs[at];
            let stop = start + buf.len() as u64;
            let (first, last) = (start.max(from), stop.min(end));
            if first < last {
                each(first - from, &buf[(first - start) as usize..(last - start) as usize])?;
            }
            (at, start) = (at + 1, stop);
        }
        Ok(())
    }
}

impl Config {
    /// Pages that a writer takes at once: half of the reserve at most, which is free when the map is durable, as far as
    /// other writers have none of it.
    pub(crate) fn at_once(&self) -> u64 {
        AT_ONCE.min((self.pages - self.blocks) / 2).max(1)
    }
}

impl PageTable {
    /// Writes bytes of the image, which are in its range.
    pub(crate) fn write_at(&self, offset: u64, source: &Source<'_>) -> Result<()> {
        self.may_change()?;
        let (mut at, end) = (offset, offset + source.len());
        while at < end {
            let (block, within, from) = (at / PAGE, at % PAGE, at - offset);
            let pages = if within == 0 { ((end - at) / PAGE).min(self.config.at_once()) } else { 0 };
            if pages > 0 {
                self.write_pages(block, pages, source, from)?;
                at += pages * PAGE;
            } else {
                let len = (PAGE - within).min(end - at);
                self.write_part(block, within, source, from, len)?;
                at += len;
            }
        }
        if self.state.read().late.len() > MOST_LATE {
            self.persist()?;
        }
        Ok(())
    }

    /// Whole pages: they are filled before anybody waits.
    fn write_pages(&self, block: u64, count: u64, source: &Source<'_>, from: u64) -> Result<()> {
        let pages = self.take(count)?;
        let filled = self.fill_pages(&pages, source, from);
        if filled.is_ok() {
            let mut state = self.state.write();
            for (block, page) in (block..).zip(&pages) {
                self.switch(&mut state, block, Some(*page));
            }
        }
        self.let_go(count, if filled.is_ok() { &[] } else { &pages });
        filled
    }

    fn fill_pages(&self, pages: &[u32], source: &Source<'_>, from: u64) -> Result<()> {
        let mut batch = self.nvm.stored();
        for (from, page) in (from..).step_by(PAGE as usize).zip(pages) {
            let start = self.config.page_at(*page);
            source.parts(from, PAGE, |at, part| self.put(&mut batch, start + at, part))?;
        }
        self.finish(batch)
    }

    /// A part of a page: in place where no durable entry names it and nobody has borrowed it or reads it in place, in a
    /// copy otherwise.
    pub(crate) fn write_part(&self, block: u64, within: u64, source: &Source<'_>, from: u64, len: u64) -> Result<()> {
        let pages = self.take(1)?;
        let mut state = self.state.write();
        let own = state.map[block as usize].checked_sub(1).filter(|_| state.late.contains_key(&block));
        // Nobody pins it as long as the map is held here alone.
        let own = own.filter(|page| !self.free.lock().is_lent(*page) && !self.is_pinned(*page));
        let written = match own {
            Some(page) => {
                state.views.hide(block);
                let mut batch = self.nvm.stored();
                let start = self.config.page_at(page) + within;
                let put = source.parts(from, len, |at, part| self.put(&mut batch, start + at, part));
                put.and_then(|()| self.finish(batch)).map(|()| false)
            }
            None => self.copy_with(&mut state, block, pages[0], |bytes| {
                source.parts(from, len, |at, part| {
                    let start = (within + at) as usize;
                    bytes[start..start + part.len()].copy_from_slice(part);
                    Ok(())
                })
            }),
        };
        drop(state);
        self.let_go(1, if matches!(written, Ok(true)) { &[] } else { &pages });
        written.map(drop)
    }

    /// Maps a block to `page` with its old contents changed. True: it has the page now.
    fn copy_with(
        &self,
        state: &mut State,
        block: u64,
        page: u32,
        change: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut bytes = [0; PAGE as usize];
        self.read_page(state.map[block as usize], 0, &mut bytes)?;
        change(&mut bytes)?;
        let mut batch = self.nvm.stored();
        self.put(&mut batch, self.config.page_at(page), &bytes)?;
        self.finish(batch)?;
        self.switch(state, block, Some(page));
        Ok(true)
    }

    /// Where stores wait for `msync`, they are left to the next flush of the map; everywhere else each writer fences
    /// its own.
    fn is_lazy(&self) -> bool {
        self.nvm.domain() == Domain::Msync
    }

    fn put(&self, batch: &mut Stored<'_>, at: u64, bytes: &[u8]) -> Result<()> {
        let stored = if self.is_lazy() { batch.store(at, bytes) } else { batch.copy(at, bytes) };
        Ok(stored?)
    }

    fn finish(&self, batch: Stored<'_>) -> Result<()> {
        if !self.is_lazy() {
            batch.write_back().fence()?;
        }
        Ok(())
    }

    /// Readers see another page of a block from now on.
    pub(crate) fn switch(&self, state: &mut State, block: u64, page: Option<u32>) {
        state.views.hide(block);
        let before = std::mem::replace(&mut state.map[block as usize], page.map_or(0, |page| page + 1));
        state.views.changed(block, &state.map);
        let unfenced = page.is_some() && self.is_lazy();
        match state.late.entry(block) {
            Entry::Occupied(mut late) => {
                late.get_mut().unfenced = unfenced;
                let durable = late.get().old;
                if state.map[block as usize] == durable {
                    // It has its page back, as a lent one can.
                    late.remove();
                }
                // The medium never had it.
                if let Some(page) = before.checked_sub(1).filter(|_| before != durable) {
                    self.free.lock().give(page);
                }
            }
            Entry::Vacant(late) => {
                late.insert(Late { old: before, unfenced });
            }
        }
    }

    /// Takes pages into this writer's hands. Pages become free when the map is made durable, and when other writers are
    /// done.
    fn take(&self, count: u64) -> Result<Vec<u32>> {
        loop {
            if let Some(pages) = self.free.lock().take(count) {
                return Ok(pages);
            }
            if !self.may_have(count)? {
                thread::yield_now();
            }
        }
    }

    /// Makes the map durable; whether so many pages are free then. If not, others have them in hands, who give them to
    /// the map or back.
    fn may_have(&self, count: u64) -> Result<bool> {
        let state = &mut *self.state.write();
        self.persist_state(state)?;
        state.views.remap(&state.map);
        let is_short = self.free.lock().count() < count;
        if is_short {
            self.pins.part_held(count);
        }
        // Before the last look at what is free: whatever is under way now and not then has become free.
        let more_to_come = is_short && self.pins.maps.give_soon();
        // Nothing becomes late while the map is held here, so what is not free is mapped, lent, pinned, or in hands.
        let free = self.free.lock();
        if free.count() < count && free.in_hands() == 0 && !more_to_come {
            return Err(TableError::NoPages { pool: self.nvm.name().into() });
        }
        Ok(free.count() >= count)
    }

    fn let_go(&self, count: u64, back: &[u32]) {
        let mut free = self.free.lock();
        free.let_go(count);
        back.iter().for_each(|page| free.give(*page));
    }

    /// Takes the pages from all blocks that lie in these bytes of the image: they read as zeros.
    pub(crate) fn unmap(&self, offset: u64, len: u64) -> Result<()> {
        self.may_change()?;
        let mut state = self.state.write();
        for block in offset.div_ceil(PAGE)..(offset + len) / PAGE {
            if state.map[block as usize] != 0 {
                self.switch(&mut state, block, None);
            }
        }
        Ok(())
    }

    /// Makes everything durable that was written before: a fence for what lies in pages, then one for all entries of
    /// the map. Each entry is there after a crash on the way, or not.
    ///
    /// # Errors
    /// The medium's failure, after which nothing is changed any more.
    pub fn persist(&self) -> Result<()> {
        let state = &mut *self.state.write();
        self.persist_state(state)?;
        state.views.remap(&state.map);
        Ok(())
    }

    pub(crate) fn persist_state(&self, state: &mut State) -> Result<()> {
        if state.late.is_empty() {
            return Ok(());
        }
        self.may_change()?;
        self.fail(self.publish(state))?;
        let mut free = self.free.lock();
        for (block, late) in std::mem::take(&mut state.late) {
            // A block may have got a lent page back that it had.
            let replaced = late.old.checked_sub(1).filter(|_| late.old != state.map[block as usize]);
            replaced.into_iter().for_each(|page| free.give(page));
        }
        Ok(())
    }

    fn publish(&self, state: &State) -> Result<()> {
        let mut batch = self.nvm.stored();
        let mut words = Vec::with_capacity(state.late.len());
        for (block, late) in &state.late {
            let page = state.map[*block as usize].checked_sub(1);
            if let Some(page) = page.filter(|_| late.unfenced) {
                batch.others(self.config.page_at(page), PAGE)?;
            }
            words.push((self.config.entry_at(*block), self.seal.entry(*block, page)));
        }
        // Where writers have fenced their pages, the lock has told of it.
        let fenced = match state.late.values().any(|late| late.unfenced) {
            true => batch.write_back().fence()?,
            false => self.nvm.fenced_by_others(),
        };
        fenced.publish_all(&words)?;
        Ok(())
    }

    /// Takes a free page for [`crate::Transaction::remap`].
    ///
    /// # Errors
    /// `NoPages`, `ReadOnly`; the medium's failure.
    pub fn fresh(&self) -> Result<Page> {
        self.may_change()?;
        let pages = self.take(1)?;
        self.free.lock().let_go(1);
        Ok(Page(pages[0]))
    }

    /// Stores `bytes` at `offset` of a page that no block has yet. Durable when this returns. What was not stored is
    /// undefined.
    ///
    /// # Errors
    /// `OutOfRange`; the medium's failure.
    pub fn fill(&self, page: &Page, offset: u64, bytes: &[u8]) -> Result<()> {
        self.in_range(0, offset, bytes.len() as u64)?;
        let mut batch = self.nvm.stored();
        batch.copy(self.config.page_at(page.0) + offset, bytes)?;
        batch.write_back().fence()?;
        Ok(())
    }

    /// Gives a page back that was not needed.
    pub fn give_back(&self, page: Page) {
        self.free.lock().give(page.0);
    }
}
