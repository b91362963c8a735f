//! The one way to an engine.

use crate::batch::{self, BatchEngine};
use crate::block_engine::BlockEngine;
use crate::scalable::ScalableEngine;
use crate::{Engine, Ground, LogMap, Result, compressed, jbd2, remap, swap};
use ondol_nvm_log::Log;

/// Which engine it is, and its log, which is recovered and empty.
pub enum Journal {
    /// jbd2's log (`classic`).
    Classic(LogMap),
    /// Transactions that are compressed ([`compressed`]).
    Compressed(LogMap),
    /// jbd2's log in a page table, whose entries checkpoints exchange ([`swap`]).
    Swap(LogMap),
    /// Each transaction is one batch for the store, and there is no log ([`batch`]).
    Batch,
    /// Records in NVM, and pages beside the log, of a volume of so many blocks ([`crate::scalable`]).
    Scalable(Log, u64),
    /// Records in NVM that name free pages of the page table which the store is, of a volume of so many blocks
    /// ([`remap`]).
    Remap(Log, u64),
}

/// Opens a journal for writing. The superblock of one that lies in the image says which features are written, and
/// forgets the error of an earlier abort: durably with the first commit.
///
/// # Errors
/// `Unsupported`: the store cannot carry the engine, or the journal is not empty; corruption, or the store's failure.
pub fn open(mut ground: Ground, journal: Journal) -> Result<Box<dyn Engine>> {
    let (log, first) = match journal {
        Journal::Batch => return Ok(Box::new(BatchEngine::new(batch::most(&ground)?, ground))),
        Journal::Scalable(log, blocks) => return Ok(Box::new(ScalableEngine::new(ground, log, blocks))),
        Journal::Remap(log, blocks) => {
            let area = remap::area(&ground, &log)?;
            return Ok(Box::new(ScalableEngine::over_table(ground, log, blocks, area)));
        }
        Journal::Classic(map) => jbd2::log(&ground, map)?,
        Journal::Compressed(map) => compressed::log(&mut ground, map)?,
        Journal::Swap(map) => swap::log(&ground, map)?,
    };
    Ok(Box::new(BlockEngine::new(ground, log, first)))
}
