//! Where things lie: the numbers of the superblock once they have been checked against each other.

use super::Superblock;
use super::check::superblock_block;
use crate::feature::{Compat, Features, Incompat, RoCompat};
use std::ops::Range;

/// The checked numbers; each method of [`Superblock`] on them documents its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) block_size: u32,
    pub(super) blocks_count: u64,
    pub(super) first_data_block: u32,
    pub(super) blocks_per_group: u32,
    pub(super) clusters_per_group: u32,
    pub(super) inodes_per_group: u32,
    pub(super) inodes_count: u32,
    pub(super) inode_size: u16,
    pub(super) first_ino: u32,
    pub(super) desc_size: u16,
    pub(super) groups: u32,
}

/// What a group holds at its very beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseMeta {
    /// Block of the superblock or its copy.
    pub superblock: Option<u64>,
    /// Blocks of group descriptors or their copies; empty if there are none.
    pub descriptors: Range<u64>,
    /// Blocks kept for more descriptors (they belong to the resize inode); empty if there are none.
    pub reserved: Range<u64>,
    /// All of these, from the first block of the group on: in group 0 with what lies before the primary superblock.
    pub all: Range<u64>,
}

/// Geometry. Group numbers at or past [`Superblock::groups`] and blocks past the end are the caller's mistake: the
/// answers are then meaningless, but never a panic.
impl Superblock {
    /// Bytes of a block: 1024, 2048 or 4096.
    pub fn block_size(&self) -> u32 {
        self.geometry.block_size
    }

    /// Blocks of the volume.
    pub fn blocks_count(&self) -> u64 {
        self.geometry.blocks_count
    }

    /// Inodes of the volume; they are numbered from 1.
    pub fn inodes_count(&self) -> u32 {
        self.geometry.inodes_count
    }

    /// Block groups.
    pub fn groups(&self) -> u32 {
        self.geometry.groups
    }

    /// Blocks in each group but the last.
    pub fn blocks_per_group(&self) -> u32 {
        self.geometry.blocks_per_group
    }

    /// Clusters in each group but the last: as many as blocks without bigalloc.
    pub fn clusters_per_group(&self) -> u32 {
        self.geometry.clusters_per_group
    }

    /// Blocks of a cluster, the unit of allocation: 1 without bigalloc.
    pub fn cluster_ratio(&self) -> u32 {
        self.blocks_per_group() / self.clusters_per_group()
    }

    /// Number of clusters in group `g`, a last one that is cut off by the end of the volume included.
    pub fn clusters_in_group(&self, g: u32) -> u32 {
        let blocks = self.block_range_of_group(g);
        ((blocks.end - blocks.start) as u32).div_ceil(self.cluster_ratio())
    }

    /// Inodes in each group.
    pub fn inodes_per_group(&self) -> u32 {
        self.geometry.inodes_per_group
    }

    /// Bytes of an inode.
    pub fn inode_size(&self) -> u16 {
        self.geometry.inode_size
    }

    /// Inodes in a block of the inode table.
    pub fn inodes_per_block(&self) -> u32 {
        self.block_size() / u32::from(self.inode_size())
    }

    /// Blocks of one group's inode table.
    pub fn inode_table_blocks(&self) -> u32 {
        self.inodes_per_group().div_ceil(self.inodes_per_block())
    }

    /// First inode that is not reserved.
    pub fn first_ino(&self) -> u32 {
        self.geometry.first_ino
    }

    /// First block of group 0.
    pub fn first_data_block(&self) -> u32 {
        self.geometry.first_data_block
    }

    /// Block and byte offset in it of the primary superblock.
    pub fn superblock_location(&self) -> (u64, usize) {
        let block = superblock_block(self.block_size());
        (block, (super::OFFSET - block * u64::from(self.block_size())) as usize)
    }

    /// The group of a block; None before the first group and past the end.
    pub fn group_of_block(&self, block: u64) -> Option<u32> {
        let from_first = block.checked_sub(u64::from(self.first_data_block()))?;
        (block < self.blocks_count()).then(|| (from_first / u64::from(self.blocks_per_group())) as u32)
    }

    /// First block of group `g`.
    pub fn group_first_block(&self, g: u32) -> u64 {
        u64::from(self.first_data_block()) + u64::from(g) * u64::from(self.blocks_per_group())
    }

    /// The blocks of group `g`; the last group may be short.
    pub fn block_range_of_group(&self, g: u32) -> Range<u64> {
        let start = self.group_first_block(g);
        start..(start + u64::from(self.blocks_per_group())).min(self.blocks_count()).max(start)
    }

    /// The group of an inode and its index there; None for 0 and past the end.
    pub fn group_of_inode(&self, ino: u32) -> Option<(u32, u32)> {
        let index = ino.checked_sub(1)?;
        (ino <= self.inodes_count()).then(|| (index / self.inodes_per_group(), index % self.inodes_per_group()))
    }

    /// Where the inode with index `index` of a group lies in an inode table that starts at `table`: block, offset.
    pub fn inode_location(&self, table: u64, index: u32) -> (u64, usize) {
        let per_block = self.inodes_per_block();
        let offset = index % per_block * u32::from(self.inode_size());
        (table.saturating_add(u64::from(index / per_block)), offset as usize)
    }

    /// Whether all of `blocks` lie on the volume and behind the primary superblock.
    pub fn contains_blocks(&self, blocks: &Range<u64>) -> bool {
        let first = self.superblock_location().0 + 1;
        blocks.start >= first && blocks.start <= blocks.end && blocks.end <= self.blocks_count()
    }

    /// Whether group `g` begins with a superblock: the primary one or a copy.
    pub fn has_super(&self, g: u32) -> bool {
        has_super(g, self.features(), self.raw().s_backup_bgs.map(|bg| bg.get()))
    }

    /// What group `g` holds at its beginning: superblock, descriptors, reserve. With bigalloc and blocks of 1 KiB,
    /// group 0 begins with block 0, and its superblock is in block 1 all the same.
    pub fn base_meta(&self, g: u32) -> BaseMeta {
        let first = self.group_first_block(g);
        let mut at = if g == 0 { self.superblock_location().0 } else { first };
        let has_super = self.has_super(g);
        let mut base = BaseMeta { superblock: has_super.then_some(at), ..BaseMeta::default() };
        at += u64::from(has_super);
        let mut take = |blocks: u32| {
            let range = at..at + u64::from(blocks);
            at = range.end;
            range
        };
        let per_block = self.gdt().desc_per_block();
        if self.gdt().is_in_meta_bg(g) {
            let place = g % per_block;
            base.descriptors = take(u32::from(place == 0 || place == 1 || place == per_block - 1));
        } else if has_super && self.has_incompat(Incompat::META_BG) {
            base.descriptors = take(self.raw().s_first_meta_bg.get());
        } else if has_super {
            base.descriptors = take(self.gdt().blocks());
            base.reserved = take(u32::from(self.raw().s_reserved_gdt_blocks.get()));
        }
        base.all = first..at;
        base
    }

    /// Groups that share their bitmaps' and tables' place: 1 without flex_bg.
    pub fn groups_per_flex(&self) -> u32 {
        let log = self.raw().s_log_groups_per_flex;
        if self.has_incompat(Incompat::FLEX_BG) && (1..=31).contains(&log) { 1 << log } else { 1 }
    }
}

/// Whether group `g` of a volume with these features begins with a superblock.
pub(crate) fn has_super(g: u32, features: &Features, backup_bgs: [u32; 2]) -> bool {
    if g == 0 {
        return true;
    }
    if features.compat.contains(Compat::SPARSE_SUPER2) {
        return backup_bgs.contains(&g);
    }
    if g == 1 || !features.ro_compat.contains(RoCompat::SPARSE_SUPER) {
        return true;
    }
    [3, 5, 7].into_iter().any(|base| is_power_of(g, base))
}

fn is_power_of(mut n: u32, base: u32) -> bool {
    while n.is_multiple_of(base) {
        n /= base;
    }
    n == 1
}
