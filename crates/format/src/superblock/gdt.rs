//! The group descriptor table: where the descriptors lie, and their copies.

use super::Superblock;
use crate::feature::Incompat;

/// A view of a volume's group descriptor table. As for [`Superblock`], numbers past the end are the caller's mistake.
#[derive(Clone, Copy, Debug)]
pub struct Gdt<'a> {
    sb: &'a Superblock,
}

impl Superblock {
    /// The group descriptor table.
    pub fn gdt(&self) -> Gdt<'_> {
        Gdt { sb: self }
    }
}

impl Gdt<'_> {
    /// Bytes of a group descriptor: 32, or 64 and more with 64bit.
    pub fn desc_size(self) -> u16 {
        self.sb.geometry.desc_size
    }

    /// Group descriptors in a block.
    pub fn desc_per_block(self) -> u32 {
        self.sb.block_size() / u32::from(self.desc_size())
    }

    /// Blocks of all group descriptors.
    pub fn blocks(self) -> u32 {
        self.sb.groups().div_ceil(self.desc_per_block())
    }

    /// Whether descriptor block `index` lies in its own meta group instead of behind the superblock.
    fn has_meta_bg(self, index: u32) -> bool {
        self.sb.has_incompat(Incompat::META_BG) && index >= self.sb.raw().s_first_meta_bg.get()
    }

    /// Whether the descriptors of group `g` lie in its meta group, not behind the superblock.
    pub fn is_in_meta_bg(self, g: u32) -> bool {
        self.has_meta_bg(g / self.desc_per_block())
    }

    /// Primary block number `index` of the table.
    pub fn block(self, index: u32) -> u64 {
        if self.has_meta_bg(index) {
            self.sb.base_meta(index.saturating_mul(self.desc_per_block())).descriptors.start
        } else {
            self.sb.superblock_location().0 + 1 + u64::from(index)
        }
    }

    /// Block and byte offset in it of the (primary) descriptor of group `g`.
    pub fn location(self, g: u32) -> (u64, usize) {
        let index = g / self.desc_per_block();
        let offset = (g % self.desc_per_block()) as usize * usize::from(self.desc_size());
        (self.block(index), offset)
    }

    /// Block and byte offset in it of the copy of the descriptor of group `g` that lies with the superblock's copy in
    /// group `copy`; with meta_bg, of the one in the second group of its meta group.
    pub fn copy_location(self, g: u32, copy: u32) -> (u64, usize) {
        let (index, (primary, offset)) = (g / self.desc_per_block(), self.location(g));
        if !self.is_in_meta_bg(g) {
            return (self.sb.group_first_block(copy) + 1 + u64::from(index), offset);
        }
        let second = index.saturating_mul(self.desc_per_block()).saturating_add(1);
        if second >= self.sb.groups() {
            return (primary, offset);
        }
        (self.sb.base_meta(second).descriptors.start, offset)
    }
}
