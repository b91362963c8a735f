//! Errors of NVM.

use crate::Domain;

/// What is known of a holder that nobody has looked for.
const UNKNOWN: &str = ": a volume is mounted with it, or a program has it locked";

/// The result of an operation on NVM.
pub type Result<T> = std::result::Result<T, NvmError>;

/// A failed operation on NVM: which one, where, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NvmError {
    /// Opening, making or mapping failed.
    #[error("cannot {what} {name}: {source}")]
    Open {
        /// What was tried: `open`, `create`, `lock`, `map`, `fill`, `reserve`.
        what: &'static str,
        /// The medium, as the user named it.
        name: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Somebody else holds the medium.
    #[error("{name} is in use{}", by.as_ref().map_or_else(|| UNKNOWN.to_owned(), |by| format!(" by {by}")))]
    Locked {
        /// The medium, as the user named it.
        name: String,
        /// Who, in words, where whoever opens it has found out.
        by: Option<String>,
    },
    /// This cannot be NVM.
    #[error("{name} cannot be used as NVM: {what}")]
    Unfit {
        /// The medium, as the user named it.
        name: String,
        /// Why, and what helps.
        what: String,
    },
    /// It is not this process's to open, or nobody knows whose it is.
    #[error("{name} is not used: {what}")]
    Foreign {
        /// The medium, as the user named it.
        name: String,
        /// Why, and what helps.
        what: String,
    },
    /// The persistence domain does not fit the medium.
    #[error("{name} cannot have the persistence domain {domain}: {what}")]
    Domain {
        /// The medium, as the user named it.
        name: String,
        /// What was asked for.
        domain: Domain,
        /// Why, and what helps.
        what: &'static str,
    },
    /// The bytes do not lie inside the medium.
    #[error("{op} of {len} bytes at byte {offset} lies outside {name}, which has {size} bytes")]
    OutOfRange {
        /// What was tried: `read`, `store`.
        op: &'static str,
        /// The medium, as the user named it.
        name: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Size of the medium in bytes.
        size: u64,
    },
    /// A word does not begin at a multiple of 8.
    #[error("the word at byte {offset} of {name} does not begin at a multiple of 8")]
    Misaligned {
        /// The medium, as the user named it.
        name: String,
        /// Where.
        offset: u64,
    },
    /// The medium has lost what the line held.
    #[error(
        "{name} has lost the 64 bytes at byte {offset} (a poisoned line: the memory reports an uncorrectable error)"
    )]
    Poisoned {
        /// The medium, as the user named it.
        name: String,
        /// First byte of the line.
        offset: u64,
    },
    /// Somebody reads the page in place.
    #[error("the page at byte {offset} of {name} is pinned by a reader, and is not stored to")]
    Pinned {
        /// The medium, as the user named it.
        name: String,
        /// First byte of the page.
        offset: u64,
    },
    /// The medium was opened for reading only.
    #[error("{name} is open read-only")]
    ReadOnly {
        /// The medium, as the user named it.
        name: String,
    },
    /// `msync` failed. The kernel may have forgotten what was not written, so the medium takes no fence any more.
    #[error("msync of {name}: {source}")]
    Msync {
        /// The medium, as the user named it.
        name: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// An earlier `msync` failed.
    #[error("{name} has stopped after a failed msync: what was stored since is not durable")]
    Stopped {
        /// The medium, as the user named it.
        name: String,
    },
    /// Ranges of the medium cannot be mapped elsewhere.
    #[error("{name} cannot be shown through windows: {what}")]
    NoWindows {
        /// The medium, as the user named it.
        name: String,
        /// Why.
        what: String,
    },
    /// Write-backs of two media cannot be one.
    #[error("write-backs of {name} and of {other} cannot share a proof")]
    OtherMedium {
        /// One medium.
        name: String,
        /// The other.
        other: String,
    },
}

impl NvmError {
    /// The operating system's error number behind this error, where there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Open { source, .. } | Self::Msync { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
