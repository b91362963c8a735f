//! Why the log of `ondol run` cannot be used.

use ondol_medium::{HeaderFault, NvmError, PoolError};

/// The result of an operation on the log.
pub type Result<T> = std::result::Result<T, RunLogError>;

/// Why the log cannot be used: which pool, what is wrong, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunLogError {
    /// The memory below failed.
    #[error(transparent)]
    Nvm(#[from] NvmError),
    /// The pool cannot be used.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The pool has no areas for running programs.
    #[error("{pool} has no log of running programs")]
    NoArea {
        /// The pool, as the user named it.
        pool: String,
    },
    /// Something that was written to the pool did not reach its medium.
    #[error("{pool} has failed while programs ran with it: its data is to be brought home when they have ended")]
    Failed {
        /// The pool, as the user named it.
        pool: String,
    },
    /// The process has the memory of another one that uses the log, or its process numbers mean something else.
    #[error("this process cannot use {pool}: it shares the memory of another one, or has a PID namespace of its own")]
    Stranger {
        /// The pool, as the user named it.
        pool: String,
    },
    /// There is too little room for the areas.
    #[error(
        "{pool} has too little free space ({free} bytes) for a log of running programs, which takes {least}: make a \
         larger pool"
    )]
    Small {
        /// The pool, as the user named it.
        pool: String,
        /// Bytes that no area has.
        free: u64,
        /// Bytes that are needed at least.
        least: u64,
    },
    /// Neither copy of the header can be used.
    #[error("the log of running programs in {pool} is damaged: {what}: made anew, the pool gives up what it holds")]
    Header {
        /// The pool, as the user named it.
        pool: String,
        /// What is wrong with the first copy.
        what: HeaderFault,
    },
    /// A word's check is wrong: what is live cannot be told.
    #[error(
        "the log of running programs in {pool} is damaged: {what} at byte {offset}: made anew, the pool gives up what \
         it holds"
    )]
    Word {
        /// The pool, as the user named it.
        pool: String,
        /// Which word.
        what: &'static str,
        /// Its place in the pool.
        offset: u64,
    },
    /// A record that is whole makes no sense.
    #[error(
        "the log of running programs in {pool} is damaged: a record of names in {directory} makes no sense: made \
         anew, the pool gives up what it holds"
    )]
    Names {
        /// The pool, as the user named it.
        pool: String,
        /// Where the directory lay.
        directory: String,
    },
}
