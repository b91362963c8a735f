//! Contents of files: extents, read, write, truncate, fallocate.

use crate::op::{Op, Reader};
use crate::{Error, Ino, Result};
use ondol_format::Inode;

/// What a run of a file's blocks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// Nothing is allocated.
    Hole,
    /// Allocated from this block on, reads as zeros.
    Unwritten(u64),
    /// Stored from this block on.
    Written(u64),
}

/// A run of a file's blocks that are mapped alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First logical block.
    pub(crate) at: u32,
    /// Blocks.
    pub(crate) len: u32,
    /// How they are mapped.
    pub(crate) what: Mapped,
}

/// The run that contains logical block `at`, beginning at `at`.
pub(crate) fn map(_reader: &mut dyn Reader, _ino: Ino, _inode: &Inode, _at: u32) -> Result<Run> {
    Err(Error::Unsupported("mapping".into()))
}

/// Allocates the block behind the end of a directory (or other metadata file), mapped as written, and grows the size by it:
/// logical and physical block. The caller stages its content with `fresh`.
pub(crate) fn grow(_op: &mut Op<'_>, _ino: Ino) -> Result<(u32, u64)> {
    Err(Error::Unsupported("growing".into()))
}

/// Journal blocks that one `grow` may change beside the inode and the new block itself.
pub(crate) fn grow_cost() -> u32 {
    16
}

/// Frees blocks from the end down to logical block `keep` as far as the operation's journal space allows; true when done.
pub(crate) fn shrink(_op: &mut Op<'_>, _ino: Ino, _keep: u32) -> Result<bool> {
    Err(Error::Unsupported("shrinking".into()))
}
