//! The pages that one operation's record names.

use super::data_pages::DataPages;
use super::record::InPage;
use crate::Block;
use crate::Ranges;
use crate::Result;
use crate::change::Base;
use crate::change::Change;
use crate::logged::Waiting;
use crate::write_set::Staged;
use ondol_env::sync::Arc;
use ondol_nvm_log::PageWrites;

/// From so great a part of a block on its data takes a page: what is less goes into the record.
pub(super) const PART: usize = 4;

/// A block that is staged, and its page.
#[derive(Debug)]
pub(super) struct Named<'d> {
    /// The block's place among those of the write set.
    pub(super) staged: usize,
    pub(super) block: u64,
    pub(super) at: InPage,
    pub(super) image: Image<'d>,
    pub(super) rests: Rests,
}

/// Where readers find a block's bytes when its record is complete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rests {
    /// In memory, as those of other blocks.
    InMemory,
    /// At home, where its operation has brought it.
    AtHome,
    /// In its page, which is one of the home.
    InPage,
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

    pub(super) fn held(&self) -> Option<&Block> {
        match self {
            Self::Held(image) => Some(image),
            Self::Lent(_) => None,
        }
    }
}

/// Pages that a record is to name. Dropped, nothing names them.
pub(super) struct Naming<'p> {
    pages: &'p dyn DataPages,
    named: Vec<Named<'p>>,
}

/// Pages that a record names which has its place: they are given back by nobody but a checkpoint. Where it never is
/// complete, the log has failed, and nothing is handed out any more.
pub(super) struct HasPlace<'p> {
    pages: &'p dyn DataPages,
    named: Vec<Named<'p>>,
    waiting: Vec<Arc<Waiting>>,
    /// Somebody should look how much waits.
    much: bool,
}

impl<'p> Naming<'p> {
    pub(super) fn new(pages: &'p dyn DataPages, named: Vec<Named<'p>>) -> Self {
        Self { pages, named }
    }

    pub(super) fn as_slice(&self) -> &[Named<'p>] {
        &self.named
    }

    /// The record gets its place next. What may wait does so from now on.
    pub(super) fn begin(mut self, blocks: &[Staged<'_>]) -> HasPlace<'p> {
        let named = std::mem::take(&mut self.named);
        let (waiting, much) = self.pages.wait(blocks, &named);
        HasPlace { pages: self.pages, named, waiting, much }
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        if !self.named.is_empty() {
            self.pages.give(&self.named.iter().map(|named| named.at.page).collect::<Vec<_>>());
        }
    }
}

impl<'p> HasPlace<'p> {
    /// Bytes that lie in pages.
    pub(super) fn bytes(&self) -> usize {
        self.named.iter().map(|named| named.image.bytes().len()).sum()
    }

    /// Begins to store what does not wait.
    pub(super) fn store(&self) -> Result<Option<PageWrites<'p>>> {
        if at_once(&self.named).next().is_none() {
            return Ok(None);
        }
        self.pages.store(&self.named)
    }

    /// What is lent: its places in the write set, in their order, and pages.
    pub(super) fn lent(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let lent = self.named.iter().filter(|named| matches!(named.image, Image::Lent(_)));
        lent.map(|named| (named.staged, named.at.page))
    }

    /// The record at `position` is complete: `told` gets what memory need not have any more, and the page that has it
    /// if it is not home. Returns whether somebody should look how much waits.
    pub(super) fn completed(self, position: u64, told: impl Fn(u64, Option<&Block>, Option<u32>)) -> bool {
        for named in &self.named {
            match named.rests {
                Rests::InMemory => {}
                Rests::AtHome => told(named.block, named.image.held(), None),
                Rests::InPage => told(named.block, named.image.held(), Some(named.at.page)),
            }
        }
        self.waiting.iter().for_each(|waiting| waiting.named_at(position));
        self.much
    }
}

/// What is stored under the fence of its record: pages, and what belongs into them.
pub(super) fn at_once<'n>(named: &'n [Named<'_>]) -> impl Iterator<Item = (u32, &'n [u8])> {
    named.iter().filter(|named| !named.at.or_home).map(|named| (named.at.page, named.image.bytes()))
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
