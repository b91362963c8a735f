//! Where things lie: the numbers of the superblock once they have been checked against each other.

use super::{RawSuperblock, Superblock};
use crate::error::{FormatError, Place, Result};
use crate::feature::{Compat, Features, Incompat, RoCompat};
use std::ops::Range;

/// Largest block number ext4 can address, plus one.
const MAX_BLOCKS: u64 = 1 << 48;
/// Revision without variable inode sizes.
const GOOD_OLD_REV: u32 = 0;
/// First inode of a user on a volume of the old revision, and the least on any.
const GOOD_OLD_FIRST_INO: u32 = 11;

/// The checked numbers; each method of [`Superblock`] on them documents its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    block_size: u32,
    blocks_count: u64,
    first_data_block: u32,
    blocks_per_group: u32,
    clusters_per_group: u32,
    inodes_per_group: u32,
    inodes_count: u32,
    inode_size: u16,
    first_ino: u32,
    desc_size: u16,
    groups: u32,
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
}

impl BaseMeta {
    /// Blocks in use at the beginning of the group.
    pub fn blocks(&self) -> u64 {
        let ranges = [&self.descriptors, &self.reserved];
        u64::from(self.superblock.is_some()) + ranges.iter().map(|r| r.end.saturating_sub(r.start)).sum::<u64>()
    }
}

fn bad(what: String) -> FormatError {
    Place::NONE.corrupt("superblock", what)
}

fn ensure(ok: bool, what: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { Err(bad(what())) }
}

impl Geometry {
    /// Checks every number the rest of the crate computes with. The order matters: each check may rely on the earlier.
    pub(super) fn check(raw: &RawSuperblock, features: Features, image_size: u64) -> Result<Geometry> {
        let log = raw.s_log_block_size.get();
        ensure(log <= 2, || format!("block size of 1024 << {log} bytes is not 1, 2 or 4 KiB"))?;
        let block_size = 1024u32 << log;
        let ratio = cluster_ratio(raw, features)?;
        let first_data_block = raw.s_first_data_block.get();
        let expected = u32::from(block_size == 1024 && ratio == 1);
        ensure(first_data_block == expected, || format!("first data block is {first_data_block}, not {expected}"))?;
        let blocks_count = check_blocks(raw, features, block_size, image_size)?;
        let (blocks_per_group, clusters_per_group) = check_group_size(raw, block_size, ratio)?;

        let (inode_size, first_ino) = check_inode_size(raw, block_size)?;
        let inodes_per_group = raw.s_inodes_per_group.get();
        let per_block = block_size / u32::from(inode_size);
        ensure((per_block..=block_size * 8).contains(&inodes_per_group) && inodes_per_group.is_multiple_of(8), || {
            format!("{inodes_per_group} inodes in a group")
        })?;
        let groups = (blocks_count - u64::from(first_data_block)).div_ceil(u64::from(blocks_per_group));
        let inodes_count = raw.s_inodes_count.get();
        ensure(groups * u64::from(inodes_per_group) == u64::from(inodes_count), || {
            format!("{inodes_count} inodes, but {groups} groups of {inodes_per_group} inodes")
        })?;
        ensure(first_ino < inodes_count, || format!("first inode {first_ino} of {inodes_count}"))?;

        let desc_size = check_desc_size(raw, features, block_size)?;
        let geometry = Geometry {
            block_size,
            blocks_count,
            first_data_block,
            blocks_per_group,
            clusters_per_group,
            inodes_per_group,
            inodes_count,
            inode_size,
            first_ino,
            desc_size,
            groups: groups as u32,
        };
        geometry.check_descriptors(raw, features)?;
        Ok(geometry)
    }

    /// The descriptor blocks, their reserve and, with meta_bg, the last meta group must lie on the volume.
    fn check_descriptors(&self, raw: &RawSuperblock, features: Features) -> Result<()> {
        let per_block = self.block_size / u32::from(self.desc_size);
        let desc_blocks = self.groups.div_ceil(per_block);
        let reserved = u32::from(raw.s_reserved_gdt_blocks.get());
        ensure(reserved <= self.block_size / 4, || format!("{reserved} reserved descriptor blocks"))?;
        let meta_bg = features.incompat.contains(Incompat::META_BG);
        let first_meta_bg = raw.s_first_meta_bg.get();
        if meta_bg {
            ensure(first_meta_bg <= desc_blocks, || {
                format!("first meta group is {first_meta_bg}, but there are {desc_blocks} descriptor blocks")
            })?;
        }
        let at_front = if meta_bg { first_meta_bg } else { desc_blocks + reserved };
        let end = u64::from(self.first_data_block) + 1 + u64::from(at_front);
        ensure(end <= self.blocks_count && at_front < self.blocks_per_group, || {
            format!("{at_front} blocks of group descriptors do not fit into the first group")
        })?;
        if meta_bg && first_meta_bg < desc_blocks {
            let last = u64::from(desc_blocks - 1) * u64::from(per_block) * u64::from(self.blocks_per_group);
            ensure(u64::from(self.first_data_block) + last + 1 < self.blocks_count, || {
                "the last meta group has no room for its descriptors".into()
            })?;
        }
        Ok(())
    }
}

/// Blocks of a cluster: 1 without bigalloc.
fn cluster_ratio(raw: &RawSuperblock, features: Features) -> Result<u32> {
    let (block, cluster) = (raw.s_log_block_size.get(), raw.s_log_cluster_size.get());
    if features.ro_compat.contains(RoCompat::BIGALLOC) {
        ensure(cluster >= block && cluster <= 19, || format!("cluster size of 1024 << {cluster} bytes"))?;
    } else {
        ensure(cluster == block, || "cluster size differs from block size without bigalloc".into())?;
    }
    Ok(1 << (cluster - block))
}

fn check_blocks(raw: &RawSuperblock, features: Features, block_size: u32, image_size: u64) -> Result<u64> {
    let high = if features.is_64bit() { u64::from(raw.s_blocks_count_hi.get()) << 32 } else { 0 };
    let blocks = u64::from(raw.s_blocks_count_lo.get()) | high;
    ensure(blocks < MAX_BLOCKS, || format!("{blocks} blocks are more than ext4 can have"))?;
    ensure(blocks > u64::from(raw.s_first_data_block.get()) + 1, || format!("only {blocks} blocks"))?;
    let room = image_size / u64::from(block_size);
    ensure(blocks <= room, || format!("{blocks} blocks, but the image has room for {room}"))?;
    Ok(blocks)
}

fn check_group_size(raw: &RawSuperblock, block_size: u32, ratio: u32) -> Result<(u32, u32)> {
    let blocks = raw.s_blocks_per_group.get();
    let clusters = raw.s_clusters_per_group.get();
    ensure(clusters > 0 && clusters <= block_size * 8 && clusters.is_multiple_of(8), || {
        format!("{clusters} clusters in a group")
    })?;
    ensure(u64::from(clusters) * u64::from(ratio) == u64::from(blocks), || {
        format!("{blocks} blocks, but {clusters} clusters in a group")
    })?;
    Ok((blocks, clusters))
}

fn check_inode_size(raw: &RawSuperblock, block_size: u32) -> Result<(u16, u32)> {
    if raw.s_rev_level.get() == GOOD_OLD_REV {
        return Ok((128, GOOD_OLD_FIRST_INO));
    }
    let size = raw.s_inode_size.get();
    ensure(size >= 128 && size.is_power_of_two() && u32::from(size) <= block_size, || {
        format!("inode size of {size} bytes")
    })?;
    let first = raw.s_first_ino.get();
    ensure(first >= GOOD_OLD_FIRST_INO, || format!("first inode is {first}"))?;
    Ok((size, first))
}

fn check_desc_size(raw: &RawSuperblock, features: Features, block_size: u32) -> Result<u16> {
    if !features.is_64bit() {
        return Ok(32);
    }
    let size = raw.s_desc_size.get();
    ensure(size >= 64 && size.is_power_of_two() && size <= 1024 && u32::from(size) <= block_size, || {
        format!("group descriptor size of {size} bytes")
    })?;
    Ok(size)
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
        self.blocks_in_group(g).div_ceil(self.cluster_ratio())
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

    /// Bytes of a group descriptor: 32, or 64 and more with 64bit.
    pub fn desc_size(&self) -> u16 {
        self.geometry.desc_size
    }

    /// Group descriptors in a block.
    pub fn desc_per_block(&self) -> u32 {
        self.block_size() / u32::from(self.desc_size())
    }

    /// Blocks of all group descriptors.
    pub fn desc_blocks(&self) -> u32 {
        self.groups().div_ceil(self.desc_per_block())
    }

    /// First block of group 0.
    pub fn first_data_block(&self) -> u32 {
        self.geometry.first_data_block
    }

    /// Block and byte offset in it of the primary superblock.
    pub fn superblock_location(&self) -> (u64, usize) {
        let size = u64::from(self.block_size());
        (super::OFFSET / size, (super::OFFSET % size) as usize)
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

    /// Number of blocks in group `g`.
    pub fn blocks_in_group(&self, g: u32) -> u32 {
        let range = self.block_range_of_group(g);
        (range.end - range.start) as u32
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
        let first = u64::from(self.first_data_block()) + 1;
        blocks.start >= first && blocks.start <= blocks.end && blocks.end <= self.blocks_count()
    }

    /// Whether group `g` begins with a superblock: the primary one or a copy.
    pub fn has_super(&self, g: u32) -> bool {
        has_super(g, self.features(), self.raw().s_backup_bgs.map(|bg| bg.get()))
    }

    /// Whether descriptor block `index` lies in its own meta group instead of behind the superblock.
    fn in_meta_bg(&self, index: u32) -> bool {
        self.has_incompat(Incompat::META_BG) && index >= self.raw().s_first_meta_bg.get()
    }

    /// Whether the descriptors of group `g` lie in its meta group, not behind the superblock.
    pub fn is_in_meta_bg(&self, g: u32) -> bool {
        self.in_meta_bg(g / self.desc_per_block())
    }

    /// Block and byte offset in it of the (primary) descriptor of group `g`.
    pub fn gdt_location(&self, g: u32) -> (u64, usize) {
        let index = g / self.desc_per_block();
        let offset = (g % self.desc_per_block()) as usize * usize::from(self.desc_size());
        (self.gdt_block(index), offset)
    }

    /// Primary block number `index` of the group descriptors.
    pub fn gdt_block(&self, index: u32) -> u64 {
        if self.in_meta_bg(index) {
            let first_group = index.saturating_mul(self.desc_per_block());
            self.group_first_block(first_group) + u64::from(self.has_super(first_group))
        } else {
            self.superblock_location().0 + 1 + u64::from(index)
        }
    }

    /// What group `g` holds at its beginning: superblock, descriptors, reserve.
    pub fn base_meta(&self, g: u32) -> BaseMeta {
        let mut at = if g == 0 { self.superblock_location().0 } else { self.group_first_block(g) };
        let has_super = self.has_super(g);
        let mut base = BaseMeta { superblock: has_super.then_some(at), ..BaseMeta::default() };
        at += u64::from(has_super);
        let mut take = |blocks: u32| {
            let range = at..at + u64::from(blocks);
            at = range.end;
            range
        };
        let per_block = self.desc_per_block();
        if self.in_meta_bg(g / per_block) {
            let place = g % per_block;
            base.descriptors = take(u32::from(place == 0 || place == 1 || place == per_block - 1));
        } else if has_super && self.has_incompat(Incompat::META_BG) {
            base.descriptors = take(self.raw().s_first_meta_bg.get());
        } else if has_super {
            base.descriptors = take(self.desc_blocks());
            base.reserved = take(u32::from(self.raw().s_reserved_gdt_blocks.get()));
        }
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
