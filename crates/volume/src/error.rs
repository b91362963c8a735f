//! Errors of the volume. The facade maps them to errno, and nobody else does.

use crate::Ino;
use ondol_block::BlockError;
use ondol_journal::{Corrupt, JournalError};
use std::cell::Cell;
use std::marker::PhantomData;

/// The result of a volume operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a volume failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such name, or the inode is gone.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists already.
    #[error("the name exists already")]
    Exists,
    /// The operation needs a directory.
    #[error("not a directory")]
    NotDirectory(Ino),
    /// The operation is not for directories.
    #[error("it is a directory")]
    IsDirectory(Ino),
    /// The directory still has entries.
    #[error("the directory is not empty")]
    NotEmpty(Ino),
    /// A name is longer than 255 bytes.
    #[error("a name is longer than 255 bytes")]
    NameTooLong,
    /// An argument makes no sense; says which.
    #[error("{0}")]
    Invalid(&'static str),
    /// A seek from behind the end of the file, or for data where only holes follow.
    #[error("nothing of the kind before the end of the file")]
    PastEnd,
    /// Bytes that are to be written lie behind the end of the file, which others have moved.
    #[error("the file ends at byte {size} now, and bytes behind that were to be written; nothing was")]
    Shorter {
        /// Its size in bytes.
        size: u64,
    },
    /// No free blocks or inodes.
    #[error("no space left on the volume ({0})")]
    NoSpace(&'static str),
    /// The file would be larger than ext4 or its block mapping allows.
    #[error("the file would be too large")]
    FileTooBig,
    /// The inode has as many names as it can have.
    #[error("it has as many names as it can have")]
    TooManyLinks(Ino),
    /// The volume is mounted read-only, or became so after an error.
    #[error("the volume is read-only{0}")]
    ReadOnly(String),
    /// Another mount, or a check, has the volume; says who.
    #[error("{0}")]
    InUse(String),
    /// Not permitted: an immutable or append-only inode, or a rule that is not about mode bits.
    #[error("not permitted: {0}")]
    NotPermitted(&'static str),
    /// Not allowed for this type of file.
    #[error("not allowed: {0}")]
    Denied(&'static str),
    /// A name would lead into a directory tree of another project.
    #[error("the directory belongs to another project")]
    OtherProject,
    /// The value of an extended attribute is longer than any can be.
    #[error("a value of {0} bytes is too long for an attribute")]
    ValueTooLong(usize),
    /// No such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The caller's buffer is too small for the answer.
    #[error("the buffer is too small")]
    BufferTooSmall,
    /// The volume or this version does not offer this.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A transaction is larger than the journal can make atomic.
    #[error("the transaction is too large to be atomic: it needs {need} journal blocks, the journal takes {max}")]
    TooBig {
        /// Blocks it needs.
        need: u64,
        /// Blocks it may have.
        max: u64,
    },
    /// There is no memory for what has to be kept.
    #[error("there is not enough memory")]
    NoMemory,
    /// What a transaction names keeps being renamed or locked by others, every time it tries.
    #[error("the names in the transaction keep changing; try again")]
    Contended,
    /// A structure of the image breaks its rules.
    #[error(transparent)]
    Corrupt(Corrupt),
    /// The journal failed or has stopped.
    #[error(transparent)]
    Journal(JournalError),
    /// The store failed.
    #[error(transparent)]
    Block(#[from] BlockError),
}

impl From<JournalError> for Error {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Corrupt(c) => Self::Corrupt(c),
            JournalError::Block(b) => Self::Block(b),
            JournalError::Unplanned { promised } => unplanned(promised.into()),
            JournalError::TooBig { need, max } => Self::TooBig { need: need.into(), max: max.into() },
            other => Self::Journal(other),
        }
    }
}

impl Error {
    /// Corruption of `structure`, found in `block`.
    pub(crate) fn corrupt(structure: impl Into<String>, block: u64, what: impl Into<String>) -> Self {
        Self::Corrupt(Corrupt { structure: structure.into(), block, what: what.into() })
    }
}

thread_local! {
    /// How many say so, one inside the other.
    static DECEIVING: Cell<u32> = const { Cell::new(0) };
}

/// Says that the images on which this thread works until the guard is dropped may be made to deceive: their structures
/// need not agree. What an operation was planned by may then not be what it finds, so that running out of its promise
/// is no defect.
#[doc(hidden)]
pub fn images_may_deceive() -> Deceived {
    DECEIVING.set(DECEIVING.get() + 1);
    Deceived { here: PhantomData }
}

/// See [`images_may_deceive`].
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "images are honest again when the guard is dropped"]
pub struct Deceived {
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Drop for Deceived {
    fn drop(&mut self) {
        DECEIVING.set(DECEIVING.get() - 1);
    }
}

/// An operation needs more than it was planned with, which is a defect: loud wherever defects are looked for, and a
/// refusal elsewhere.
pub(crate) fn unplanned(promised: u64) -> Error {
    let excused = DECEIVING.get() > 0;
    debug_assert!(excused, "an operation needs more than the {promised} blocks that it was planned with");
    Error::TooBig { need: promised + 1, max: promised }
}
