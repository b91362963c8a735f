//! Replacing entries of a leaf, and what follows from it in the nodes above.

use super::ROOT;
use super::path::{Level, Path};
use crate::op::Op;
use crate::{Error, Result};
use ondol_format::Place;
use ondol_format::extent::{Extent, Index, MAX_DEPTH, NodeMut};
use ondol_journal::Extent as Blocks;
use zerocopy::IntoBytes;

/// Bytes of the node header, and of an entry.
const ENTRY: usize = 12;

/// Replaces `removed` entries of the path's leaf from entry `from` on by `new`, in order.
///
/// # Errors
/// Corruption, the lack of a promised block, or `FileTooBig` when the tree cannot become deeper. The operation must
/// then be dropped.
pub(super) fn splice(op: &mut Op<'_>, path: &mut Path, mut from: usize, removed: usize, new: &[Extent]) -> Result<()> {
    op.has_merged |= removed > new.len();
    let len = path.leaf().len.saturating_sub(removed) + new.len();
    if len > path.leaf().max {
        from = path.make_room(op, from, removed == 0, new)?;
    }
    let i = path.at_height(0);
    let len = path.levels[i].len.saturating_sub(removed) + new.len();
    if len == 0 && i > 0 {
        path.levels[i].len = 0;
        path.drop_empty(op)?;
    } else {
        path.replace(op, from, removed, new)?;
        path.levels[i].len = len;
        if from == 0 && i > 0 {
            let key = path.key(op, path.levels[i].block, 0)?;
            path.correct(op, i, key)?;
        }
    }
    Ok(())
}

impl Path {
    /// The change of the leaf itself, as few bytes as the common cases allow.
    fn replace(&self, op: &mut Op<'_>, from: usize, removed: usize, new: &[Extent]) -> Result<()> {
        let Level { block, len, .. } = self.leaf();
        if removed != new.len() && !(removed == 0 && from == len) {
            return self.edit(op, block, |leaf| {
                leaf.remove(from, removed) && new.iter().enumerate().all(|(i, e)| leaf.insert_extent(from + i, *e))
            });
        }
        for (i, extent) in new.iter().enumerate() {
            self.put(op, block, (from + i + 1) * ENTRY, extent.encode().as_bytes())?;
        }
        if removed == new.len() {
            return Ok(());
        }
        // eh_entries is the second 16-bit word of the header.
        self.put(op, block, 2, &((len + new.len()) as u16).to_le_bytes())
    }

    /// The node at `level` begins with `key` now: so must the entries that lead to it.
    fn correct(&self, op: &mut Op<'_>, level: usize, key: u32) -> Result<()> {
        for parent in self.levels[..level].iter().rev() {
            if self.key(op, parent.block, parent.at)? == key {
                return Ok(());
            }
            self.put(op, parent.block, (parent.at + 1) * ENTRY, &key.to_le_bytes())?;
            if parent.at > 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Frees the empty node at the end of the path, and every parent that it was the only child of.
    fn drop_empty(&mut self, op: &mut Op<'_>) -> Result<()> {
        while self.depth() > 0 && self.leaf().len == 0 {
            let gone = self.leaf().block;
            self.levels.pop();
            self.free_node(op, gone)?;
            let i = self.at_height(0);
            let Level { block, at, .. } = self.levels[i];
            self.levels[i].len = self.levels[i].len.saturating_sub(1);
            if self.levels[i].len > 0 {
                self.edit(op, block, |node| node.remove(at, 1))?;
            }
        }
        let Level { block, at, len, .. } = self.leaf();
        if len == 0 {
            NodeMut::init(&mut op.inode_mut(self.ino)?.i_block, 0);
        } else if at == 0 {
            let key = self.key(op, block, 0)?;
            self.correct(op, self.at_height(0), key)?;
        }
        Ok(())
    }

    /// Pulls an only child that fits into the root up into it, as often as there is one. Only for operations that have
    /// reserved for freeing nodes.
    pub(super) fn collapse(&self, op: &mut Op<'_>) -> Result<()> {
        for _ in 0..MAX_DEPTH {
            let (depth, only) =
                self.with(op, ROOT, |root| (root.depth(), root.index(0).filter(|_| root.len() == 1)))?;
            let Some(Index { leaf: child, .. }) = only.filter(|_| depth > 0) else { return Ok(()) };
            let mut root = [0; 60];
            let mut node = NodeMut::init(&mut root, depth - 1);
            let max = node.max();
            let fits = self.with(op, child, |old| {
                let taken = old.len() <= max
                    && old.depth() == depth - 1
                    && old.extents().enumerate().all(|(i, e)| node.insert_extent(i, e))
                    && old.indexes().enumerate().all(|(i, e)| node.insert_index(i, e));
                taken && node.len() == old.len()
            })?;
            if !fits {
                return Ok(());
            }
            op.inode_mut(self.ino)?.i_block = root;
            self.free_node(op, child)?;
        }
        Ok(())
    }

    /// Splits nodes so that the leaf takes two more entries at `from`, which moves with its entry and is returned.
    fn make_room(&mut self, op: &mut Op<'_>, from: usize, inserting: bool, new: &[Extent]) -> Result<usize> {
        if self.depth() == 0 {
            self.grow_root(op)?;
            return Ok(from);
        }
        let Level { block, len, .. } = self.leaf();
        // Behind the last entry the leaf stays full: files that are written in order get full leaves.
        let append = new.first().filter(|_| inserting && from == len);
        let mid = if append.is_some() { len } else { len / 2 };
        let key = match append {
            Some(first) => first.logical,
            None => self.key(op, block, mid)?,
        };
        self.make_index_room(op, 1)?;
        let right = from >= mid;
        self.split(op, 0, mid, key, right)?;
        Ok(if right { from - mid } else { from })
    }

    /// Makes room for one more entry in the index node `height` levels above the leaf.
    fn make_index_room(&mut self, op: &mut Op<'_>, height: usize) -> Result<()> {
        let i = self.at_height(height);
        if self.levels[i].len < self.levels[i].max {
            return Ok(());
        }
        if i == 0 {
            return self.grow_root(op);
        }
        self.make_index_room(op, height + 1)?;
        let Level { block, at, len, .. } = self.levels[self.at_height(height)];
        let mid = if at + 1 == len { len - 1 } else { len / 2 };
        let key = self.key(op, block, mid)?;
        self.split(op, height, mid, key, at >= mid)
    }

    /// Moves the entries from `mid` on of the node at `height` to a new node whose first key is `key`. The path follows
    /// to the `right` one of the two.
    fn split(&mut self, op: &mut Op<'_>, height: usize, mid: usize, key: u32, right: bool) -> Result<()> {
        let i = self.at_height(height);
        let Level { block: old, at, len, .. } = self.levels[i];
        let mut bytes = vec![0; op.vol().shared.sb.block_size() as usize];
        let mut node = NodeMut::init(&mut bytes, height as u16);
        let max = node.max();
        if mid < len {
            self.edit(op, old, |left| left.split_off(mid, &mut node))?;
        }
        let block = self.new_node(op, &bytes, len - mid)?;
        let parent = self.levels[i - 1];
        self.edit(op, parent.block, |p| p.insert_index(parent.at + 1, Index { logical: key, leaf: block }))?;
        self.levels[i - 1].len += 1;
        if right {
            self.levels[i - 1].at += 1;
            self.levels[i] = Level { block, at: at.saturating_sub(mid), len: len - mid, max };
        } else {
            self.levels[i].len = mid;
        }
        Ok(())
    }

    /// Moves the root's entries to a new node, its only child.
    fn grow_root(&mut self, op: &mut Op<'_>) -> Result<()> {
        let depth = self.depth() as u16;
        if depth >= MAX_DEPTH {
            return Err(Error::FileTooBig);
        }
        let mut old = op.inode(self.ino)?.i_block;
        let mut bytes = vec![0; op.vol().shared.sb.block_size() as usize];
        let mut node = NodeMut::init(&mut bytes, depth);
        let max = node.max();
        let key = self.key(op, ROOT, 0)?;
        let place = Place::inode(self.ino);
        let mut old = NodeMut::open(&mut old, place).map_err(crate::file::bad_node(self.ino, ROOT))?;
        old.split_off(0, &mut node);
        let len = self.levels[0].len;
        let block = self.new_node(op, &bytes, len)?;
        let mut root = NodeMut::init(&mut op.inode_mut(self.ino)?.i_block, depth + 1);
        root.insert_index(0, Index { logical: key, leaf: block });
        self.levels.insert(1, Level { block, max, ..self.levels[0] });
        self.levels[0] = Level { block: ROOT, at: 0, len: 1, max: root.max() };
        Ok(())
    }

    /// Allocates a node and stages the first `len` entries of `bytes` as its content.
    fn new_node(&self, op: &mut Op<'_>, bytes: &[u8], len: usize) -> Result<u64> {
        let goal = super::start_goal(op, self.ino);
        let block = op.alloc_blocks(goal, 1)?.start;
        super::insert::add_blocks(op, self.ino, 1)?;
        let handle = op.handle()?;
        handle.fresh(block, self.kind)?;
        handle.write(block, self.kind, 0, &bytes[..(len + 1) * ENTRY])?;
        Ok(block)
    }

    fn free_node(&self, op: &mut Op<'_>, block: u64) -> Result<()> {
        op.free_blocks(Blocks { start: block, len: 1 }, self.kind)?;
        super::insert::remove_blocks(op, self.ino, 1)
    }
}
