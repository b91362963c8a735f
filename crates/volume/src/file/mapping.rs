//! How an operation finds, maps and unmaps a file's blocks, whatever maps them: an extent tree or ext2's block map.
//!
//! | | extent tree | block map |
//! |---|---|---|
//! | holes become | written or unwritten blocks | written blocks |
//! | [`convert`] | both ways | nothing is unwritten |
//! | [`remove`] may allocate | nodes, when a hole is cut into a run | never |

use super::{Mounted, Run, blocks, tree};
use crate::op::Op;
use crate::{Error, Ino, Result, Volume};
use ondol_format::Inode;
use ondol_journal::Extent as Blocks;

/// Refuses what only extent trees can do: blocks that are allocated and unwritten, ranges that move.
///
/// # Errors
/// `Unsupported`.
pub(super) fn require_extents(inode: &Inode) -> Result<()> {
    if inode.has_extents() {
        return Ok(());
    }
    Err(Error::Unsupported("this change of a file that has a block map and no extents".into()))
}

/// The run at `at` as the operation has it so far.
///
/// # Errors
/// Corruption, or the store's failure.
pub(super) fn map(op: &mut Op<'_>, ino: Ino, at: u32) -> Result<Run> {
    if op.inode(ino)?.has_extents() {
        return tree::map(op, ino, at);
    }
    let inode = op.inode(ino)?.clone();
    blocks::find(&mut Mounted(op), ino, &inode, at)
}

/// Allocates up to `want` consecutive blocks for the hole at `at` and maps them. The caller knows that the hole is that
/// long.
///
/// # Errors
/// `NoSpace` beyond the promise; `Unsupported` for unwritten blocks of a block map; corruption. The operation must then
/// be dropped.
pub(super) fn fill_hole(op: &mut Op<'_>, ino: Ino, at: u32, want: u32, unwritten: bool) -> Result<Blocks> {
    if op.inode(ino)?.has_extents() {
        return tree::fill_hole(op, ino, at, want, unwritten);
    }
    if unwritten {
        require_extents(op.inode(ino)?)?;
    }
    no_clusters(op.vol(), ino)?;
    blocks::fill_hole(op, ino, at, want)
}

/// Block maps know no clusters, and no image has both.
fn no_clusters(vol: &Volume, ino: Ino) -> Result<()> {
    if vol.shared.sb.cluster_ratio() == 1 {
        return Ok(());
    }
    Err(Error::corrupt(format!("inode {ino}"), 0, "a block map on a volume with clusters"))
}

/// Makes the part of the run at `at` that lies before `end` written, or unwritten. Returns where that part ends.
///
/// # Errors
/// `Unsupported` for a block map; as [`fill_hole`]; `Invalid` when nothing is mapped there.
pub(super) fn convert(op: &mut Op<'_>, ino: Ino, at: u32, end: u32, unwritten: bool) -> Result<u32> {
    require_extents(op.inode(ino)?)?;
    tree::convert(op, ino, at, end, unwritten)
}

/// Unmaps and frees the blocks of `from..to`, from the beginning, as far as the operation's journal space goes. Returns
/// where it stopped: `to` when all is done.
///
/// # Errors
/// Corruption; `TooBig` when there is not even journal space for the first run. A hole is only cut into an extent when
/// the operation has been promised blocks for the tree.
pub(super) fn remove(op: &mut Op<'_>, ino: Ino, from: u32, to: u32) -> Result<u32> {
    if op.inode(ino)?.has_extents() {
        return tree::remove(op, ino, from, to);
    }
    no_clusters(op.vol(), ino)?;
    blocks::remove(op, ino, from, to)
}

/// Journal blocks with which a step of stepwise work gets on, whatever maps the file.
pub(super) fn step_cost(vol: &Volume) -> u32 {
    tree::step_cost(vol)
}
