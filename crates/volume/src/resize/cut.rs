//! Cutting off: groups that hold nothing any more, and the end of the last that stays.

use super::shape;
use super::shrink::Shrink;
use crate::Result;
use ondol_format::{Compat, Incompat, bitmap, layout};
use std::ops::Range;

impl Shrink {
    /// Cuts off in one transaction, down to `end`, or to where one block of descriptors less is needed.
    pub(super) fn cut_step(&mut self) -> Result<()> {
        let sb = &self.edit.sb;
        let last = sb.group_first_block((sb.gdt().blocks() - 1) * sb.gdt().desc_per_block());
        let blocks = self.end.max(if last < sb.blocks_count() { last } else { 0 });
        self.cut(blocks)?;
        self.commit()
    }

    fn cut(&mut self, blocks: u64) -> Result<()> {
        let (before, groups) = (self.edit.sb.groups(), shape::groups(&self.edit.sb, blocks) as u32);
        let desc_blocks = groups.div_ceil(self.edit.sb.gdt().desc_per_block());
        // What removed groups have in those that stay.
        let gone: Vec<Range<u64>> = self.edit.descs[groups as usize..]
            .iter()
            .flat_map(|desc| layout::own_meta(&self.edit.sb, desc))
            .filter(|range| range.start < blocks)
            // A table may lie over the end: the rest of it goes with its group.
            .map(|range| range.start..range.end.min(blocks))
            .collect();
        let fewer = (self.edit.sb.gdt().blocks() > desc_blocks).then(|| self.edit.sb.gdt().blocks() - 1);
        self.edit.resize_inode().remove_copies(groups)?;
        self.forget_descriptors(groups..before)?;
        self.edit.count_overhead(groups..before, false);
        self.edit.cut_descs(groups);
        let backups = self.edit.raw.s_backup_bgs.map(|bg| if bg.get() < groups { bg } else { 0.into() });
        self.edit.raw.s_backup_bgs = backups;
        let meta_bg = self.edit.sb.has_incompat(Incompat::META_BG);
        let at_front = fewer.filter(|&index| !meta_bg || index < self.edit.raw.s_first_meta_bg.get());
        if meta_bg && at_front.is_some() {
            self.edit.raw.s_first_meta_bg.set(desc_blocks);
        }
        self.edit.set_blocks(blocks)?;
        if let Some(index) = at_front {
            self.free_descriptors(index)?;
        }
        for range in gone {
            self.free_metadata(range)?;
        }
        let g = groups - 1;
        let clusters = self.edit.sb.clusters_in_group(g) as usize;
        bitmap::pad(self.edit.block_bitmap(g)?, clusters);
        self.edit.forget_behind_end();
        Ok(())
    }

    /// Zeroes what the block of descriptors that stays says of removed groups. A recovery that finds a larger
    /// superblock before its descriptors are home would take it for what they are.
    fn forget_descriptors(&mut self, gone: Range<u32>) -> Result<()> {
        let (size, per_block) = (usize::from(self.edit.sb.gdt().desc_size()), self.edit.sb.gdt().desc_per_block());
        for g in gone.start..gone.end.min(gone.start.next_multiple_of(per_block)) {
            let (block, offset) = self.edit.sb.gdt().location(g);
            self.edit.edit(block)?[offset..offset + size].fill(0);
        }
        Ok(())
    }

    /// The last block of descriptors, which holds none any more, is reserved where blocks are, and free elsewhere.
    fn free_descriptors(&mut self, index: u32) -> Result<()> {
        let most = self.edit.sb.block_size() / 4;
        let reserved = u32::from(self.edit.raw.s_reserved_gdt_blocks.get());
        if !self.edit.sb.has_compat(Compat::RESIZE_INODE) {
            return self.free_at_front(index);
        }
        if reserved >= most {
            // The last of them gives way; in the map of the resize inode it has the place of the first.
            self.edit.resize_inode().take_last_reserved()?;
            self.free_at_front(index + reserved)?;
        }
        self.edit.resize_inode().give_reserved(index)?;
        self.edit.reread()
    }

    /// Frees block number `index` behind the superblock and behind each of its copies.
    fn free_at_front(&mut self, index: u32) -> Result<()> {
        let first = self.edit.sb.superblock_location().0 + 1 + u64::from(index);
        let copies: Vec<u64> = self
            .edit
            .sb
            .backups()
            .filter(|&(g, _)| !self.edit.sb.gdt().is_in_meta_bg(g))
            .map(|(_, first)| first + 1 + u64::from(index))
            .collect();
        for block in std::iter::once(first).chain(copies) {
            self.free_metadata(block..block + 1)?;
        }
        Ok(())
    }

    /// Frees blocks that were metadata, but no cluster that other metadata is in.
    fn free_metadata(&mut self, range: Range<u64>) -> Result<()> {
        let ratio = u64::from(self.edit.sb.cluster_ratio());
        if ratio == 1 {
            return self.edit.mark(range, false);
        }
        for cluster in (range.start - range.start % ratio..range.end).step_by(ratio as usize) {
            let cluster = cluster..cluster + ratio;
            if !self.edit.holds_metadata(&cluster) {
                self.edit.mark(cluster, false)?;
            }
        }
        Ok(())
    }
}
