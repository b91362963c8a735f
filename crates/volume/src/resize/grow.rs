//! More blocks at the end: first what the last group lacks, then group after group.
//!
//! A new group has its bitmaps and its inode table in itself, also with flex_bg, which only allows for more. They are
//! written before the transaction that makes the volume longer, behind its end.

use super::edit::Edit;
use super::shape;
use crate::{Error, Result};
use ondol_format::group::{DescCsum, GroupDesc, INODE_UNINIT};
use ondol_format::{Compat, Superblock, bitmap, layout};

/// Groups that one transaction adds at most.
const GROUPS: u32 = 64;
/// Blocks of zeros that are written at once.
const ZEROS: u64 = 64;

/// The end of the volume that a transaction makes longer.
pub(super) struct NewGroups<'e> {
    pub(super) edit: &'e mut Edit,
}

impl NewGroups<'_> {
    /// Adds blocks in one transaction, up to `target`, which the caller has made fit. Durable when this returns.
    pub(super) fn grow_step(&mut self, target: u64) -> Result<()> {
        let groups = self.edit.sb.groups();
        let full = self.edit.sb.group_first_block(groups - 1) + u64::from(self.edit.sb.blocks_per_group());
        if self.edit.sb.blocks_count() < full.min(target) {
            self.extend_last(full.min(target))?;
        } else {
            self.add_groups(target)?;
        }
        self.edit.commit()
    }

    fn extend_last(&mut self, blocks: u64) -> Result<()> {
        let g = self.edit.sb.groups() - 1;
        let had = self.edit.sb.clusters_in_group(g);
        self.edit.block_bitmap(g)?;
        self.edit.set_blocks(blocks)?;
        let has = self.edit.sb.clusters_in_group(g);
        bitmap::clear_range(self.edit.block_bitmap(g)?, had as usize, (has - had) as usize);
        Ok(())
    }

    pub(super) fn add_groups(&mut self, target: u64) -> Result<()> {
        let (first, per_block) = (self.edit.sb.groups(), self.edit.sb.gdt().desc_per_block());
        if first.is_multiple_of(per_block) {
            self.edit.resize_inode().extend_descriptors()?;
        }
        let boundary = (first / per_block + 1) * per_block;
        let end = (shape::groups(&self.edit.sb, target) as u32).min(boundary).min(first + GROUPS);
        self.edit.set_blocks(target.min(self.edit.sb.group_first_block(end)))?;
        for g in first..end {
            let desc = self.lay_out(g)?;
            self.edit.push_desc(desc);
            self.fill_group(g, &desc)?;
            if self.edit.sb.has_super(g) {
                self.edit.resize_inode().add_copy(g)?;
            }
        }
        self.edit.count_overhead(first..end, true);
        Ok(())
    }

    /// Where a new group has its bitmaps and its table: behind what begins it.
    fn lay_out(&self, g: u32) -> Result<GroupDesc> {
        let desc = new_group(&self.edit.sb, g);
        desc.check(&self.edit.sb, g).map_err(|e| crate::image::corrupt(0, &e))?;
        Ok(desc)
    }

    /// Writes a new group: all of it lies behind the end so far.
    fn fill_group(&mut self, g: u32, desc: &GroupDesc) -> Result<()> {
        let size = self.edit.block_size();
        let base = self.edit.sb.base_meta(g);
        for block in base.descriptors.chain(base.reserved) {
            self.edit.put(block, vec![0; size]);
        }
        self.edit.put(desc.block_bitmap, new_bitmap(&self.edit.sb, g));
        self.edit.block_bitmap(g)?;
        let mut map = vec![0; size];
        ondol_format::layout::init_inode_bitmap(&self.edit.sb, &mut map);
        self.edit.put(desc.inode_bitmap, map);
        self.edit.inode_bitmap(g)?;
        if desc.flags & INODE_UNINIT == 0 {
            self.edit.zero(desc.inode_table, self.edit.sb.inode_table_blocks().into())?;
        }
        Ok(())
    }
}

impl Edit {
    /// Zeros blocks that nothing points to yet.
    pub(super) fn zero(&self, mut at: u64, count: u64) -> Result<()> {
        let (zeros, end) = (vec![0; ZEROS as usize * self.block_size()], at + count);
        while at < end {
            let n = ZEROS.min(end - at);
            self.write_around(at, &zeros[..n as usize * self.block_size()])?;
            at += n;
        }
        Ok(())
    }

    /// What the metadata of groups takes is added to what the superblock counts as overhead, if it does, or taken off.
    pub(super) fn count_overhead(&mut self, groups: std::ops::Range<u32>, more: bool) {
        let overhead = self.raw.s_overhead_clusters.get();
        let taken: u64 = groups.map(|g| u64::from(used_clusters(&self.sb, g))).sum();
        if overhead > 0 {
            let now = if more { overhead.saturating_add(taken as u32) } else { overhead.saturating_sub(taken as u32) };
            self.raw.s_overhead_clusters.set(now);
        }
    }
}

/// The descriptor of a group that is added, without its checksums.
pub(super) fn new_group(sb: &Superblock, g: u32) -> GroupDesc {
    let at = sb.base_meta(g).all.end;
    // Where descriptors have checksums, a table need not be zeros before an inode is taken from it.
    let (flags, unused) = match DescCsum::of(sb) {
        DescCsum::None => (0, 0),
        _ => (INODE_UNINIT, sb.inodes_per_group()),
    };
    GroupDesc {
        block_bitmap: at,
        inode_bitmap: at + 1,
        inode_table: at + 2,
        free_blocks: sb.clusters_in_group(g).saturating_sub(used_clusters(sb, g)),
        free_inodes: sb.inodes_per_group(),
        itable_unused: unused,
        flags,
        ..GroupDesc::default()
    }
}

/// Clusters that a group which is added begins with in use.
fn used_clusters(sb: &Superblock, g: u32) -> u32 {
    let (base, own) = (sb.base_meta(g).all, 2 + u64::from(sb.inode_table_blocks()));
    (base.end - base.start + own).div_ceil(sb.cluster_ratio().into()) as u32
}

/// The block bitmap of a group that is added.
pub(super) fn new_bitmap(sb: &Superblock, g: u32) -> Vec<u8> {
    let mut map = vec![0; sb.block_size() as usize];
    layout::init_block_bitmap(sb, g, &new_group(sb, g), &mut map);
    map
}

/// What stands in the way of growing, if anything does.
pub(super) fn refuse(sb: &Superblock) -> Result<()> {
    // A descriptor in the first group's part for resize2fs would be lost.
    if sb.raw().s_first_meta_bg.get() > sb.gdt().blocks() {
        return Err(Error::Unsupported("a meta_bg layout that begins behind the last descriptor".into()));
    }
    if sb.has_compat(Compat::RESIZE_INODE) && sb.backups().count() > sb.block_size() as usize / 4 {
        return Err(super::reserve::too_many_copies());
    }
    Ok(())
}
