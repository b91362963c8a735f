//! The pages that one operation's record names.

use super::Core;
use super::home_pages::HomePages;
use super::pages::{NOWHERE, Pages, Waiting};
use super::record::{self, InPage};
use crate::Block;
use crate::Ranges;
use crate::Result;
use crate::area::{runs, write_runs};
use crate::cache::Buf;
use crate::change::Change;
use crate::contract::Kind;
use crate::handle::{Base, Staged};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_nvm_log::PageWrites;

/// From so great a part of a block on its data takes a page: what is less goes into the record.
pub(super) const PART: usize = 4;

/// A block that is staged, and its page.
#[derive(Debug)]
pub(super) struct Named<'d> {
    /// The block's place among those of the write set.
    pub(super) staged: usize,
    pub(super) at: InPage,
    pub(super) image: Image<'d>,
}

/// What lies in a page.
#[derive(Debug)]
pub(super) enum Image<'d> {
    /// In memory, too.
    Held(Block),
    /// It is copied there from whoever called, and nowhere else.
    Lent(&'d [u8]),
}

impl Image<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Held(image) => image,
            Self::Lent(bytes) => bytes,
        }
    }

    fn held(&self) -> Option<&Block> {
        match self {
            Self::Held(image) => Some(image),
            Self::Lent(_) => None,
        }
    }
}

/// Pages that a record is to name. Dropped, nothing names them.
pub(super) struct Naming<'p> {
    pages: Option<&'p Pages>,
    /// Or pages of the home.
    home: Option<&'p HomePages>,
    named: Vec<Named<'p>>,
    waiting: Vec<Arc<Waiting>>,
    /// Somebody should look how much waits.
    much: bool,
    /// The record has its place: what it names is given back by nobody but a checkpoint.
    has_begun: bool,
}

impl Core {
    /// Finds pages for whole blocks of file data, as far as there are any.
    pub(super) fn name_pages<'p>(&'p self, arena: &[u8], blocks: &mut [Staged<'p>]) -> Naming<'p> {
        if let Some(home) = &self.home_pages {
            return self.name_home_pages(home, arena, blocks);
        }
        let mut naming = Naming::new(self.pages.as_ref(), None, Vec::new());
        let Some(pages) = naming.pages else { return naming };
        let takes =
            |staged: &Staged<'_>| staged.kind == Kind::DATA && self.block_size <= PART * bytes_in(staged, false);
        let new = blocks.iter().filter(|staged| staged.newborn && takes(staged)).count();
        let all = blocks.iter().filter(|staged| takes(staged)).count();
        if all == 0 {
            return naming;
        }
        if new > 0 && self.brings_home() {
            naming = self.write_new_home(arena, blocks, naming, &takes);
        }
        let all = all - naming.named.len();
        if all == 0 {
            return naming;
        }
        let new = new - naming.named.len();
        let are_to_wait = pages.are_to_wait((new * self.block_size) as u64, || self.log.durable());
        let at_home: Vec<usize> = naming.named.iter().map(|named| named.staged).collect();
        let whole_ones =
            blocks.iter_mut().enumerate().filter(|(n, block)| takes(block) && at_home.binary_search(n).is_err());
        for ((staged, block), page) in whole_ones.zip(pages.take(all)) {
            let image = whole(block, arena, self.block_size);
            let at = InPage { page, sum: record::sum(&image), or_home: block.newborn && are_to_wait };
            naming.named.push(Named { staged, at, image: Image::Held(image) });
        }
        // The record takes them as its blocks come.
        naming.named.sort_unstable_by_key(|named| named.staged);
        naming
    }

    /// Whether operations write their new data home themselves: there is more of it than goes home, and no program waits for commits, which have to flush it first.
    pub(super) fn brings_home(&self) -> bool {
        self.is_flooded.load(Relaxed) && !self.home_rests() && self.pages.as_ref().is_some_and(Pages::is_quiet)
    }

    /// Writes new data home, before its record is made: no committed state reaches its blocks. All or nothing of it; what is written is flushed before it is committed.
    fn write_new_home<'p>(
        &self,
        arena: &[u8],
        blocks: &mut [Staged<'_>],
        mut naming: Naming<'p>,
        takes: &dyn Fn(&Staged<'_>) -> bool,
    ) -> Naming<'p> {
        let new = blocks.iter_mut().enumerate().filter(|(_, block)| block.newborn && takes(block));
        let mut images: Vec<(u64, Block, usize)> =
            new.map(|(n, block)| (block.buf.block, whole(block, arena, self.block_size), n)).collect();
        images.sort_unstable_by_key(|(block, ..)| *block);
        let home: Vec<(u64, Block)> = images.iter().map(|(block, image, _)| (*block, image.clone())).collect();
        let bytes = home.len() * self.block_size;
        let write = || write_runs(&*self.store, self.block_size, &home);
        let dirty = match self.in_place.write_or_leave(bytes, write) {
            Ok(dirty) => dirty,
            Err(e) => {
                drop(self.home_fails(e));
                return naming;
            }
        };
        self.is_dirty(dirty);
        self.brought.add(home.len() as i64);
        self.data_runs.add(runs(&home).count() as i64);
        images.sort_unstable_by_key(|(.., n)| *n);
        naming.named.extend(images.into_iter().map(|(_, image, staged)| {
            let at = InPage { page: NOWHERE, sum: record::sum(&image), or_home: true };
            Named { staged, at, image: Image::Held(image) }
        }));
        naming
    }

    /// The complete record at `position` frees blocks of these buffers.
    pub(super) fn need_no_more(&self, dead: &[Arc<Buf>], position: u64) {
        if self.home_pages.is_some() {
            dead.iter().for_each(|buf| self.dirty.leave_page(buf));
        }
        if self.pages.is_none() {
            return;
        }
        for buf in dead {
            let waiting = buf.state.lock().logged.take_waiting();
            waiting.into_iter().for_each(|waiting| waiting.freed_at(position));
        }
    }
}

impl<'p> Naming<'p> {
    fn new(pages: Option<&'p Pages>, home: Option<&'p HomePages>, named: Vec<Named<'p>>) -> Self {
        Self { pages, home, named, waiting: Vec::new(), much: false, has_begun: false }
    }

    /// Pages of the home, which have the contents from the record on.
    pub(super) fn in_home(home: &'p HomePages, named: Vec<Named<'p>>) -> Self {
        Self::new(None, Some(home), named)
    }

    pub(super) fn as_slice(&self) -> &[Named<'p>] {
        &self.named
    }

    /// Bytes that lie in pages.
    pub(super) fn bytes(&self) -> usize {
        self.named.iter().map(|named| named.image.bytes().len()).sum()
    }

    /// The record gets its place next. What may wait does so from now on.
    pub(super) fn begin(&mut self, blocks: &[Staged<'_>]) {
        self.has_begun = true;
        let Some(pages) = self.pages else { return };
        let waits = || self.named.iter().filter(|named| named.at.or_home && named.at.page != NOWHERE);
        let block = |named: &Named| blocks[named.staged].buf.block;
        let images = waits().filter_map(|named| Some((named.at.page, block(named), named.image.held()?.clone())));
        let (waiting, much) = pages.wait(images);
        for (named, waiting) in waits().zip(&waiting) {
            blocks[named.staged].buf.state.lock().logged.wait(waiting);
        }
        (self.waiting, self.much) = (waiting, much);
    }

    /// Begins to store what does not wait.
    pub(super) fn store(&self) -> Result<Option<PageWrites<'_>>> {
        let area = self.pages.map(Pages::area).or_else(|| self.home.map(HomePages::area));
        let Some(area) = area else { return Ok(None) };
        let at_once = || self.named.iter().filter(|named| !named.at.or_home);
        if at_once().next().is_none() {
            return Ok(None);
        }
        if let Some(pages) = self.pages {
            at_once().for_each(|named| pages.is_stored(named.at.page));
        }
        Ok(Some(area.write(at_once().map(|named| (named.at.page, named.image.bytes())))?))
    }

    /// What lies where it stays when the record is complete: its operation has brought it home, or its page is one of the home.
    fn in_place(&self) -> impl Iterator<Item = &Named<'p>> {
        self.named.iter().filter(|named| named.at.page == NOWHERE || self.home.is_some())
    }

    /// What is lent: its places in the write set, in their order, and pages.
    pub(super) fn lent(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let lent = self.named.iter().filter(|named| matches!(named.image, Image::Lent(_)));
        lent.map(|named| (named.staged, named.at.page))
    }

    /// Places of that in the write set.
    pub(super) fn at_home(&self) -> impl Iterator<Item = usize> + '_ {
        self.in_place().map(|named| named.staged)
    }

    /// The record at `position` is complete: `told` gets what memory need not have any more, whose blocks are `at_home`, and the page that has it if it is not home. Returns
    /// whether somebody should look how much waits.
    pub(super) fn completed(
        self,
        position: u64,
        at_home: &[u64],
        told: impl Fn(u64, Option<&Block>, Option<u32>),
    ) -> bool {
        let page = |named: &Named| self.home.map(|_| named.at.page);
        at_home.iter().zip(self.in_place()).for_each(|(block, named)| told(*block, named.image.held(), page(named)));
        self.waiting.iter().for_each(|waiting| waiting.named_at(position));
        self.much
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        // Where it has its place and is not complete, the log has failed: nothing is handed out any more.
        if self.has_begun {
            return;
        }
        if let Some(pages) = self.pages {
            pages.give(&self.named.iter().map(|named| named.at.page).collect::<Vec<_>>());
        }
        if let Some(home) = self.home {
            home.give(&self.named.iter().map(|named| named.at.page).collect::<Vec<_>>());
        }
    }
}

/// Bytes that are written of a block; 0 of one that builds on what it held, unless these count, too.
pub(super) fn bytes_in(staged: &Staged<'_>, on_old: bool) -> usize {
    let changed = |change: &Change| match change {
        Change::Bytes { len, .. } => *len as usize,
        _ => 0,
    };
    match &staged.base {
        Base::Live if !on_old => 0,
        Base::Live | Base::Zeros => staged.changes.as_slice().iter().map(changed).sum(),
        Base::Whole(bytes) => bytes.len(),
        Base::Lent(bytes) => bytes.len(),
    }
}

/// All of the block, which is what is staged from now on.
pub(super) fn whole(staged: &mut Staged<'_>, arena: &[u8], block_size: usize) -> Block {
    let base = std::mem::replace(&mut staged.base, Base::Zeros);
    let mut image = match base {
        Base::Whole(bytes) => bytes,
        Base::Lent(bytes) => bytes.into(),
        Base::Live | Base::Zeros => Block::zeros(block_size),
    };
    if !staged.changes.is_empty() {
        let (bytes, mut touched) = (image.make_mut(), Ranges::default());
        staged.changes.as_slice().iter().for_each(|change| change.apply(arena, bytes, &mut touched));
        staged.changes.clear();
    }
    staged.base = Base::Whole(image.clone());
    image
}
