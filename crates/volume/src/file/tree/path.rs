//! The way from the root to one leaf, for changing it.

use super::ROOT;
use super::lookup::position;
use crate::file::{bad_node, bad_pointer};
use crate::op::{Op, Reader};
use crate::{Error, Ino, Result, kind};
use ondol_format::Place;
use ondol_format::extent::{Extent, MAX_LOGICAL, Node, NodeMut};
use ondol_journal::Kind;

/// One node on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Its block, or [`ROOT`].
    pub(super) block: u64,
    /// In an index node, the entry that was followed; in the leaf, how many entries begin at or before the block that
    /// was looked for.
    pub(super) at: usize,
    /// Entries in use.
    pub(super) len: usize,
    /// Entries that fit.
    pub(super) max: usize,
}

/// The nodes from the root down to a leaf.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) ino: Ino,
    pub(super) kind: Kind,
    pub(super) levels: Vec<Level>,
    /// First logical block of the next leaf.
    pub(super) next_leaf: u32,
}

impl Path {
    /// The way to the leaf in which `at` is mapped, or would be.
    pub(super) fn find(op: &mut Op<'_>, ino: Ino, at: u32) -> Result<Self> {
        let inode = op.inode(ino)?;
        let place = Place::inode(ino);
        let kind = kind::extent_node(ino, inode.generation);
        let mut path = Self { ino, kind, levels: Vec::with_capacity(4), next_leaf: MAX_LOGICAL };
        let root = Node::parse(&inode.i_block, None, place).map_err(bad_node(ino, ROOT))?;
        let depth = root.depth();
        let mut below = path.visit(ROOT, &root, at);
        for level in (0..depth).rev() {
            if !op.vol().shared.may_own(below, 1) {
                return Err(bad_pointer(ino, below, 1));
            }
            let bytes = op.block(below, kind)?;
            let node = Node::header(&bytes, Some(level), place.in_block(below)).map_err(bad_node(ino, below))?;
            below = path.visit(below, &node, at);
        }
        Ok(path)
    }

    /// Notes a node and returns the child to go on with.
    fn visit(&mut self, block: u64, node: &Node<'_>, at: u32) -> u64 {
        let (len, max) = (node.len(), node.max());
        if node.is_leaf() {
            let at = position(node, at, &mut { MAX_LOGICAL });
            self.levels.push(Level { block, at, len, max });
            return ROOT;
        }
        let i = position(node, at, &mut self.next_leaf).saturating_sub(1);
        self.levels.push(Level { block, at: i, len, max });
        node.index(i).map_or(ROOT, |index| index.leaf)
    }

    /// Levels above the leaf.
    pub(super) fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The leaf.
    pub(super) fn leaf(&self) -> Level {
        self.levels[self.levels.len() - 1]
    }

    /// The node `height` levels above the leaf, as an index into `levels`.
    pub(super) fn at_height(&self, height: usize) -> usize {
        self.levels.len() - 1 - height
    }

    /// Lets `look` see a node of this tree.
    pub(super) fn with<R>(&self, op: &mut Op<'_>, block: u64, look: impl FnOnce(Node<'_>) -> R) -> Result<R> {
        let place = Place::inode(self.ino);
        if block == ROOT {
            let node = Node::header(&op.inode(self.ino)?.i_block, None, place);
            return node.map(look).map_err(bad_node(self.ino, block));
        }
        let bytes = op.block(block, self.kind)?;
        Node::header(&bytes, None, place.in_block(block)).map(look).map_err(bad_node(self.ino, block))
    }

    /// Lets `edit` change a node of this tree; false from it is an inconsistency of path and tree.
    pub(super) fn edit(&self, op: &mut Op<'_>, block: u64, edit: impl FnOnce(&mut NodeMut<'_>) -> bool) -> Result<()> {
        let place = Place::inode(self.ino).in_block(block);
        let run = |bytes: &mut [u8]| NodeMut::open(bytes, place).map(|mut node| edit(&mut node));
        let done = if block == ROOT {
            run(&mut op.inode_mut(self.ino)?.i_block)
        } else {
            op.handle()?.edit(block, self.kind, run)?
        };
        if done.map_err(bad_node(self.ino, block))? {
            return Ok(());
        }
        Err(Error::corrupt(format!("mapping of inode {}", self.ino), block, "a node has less room than it says"))
    }

    /// Stages bytes of a node that are known to differ.
    pub(super) fn put(&self, op: &mut Op<'_>, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        if block != ROOT {
            return Ok(op.handle()?.write(block, self.kind, offset, bytes)?);
        }
        let root = op.inode_mut(self.ino)?.i_block.get_mut(offset..offset + bytes.len());
        root.ok_or(Error::Invalid("a change past the end of an extent root"))?.copy_from_slice(bytes);
        Ok(())
    }

    /// The extents before and behind the leaf's position.
    pub(super) fn around(&self, op: &mut Op<'_>) -> Result<(Option<Extent>, Option<Extent>)> {
        let Level { block, at, .. } = self.leaf();
        self.with(op, block, |leaf| (at.checked_sub(1).and_then(|i| leaf.extent(i)), leaf.extent(at)))
    }

    /// Up to `count` extents of the leaf from entry `from` on.
    pub(super) fn extents(&self, op: &mut Op<'_>, from: usize, count: usize) -> Result<Vec<Extent>> {
        let block = self.leaf().block;
        self.with(op, block, |leaf| (from..leaf.len()).take(count).map_while(|i| leaf.extent(i)).collect())
    }

    /// First logical block of entry `i` of a node.
    pub(super) fn key(&self, op: &mut Op<'_>, block: u64, i: usize) -> Result<u32> {
        let key = self.with(op, block, |node| node.logical(i))?;
        key.ok_or_else(|| Error::corrupt(format!("mapping of inode {}", self.ino), block, "an entry is missing"))
    }
}
