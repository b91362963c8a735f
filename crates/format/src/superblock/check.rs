//! The numbers of a superblock, checked against each other: what has passed here cannot overflow in what
//! [`Superblock`](super::Superblock) computes from it.
#![deny(clippy::arithmetic_side_effects, reason = "it computes with what an image says")]

use super::RawSuperblock;
use super::geometry::Geometry;
use crate::error::{FormatError, Place, Result};
use crate::feature::{Features, Incompat, RoCompat};

/// Largest block number ext4 can address, plus one.
const MAX_BLOCKS: u64 = 1 << 48;
/// Revision without variable inode sizes.
const GOOD_OLD_REV: u32 = 0;
/// First inode of a user on a volume of the old revision, and the least on any.
const GOOD_OLD_FIRST_INO: u32 = 11;

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
        let size = [1024, 2048, 4096].get(log as usize).copied();
        let block_size = size.ok_or_else(|| bad(format!("block size of 1024 << {log} bytes is not 1, 2 or 4 KiB")))?;
        let ratio = cluster_ratio(raw, features)?;
        let first_data_block = raw.s_first_data_block.get();
        let expected = u32::from(block_size == 1024 && ratio == 1);
        ensure(first_data_block == expected, || format!("first data block is {first_data_block}, not {expected}"))?;
        let blocks_count = check_blocks(raw, block_size, image_size)?;
        let (blocks_per_group, clusters_per_group) = check_group_size(raw, block_size, ratio)?;

        let (inode_size, first_ino) = check_inode_size(raw, block_size)?;
        let inodes_per_group = raw.s_inodes_per_group.get();
        let per_block = quotient(block_size, u32::from(inode_size));
        ensure(
            (per_block..=bits(block_size)).contains(&inodes_per_group) && inodes_per_group.is_multiple_of(8),
            || format!("{inodes_per_group} inodes in a group"),
        )?;
        let groups = blocks_count.saturating_sub(first_data_block.into()).div_ceil(blocks_per_group.into());
        let inodes_count = raw.s_inodes_count.get();
        ensure(groups.checked_mul(inodes_per_group.into()) == Some(inodes_count.into()), || {
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
        let per_block = quotient(self.block_size, self.desc_size.into());
        let desc_blocks = self.groups.div_ceil(per_block);
        let reserved = u32::from(raw.s_reserved_gdt_blocks.get());
        ensure(reserved <= self.block_size.div_ceil(4), || format!("{reserved} reserved descriptor blocks"))?;
        let meta_bg = features.incompat.contains(Incompat::META_BG);
        let first_meta_bg = raw.s_first_meta_bg.get();
        if meta_bg {
            ensure(first_meta_bg <= desc_blocks, || {
                format!("first meta group is {first_meta_bg}, but there are {desc_blocks} descriptor blocks")
            })?;
        }
        let at_front = if meta_bg { first_meta_bg } else { desc_blocks.saturating_add(reserved) };
        let first = superblock_block(self.block_size).saturating_add(1);
        let end = first.saturating_add(at_front.into());
        ensure(end <= self.blocks_count && at_front < self.blocks_per_group, || {
            format!("{at_front} blocks of group descriptors do not fit into the first group")
        })?;
        if meta_bg && first_meta_bg < desc_blocks {
            let groups = u64::from(desc_blocks.saturating_sub(1)).saturating_mul(per_block.into());
            let end = groups.saturating_mul(self.blocks_per_group.into()).saturating_add(first);
            ensure(end < self.blocks_count, || "the last meta group has no room for its descriptors".into())?;
        }
        Ok(())
    }
}

/// Block of the primary superblock.
pub(super) fn superblock_block(block_size: u32) -> u64 {
    super::OFFSET.checked_div(block_size.into()).unwrap_or(0)
}

fn quotient(whole: u32, part: u32) -> u32 {
    whole.checked_div(part).unwrap_or(0)
}

/// How many clusters or inodes a bitmap of one block has.
fn bits(block_size: u32) -> u32 {
    block_size.saturating_mul(8)
}

/// Blocks of a cluster: 1 without bigalloc.
fn cluster_ratio(raw: &RawSuperblock, features: Features) -> Result<u32> {
    let (block, cluster) = (raw.s_log_block_size.get(), raw.s_log_cluster_size.get());
    if features.ro_compat.contains(RoCompat::BIGALLOC) {
        ensure(cluster >= block && cluster <= 19, || format!("cluster size of 1024 << {cluster} bytes"))?;
    } else {
        ensure(cluster == block, || "cluster size differs from block size without bigalloc".into())?;
    }
    Ok(cluster.checked_sub(block).and_then(|log| 1u32.checked_shl(log)).unwrap_or(1))
}

fn check_blocks(raw: &RawSuperblock, block_size: u32, image_size: u64) -> Result<u64> {
    let blocks = raw.wide(raw.s_blocks_count_lo, raw.s_blocks_count_hi);
    ensure(blocks < MAX_BLOCKS, || format!("{blocks} blocks are more than ext4 can have"))?;
    ensure(blocks > u64::from(raw.s_first_data_block.get()).saturating_add(1), || format!("only {blocks} blocks"))?;
    let room = image_size.checked_div(block_size.into()).unwrap_or(0);
    ensure(blocks <= room, || format!("{blocks} blocks, but the image has room for {room}"))?;
    Ok(blocks)
}

fn check_group_size(raw: &RawSuperblock, block_size: u32, ratio: u32) -> Result<(u32, u32)> {
    let blocks = raw.s_blocks_per_group.get();
    let clusters = raw.s_clusters_per_group.get();
    ensure(clusters > 0 && clusters <= bits(block_size) && clusters.is_multiple_of(8), || {
        format!("{clusters} clusters in a group")
    })?;
    ensure(clusters.checked_mul(ratio) == Some(blocks), || {
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
