//! Engine `remap` (beyond papers/1): the records of [`crate::scalable`], over a home whose free pages take file data.
//!
//! ```text
//!   publish ──▶ pages borrowed and filled, record: one fence
//!   wait    ──▶ one line of the log: one fence
//!   checkpoint ─▶ entries of the home's map, block → page; images of what has no page ─▶ flush ─▶ the log's tail
//! ```
//!
//! A page is written once. The store ([`ondol_block::PageLender`]) is told that a block has it when its record is
//! committed, and never before. Design, invariants and failure cases: `docs/design/remap.md`.

use crate::{Ground, JournalError, Result, scalable};
use ondol_block::BlockStore;
use ondol_nvm_log::{Contents, Log, PageArea};

/// Whether the engine can work on `store`, whose volume has blocks of so many bytes.
pub fn is_possible(store: &dyn BlockStore, block_size: u32) -> bool {
    store.lender().is_some_and(|lender| lender.page_bytes() == block_size)
}

/// The pages that its records name: `log` was started over the page table that the store is ([`Contents::over_table`]).
///
/// # Errors
/// The store lends no pages of the size of a block, or the log is over none.
pub(crate) fn area(ground: &Ground, log: &Log) -> Result<PageArea> {
    let area = log.pages().filter(|area| area.is_of_table() && is_possible(&*ground.store, ground.block_size as u32));
    area.cloned().ok_or_else(|| {
        let what = "engine remap needs an image in an NVM pool, and its log in the same pool";
        JournalError::Unsupported(what.into())
    })
}

/// The pages that the commits in `contents` name. Until they are home, nobody may take these pages: whoever attaches
/// the store that lends them claims them first ([`ondol_block::PageLender::claim`]), and gives them back when the log
/// is empty.
///
/// # Errors
/// A record that cannot be understood; the log's failure.
pub fn pages(contents: &Contents) -> Result<Vec<u32>> {
    scalable::pages(contents)
}
