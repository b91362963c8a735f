//! What the geometry alone decides about a volume's space: bitmaps of groups that were never written, and overhead.
#![deny(clippy::arithmetic_side_effects, reason = "it computes with what an image says")]

use crate::bitmap;
use crate::group::GroupDesc;
use crate::superblock::Superblock;
use std::ops::Range;

/// Fills `map`, one block, with the block bitmap of a group that has BLOCK_UNINIT: its base metadata, and those of its
/// own bitmaps and inode table that lie in it. Padding past the last block is set.
pub fn init_block_bitmap(sb: &Superblock, g: u32, desc: &GroupDesc, map: &mut [u8]) {
    init_clusters(sb, g, own_meta(sb, desc), map);
}

/// As [`init_block_bitmap`], with `others` in place of the group's own bitmaps and table: with flex_bg those of any
/// group may lie in it.
pub fn init_clusters(sb: &Superblock, g: u32, others: impl IntoIterator<Item = Range<u64>>, map: &mut [u8]) {
    map.fill(0);
    let (home, ratio) = (sb.block_range_of_group(g), u64::from(sb.cluster_ratio()));
    let mut mark = |range: Range<u64>| {
        let (start, end) = (range.start.max(home.start), range.end.min(home.end));
        if start < end {
            let first = start.saturating_sub(home.start).checked_div(ratio).unwrap_or(0);
            let end = end.saturating_sub(home.start).div_ceil(ratio);
            bitmap::set_range(map, first as usize, end.saturating_sub(first) as usize);
        }
    };
    mark(sb.base_meta(g).all);
    others.into_iter().for_each(mark);
    bitmap::pad(map, sb.clusters_in_group(g) as usize);
}

/// Fills `map`, one block, with the inode bitmap of a group that has INODE_UNINIT.
pub fn init_inode_bitmap(sb: &Superblock, map: &mut [u8]) {
    map.fill(0);
    bitmap::pad(map, sb.inodes_per_group() as usize);
}

/// The bitmaps and the inode table of a group, wherever they lie.
pub fn own_meta(sb: &Superblock, desc: &GroupDesc) -> [Range<u64>; 3] {
    let table = desc.inode_table;
    [
        desc.block_bitmap..desc.block_bitmap.saturating_add(1),
        desc.inode_bitmap..desc.inode_bitmap.saturating_add(1),
        table..table.saturating_add(u64::from(sb.inode_table_blocks())),
    ]
}

/// Blocks that no file can ever have: everything before group 0, base metadata, bitmaps and inode tables of all
/// groups. With the journal's blocks this is the overhead that statfs subtracts.
pub fn metadata_blocks(sb: &Superblock) -> u64 {
    let base: u64 = (0..sb.groups()).map(|g| length(&sb.base_meta(g).all)).sum();
    let own = u64::from(sb.inode_table_blocks()).saturating_add(2).saturating_mul(sb.groups().into());
    base.saturating_add(own).saturating_add(sb.first_data_block().into())
}

/// How many blocks a range has.
fn length(blocks: &Range<u64>) -> u64 {
    blocks.end.saturating_sub(blocks.start)
}
