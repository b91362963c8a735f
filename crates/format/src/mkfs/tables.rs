//! Where bitmaps and inode tables of a new volume go, and what the descriptors say in the end.

use super::refuse;
use super::space::Space;
use crate::error::Result;
use crate::group::{BLOCK_UNINIT, DescCsum, GroupDesc, INODE_UNINIT, INODE_ZEROED};
use crate::layout;
use crate::superblock::Superblock;
use std::ops::Range;

/// Places the bitmaps and tables of each flex group at its beginning: all block bitmaps, then all inode bitmaps, then
/// all tables. Without flex_bg a flex group is a group.
pub(super) fn place(sb: &Superblock, space: &mut Space) -> Result<Vec<GroupDesc>> {
    let mut descs = vec![GroupDesc::default(); sb.groups() as usize];
    let per_flex = sb.groups_per_flex();
    for (flex, members) in descs.chunks_mut(per_flex as usize).enumerate() {
        let first = flex as u32 * per_flex;
        let last = first + members.len() as u32 - 1;
        let area = sb.group_first_block(first)..sb.block_range_of_group(last).end;
        let mut at = area.start;
        for desc in members.iter_mut() {
            desc.block_bitmap = take(space, &area, &mut at, 1)?;
        }
        for desc in members.iter_mut() {
            desc.inode_bitmap = take(space, &area, &mut at, 1)?;
        }
        for desc in members.iter_mut() {
            desc.inode_table = take(space, &area, &mut at, u64::from(sb.inode_table_blocks()))?;
        }
    }
    Ok(descs)
}

/// Takes the first run of `len` free blocks behind `at`, or anywhere in `area`.
fn take(space: &mut Space, area: &Range<u64>, at: &mut u64, len: u64) -> Result<u64> {
    let found = space.find(*at..area.end, len).or_else(|| space.find(area.clone(), len));
    let Some(block) = found else {
        return refuse("the volume has no room for its inode tables: fewer inodes or larger blocks are needed");
    };
    space.take(block..block + len);
    *at = block + len;
    Ok(block)
}

/// Fills in counts and flags. A group is left uninitialised where its bitmaps follow from the geometry alone.
pub(super) fn count(sb: &Superblock, space: &Space, used_inodes: u32, descs: &mut [GroupDesc]) {
    let lazy = sb.features().has_group_desc_csum();
    let last = descs.len() - 1;
    for (g, desc) in descs.iter_mut().enumerate() {
        let used_inodes = if g == 0 { used_inodes } else { 0 };
        let home = sb.block_range_of_group(g as u32);
        let used = space.count_in(&home);
        desc.free_blocks = (home.end - home.start - used) as u32;
        desc.free_inodes = sb.inodes_per_group() - used_inodes;
        desc.used_dirs = if g == 0 { 2 } else { 0 };
        if !lazy {
            continue;
        }
        desc.itable_unused = desc.free_inodes;
        desc.flags = INODE_ZEROED;
        if g != 0 {
            desc.flags |= INODE_UNINIT;
        }
        // The last group's bitmap has padding, which mke2fs wants to see written.
        if g != last && used == own_blocks(sb, g as u32, desc, &home) {
            desc.flags |= BLOCK_UNINIT;
        }
    }
}

/// Blocks of a group that are in use by the geometry alone.
fn own_blocks(sb: &Superblock, g: u32, desc: &GroupDesc, home: &Range<u64>) -> u64 {
    let inside = |range: Range<u64>| range.end.min(home.end).saturating_sub(range.start.max(home.start));
    let own = layout::own_meta(sb, desc).into_iter().chain([sb.base_meta(g).all]);
    own.map(inside).sum()
}

/// All descriptors as bytes, whole blocks, with their checksums.
pub(super) fn encode(sb: &Superblock, descs: &[GroupDesc], csum: &DescCsum) -> Vec<u8> {
    let size = usize::from(sb.gdt().desc_size());
    let mut bytes = vec![0; sb.gdt().blocks() as usize * sb.block_size() as usize];
    for (g, (desc, slot)) in descs.iter().zip(bytes.chunks_exact_mut(size)).enumerate() {
        // A slot has at least the 32 bytes that writing asks for.
        if desc.write(slot).is_ok() {
            csum.seal(g as u32, slot);
        }
    }
    bytes
}
