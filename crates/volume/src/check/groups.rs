//! Group descriptors, and the blocks that are the file system's own.

use super::report::Where;
use super::{Checker, Pass};
use crate::Result;
use ondol_format::group::{DescCsum, GroupDesc, INODE_UNINIT};

/// The pass over the group descriptors and their copies.
pub(super) struct GroupPass<'c, 'a> {
    pub(super) checker: &'c mut Checker<'a>,
}

impl GroupPass<'_, '_> {
    pub(super) fn check_groups(&mut self) -> Result<()> {
        let sb = self.checker.sb;
        let csum = DescCsum::of(sb);
        let size = usize::from(sb.gdt().desc_size());
        let mut bytes = Vec::new();
        for g in 0..sb.groups() {
            let (block, offset) = sb.gdt().location(g);
            if g % sb.gdt().desc_per_block() == 0 {
                bytes = self.checker.read(block)?;
                self.checker.tell(Pass::Groups, g.into(), sb.groups().into());
            }
            let raw = bytes.get(offset..offset + size).unwrap_or_default();
            let place = Where::block(block);
            if let Err(e) = csum.verify(g, raw) {
                self.checker.problem(format!("group descriptor {g}"), place, super::report::words(&e).1);
            }
            let desc = GroupDesc::parse(raw).and_then(|desc| desc.check(sb, g).map(|()| desc));
            if let Err(e) = &desc {
                self.checker.problem(format!("group descriptor {g}"), place, super::report::words(e).1);
            }
            self.checker.descs.push(desc.ok().or_else(|| self.checker.image.rescued_descriptor(g)));
        }
        self.claim_metadata();
        self.check_superblock();
        self.check_backups()
    }

    /// Claims what every group holds for the file system itself.
    fn claim_metadata(&mut self) {
        let sb = self.checker.sb;
        for g in 0..sb.groups() {
            let base = sb.base_meta(g);
            let superblock = base.superblock.map_or(0..0, |block| block..block + 1);
            let mut parts = vec![("superblock", superblock), ("group descriptors", base.descriptors)];
            parts.push(("reserved descriptor blocks", base.reserved));
            if let Some(desc) = self.checker.descs.get(g as usize).copied().flatten() {
                let one = |block: u64| block..block.saturating_add(1);
                let table = desc.inode_table..desc.inode_table.saturating_add(sb.inode_table_blocks().into());
                parts.push(("block bitmap", one(desc.block_bitmap)));
                parts.push(("inode bitmap", one(desc.inode_bitmap)));
                parts.push(("inode table", table));
            }
            for (what, range) in parts.into_iter().filter(|(_, range)| !range.is_empty()) {
                if let Some((block, _)) = self.checker.space.claim_metadata(range.start, range.end - range.start) {
                    let text = format!("the {what} of group {g} lies where other metadata lies");
                    self.checker.problem(format!("group descriptor {g}"), Where::block(block), text);
                }
            }
        }
        if let Some(block) = sb.mmp_block() {
            let placed = self.checker.on_volume(block, 1) && self.checker.space.claim_metadata(block, 1).is_none();
            if !placed {
                self.checker.problem("superblock", Where::block(block), "the MMP block cannot lie there");
            }
        }
        // With 1 KiB blocks block 0 lies before the first group and belongs to nobody.
        self.checker.space.sort_metadata();
    }

    fn check_superblock(&mut self) {
        let sb = self.checker.sb;
        let place = Where::block(sb.superblock_location().0);
        if sb.r_blocks_count() > sb.blocks_count() / 2 {
            let text = format!("{} reserved blocks of {}", sb.r_blocks_count(), sb.blocks_count());
            self.checker.problem("superblock", place, text);
        }
        let descs: Vec<GroupDesc> = self.checker.descs.iter().flatten().copied().collect();
        if descs.len() != self.checker.descs.len() {
            return;
        }
        let clusters: u64 = descs.iter().map(|d| u64::from(d.free_blocks)).sum();
        let blocks = clusters * u64::from(sb.cluster_ratio());
        let inodes: u64 = descs.iter().map(|d| u64::from(d.free_inodes)).sum();
        let said = (sb.free_blocks_count(), u64::from(sb.free_inodes_count()));
        if said != (blocks, inodes) {
            self.checker.report.notes.push(format!(
                "the superblock counts {} free blocks and {} free inodes, the descriptors {blocks} and {inodes}",
                said.0, said.1
            ));
        }
    }
}

impl Checker<'_> {
    /// Inodes of a group that can be in use: those of the table that are not declared never used.
    pub(super) fn used_part(&self, desc: &GroupDesc) -> u32 {
        let all = self.sb.inodes_per_group();
        match self.sb.features().has_group_desc_csum() {
            true if desc.flags & INODE_UNINIT != 0 => 0,
            true => all.saturating_sub(desc.itable_unused),
            false => all,
        }
    }
}
