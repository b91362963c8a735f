//! Which sizes a volume can have, and its superblock at another size.

use crate::image::corrupt;
use crate::{Error, Result};
use ondol_format::{Compat, Incompat, RawSuperblock, Superblock};

/// Blocks that a last group must have beyond its own metadata; one with fewer is not worth its inode table, and is left
/// out.
const LEAST_IN_LAST: u64 = 50;

/// The superblock as it is with `blocks` blocks; what is free is the caller's matter.
pub(super) fn with_blocks(raw: &RawSuperblock, sb: &Superblock, blocks: u64) -> Result<Superblock> {
    let mut raw = raw.clone();
    let groups = groups(sb, blocks);
    let inodes = groups.checked_mul(u64::from(sb.inodes_per_group())).and_then(|n| u32::try_from(n).ok());
    raw.set_blocks_count(blocks);
    raw.s_inodes_count.set(inodes.ok_or(Error::Invalid("more inodes than have numbers"))?);
    raw.seal();
    Superblock::from_raw(raw, u64::MAX).map_err(|e| corrupt(0, &e))
}

/// Groups of a volume of so many blocks.
pub(super) fn groups(sb: &Superblock, blocks: u64) -> u64 {
    blocks.saturating_sub(u64::from(sb.first_data_block())).div_ceil(u64::from(sb.blocks_per_group()))
}

/// The most blocks that the volume can ever have, by its features.
pub(super) fn most(sb: &Superblock) -> u64 {
    let by_inodes = u64::from(u32::MAX / sb.inodes_per_group()) * u64::from(sb.blocks_per_group());
    let wide = sb.has_incompat(Incompat::BIT64) && !sb.has_compat(Compat::RESIZE_INODE);
    let by_numbers = if wide { 1 << 48 } else { u64::from(u32::MAX) };
    (by_inodes + u64::from(sb.first_data_block())).min(by_numbers - 1)
}

/// The size that comes out when `blocks` are asked for: whole clusters, and no last group that its own metadata fills.
///
/// # Errors
/// No volume can be so large, or so small.
pub(super) fn fitted(sb: &Superblock, blocks: u64) -> Result<u64> {
    let limit = most(sb);
    if blocks > limit {
        let what = format!(
            "{blocks} blocks: with its features the volume can have {limit} ({})",
            if sb.has_incompat(Incompat::BIT64) && sb.has_compat(Compat::RESIZE_INODE) {
                "`tune2fs -O ^resize_inode` allows for more"
            } else {
                "`resize2fs -b` gives block numbers more bits"
            }
        );
        return Err(Error::Unsupported(what));
    }
    let first = u64::from(sb.first_data_block());
    let whole = blocks - blocks.saturating_sub(first) % u64::from(sb.cluster_ratio());
    let count = groups(sb, whole);
    if count == 0 {
        return Err(Error::Invalid("no volume can be so small"));
    }
    let rest = (whole - first) % u64::from(sb.blocks_per_group());
    let last = (count - 1) as u32;
    let desc_blocks = count.div_ceil(u64::from(sb.gdt().desc_per_block()));
    let front = 1 + desc_blocks + u64::from(sb.raw().s_reserved_gdt_blocks.get());
    let own = 2 + u64::from(sb.inode_table_blocks()) + if sb.has_super(last) { front } else { 0 };
    if rest == 0 || rest >= own + LEAST_IN_LAST || whole == sb.blocks_count() {
        return Ok(whole);
    }
    if count == 1 {
        return Err(Error::Invalid("no volume can be so small"));
    }
    Ok(whole - rest)
}
