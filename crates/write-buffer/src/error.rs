//! Why the buffer cannot do something.

use crate::format::BUFFER_VERSION;
use crate::home::Identity;
use ondol_env::sync::Arc;
use ondol_medium::{HeaderFault, NvmError, PoolError};

/// The result of an operation of the buffer.
pub type Result<T> = std::result::Result<T, BufferError>;

/// A failure of the home: what was tried with which file, and the operating system's reason.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {what} {file}: {source}")]
pub struct HomeError {
    /// What was tried: `open`, `read`, `write`, `set the length of`, `sync`, `remove`, `sync the names of`.
    pub what: &'static str,
    /// The file.
    pub file: Identity,
    /// Why.
    pub source: Arc<std::io::Error>,
}

impl HomeError {
    pub(crate) fn new(what: &'static str, file: &Identity, source: std::io::Error) -> Self {
        Self { what, file: file.clone(), source: Arc::new(source) }
    }
}

/// A failed operation of the buffer: which one, where, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// The memory below failed.
    #[error(transparent)]
    Nvm(#[from] NvmError),
    /// The pool has no room for the areas.
    #[error(transparent)]
    Pool(Box<PoolError>),
    /// The home failed. What was acknowledged stays in NVM.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The pool has no areas for a buffer.
    #[error("{pool} has no areas for a write buffer (buffer-tables and buffer-data)")]
    NoAreas {
        /// The pool, as the user named it.
        pool: String,
    },
    /// The areas cannot hold a buffer of this shape.
    #[error("{pool} cannot hold such a write buffer: {what}")]
    Shape {
        /// The pool, as the user named it.
        pool: String,
        /// Why.
        what: &'static str,
    },
    /// The header is of a format that this program does not know.
    #[error(
        "the write buffer of {pool} is of another format ({what}; this program knows version {BUFFER_VERSION}): use \
         the program that made it"
    )]
    Newer {
        /// The pool, as the user named it.
        pool: String,
        /// What is newer.
        what: HeaderFault,
    },
    /// Neither copy of the header can be used.
    #[error("the write buffer of {pool} is damaged: first header: {first}; second header: {second}")]
    Header {
        /// The pool, as the user named it.
        pool: String,
        /// What is wrong with one copy.
        first: HeaderFault,
        /// What is wrong with the other.
        second: HeaderFault,
    },
    /// The buffer belongs to another pool.
    #[error("the write buffer of {pool} was made in another pool: its UUID is not the pool's")]
    Foreign {
        /// The pool, as the user named it.
        pool: String,
    },
    /// Acknowledged bytes cannot be read. Nothing was changed.
    #[error(
        "the write buffer of {pool} has {} damaged places, the first: {}; recovery can go on without them, giving up \
         what they held",
        damage.len(),
        damage.first().map(ToString::to_string).unwrap_or_default()
    )]
    Damaged {
        /// The pool, as the user named it.
        pool: String,
        /// All of them; never empty.
        damage: Vec<Damage>,
    },
    /// The buffer is full and what it holds cannot go home.
    #[error("the write buffer is full and cannot be emptied: {0}")]
    Full(HomeError),
    /// As many files as the volume table has slots have bytes in the buffer or are open.
    #[error("the write buffer has no slot for {file}: all {slots} are taken by open files")]
    Files {
        /// The file that was to be opened.
        file: Identity,
        /// How many there are.
        slots: u32,
    },
    /// There is no such file.
    #[error("{0} does not exist")]
    NotFound(Identity),
    /// The file was removed while it was open.
    #[error("{0} was removed")]
    Removed(Identity),
    /// Offsets and lengths of files end at 2^63 - 1.
    #[error("{len} bytes at {offset} of {file} reach past what a file can have")]
    Range {
        /// The file.
        file: Identity,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// An identity that no home can have.
    #[error("an identity has 1 to 432 bytes, not {0}")]
    Identity(usize),
    /// A file has had 2^48 operations, or the buffer 2^32 files, since it was last empty.
    #[error("counters of the write buffer are spent: close it and open it again")]
    Spent,
}

impl From<PoolError> for BufferError {
    fn from(e: PoolError) -> Self {
        match e {
            PoolError::Nvm(e) => Self::Nvm(e),
            e => Self::Pool(Box::new(e)),
        }
    }
}

/// Acknowledged bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A write of which the bytes are not those that were written.
    #[error("{len} bytes at {offset} of {file} (operation {sequence} on it) fail their checksum")]
    Record {
        /// The file.
        file: Identity,
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        len: u32,
        /// Which operation on the file.
        sequence: u64,
    },
    /// Small writes of unknown files.
    #[error("fragments from byte {at} of data block {block} on cannot be read")]
    Fragments {
        /// The data block.
        block: u32,
        /// First byte in it.
        at: u32,
    },
    /// A slot of the volume table cannot be read, and there are writes of its file.
    #[error("slot {slot} of the volume table, a file with writes in the buffer, cannot be read: {what}")]
    Slot {
        /// The slot.
        slot: u32,
        /// What of it.
        what: &'static str,
    },
    /// A whole record of a file that never had the slot.
    #[error("data block {block} has a write of incarnation {incarnation} of slot {slot}, which there is not")]
    Owner {
        /// The data block.
        block: u32,
        /// The slot.
        slot: u32,
        /// Which file of the slot.
        incarnation: u32,
    },
}
