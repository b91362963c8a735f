//! Mapping holes to new blocks, and turning unwritten extents into written ones and back.

use super::path::Path;
use super::room::FREED_NODE;
use super::splice::splice;
use crate::file::cluster;
use crate::op::Op;
use crate::{Error, Ino, Result, Volume};
use ondol_format::Place as At;
use ondol_format::extent::{Extent, MAX_LEN, MAX_UNWRITTEN_LEN, Node};
use ondol_journal::Extent as Blocks;

/// Allocates up to `want` consecutive blocks for the hole at `at` and maps them. The caller knows that the hole is that
/// long.
///
/// # Errors
/// As [`splice`].
pub(in crate::file) fn fill_hole(op: &mut Op<'_>, ino: Ino, at: u32, want: u32, unwritten: bool) -> Result<Blocks> {
    let mut path = Path::find(op, ino, at)?;
    let (left, right) = path.around(op)?;
    let goal = goal(op, ino, at, left, right);
    let most = if unwritten { MAX_UNWRITTEN_LEN } else { MAX_LEN };
    let grows = right.is_none() && left.is_some_and(|left| left.end() == u64::from(at));
    let got = cluster::take(op, ino, Extent { logical: at, start: goal, len: want.min(most), unwritten }, grows)?;
    insert(op, &mut path, left, right, Extent { logical: at, start: got.start, len: got.len, unwritten })?;
    Ok(got)
}

/// Maps a hole to blocks that have been claimed for it.
///
/// # Errors
/// As [`splice`].
pub(in crate::file) fn map_claimed(op: &mut Op<'_>, ino: Ino, new: Extent) -> Result<()> {
    let mut path = Path::find(op, ino, new.logical)?;
    let (left, right) = path.around(op)?;
    op.take_claimed(Blocks { start: new.start, len: new.len })?;
    add_blocks(op, ino, u64::from(new.len))?;
    insert(op, &mut path, left, right, new)
}

/// Maps `new` between its neighbours, as part of one of them where that is possible.
pub(super) fn insert(
    op: &mut Op<'_>,
    path: &mut Path,
    left: Option<Extent>,
    right: Option<Extent>,
    new: Extent,
) -> Result<()> {
    let (mut from, mut removed, mut merged) = (path.leaf().at, 0, new);
    if let Some(left) = left.filter(|l| l.can_merge(&merged)) {
        merged = Extent { len: left.len + merged.len, ..left };
        (from, removed) = (from - 1, 1);
    }
    if let Some(right) = right.filter(|r| merged.can_merge(r)) {
        merged.len += right.len;
        removed += 1;
    }
    splice(op, path, from, removed, &[merged])
}

/// Pulls the only leaf of a tree of one level up into the root when extents have merged so far that it fits there, as
/// the kernel does, if the operation can pay for freeing it. For the end of an operation: what it has yet to map is
/// planned for the tree as it was. Higher trees shrink when something is removed from them.
///
/// # Errors
/// Corruption, or the store's failure. The operation must then be dropped.
pub(in crate::file) fn merge_up(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    if !op.has_merged {
        return Ok(());
    }
    let inode = op.inode(ino)?;
    let alone = |root: Node<'_>| root.depth() == 1 && root.len() == 1;
    if !inode.has_extents()
        || !Node::parse(&inode.i_block, None, At::inode(ino)).is_ok_and(alone)
        || op.room() < FREED_NODE
    {
        return Ok(());
    }
    Path::find(op, ino, 0)?.collapse(op)
}

/// Where the blocks of a hole at `at` should lie: so that the file is in order on the medium, as far as it is dense.
fn goal(op: &Op<'_>, ino: Ino, at: u32, left: Option<Extent>, right: Option<Extent>) -> u64 {
    let near = op.vol().shared.sb.blocks_per_group();
    if let Some(left) = left {
        let distance = at - left.logical;
        return left.start + u64::from(if distance < near { distance } else { left.len });
    }
    if let Some(right) = right {
        let distance = right.logical - at;
        return if distance < near { right.start.saturating_sub(u64::from(distance)) } else { right.start };
    }
    start_goal(op, ino)
}

/// Where a file that has no block yet should begin, and where the nodes of its tree should lie: as near to the
/// beginning of the inode's group as there is room, so that what belongs together takes few seeks.
pub(in crate::file) fn start_goal(op: &Op<'_>, ino: Ino) -> u64 {
    let sb = &op.vol().shared.sb;
    sb.group_of_inode(ino).map_or(0, |(g, _)| sb.group_first_block(g))
}

/// Makes the part of the extent at `at` that lies before `end` written, or unwritten. Returns where that part ends.
///
/// # Errors
/// As [`splice`]; `Invalid` when nothing is mapped there.
pub(in crate::file) fn convert(op: &mut Op<'_>, ino: Ino, at: u32, end: u32, unwritten: bool) -> Result<u32> {
    let mut path = Path::find(op, ino, at)?;
    let position = path.leaf().at;
    let near = path.extents(op, position.saturating_sub(2), 3)?;
    // The extent itself is the last that begins at or before `at`; its neighbours are those of the same leaf.
    let here = position.checked_sub(1).ok_or(NOT_MAPPED)?.min(1);
    let left = here.checked_sub(1).and_then(|i| near.get(i)).copied();
    let old = near.get(here).copied().filter(|e| u64::from(at) < e.end()).ok_or(NOT_MAPPED)?;
    let right = near.get(here + 1).copied();
    let most = if unwritten { MAX_UNWRITTEN_LEN } else { MAX_LEN };
    let len = ((old.end() - u64::from(at)) as u32).min(end - at).min(most);
    if old.unwritten == unwritten {
        return Ok(at + len);
    }
    let skip = at - old.logical;
    let mut middle = Extent { logical: at, start: old.start + u64::from(skip), len, unwritten };
    let tail_len = old.len - skip - len;
    let tail = Extent { logical: at.saturating_add(len), start: middle.start + u64::from(len), len: tail_len, ..old };
    let (mut from, mut removed) = (position - 1, 1);
    let mut new = Vec::with_capacity(3);
    if skip > 0 {
        new.push(Extent { len: skip, ..old });
    } else if let Some(left) = left.filter(|l| l.can_merge(&middle)) {
        middle = Extent { len: left.len + middle.len, ..left };
        (from, removed) = (from - 1, removed + 1);
    }
    match right.filter(|r| tail_len == 0 && middle.can_merge(r)) {
        Some(right) => {
            middle.len += right.len;
            removed += 1;
            new.push(middle);
        }
        None => new.push(middle),
    }
    if tail_len > 0 {
        new.push(tail);
    }
    splice(op, &mut path, from, removed, &new)?;
    Ok(at + len)
}

const NOT_MAPPED: Error = Error::Invalid("a block that is not allocated cannot be converted");

/// Counts `clusters` more for the inode.
///
/// # Errors
/// `FileTooBig` when the inode cannot count so many.
pub(in crate::file) fn add_blocks(op: &mut Op<'_>, ino: Ino, clusters: u64) -> Result<()> {
    let format = &op.vol().shared.inode_format;
    let sum = op.inode(ino)?.blocks.saturating_add(clusters * units(op.vol()));
    if sum > u64::from(u32::MAX) && !format.huge_file {
        return Err(Error::FileTooBig);
    }
    op.inode_mut(ino)?.blocks = sum;
    Ok(())
}

/// What an inode counts for a cluster: units of 512 bytes.
fn units(vol: &Volume) -> u64 {
    let sb = &vol.shared.sb;
    u64::from(sb.cluster_ratio()) * u64::from(sb.block_size() / 512)
}

/// Counts `clusters` fewer for the inode.
pub(in crate::file) fn remove_blocks(op: &mut Op<'_>, ino: Ino, clusters: u64) -> Result<()> {
    let units = clusters * units(op.vol());
    let inode = op.inode_mut(ino)?;
    inode.blocks = inode.blocks.saturating_sub(units);
    Ok(())
}
