//! Why a pool cannot be used.

use super::format::{AreaKind, POOL_VERSION};
use crate::HeaderFault;
use crate::NvmError;

/// The result of an operation on a pool.
pub(crate) type Result<T> = std::result::Result<T, PoolError>;

/// Why a pool cannot be made, opened or attached: which one, what is wrong with it, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The memory below failed.
    #[error(transparent)]
    Nvm(#[from] NvmError),
    /// The medium has no pool's signature.
    #[error("{name} is no pool: there is no signature at byte 0 or 4096")]
    NotAPool {
        /// The pool, as the user named it.
        name: String,
    },
    /// The header is of a format that this program does not know.
    #[error(
        "{name} is of a newer format ({what}; this program knows version {POOL_VERSION}): use the newer program that \
         made it"
    )]
    Newer {
        /// The pool, as the user named it.
        name: String,
        /// What is newer.
        what: HeaderFault,
    },
    /// Neither copy of the header can be used.
    #[error(
        "{name} is damaged: header at byte 0: {first}; header at byte 4096: {second}; restore it from a copy, or give \
         up what it holds and make it anew"
    )]
    Damaged {
        /// The pool, as the user named it.
        name: String,
        /// What is wrong with one copy.
        first: HeaderFault,
        /// What is wrong with the other.
        second: HeaderFault,
    },
    /// Two intact copies of one generation say different things.
    #[error(
        "{name} is damaged: its two headers are of one generation and differ; restore it from a copy, or give up what \
         it holds and make it anew"
    )]
    Differ {
        /// The pool, as the user named it.
        name: String,
    },
    /// The medium is smaller than the pool.
    #[error("{name} is truncated: the pool has {size} bytes, the medium {have}; restore its full size")]
    Truncated {
        /// The pool, as the user named it.
        name: String,
        /// Bytes of the pool.
        size: u64,
        /// Bytes of the medium.
        have: u64,
    },
    /// The pool belongs to another volume.
    #[error("{name} is attached to the volume {}: use that volume, or recover it first", uuid_text(.volume))]
    Attached {
        /// The pool, as the user named it.
        name: String,
        /// UUID of that volume.
        volume: [u8; 16],
    },
    /// A pool would be made over something else.
    #[error("{name} is not empty: a pool or something else begins there")]
    Holds {
        /// The medium, as the user named it.
        name: String,
    },
    /// The header would no longer be one.
    #[error("the header of {name} cannot be changed so: {what}; move what it holds to a new pool")]
    Spent {
        /// The pool, as the user named it.
        name: String,
        /// What would be wrong with it.
        what: HeaderFault,
    },
    /// The medium cannot hold a pool of this size.
    #[error("{name} cannot hold a pool of {size} bytes: a pool has at least 12288, and not more than its medium")]
    Size {
        /// The medium, as the user named it.
        name: String,
        /// What was asked for.
        size: u64,
    },
    /// All of it belongs to areas.
    #[error("{name} has no free space: all of it belongs to areas; make a pool of its own on the same medium")]
    NoFree {
        /// The pool, as the user named it.
        name: String,
    },
    /// There is no room for an area.
    #[error("{name} has no room for an area {kind} of {len} bytes")]
    Areas {
        /// The pool, as the user named it.
        name: String,
        /// What for.
        kind: AreaKind,
        /// How much.
        len: u64,
    },
}

/// `8-4-4-4-12` hexadecimal digits.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let dash = |i| if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
    uuid.iter().enumerate().map(|(i, b)| format!("{}{b:02x}", dash(i))).collect()
}
