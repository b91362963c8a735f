//! What the geometry alone decides about a volume's space: bitmaps of groups that were never written, and overhead.

use crate::bitmap;
use crate::group::GroupDesc;
use crate::superblock::Superblock;
use std::ops::Range;

/// Fills `map`, one block, with the block bitmap of a group that has BLOCK_UNINIT: its base metadata, and those of its
/// own bitmaps and inode table that lie in it. Padding past the last block is set.
pub fn init_block_bitmap(sb: &Superblock, g: u32, desc: &GroupDesc, map: &mut [u8]) {
    map.fill(0);
    let home = sb.block_range_of_group(g);
    let base = sb.base_meta(g);
    if let Some(block) = base.superblock {
        mark(&home, block..block + 1, map);
    }
    mark(&home, base.descriptors, map);
    mark(&home, base.reserved, map);
    for range in own_meta(sb, desc) {
        mark(&home, range, map);
    }
    bitmap::pad(map, sb.blocks_in_group(g) as usize);
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

/// Sets the bits of those of `blocks` that lie in the group of blocks `home`.
pub(crate) fn mark(home: &Range<u64>, blocks: Range<u64>, map: &mut [u8]) {
    let (start, end) = (blocks.start.max(home.start), blocks.end.min(home.end));
    if start < end {
        bitmap::set_range(map, (start - home.start) as usize, (end - start) as usize);
    }
}

/// Blocks that no file can ever have: everything before group 0, base metadata, bitmaps and inode tables of all
/// groups. With the journal's blocks this is the overhead that statfs subtracts.
pub fn metadata_blocks(sb: &Superblock) -> u64 {
    let base: u64 = (0..sb.groups()).map(|g| sb.base_meta(g).blocks()).sum();
    let own = u64::from(sb.groups()) * (2 + u64::from(sb.inode_table_blocks()));
    u64::from(sb.first_data_block()) + base + own
}
