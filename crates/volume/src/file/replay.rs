//! What replaying a fast commit does to a mapping.

use super::{mapping, tree};
use crate::op::Op;
use crate::{Ino, Result};
use ondol_format::extent::Extent;

/// Maps a hole of a file with an extent tree to blocks that have been claimed for it.
///
/// # Errors
/// `NoSpace` beyond the promise; corruption. The operation must then be dropped.
pub(crate) fn map_run(op: &mut Op<'_>, ino: Ino, new: Extent) -> Result<()> {
    tree::map_claimed(op, ino, new)?;
    tree::merge_up(op, ino)
}

/// Makes mapped blocks written, or unwritten.
///
/// # Errors
/// As [`map_run`].
pub(crate) fn convert_run(op: &mut Op<'_>, ino: Ino, from: u32, to: u32, unwritten: bool) -> Result<()> {
    let mut at = from;
    while at < to {
        at = mapping::convert(op, ino, at, to, unwritten)?;
    }
    tree::merge_up(op, ino)
}

/// Unmaps and frees blocks from the beginning, as far as the operation's journal space goes: where it stopped.
///
/// # Errors
/// As [`map_run`].
pub(crate) fn unmap(op: &mut Op<'_>, ino: Ino, from: u32, to: u32) -> Result<u32> {
    mapping::remove(op, ino, from, to)
}
