//! What `cache=` is divided into, and what it bounds.

use crate::Volume;

/// What a server takes beside what `cache=` gives: the program itself, stacks, and what its allocator keeps for a while
/// to use it again.
const BESIDE: u64 = 64 << 20;

/// What an inode takes that somebody knows by number or has open, whether it is cached or not: how often, and its place
/// among the orphans.
const KNOWN: u64 = 192;

/// The least that `dirty=` takes.
const LEAST_DIRTY: u64 = 64 << 10;

/// The shares of `cache=`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Live blocks, those of transactions that are not committed among them.
    pub(crate) live: u64,
    /// Committed images on their way home.
    pub(crate) pending: u64,
    /// Inodes.
    pub(crate) inodes: u64,
    /// Requests that carry or fetch much.
    pub(crate) requests: u64,
    /// Data that may be dirty before it is drained, whatever `dirty=` says.
    pub(crate) most_dirty: u64,
}

impl Shares {
    pub(crate) fn of(cache: u64) -> Self {
        let quarter = cache / 4;
        Self {
            live: cache / 2,
            pending: quarter,
            inodes: quarter,
            requests: quarter,
            most_dirty: quarter.max(LEAST_DIRTY),
        }
    }
}

impl Volume {
    /// Bytes that requests which carry or fetch much may take, all at a time: a share of `cache=`.
    pub fn request_bytes(&self) -> u64 {
        Shares::of(self.composed().options.image.cache_bytes).requests
    }

    /// Bytes of memory that a server of this volume takes at most, about: twice `cache=`, where all shares are full and
    /// no image is shared between them, and what it takes without, with 192 for each inode that a kernel knows. A
    /// single operation of the library that changes more than that is not bound by it.
    pub fn memory_bound(&self) -> u64 {
        2 * self.composed().options.image.cache_bytes + BESIDE + KNOWN * self.inodes().inode_ops().known_inodes() as u64
    }
}
