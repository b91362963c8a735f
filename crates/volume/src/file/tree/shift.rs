//! Moving all that is mapped from a logical block on to other logical blocks: nothing but keys changes.

use super::ROOT;
use super::lookup::position;
use super::path::Path;
use super::splice::splice;
use crate::file::{Source, bad_node, bad_pointer};
use crate::op::Op;
use crate::{Error, Ino, Result, kind};
use ondol_format::extent::{Extent, Index, MAX_LOGICAL, Node};
use ondol_format::{Inode, Place};
use ondol_journal::Kind;
use std::ops::Range;

/// Number of nodes below the root that map blocks of `range`, or lead to such. Counting stops above `most`.
///
/// # Errors
/// Corruption, or the store's failure.
pub(in crate::file) fn nodes_in(
    source: &mut dyn Source,
    ino: Ino,
    inode: &Inode,
    range: Range<u32>,
    most: u32,
) -> Result<u32> {
    let root = Node::parse(&inode.i_block, None, Place::inode(ino)).map_err(bad_node(ino, ROOT))?;
    let mut count = Count { source, ino, kind: kind::extent_node(ino, inode.generation), range, most, found: 0 };
    count.below(&root)?;
    Ok(count.found)
}

struct Count<'s> {
    source: &'s mut dyn Source,
    ino: Ino,
    kind: Kind,
    range: Range<u32>,
    most: u32,
    found: u32,
}

impl Count<'_> {
    fn below(&mut self, node: &Node<'_>) -> Result<()> {
        if node.is_leaf() {
            return Ok(());
        }
        let first = position(node, self.range.start, &mut { MAX_LOGICAL }).saturating_sub(1);
        let end = position(node, self.range.end.saturating_sub(1), &mut { MAX_LOGICAL }).max(first + 1);
        self.found = self.found.saturating_add((end.min(node.len()) - first) as u32);
        if node.depth() == 1 {
            return Ok(());
        }
        for block in (first..end).filter_map(|i| node.index(i)).map(|index| index.leaf) {
            if self.found > self.most {
                break;
            }
            if !self.source.may_own(self.ino, block, 1) {
                return Err(bad_pointer(self.ino, block, 1));
            }
            let bytes = self.source.node(block, self.kind)?;
            let place = Place::inode(self.ino).in_block(block);
            let child = Node::header(&bytes, Some(node.depth() - 1), place).map_err(bad_node(self.ino, block))?;
            self.below(&child)?;
        }
        Ok(())
    }
}

/// Makes two extents of one that lies before and behind logical block `at`; else nothing.
///
/// # Errors
/// As [`splice`].
pub(in crate::file) fn split_at(op: &mut Op<'_>, ino: Ino, at: u32) -> Result<()> {
    let mut path = Path::find(op, ino, at)?;
    let Some(e) = path.around(op)?.0.filter(|e| e.logical < at && u64::from(at) < e.end()) else { return Ok(()) };
    let skip = at - e.logical;
    let halves = [
        Extent { len: skip, ..e },
        Extent { logical: at, start: e.start + u64::from(skip), len: e.len - skip, unwritten: e.unwritten },
    ];
    let here = path.leaf().at - 1;
    splice(op, &mut path, here, 1, &halves)
}

/// Adds `by` to the logical block of every extent that begins at or behind `from`. No extent may reach over `from`, and
/// none may lie where others come to. Changes as many nodes as [`nodes_in`] counts from there on.
///
/// # Errors
/// Corruption; `Invalid` when an extent would end behind the last logical block. The operation must then be dropped.
pub(in crate::file) fn shift(op: &mut Op<'_>, ino: Ino, from: u32, by: i64) -> Result<()> {
    let path = Path::find(op, ino, from)?;
    let depth = path.depth();
    // A tree whose branches meet again would be moved more than once.
    let most = op.vol().engine.max_blocks();
    let mut shift = Shift { path, from, by, left: most };
    shift.node(op, ROOT, depth).map(|_| ())
}

struct Shift {
    path: Path,
    from: u32,
    by: i64,
    /// Nodes that may still be visited.
    left: u32,
}

impl Shift {
    /// Moves what lies below a node, and returns the node's first key afterwards.
    fn node(&mut self, op: &mut Op<'_>, block: u64, height: usize) -> Result<Option<u32>> {
        self.left = self.left.checked_sub(1).ok_or_else(|| self.broken(block, "its branches meet again"))?;
        if height == 0 {
            self.leaf(op, block)?
        } else {
            self.index(op, block, height)?
        }
        self.path.with(op, block, |node| node.logical(0))
    }

    fn index(&mut self, op: &mut Op<'_>, block: u64, height: usize) -> Result<()> {
        let from = self.from;
        let (depth, children) = self.path.with(op, block, |node| {
            let first = position(&node, from, &mut { MAX_LOGICAL }).saturating_sub(1);
            let children: Vec<(usize, Index)> = (first..node.len()).filter_map(|i| Some((i, node.index(i)?))).collect();
            (usize::from(node.depth()), children)
        })?;
        if depth != height {
            return Err(self.broken(block, "a node is not as deep as its parent says"));
        }
        let mut moved = Vec::with_capacity(children.len());
        for (i, index) in children {
            if !op.vol().shared.may_own(index.leaf, 1) {
                return Err(bad_pointer(self.path.ino, index.leaf, 1));
            }
            let first = self.node(op, index.leaf, height - 1)?;
            let logical = first.ok_or_else(|| self.broken(index.leaf, "an empty node"))?;
            if logical != index.logical {
                moved.push((i, Index { logical, ..index }));
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        self.path.edit(op, block, |node| moved.iter().all(|(i, index)| node.set_index(*i, *index)))
    }

    fn leaf(&self, op: &mut Op<'_>, block: u64) -> Result<()> {
        let (depth, mut extents) =
            self.path.with(op, block, |leaf| (leaf.depth(), leaf.extents().collect::<Vec<_>>()))?;
        if depth != 0 {
            return Err(self.broken(block, "an index node in place of a leaf"));
        }
        let first = extents.partition_point(|e| e.logical < self.from);
        for e in &mut extents[first..] {
            if self.by > 0 && e.end().saturating_add(self.by as u64) > u64::from(MAX_LOGICAL) {
                return Err(Error::Invalid("blocks would move behind the last one that a file can have"));
            }
            let logical = u32::try_from(i64::from(e.logical) + self.by);
            e.logical = logical.map_err(|_| self.broken(block, "an extent in the wrong place"))?;
        }
        // What has come behind its neighbour on the medium, too, becomes part of it.
        let joined = first.checked_sub(1).filter(|&i| extents.get(first).is_some_and(|e| extents[i].can_merge(e)));
        self.path.edit(op, block, |leaf| {
            let all = (first..).zip(&extents[first..]).all(|(i, e)| leaf.set_extent(i, *e));
            let Some(i) = joined else { return all };
            let sum = Extent { len: extents[i].len + extents[first].len, ..extents[i] };
            all && leaf.set_extent(i, sum) && leaf.remove(first, 1)
        })
    }

    fn broken(&self, block: u64, what: &str) -> Error {
        Error::corrupt(format!("mapping of inode {}", self.path.ino), block, what)
    }
}
