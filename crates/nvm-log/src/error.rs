//! Why the log cannot do something.

use crate::format::LOG_VERSION;
use ondol_medium::{HeaderFault, NvmError};
use std::fmt;

/// The result of an operation of the log.
pub type Result<T> = std::result::Result<T, LogError>;

/// A failed operation of the log: which one, where, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The memory below failed.
    #[error(transparent)]
    Nvm(#[from] NvmError),
    /// The pool has no area for a log.
    #[error("{pool} has no area for a log (journal-log)")]
    NoArea {
        /// The pool, as the user named it.
        pool: String,
    },
    /// The area is too small.
    #[error("the area for a log in {pool} has {lines} lines of 64 bytes: a log has {least} at least")]
    Small {
        /// The pool, as the user named it.
        pool: String,
        /// Lines of the ring that fit.
        lines: u64,
        /// How many there should be.
        least: u64,
    },
    /// The header is of a format that this program does not know.
    #[error(
        "the log of {pool} is of a newer format ({what}; this program knows version {LOG_VERSION}): use the newer \
         program that made it"
    )]
    Newer {
        /// The pool, as the user named it.
        pool: String,
        /// Version or features.
        what: HeaderFault,
    },
    /// Neither copy of the header is intact.
    #[error("the log of {pool} is damaged: its header ({first}; the copy: {second})")]
    Header {
        /// The pool, as the user named it.
        pool: String,
        /// What is wrong with the first copy.
        first: HeaderFault,
        /// And with the second.
        second: HeaderFault,
    },
    /// Neither copy of the line that says where the log begins is intact.
    #[error("the log of {pool} is damaged: nothing says any more where it begins")]
    Tail {
        /// The pool, as the user named it.
        pool: String,
    },
    /// The area was copied from another pool.
    #[error("the log in {pool} was made in another pool: it is a copy")]
    Foreign {
        /// The pool, as the user named it.
        pool: String,
    },
    /// Something that was committed is not there any more.
    #[error("the log of {pool} is damaged: {damage}")]
    Damaged {
        /// The pool, as the user named it.
        pool: String,
        /// What is missing.
        damage: Damage,
    },
    /// No record is there, or not that one any more.
    #[error("the log of {pool} has no whole record at position {position}")]
    NoRecord {
        /// The pool, as the user named it.
        pool: String,
        /// Where it should be.
        position: u64,
    },
    /// There is no room. It is made by committing, writing home what is committed, and releasing it.
    #[error("the log of {pool} is full: {lines} of its {capacity} lines are wanted")]
    Full {
        /// The pool, as the user named it.
        pool: String,
        /// Lines that were asked for.
        lines: u64,
        /// Lines of the ring.
        capacity: u64,
    },
    /// No log of this size ever has room for it.
    #[error("a record of {bytes} bytes is too large for the log of {pool}, which takes {most}")]
    TooLarge {
        /// The pool, as the user named it.
        pool: String,
        /// Bytes of the record's contents.
        bytes: u64,
        /// How many there may be.
        most: u64,
    },
    /// A failure of the memory before this one: since then nothing becomes durable.
    #[error("the log of {pool} takes nothing any more: its memory has failed")]
    Stopped {
        /// The pool, as the user named it.
        pool: String,
    },
    /// It has no positions left, after more than an exabyte.
    #[error("the log of {pool} is used up: make another")]
    Spent {
        /// The pool, as the user named it.
        pool: String,
    },
    /// Batches are released in the order of their commits, each once.
    #[error("the log of {pool} begins at position {tail}: what begins at {from} cannot be released")]
    OutOfTurn {
        /// The pool, as the user named it.
        pool: String,
        /// Where the log begins.
        tail: u64,
        /// Where the batch begins.
        from: u64,
    },
}

/// Something was committed, and is not there any more. What lies before it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first commit that is lost, by number.
    pub commit: u64,
    /// The last commit that the log is known to have had.
    pub newest: u64,
    /// Where something else was expected.
    pub position: u64,
    /// What is wrong there.
    pub what: Fault,
}

/// What is wrong at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The line of a commit is not there, and a later one is.
    NoCommit,
    /// A record is not whole.
    Record,
    /// The medium has lost a line.
    Lost,
    /// Records and gaps do not end where the commit says.
    Count,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Fault::NoCommit => "a commit is missing",
            Fault::Record => "a record is not whole",
            Fault::Lost => "the medium has lost a line",
            Fault::Count => "records do not add up",
        };
        write!(f, "{what} at position {}: commits {} to {} are lost", self.position, self.commit, self.newest)
    }
}
