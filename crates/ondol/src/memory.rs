//! What `cache=` is divided into.

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
