//! Extents that leave one file for another: taken out of a tree with what they map, and put into the tree of the next
//! owner.
//!
//! Nodes stay with their trees: a node's checksum covers its inode's number and generation.

use super::insert::insert;
use super::path::Path;
use super::remove::{Entries, overlapping};
use super::splice::splice;
use super::{ROOT, path::Level};
use crate::file::bad_node;
use crate::op::Op;
use crate::{Ino, Result};
use ondol_format::extent::{Extent, Node};
use ondol_format::{Inode, Place};

/// Levels of a tree above its leaves.
///
/// # Errors
/// Corruption of the root.
pub(in crate::file) fn level(ino: Ino, inode: &Inode) -> Result<u32> {
    let root = Node::parse(&inode.i_block, None, Place::inode(ino)).map_err(bad_node(ino, ROOT))?;
    Ok(u32::from(root.depth()))
}

/// Takes the extents of `from..to` out of the tree, in order, and leaves a hole. Their blocks stay in use.
///
/// # Errors
/// As [`splice`]: an extent that reaches over the whole range becomes two. The operation must then be dropped.
pub(in crate::file) fn detach(op: &mut Op<'_>, ino: Ino, from: u32, to: u32) -> Result<Vec<Extent>> {
    let (mut at, mut taken) = (from, Vec::new());
    while at < to {
        let mut path = Path::find(op, ino, at)?;
        let Entries { first, extents } = overlapping(&path, op, at, to)?;
        let Some(last) = extents.last() else {
            at = path.next_leaf;
            continue;
        };
        let (end, mut rest) = (last.end(), Vec::with_capacity(2));
        for e in &extents {
            let part = part_of(e, at.max(e.logical), e.end().min(to.into()));
            if part.logical > e.logical {
                rest.push(part_of(e, e.logical, part.logical.into()));
            }
            if part.end() < e.end() {
                rest.push(part_of(e, part.end() as u32, e.end()));
            }
            taken.push(part);
        }
        splice(op, &mut path, first, extents.len(), &rest)?;
        at = end.min(to.into()) as u32;
    }
    Ok(taken)
}

/// The part of an extent that lies in `from..to`.
fn part_of(e: &Extent, from: u32, to: u64) -> Extent {
    let skip = from - e.logical;
    Extent { logical: from, start: e.start + u64::from(skip), len: (to - u64::from(from)) as u32, ..*e }
}

/// Puts extents into a hole of the tree, in order. What lies behind its neighbour on the medium, too, becomes part of
/// it.
///
/// # Errors
/// As [`splice`]. The operation must then be dropped.
pub(in crate::file) fn attach(op: &mut Op<'_>, ino: Ino, extents: impl Iterator<Item = Extent>) -> Result<()> {
    for new in extents {
        let mut path = Path::find(op, ino, new.logical)?;
        let (left, right) = path.around(op)?;
        insert(op, &mut path, left, right, new)?;
    }
    Ok(())
}

/// Pulls an only child that fits into the root up into it, as often as there is one.
///
/// # Errors
/// Corruption, or the store's failure. The operation must then be dropped.
pub(in crate::file) fn settle(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let path = Path::find(op, ino, 0)?;
    let Level { block, .. } = path.leaf();
    if block == ROOT { Ok(()) } else { path.collapse(op) }
}
