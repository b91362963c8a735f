//! Growing and shrinking of files whose blocks are metadata, and freeing the blocks of any file.

use super::{blocks, mapping, tree};
use crate::inline::is_inline;
use crate::op::Op;
use crate::{Error, Ino, Result, Volume};
use ondol_format::extent::{MAX_LOGICAL, Node, NodeMut};
use ondol_format::inode::InodeFlags;
use ondol_format::{Incompat, Inode, Place};

/// Gives an inode without contents an empty mapping: an extent tree, or a block map on volumes without extents.
pub(crate) fn init_mapping(vol: &Volume, inode: &mut Inode) {
    if vol.shared.sb.has_incompat(Incompat::EXTENTS) {
        inode.flags.insert(InodeFlags::EXTENTS);
        NodeMut::init(&mut inode.i_block, 0);
    }
}

/// Whether i_block says where blocks are.
pub(crate) fn has_blocks(inode: &Inode) -> bool {
    let mapped = inode.is_regular() || inode.is_dir() || (inode.is_symlink() && !inode.is_fast_symlink());
    mapped && !is_inline(inode)
}

/// Allocates the block behind the end of a directory (or other metadata file), mapped as written, and grows the size by
/// it: logical and physical block. The caller stages its content with `fresh`.
///
/// # Errors
/// `NoSpace` beyond the promise (see [`grow_blocks`]); corruption of the mapping.
pub(crate) fn grow(op: &mut Op<'_>, ino: Ino) -> Result<(u32, u64)> {
    let block_size = u64::from(op.vol().shared.sb.block_size());
    let size = op.inode(ino)?.size;
    let at = u32::try_from(size.div_ceil(block_size)).ok().filter(|&at| at < MAX_LOGICAL).ok_or(Error::FileTooBig)?;
    // Deeper trees than `grow_cost` counts with: ask for the difference.
    let deep = if op.inode(ino)?.has_extents() { tree::depth(op, ino, at)? } else { 0 };
    let more = deep.saturating_sub(2) * 4;
    let handle = op.handle()?;
    if more > 0 && !handle.extend(more) {
        return Err(Error::TooBig { need: more.into(), max: handle.credits().left.into() });
    }
    let blocks = mapping::fill_hole(op, ino, at, 1, false)?;
    op.inode_mut(ino)?.size = (u64::from(at) + 1) * block_size;
    Ok((at, blocks.start))
}

/// Journal blocks that one `grow` may change beside the inode and the new block itself.
pub(crate) fn grow_cost() -> u32 {
    16
}

/// Blocks that one `grow` may allocate: the new block and nodes of the tree.
pub(crate) fn grow_blocks() -> u64 {
    4
}

/// Frees blocks from logical block `keep` on as far as the operation's journal space allows; true when done. The size
/// is the caller's matter. Freeing whole blocks up to the end takes no space.
///
/// # Errors
/// Corruption; `TooBig` when there is not even journal space for the first run: about 30 blocks are enough.
pub(crate) fn shrink(op: &mut Op<'_>, ino: Ino, keep: u32) -> Result<bool> {
    if is_inline(op.inode(ino)?) {
        return Ok(true);
    }
    Ok(mapping::remove(op, ino, keep, MAX_LOGICAL)? == MAX_LOGICAL)
}

/// Whether a directory or symlink can grow by `n` blocks without any block of its mapping.
pub(crate) fn has_root_room(inode: &Inode, n: u32) -> bool {
    if !inode.has_extents() {
        return blocks::has_direct_room(inode, n);
    }
    let root = Node::header(&inode.i_block, None, Place::NONE);
    root.is_ok_and(|root| root.is_leaf() && root.len() + n as usize <= root.max())
}

/// Journal blocks that [`shrink`] to nothing takes, if one operation can do it for sure: the whole mapping is in the
/// inode.
pub(crate) fn free_cost(vol: &Volume, inode: &Inode) -> Option<u32> {
    // What it wants to be left over before it frees another run.
    const SPARE: u32 = 8 + crate::orphan::COST;
    if !inode.has_extents() {
        return blocks::free_cost(inode).map(|runs| runs + SPARE);
    }
    let root = Node::parse(&inode.i_block, Some(0), Place::NONE).ok()?;
    let per_group = vol.shared.sb.blocks_per_group().max(1);
    // A bitmap and a descriptor for every group that a run may touch.
    let runs: u32 = root.extents().map(|e| 2 * (e.len / per_group + 2)).sum();
    Some(runs + SPARE)
}
