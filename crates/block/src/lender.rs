//! Stores that copy on write, and lend their free pages: what is written there becomes a block by a change of the
//! store's map alone.

use crate::{MapPart, Mapped, Own, PageUse, Pinned, Result};
use std::ops::Range;

/// What a store has to lend. Pages are known by number; how their bytes are written and read is the business of whoever
/// knows the memory that they lie in.
///
/// A lent page is the borrower's until it is given back, whatever entries name it meanwhile. After a crash nothing is
/// lent.
///
/// A store that wraps another passes this on only if its own guarantees still hold: [`crate::OverlayStore`] does not,
/// so recovery into memory copies.
pub trait PageLender: Send + Sync {
    /// Bytes of a page, which are those of a block that it can become.
    fn page_bytes(&self) -> u32;

    /// How many pages are lent.
    fn lent(&self) -> u64;

    /// How many can be, so that whoever writes in other ways always finds pages.
    fn most_lent(&self) -> u64;

    /// Lends the bytes of a page that is lent, or that an entry names, for as long as the caller wants: it is filled,
    /// and stays that until this returns. `None`, `bounded`: as [`crate::BlockStore::pin`].
    ///
    /// # Errors
    /// The medium's failure.
    fn pin_page(&self, _page: u32, _bounded: bool) -> Result<Option<Pinned>> {
        Ok(None)
    }

    /// Maps parts one behind the other, each whole pages but for the last one, so that they are one slice. It stays
    /// what it is, and its pages are given back when the store needs them. What it takes from places must be pinned
    /// until this returns. `None`: that cannot be, and they are to be copied.
    ///
    /// # Errors
    /// The medium's failure.
    fn map(&self, _parts: &[MapPart<'_>]) -> Result<Option<Box<dyn Mapped>>> {
        Ok(None)
    }

    /// Gives the pages of blocks that nobody reads or writes as memory: as many pages as there are blocks, in any
    /// order. They are blocks again, with any contents, when it is dropped, and that must be before anybody writes to
    /// the blocks.
    ///
    /// # Errors
    /// The store is read-only, or its map has failed; a block out of range; the medium's failure.
    fn own(&self, _blocks: &[Range<u64>]) -> Result<Own> {
        Ok(Own::Refused("its store gives none"))
    }

    /// How pages are used now.
    fn page_use(&self) -> PageUse {
        PageUse::default()
    }

    /// Lends `count` pages that no entry names; `None` when there are not so many.
    ///
    /// # Errors
    /// The store is read-only, or its map has failed.
    fn lend(&self, count: u64) -> Result<Option<Vec<u32>>>;

    /// These pages are lent from now on, free or not, each of them once: after a crash, before anybody writes. Those
    /// that do not exist are passed over.
    fn claim(&self, pages: &[u32]);

    /// Blocks have the contents of lent pages from now on, `(block, page)`. Readers of the store see it at once; the
    /// next [`crate::BlockStore::flush`] makes it durable, each block for itself. The contents of the pages are
    /// durable, says the caller. What the blocks had is free after that flush. A block that has its page already keeps
    /// it; as long as it is lent, a page is for one block.
    ///
    /// # Errors
    /// The store is read-only, or its map has failed; a block out of range: nothing has changed.
    fn remap(&self, entries: &[(u64, u32)]) -> Result<()>;

    /// These pages are lent no more: free, if no entry names them. Pages that are not lent are passed over.
    fn give(&self, pages: &[u32]);
}
