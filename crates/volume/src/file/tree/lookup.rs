//! From a logical block to the run that maps it.

use super::ROOT;
use crate::file::{Found, Mapped, Run, Source, bad_node, bad_pointer};
use crate::{Ino, Result, kind};
use ondol_format::extent::{MAX_LOGICAL, Node};
use ondol_format::{Inode, Place};

/// The entry of `node` to follow for `at`: how many entries begin at or before it. `next` is lowered to the first key
/// behind it.
pub(super) fn position(node: &Node<'_>, at: u32, next: &mut u32) -> usize {
    let position = node.search(at).map_or(0, |i| i + 1);
    // An index node's first child also holds what comes before its key.
    let behind = if node.is_leaf() { position } else { position.max(1) };
    if let Some(key) = node.logical(behind) {
        *next = key.min(*next);
    }
    position
}

/// See [`crate::file::find`].
pub(in crate::file) fn find(source: &mut dyn Source, ino: Ino, inode: &Inode, at: u32) -> Result<Found> {
    let place = Place::inode(ino);
    let kind = kind::extent_node(ino, inode.generation);
    let mut next = MAX_LOGICAL;
    let root = Node::parse(&inode.i_block, None, place).map_err(bad_node(ino, ROOT))?;
    let depth = root.depth();
    if depth == 0 {
        return run_in(source, ino, &root, at, &mut next).map(|run| found(run, depth, ROOT, &root));
    }
    let mut block = child(&root, at, &mut next);
    for level in (0..depth).rev() {
        if !source.may_own(ino, block, 1) {
            return Err(bad_pointer(ino, block, 1));
        }
        let bytes = source.node(block, kind)?;
        let node = Node::header(&bytes, Some(level), place.in_block(block)).map_err(bad_node(ino, block))?;
        if level == 0 {
            return run_in(source, ino, &node, at, &mut next).map(|run| found(run, depth, block, &node));
        }
        block = child(&node, at, &mut next);
    }
    Err(bad_pointer(ino, block, 1))
}

fn found(run: Run, depth: u16, leaf: u64, node: &Node<'_>) -> Found {
    Found { run, depth, leaf, room: node.max() - node.len() }
}

fn child(node: &Node<'_>, at: u32, next: &mut u32) -> u64 {
    let i = position(node, at, next).saturating_sub(1);
    node.index(i).map_or(0, |index| index.leaf)
}

fn run_in(source: &dyn Source, ino: Ino, leaf: &Node<'_>, at: u32, next: &mut u32) -> Result<Run> {
    let before = position(leaf, at, next).checked_sub(1).and_then(|i| leaf.extent(i));
    let Some(extent) = before.filter(|e| u64::from(at) < e.end()) else {
        return Ok(Run { at, len: *next - at, what: Mapped::Hole });
    };
    if !source.may_own(ino, extent.start, u64::from(extent.len)) {
        return Err(bad_pointer(ino, extent.start, u64::from(extent.len)));
    }
    let skip = at - extent.logical;
    let start = extent.start + u64::from(skip);
    let what = if extent.unwritten { Mapped::Unwritten(start) } else { Mapped::Written(start) };
    Ok(Run { at, len: extent.len - skip, what })
}
