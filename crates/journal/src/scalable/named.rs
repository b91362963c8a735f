//! The pages that one operation's record names.

use super::Core;
use super::pages::{Pages, Waiting};
use super::record::{self, InPage};
use crate::Ranges;
use crate::Result;
use crate::cache::{Block, Buf};
use crate::change::Change;
use crate::contract::Kind;
use crate::handle::{Base, Staged};
use ondol_env::reach::{self, Place};
use ondol_env::sync::Arc;
use ondol_nvm_log::PageWrites;

/// From so great a part of a block on its data takes a page: what is less goes into the record.
const PART: usize = 4;

/// A block that is staged, and its page.
#[derive(Debug)]
pub(super) struct Named {
    /// The block's place among those of the write set.
    pub(super) staged: usize,
    pub(super) at: InPage,
    image: Block,
}

/// Pages that a record is to name. Dropped, nothing names them.
pub(super) struct Naming<'p> {
    pages: Option<&'p Pages>,
    named: Vec<Named>,
    waiting: Vec<Arc<Waiting>>,
    /// Somebody should look how much waits.
    much: bool,
}

impl Core {
    /// Finds pages for whole blocks of file data, as far as there are any.
    pub(super) fn name_pages(&self, arena: &[u8], blocks: &mut [Staged]) -> Naming<'_> {
        let mut naming = Naming { pages: self.pages.as_ref(), named: Vec::new(), waiting: Vec::new(), much: false };
        let Some(pages) = naming.pages else { return naming };
        let takes = |staged: &Staged| staged.kind == Kind::DATA && self.block_size <= PART * bytes_in(staged);
        let new = blocks.iter().filter(|staged| staged.newborn && takes(staged)).count();
        let all = blocks.iter().filter(|staged| takes(staged)).count();
        if all == 0 {
            return naming;
        }
        let are_to_wait = pages.are_to_wait((new * self.block_size) as u64, || self.log.durable());
        let whole_ones = blocks.iter_mut().enumerate().filter(|(_, block)| takes(block));
        for ((staged, block), page) in whole_ones.zip(pages.take(all)) {
            let image = whole(block, arena, self.block_size);
            let at = InPage { page, sum: record::sum(&image), or_home: block.newborn && are_to_wait };
            naming.named.push(Named { staged, at, image });
        }
        naming
    }

    /// The complete record at `position` frees blocks of these buffers.
    pub(super) fn need_no_more(&self, dead: &[Arc<Buf>], position: u64) {
        if self.pages.is_none() {
            return;
        }
        for buf in dead {
            let waiting = buf.state.lock().waiting.take().and_then(|waiting| waiting.upgrade());
            waiting.into_iter().for_each(|waiting| waiting.freed_at(position));
        }
    }
}

impl Naming<'_> {
    pub(super) fn as_slice(&self) -> &[Named] {
        &self.named
    }

    /// Bytes that lie in pages.
    pub(super) fn bytes(&self) -> usize {
        self.named.iter().map(|named| named.image.len()).sum()
    }

    /// What may wait does so from now on. The record is not complete yet.
    pub(super) fn wait(&mut self, blocks: &[Staged]) {
        let Some(pages) = self.pages else { return };
        let waits = || self.named.iter().filter(|named| named.at.or_home);
        let block = |named: &Named| blocks[named.staged].buf.block;
        let (waiting, much) = pages.wait(waits().map(|named| (named.at.page, block(named), named.image.clone())));
        for (named, waiting) in waits().zip(&waiting) {
            blocks[named.staged].buf.state.lock().waiting = Some(Arc::downgrade(waiting));
        }
        (self.waiting, self.much) = (waiting, much);
    }

    /// Begins to store what does not wait.
    pub(super) fn store(&self) -> Result<Option<PageWrites<'_>>> {
        let Some(pages) = self.pages else { return Ok(None) };
        let at_once = || self.named.iter().filter(|named| !named.at.or_home);
        if at_once().next().is_none() {
            return Ok(None);
        }
        reach::hit(Place::PageStored);
        at_once().for_each(|named| pages.is_stored(named.at.page));
        Ok(Some(pages.area().write(at_once().map(|named| (named.at.page, &*named.image)))?))
    }

    /// The record at `position` is complete. Returns whether somebody should look how much waits.
    pub(super) fn completed(mut self, position: u64) -> bool {
        self.named.clear();
        self.waiting.iter().for_each(|waiting| waiting.named_at(position));
        self.much
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        // Where somebody waits and the record is not complete, the log has failed: nothing is handed out any more.
        if let (Some(pages), true) = (self.pages, self.waiting.is_empty()) {
            pages.give(&self.named.iter().map(|named| named.at.page).collect::<Vec<_>>());
        }
    }
}

/// Bytes of a block that does not build on what it held; 0 of one that does.
fn bytes_in(staged: &Staged) -> usize {
    let changed = |change: &Change| match change {
        Change::Bytes { len, .. } => *len as usize,
        _ => 0,
    };
    match &staged.base {
        Base::Live => 0,
        Base::Zeros => staged.changes.as_slice().iter().map(changed).sum(),
        Base::Whole(bytes) => bytes.len(),
    }
}

/// All of the block, which is what is staged from now on.
fn whole(staged: &mut Staged, arena: &[u8], block_size: usize) -> Block {
    let base = std::mem::replace(&mut staged.base, Base::Zeros);
    let mut image = match base {
        Base::Whole(bytes) => bytes,
        Base::Live | Base::Zeros => Arc::from(vec![0; block_size]),
    };
    if !staged.changes.is_empty() {
        let (bytes, mut touched) = (Arc::make_mut(&mut image), Ranges::default());
        staged.changes.as_slice().iter().for_each(|change| change.apply(arena, bytes, &mut touched));
        staged.changes.clear();
    }
    staged.base = Base::Whole(image.clone());
    image
}
