//! What a volume holds, inode by inode: where the blocks of each lie.

use super::edit::Edit;
use crate::image::corrupt;
use crate::inline::is_inline;
use crate::{Error, Ino, Result};
use ondol_format::extent::{Extent, Node};
use ondol_format::group::{DescCsum, INODE_UNINIT};
use ondol_format::{Inode, Place, bitmap};

/// Where the blocks of an inode lie.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// In logical order.
    pub(super) extents: Vec<Extent>,
    /// Blocks of the mapping itself.
    pub(super) nodes: Vec<u64>,
}

impl Mapped {
    /// Whether any of it lies behind `end`.
    pub(super) fn passes(&self, end: u64) -> bool {
        self.nodes.iter().any(|&node| node >= end) || self.extents.iter().any(|e| e.start + u64::from(e.len) > end)
    }
}

impl Edit {
    /// Calls `see` with every inode in use, by rising number.
    pub(super) fn each_inode(&self, see: &mut dyn FnMut(Ino, Inode) -> Result<()>) -> Result<()> {
        let checksummed = DescCsum::of(&self.sb) != DescCsum::None;
        for (g, desc) in self.descs.iter().enumerate() {
            if checksummed && desc.flags & INODE_UNINIT != 0 {
                continue;
            }
            let map = self.read_inode_bitmap(g as u32)?;
            let per_group = self.sb.inodes_per_group();
            let mut index = 0;
            while let Some(found) = bitmap::find_next_one(&map, index, per_group as usize) {
                index = found + 1;
                let ino = g as u32 * per_group + index as u32;
                let (block, offset) = self.place_of(ino)?;
                let bytes = self.read(block)?;
                let raw = &bytes[offset..offset + usize::from(self.sb.inode_size())];
                if raw.iter().all(|&byte| byte == 0) {
                    continue;
                }
                let inode = Inode::parse(raw, ino, &self.sb.inode_format()).map_err(|e| corrupt(block, &e))?;
                see(ino, inode)?;
            }
        }
        Ok(())
    }

    /// Where an inode's blocks lie; nothing of one that has none.
    pub(super) fn mapped(&self, ino: Ino, inode: &Inode) -> Result<Mapped> {
        let mut found = Mapped::default();
        let has = inode.is_regular() || inode.is_dir() || (inode.is_symlink() && !inode.is_fast_symlink());
        if is_inline(inode) || !has {
            return Ok(found);
        }
        if inode.has_extents() {
            found.add_tree(self, ino, &inode.i_block, None)?;
            return Ok(found);
        }
        (0..12).for_each(|i| found.add(i as u32, inode.block_word(i)));
        let mut logical = 12u64;
        for level in 1..=3u32 {
            found.add_pointers(self, inode.block_word(11 + level as usize), logical, level)?;
            logical += (self.block_size() as u64 / 4).pow(level);
        }
        Ok(found)
    }
}

impl Mapped {
    fn add_tree(&mut self, edit: &Edit, ino: Ino, bytes: &[u8], depth: Option<u16>) -> Result<()> {
        let node = Node::parse(bytes, depth, Place::inode(ino)).map_err(|e| corrupt(0, &e))?;
        if node.is_leaf() {
            self.extents.extend(node.extents());
            return Ok(());
        }
        for index in node.indexes() {
            must_hold(edit, ino, index.leaf)?;
            self.nodes.push(index.leaf);
            let bytes = edit.read(index.leaf)?;
            self.add_tree(edit, ino, &bytes, node.depth().checked_sub(1))?;
        }
        Ok(())
    }

    fn add_pointers(&mut self, edit: &Edit, block: u32, logical: u64, level: u32) -> Result<()> {
        if block == 0 {
            return Ok(());
        }
        if level == 0 {
            self.add(logical as u32, block);
            return Ok(());
        }
        must_hold(edit, 0, block.into())?;
        self.nodes.push(block.into());
        let step = (edit.block_size() as u64 / 4).pow(level - 1);
        for (i, word) in (0..).zip(edit.read(block.into())?.chunks_exact(4)) {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.add_pointers(edit, word, logical + i * step, level - 1)?;
        }
        Ok(())
    }

    fn add(&mut self, logical: u32, block: u32) {
        if block == 0 {
            return;
        }
        let next = Extent { logical, start: block.into(), len: 1, unwritten: false };
        join(&mut self.extents, next, u32::MAX);
    }
}

/// Refuses a block of a mapping that does not lie on the volume.
fn must_hold(edit: &Edit, ino: Ino, block: u64) -> Result<()> {
    if block < edit.sb.blocks_count() {
        return Ok(());
    }
    Err(Error::corrupt(format!("mapping of inode {ino}"), block, "a block behind the end of the volume"))
}

/// Adds what follows, joined with the last if the two are one run of at most `most` blocks.
pub(super) fn join(list: &mut Vec<Extent>, next: Extent, most: u32) {
    if let Some(last) = list.last_mut()
        && last.unwritten == next.unwritten
        && last.end() == u64::from(next.logical)
        && last.start + u64::from(last.len) == next.start
        && last.len.checked_add(next.len).is_some_and(|len| len <= most)
    {
        last.len += next.len;
        return;
    }
    list.push(next);
}
