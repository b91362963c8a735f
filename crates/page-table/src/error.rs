//! Why the page table cannot do something.

use crate::format::TABLE_VERSION;
use ondol_medium::{HeaderFault, NvmError, PoolError};

/// The result of an operation of the page table.
pub type Result<T> = std::result::Result<T, TableError>;

/// A failed operation of the page table: which one, where, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The memory below failed.
    #[error(transparent)]
    Nvm(#[from] NvmError),
    /// The pool has no room for a table, or its header cannot be changed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The pool has no page table.
    #[error("{pool} holds no image")]
    NoTable {
        /// The pool, as the user named it.
        pool: String,
    },
    /// The configuration table is of a format that this program does not know.
    #[error(
        "the page table of {pool} is of a newer format ({what}; this program knows version {TABLE_VERSION}): use the \
         newer program that made it"
    )]
    Newer {
        /// The pool, as the user named it.
        pool: String,
        /// Version or features.
        what: HeaderFault,
    },
    /// Neither copy of the configuration table can be used.
    #[error("the configuration table of {pool} is damaged ({first}; the copy: {second}): restore the pool from a copy")]
    Config {
        /// The pool, as the user named it.
        pool: String,
        /// What is wrong with the first copy.
        first: HeaderFault,
        /// And with the second.
        second: HeaderFault,
    },
    /// The configuration table was made in another pool.
    #[error("the page table of {pool} was made in another pool: restore the pool from a whole copy")]
    Foreign {
        /// The pool, as the user named it.
        pool: String,
    },
    /// The map cannot be believed.
    #[error("the page table of {pool} is damaged in {count} of its entries: {first}; restore the pool from a copy")]
    Map {
        /// The pool, as the user named it.
        pool: String,
        /// The first fault.
        first: MapFault,
        /// How many there are.
        count: u64,
    },
    /// The log cannot be believed.
    #[error("the page table's log of {pool} is damaged: {what}; restore the pool from a copy")]
    Log {
        /// The pool, as the user named it.
        pool: String,
        /// What is wrong.
        what: LogFault,
    },
    /// The areas are too small for a table of this size.
    #[error("{pool} has room for an image of {most} blocks of 4096 bytes, {blocks} are asked for")]
    Small {
        /// The pool, as the user named it.
        pool: String,
        /// Blocks that are asked for.
        blocks: u64,
        /// Blocks that fit.
        most: u64,
    },
    /// There is no such block, or no such bytes in it.
    #[error("block {block} (bytes {offset} to {end}) lies outside the page table of {pool}, which has {blocks} blocks")]
    OutOfRange {
        /// The pool, as the user named it.
        pool: String,
        /// The block.
        block: u64,
        /// First byte in it.
        offset: u64,
        /// The byte behind the last.
        end: u64,
        /// Blocks of the table.
        blocks: u64,
    },
    /// A view does not have these bytes.
    #[error("bytes {offset} to {end} lie outside a view of {pool}, which has {size} bytes")]
    OutsideView {
        /// The pool, as the user named it.
        pool: String,
        /// First byte, counted from the view's first.
        offset: u64,
        /// The byte behind the last.
        end: u64,
        /// Bytes of the view.
        size: u64,
    },
    /// Bytes of a block that has no page cannot be changed in place.
    #[error("block {block} of {pool} has no page, so no bytes of it can be changed in place")]
    Unmapped {
        /// The pool, as the user named it.
        pool: String,
        /// The block.
        block: u64,
    },
    /// The log cannot hold the transaction. Nothing was changed.
    #[error("a transaction of {lines} lines does not fit into the page table's log of {pool}, which has {most}")]
    TooLarge {
        /// The pool, as the user named it.
        pool: String,
        /// Lines of 64 bytes that it needs.
        lines: u64,
        /// Lines of the log.
        most: u64,
    },
    /// All pages are in use. Nothing was changed.
    #[error("{pool} has no free page left")]
    NoPages {
        /// The pool, as the user named it.
        pool: String,
    },
    /// A block was to have a page that is not lent, that there is not, or that another block has. Nothing was changed.
    #[error("block {block} of {pool} cannot have page {page}: it was not lent for that, or another block has it")]
    NotLent {
        /// The pool, as the user named it.
        pool: String,
        /// The block.
        block: u64,
        /// The page.
        page: u32,
    },
    /// Pages are in the hands of writers, or lent. Nothing was changed.
    #[error("{pages} pages of {pool} are in use beside its map: nobody may write while it is made flat")]
    InHands {
        /// The pool, as the user named it.
        pool: String,
        /// How many.
        pages: u64,
    },
    /// The pool is open for reading only.
    #[error("{pool} is open read-only")]
    ReadOnly {
        /// The pool, as the user named it.
        pool: String,
    },
    /// An earlier change of the map failed: nobody knows how much of it is durable.
    #[error("the page table of {pool} has stopped after a failed change: attach it again")]
    Stopped {
        /// The pool, as the user named it.
        pool: String,
    },
}

/// What is wrong with an entry of the map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapFault {
    /// The entry does not check itself: it was never written so.
    #[error("the entry of block {block} is {word:#018x}, whose checksum is wrong")]
    Checksum {
        /// The block.
        block: u64,
        /// What the entry holds.
        word: u64,
    },
    /// The medium has lost the entry.
    #[error("the entry of block {block} lies in the lost line at byte {offset} of the pool")]
    Lost {
        /// The block.
        block: u64,
        /// First byte of the line.
        offset: u64,
    },
    /// The entry names a page that the data area does not have.
    #[error("block {block} is mapped to page {page}, and there are {pages} pages")]
    Range {
        /// The block.
        block: u64,
        /// The page.
        page: u32,
        /// Pages of the data area.
        pages: u64,
    },
    /// Two entries name one page.
    #[error("block {block} is mapped to page {page}, which another block has")]
    Shared {
        /// The block that comes second.
        block: u64,
        /// The page.
        page: u32,
    },
}

/// What is wrong with the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogFault {
    /// The word that says whether a transaction is open does not check itself.
    #[error("its state is {0:#018x}, whose checksum is wrong")]
    State(u64),
    /// The medium has lost a line of it.
    #[error("the line at byte {0} of the pool is lost")]
    Lost(u64),
    /// A transaction is open, and one of its undo records is not there.
    #[error("transaction {number} is open, and its undo record in line {line} is not whole")]
    Record {
        /// The transaction.
        number: u32,
        /// The line of the log.
        line: u32,
    },
}
