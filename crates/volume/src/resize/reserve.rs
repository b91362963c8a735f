//! The resize inode: the blocks that are kept behind the descriptors for more of them, and what they become.
//!
//! Its double indirect block names the reserved blocks of group 0, each at the index that it would have as a block of
//! descriptors; each of these names the block with the same index in every group that has copies. When a block is taken
//! for descriptors, it and its copies are no longer the inode's; when a volume becomes smaller, they are again.

use super::edit::Edit;
use crate::image::corrupt;
use crate::{Error, Result};
use ondol_format::inode::{EXTRA_ISIZE, RESIZE_INO};
use ondol_format::{Compat, Incompat, Inode, Place};

/// Word of i_block that points to the double indirect block.
const DIND: usize = 13;

fn bad(what: &str) -> Error {
    corrupt(0, &Place::inode(RESIZE_INO).corrupt("resize inode", what))
}

fn word(bytes: &[u8], i: usize) -> u32 {
    bytes.get(i * 4..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn put_word(bytes: &mut [u8], i: usize, value: u32) {
    if let Some(slot) = bytes.get_mut(i * 4..i * 4 + 4) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
}

/// A reserved block names all its copies, and has no room for so many.
pub(super) fn too_many_copies() -> Error {
    Error::Unsupported("a resize inode in a volume with more copies of its superblock than a block names".into())
}

/// The resize inode of the volume that a transaction changes, and the blocks that it keeps.
pub(super) struct ResizeInode<'e> {
    edit: &'e mut Edit,
}

impl Edit {
    /// The resize inode, to be changed.
    pub(super) fn resize_inode(&mut self) -> ResizeInode<'_> {
        ResizeInode { edit: self }
    }
}

impl ResizeInode<'_> {
    /// Makes room for the descriptors of the next group, which begin a block.
    pub(super) fn extend_descriptors(&mut self) -> Result<()> {
        let index = self.edit.sb.gdt().blocks();
        if self.edit.sb.gdt().is_in_meta_bg(self.edit.sb.groups()) {
            return Ok(());
        }
        match (self.edit.sb.has_compat(Compat::RESIZE_INODE), self.edit.raw.s_reserved_gdt_blocks.get()) {
            (true, 1..) => self.take_reserved(index),
            (false, 1..) => {
                Err(Error::Unsupported("reserved descriptor blocks without a resize inode: run e2fsck".into()))
            }
            (_, 0) => self.begin_meta_bg(index),
        }
    }

    fn copies(&self, before: u32) -> u32 {
        self.edit.sb.backups().filter(|&(g, _)| g < before).count() as u32
    }

    /// What so many blocks add to `i_blocks`: each counts as the cluster that it lies in.
    fn sectors(&self, blocks: u32) -> u64 {
        u64::from(blocks) * u64::from(self.edit.sb.cluster_ratio()) * (self.edit.block_size() as u64 / 512)
    }

    fn reserve(&self) -> Result<(Inode, u64)> {
        let inode = self.edit.inode(RESIZE_INO)?;
        match u64::from(inode.block_word(DIND)) {
            0 => Err(bad("it has no double indirect block")),
            block => Ok((inode, block)),
        }
    }

    /// Makes the first reserved block that of the descriptors with this index.
    fn take_reserved(&mut self, index: u32) -> Result<()> {
        let (mut inode, dind) = self.reserve()?;
        let slot = index as usize % (self.edit.block_size() / 4);
        let block = self.edit.sb.gdt().block(index);
        let named = self.edit.edit(dind)?;
        if u64::from(word(named, slot)) != block {
            return Err(bad("the next block of descriptors is not the one that it names"));
        }
        put_word(named, slot, 0);
        let copies = self.copies(u32::MAX);
        inode.blocks = inode.blocks.checked_sub(self.sectors(1 + copies)).ok_or_else(|| bad("too few blocks"))?;
        self.edit.put_inode(RESIZE_INO, &inode)?;
        let size = self.edit.block_size();
        self.edit.put(block, vec![0; size]);
        let left = self.edit.raw.s_reserved_gdt_blocks.get() - 1;
        self.edit.raw.s_reserved_gdt_blocks.set(left);
        self.edit.copies = true;
        Ok(())
    }

    /// The opposite: the last block of descriptors, which holds none any more, is reserved.
    pub(super) fn give_reserved(&mut self, index: u32) -> Result<()> {
        let (mut inode, dind) = self.reserve()?;
        let slot = index as usize % (self.edit.block_size() / 4);
        let block = self.edit.sb.gdt().block(index);
        let number = u32::try_from(block).map_err(|_| bad("a number of more than 32 bits"))?;
        put_word(self.edit.edit(dind)?, slot, number);
        let zero = self.edit.sb.group_first_block(0);
        let copies: Vec<u64> = self.edit.sb.backups().map(|(_, first)| block + (first - zero)).collect();
        let mut list = vec![0; self.edit.block_size()];
        copies.iter().enumerate().for_each(|(i, &block)| put_word(&mut list, i, block as u32));
        self.edit.put(block, list);
        inode.blocks += self.sectors(1 + copies.len() as u32);
        self.edit.put_inode(RESIZE_INO, &inode)?;
        let now = self.edit.raw.s_reserved_gdt_blocks.get() + 1;
        self.edit.raw.s_reserved_gdt_blocks.set(now);
        Ok(())
    }

    /// The last reserved block is the inode's no more, where the next has the same place in its map.
    pub(super) fn take_last_reserved(&mut self) -> Result<()> {
        let (mut inode, _) = self.reserve()?;
        let sectors = self.sectors(1 + self.copies(u32::MAX));
        inode.blocks = inode.blocks.checked_sub(sectors).ok_or_else(|| bad("too few blocks"))?;
        let left = self.edit.raw.s_reserved_gdt_blocks.get() - 1;
        self.edit.raw.s_reserved_gdt_blocks.set(left);
        self.edit.put_inode(RESIZE_INO, &inode)
    }

    /// From this block on, descriptors lie in the groups that they are of.
    fn begin_meta_bg(&mut self, index: u32) -> Result<()> {
        let mut features = self.edit.raw.features();
        if features.compat.contains(Compat::RESIZE_INODE) {
            if self.edit.is_live {
                let what =
                    "more group descriptors while the volume is in use, when the resize inode has no room for them";
                return Err(Error::Unsupported(what.into()));
            }
            self.drop_resize_inode()?;
            features.compat.remove(Compat::RESIZE_INODE);
        }
        features.incompat |= Incompat::META_BG;
        self.edit.raw.set_features(features);
        self.edit.raw.s_first_meta_bg.set(index);
        self.edit.copies = true;
        self.edit.reread()
    }

    fn drop_resize_inode(&mut self) -> Result<()> {
        let dind = u64::from(self.edit.inode(RESIZE_INO)?.block_word(DIND));
        if dind != 0 {
            self.edit.mark(dind..dind + 1, false)?;
        }
        let empty = Inode::new(EXTRA_ISIZE, &self.edit.sb.inode_format());
        let (block, offset) = self.edit.place_of(RESIZE_INO)?;
        let size = usize::from(self.edit.sb.inode_size());
        self.edit.edit(block)?[offset..offset + size].fill(0);
        self.edit.put_inode(RESIZE_INO, &empty)
    }

    /// Notes the copy in group `g`, which is new, in every reserved block.
    pub(super) fn add_copy(&mut self, g: u32) -> Result<()> {
        if !self.edit.sb.has_compat(Compat::RESIZE_INODE) {
            return Ok(());
        }
        let (slot, reserved) = (self.copies(g) as usize, self.edit.sb.base_meta(0).reserved);
        let offset = self.edit.sb.group_first_block(g) - self.edit.sb.group_first_block(0);
        if slot >= self.edit.block_size() / 4 && !reserved.is_empty() {
            return Err(too_many_copies());
        }
        for block in reserved.clone() {
            let copy = u32::try_from(block + offset).map_err(|_| bad("a number of more than 32 bits"))?;
            put_word(self.edit.edit(block)?, slot, copy);
        }
        self.change_sectors((reserved.end - reserved.start) as u32, true)
    }

    /// Takes the copies in groups from `from` on out of every reserved block.
    pub(super) fn remove_copies(&mut self, from: u32) -> Result<()> {
        let (kept, all) = (self.copies(from), self.copies(u32::MAX));
        if !self.edit.sb.has_compat(Compat::RESIZE_INODE) || kept == all {
            return Ok(());
        }
        let reserved = self.edit.sb.base_meta(0).reserved;
        for block in reserved.clone() {
            let list = self.edit.edit(block)?;
            (kept..all).for_each(|slot| put_word(list, slot as usize, 0));
        }
        self.change_sectors((all - kept) * (reserved.end - reserved.start) as u32, false)
    }

    fn change_sectors(&mut self, blocks: u32, more: bool) -> Result<()> {
        let mut inode = self.edit.inode(RESIZE_INO)?;
        let sectors = self.sectors(blocks);
        let changed = if more { inode.blocks.checked_add(sectors) } else { inode.blocks.checked_sub(sectors) };
        inode.blocks = changed.ok_or_else(|| bad("too few blocks"))?;
        if blocks > 0 { self.edit.put_inode(RESIZE_INO, &inode) } else { Ok(()) }
    }
}
