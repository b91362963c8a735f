//! A file's extent tree: the root in the inode, index nodes, leaves.
//!
//! Every change is a [`splice::splice`]: some entries of one leaf are replaced by others. What a leaf or index node has
//! no room for splits it; what becomes empty is freed; the first key of a node and its parent's key for it are always
//! equal, as e2fsck demands.

mod insert;
mod lookup;
mod path;
mod remove;
mod room;
mod shift;
mod splice;
mod transfer;

pub(super) use insert::{add_blocks, convert, fill_hole, map_claimed, merge_up, remove_blocks, start_goal};
pub(super) use lookup::find;
pub(super) use remove::{data_kind, remove};
pub(super) use room::{FREED_NODE, Growth, SPARE, alloc_cost, growth, has_splice_room, removal_cost, step_cost};
pub(super) use shift::{nodes_in, shift, split_at};
pub(super) use transfer::{attach, detach, level, settle};

use super::{Mapped, Run};
use crate::op::Op;
use crate::{Ino, Result};

/// The run at `at` as the operation has it so far.
///
/// # Errors
/// Corruption, or the store's failure.
pub(super) fn map(op: &mut Op<'_>, ino: Ino, at: u32) -> Result<Run> {
    let path = path::Path::find(op, ino, at)?;
    let (left, right) = path.around(op)?;
    let Some(extent) = left.filter(|e| u64::from(at) < e.end()) else {
        let next = right.map_or(path.next_leaf, |e| e.logical);
        return Ok(Run { at, len: next - at, what: Mapped::Hole });
    };
    if !op.vol().shared.may_own(extent.start, u64::from(extent.len)) {
        return Err(super::bad_pointer(ino, extent.start, u64::from(extent.len)));
    }
    let skip = at - extent.logical;
    let start = extent.start + u64::from(skip);
    let what = if extent.unwritten { Mapped::Unwritten(start) } else { Mapped::Written(start) };
    Ok(Run { at, len: extent.len - skip, what })
}

/// Levels above the leaf in which `at` is mapped, or would be.
///
/// # Errors
/// Corruption, or the store's failure.
pub(super) fn depth(op: &mut Op<'_>, ino: Ino, at: u32) -> Result<u32> {
    Ok(path::Path::find(op, ino, at)?.depth() as u32)
}

/// Stands for the root in place of a block number.
const ROOT: u64 = 0;
