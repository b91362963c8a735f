//! Errors of the journal layer.

use ondol_block::BlockError;

/// The result of a journal operation.
pub type Result<T> = std::result::Result<T, JournalError>;

/// A structure on the medium that breaks its own rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure} in block {block} is corrupt: {what}")]
pub struct Corrupt {
    /// Which structure, such as "inode bitmap of group 3".
    pub structure: String,
    /// The block that holds it.
    pub block: u64,
    /// What is wrong with it.
    pub what: String,
}

/// Why a journal operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The store failed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The NVM log failed.
    #[error(transparent)]
    Log(Box<ondol_nvm_log::LogError>),
    /// A block read from home breaks its rules.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// An earlier journal write or flush failed: nothing more is written, and no fsync succeeds any more.
    #[error("the journal was stopped after a failed write or flush ({0}): the volume must be closed and recovered")]
    Aborted(String),
    /// Nothing can be written home, and the log has no room for more. What was acknowledged is in the log; when home
    /// works again, so does the engine.
    #[error(
        "changes cannot be written to the image ({0}): what was synced is safe in the NVM pool; mend the disk, or \
         close the volume and recover it with its pool"
    )]
    Home(String),
    /// File data that a record of the NVM log names is neither in the pool nor at home.
    #[error("file data of block {block} is lost: neither the NVM pool nor the image has what the log says")]
    LostData {
        /// The block.
        block: u64,
    },
    /// The operation needs more blocks at once than the journal can promise.
    #[error("one atomic operation needs {need} blocks, the journal takes at most {max}")]
    TooBig {
        /// Blocks asked for.
        need: u32,
        /// Blocks that one handle may have.
        max: u32,
    },
    /// The operation changes more blocks than it was planned with: a defect of the plan.
    #[error("an operation was planned with {promised} journal blocks and needs more")]
    Unplanned {
        /// Blocks that it was promised.
        promised: u32,
    },
    /// A transaction is larger than what was promised for it: a defect of the engine, which stops before it writes over
    /// its own log.
    #[error("a transaction of {need} blocks does not fit into the {left} blocks that the log has left")]
    Overrun {
        /// Blocks of the transaction in the log.
        need: u64,
        /// Blocks between head and tail.
        left: u64,
    },
    /// The journal uses something this version does not know.
    #[error("journal: {0}")]
    Unsupported(String),
}

impl From<ondol_nvm_log::LogError> for JournalError {
    fn from(e: ondol_nvm_log::LogError) -> Self {
        Self::Log(Box::new(e))
    }
}
