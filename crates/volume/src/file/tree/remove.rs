//! Unmapping a range and freeing its blocks.

use super::path::Path;
use super::room::removal_cost;
use super::splice::splice;
use crate::file::cluster;
use crate::op::Op;
use crate::{Error, Ino, Result, kind};
use ondol_format::Inode;
use ondol_format::extent::{Extent, MAX_LOGICAL};
use ondol_format::inode::FileType;
use ondol_journal::Kind;
use std::ops::Range;

/// Unmaps and frees the blocks of `from..to`, from the beginning, as far as the operation's journal space goes. Returns
/// where it stopped: `to` when all is done.
///
/// # Errors
/// As [`splice`]. A hole is only cut into a mapped run when the operation has been promised blocks for the tree.
pub(in crate::file) fn remove(op: &mut Op<'_>, ino: Ino, from: u32, to: u32) -> Result<u32> {
    let mut at = from;
    while at < to {
        let path = Path::find(op, ino, at)?;
        let found = overlapping(&path, op, at, to)?;
        if found.extents.is_empty() {
            if path.next_leaf >= to {
                return Ok(to);
            }
            at = path.next_leaf;
            continue;
        }
        match remove_in_leaf(op, path, &found, at..to, at == from)? {
            Some(next) => at = next,
            None => return Ok(at),
        }
    }
    Ok(to)
}

/// Entries of a leaf, one behind the other.
pub(super) struct Entries {
    /// Which of the leaf's is the first of them.
    pub(super) first: usize,
    pub(super) extents: Vec<Extent>,
}

/// The extents of the path's leaf that reach into `from..to`.
pub(super) fn overlapping(path: &Path, op: &mut Op<'_>, from: u32, to: u32) -> Result<Entries> {
    let mut first = path.leaf().at.saturating_sub(1);
    let mut extents = path.extents(op, first, path.leaf().len)?;
    if extents.first().is_some_and(|e| e.end() <= u64::from(from)) {
        extents.remove(0);
        first += 1;
    }
    extents.truncate(extents.partition_point(|e| e.logical < to));
    Ok(Entries { first, extents })
}

/// Unmaps what lies in a range of these entries of one leaf. `None` when there was no journal space even for the first,
/// which `must` insists on.
fn remove_in_leaf(
    op: &mut Op<'_>,
    mut path: Path,
    found: &Entries,
    Range { start: from, end: to }: Range<u32>,
    must: bool,
) -> Result<Option<u32>> {
    let extents = &found.extents;
    let (ino, data) = (path.ino, data_kind(path.ino, op.inode(path.ino)?));
    // A cluster is freed with its last block: what has been unmapped before must be seen.
    let most = if op.vol().shared.sb.cluster_ratio() > 1 { 1 } else { extents.len() };
    let mut rest = Vec::with_capacity(2);
    let (mut removed, mut stopped) = (0, from);
    for e in &extents[..most] {
        let (start, end) = (e.logical.max(from), e.end().min(u64::from(to)).min(u64::from(MAX_LOGICAL)) as u32);
        let gone = Extent { logical: start, start: e.start + u64::from(start - e.logical), len: end - start, ..*e };
        if !has_room(op, path.depth(), gone.len, must && removed == 0)? {
            break;
        }
        cluster::give_back(op, ino, gone, data)?;
        if start > e.logical {
            rest.push(Extent { len: start - e.logical, ..*e });
        }
        if u64::from(end) < e.end() {
            let skip = end - e.logical;
            rest.push(Extent { logical: end, start: e.start + u64::from(skip), len: e.len - skip, ..*e });
        }
        (removed, stopped) = (removed + 1, end);
    }
    if removed == 0 {
        return Ok(None);
    }
    splice(op, &mut path, found.first, removed, &rest)?;
    path.collapse(op)?;
    Ok(Some(stopped))
}

/// Whether the journal space left is enough for freeing one more run, changing the tree, and ending the operation.
fn has_room(op: &mut Op<'_>, depth: usize, blocks: u32, must: bool) -> Result<bool> {
    let need = removal_cost(op.vol(), depth, blocks);
    let room = op.room();
    if room >= need || (must && op.handle()?.extend(need - room)) {
        return Ok(true);
    }
    if must { Err(Error::TooBig { need: need.into(), max: room.into() }) } else { Ok(false) }
}

/// What the data blocks of an inode are to the journal: file data, or blocks that have gone through it.
pub(in crate::file) fn data_kind(ino: Ino, inode: &Inode) -> Kind {
    match inode.file_type() {
        Some(FileType::Regular) => Kind::DATA,
        Some(FileType::Symlink) => kind::SYMLINK,
        _ => kind::dir_leaf(ino, inode.generation),
    }
}
