//! Errors of block stores.

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, BlockError>;

/// A failed store operation: which one, where, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The medium or the kernel failed the transfer.
    #[error("{op} of {len} bytes at byte {offset} of {name}: {source}")]
    Io {
        /// What was tried: `read`, `write`, `flush`, `discard`, `submit`, `settle`.
        op: &'static str,
        /// The store, as the user named it.
        name: String,
        /// First byte of the transfer.
        offset: u64,
        /// Length of the transfer in bytes.
        len: u64,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The transfer does not lie inside the store.
    #[error("{op} of {len} bytes at byte {offset} lies outside {name}, which has {size} bytes")]
    OutOfRange {
        /// What was tried.
        op: &'static str,
        /// The store, as the user named it.
        name: String,
        /// First byte of the transfer.
        offset: u64,
        /// Length of the transfer in bytes.
        len: u64,
        /// Size of the store in bytes.
        size: u64,
    },
    /// The store was opened for reading only.
    #[error("{name} is open read-only")]
    ReadOnly {
        /// The store, as the user named it.
        name: String,
    },
    /// Somebody else holds the store.
    #[error("{name} is in use by {by}")]
    Locked {
        /// The store, as the user named it.
        name: String,
        /// Who has it, as far as that is known.
        by: String,
    },
    /// Opening or creating the store failed.
    #[error("cannot {what} {name}: {source}")]
    Open {
        /// What was tried: `open`, `create`, `lock`.
        what: &'static str,
        /// The store, as the user named it.
        name: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
}

/// Whether a transfer lies inside of a store of `size` bytes, and where it begins in an array that holds them.
///
/// # Errors
/// `OutOfRange`.
pub fn check_range(op: &'static str, name: &str, offset: u64, len: u64, size: u64) -> Result<usize> {
    match usize::try_from(offset) {
        Ok(start) if offset.checked_add(len).is_some_and(|end| end <= size) => Ok(start),
        _ => Err(BlockError::OutOfRange { op, name: name.to_owned(), offset, len, size }),
    }
}

impl BlockError {
    /// The operating system's error number behind this error, where there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Open { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
