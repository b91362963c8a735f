//! The smallest size that a volume can have: an estimate that is never too small by what can be counted beforehand.

use super::edit::Edit;
use super::shape;
use crate::Result;
use ondol_format::{bitmap, layout};
use std::ops::Range;

/// What a group's bitmap says, in clusters.
struct Group {
    map: Vec<u8>,
    free: u64,
    /// Used, and not by metadata.
    data: u64,
}

impl Edit {
    /// The fewest blocks with which everything that is in the volume finds room.
    pub(super) fn least(&self) -> Result<u64> {
        let mut metadata: Vec<(u64, u64)> =
            self.descs.iter().flat_map(|desc| layout::own_meta(&self.sb, desc)).map(|r| (r.start, r.end)).collect();
        metadata.sort_unstable();
        let mut groups = Vec::new();
        for g in 0..self.sb.groups() {
            let (map, range) = (self.read_block_bitmap(g)?, self.sb.block_range_of_group(g));
            let free = bitmap::count_zeros(&map, self.sb.clusters_in_group(g) as usize) as u64;
            let from = metadata.partition_point(|&(_, end)| end <= range.start);
            let own: u64 = metadata[from..]
                .iter()
                .take_while(|&&(start, _)| start < range.end)
                .map(|&(start, end)| end.min(range.end).saturating_sub(start.max(range.start)))
                .sum();
            let base = self.sb.base_meta(g).all;
            let meta = (own + base.end - base.start) / u64::from(self.sb.cluster_ratio());
            let data = u64::from(self.sb.clusters_in_group(g)).saturating_sub(free).saturating_sub(meta);
            groups.push(Group { map, free, data });
        }
        let journal = match self.sb.journal_inum() {
            Some(ino) => self.mapped(ino, &self.inode(ino)?)?.extents,
            None => Vec::new(),
        };
        let journal: Vec<_> = journal.iter().map(|e| e.start..e.start + u64::from(e.len)).collect();
        // The descriptors know: the superblock's count is a hint.
        let unused: u64 = self.descs.iter().map(|desc| u64::from(desc.free_inodes)).sum();
        let used = u64::from(self.sb.inodes_count()).saturating_sub(unused);
        let first = used.div_ceil(self.sb.inodes_per_group().into()).max(1);
        let first = u64::from(self.sb.first_data_block()) + (first - 1) * u64::from(self.sb.blocks_per_group());
        let first = first.max(self.last_fixed()?);
        let (mut low, mut high) = (first, self.sb.blocks_count());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let fits = shape::fitted(&self.sb, middle).is_ok_and(|n| n > first && self.has_room(n, &groups, &journal));
            if fits {
                high = middle;
            } else {
                low = middle;
            }
        }
        shape::fitted(&self.sb, high)
    }

    /// The last block that does not move: of multiple mount protection, or of the resize inode's map.
    pub(super) fn last_fixed(&self) -> Result<u64> {
        let map = self.inode(ondol_format::inode::RESIZE_INO)?.block_word(13);
        Ok(u64::from(map).max(self.sb.mmp_block().unwrap_or(0)))
    }

    /// Whether what lies behind `end` finds room before it. The blocks of a `journal` that moves are free only when it
    /// is elsewhere, for which there may be room behind the end.
    fn has_room(&self, end: u64, groups: &[Group], journal: &[Range<u64>]) -> bool {
        let ratio = u64::from(self.sb.cluster_ratio());
        let staying = self.descs.iter().take(shape::groups(&self.sb, end) as usize);
        let behind = staying.flat_map(|desc| layout::own_meta(&self.sb, desc)).filter(|range| range.end > end);
        let (mut free, mut free_behind, mut data) = (0, 0, behind.map(|range| range.end - range.start).sum::<u64>());
        if ratio > 1 && data > 0 {
            return false;
        }
        for (g, group) in groups.iter().enumerate() {
            let range = self.sb.block_range_of_group(g as u32);
            if range.end <= end {
                free += group.free;
            } else if range.start >= end {
                data += group.data;
                free_behind += group.free;
            } else {
                let clusters = ((end - range.start) / ratio) as usize;
                let kept = bitmap::count_zeros(&group.map, clusters) as u64;
                free += kept;
                free_behind += group.free - kept;
                let behind = u64::from(self.sb.clusters_in_group(g as u32)) - clusters as u64;
                data += behind.saturating_sub(group.free - kept).min(group.data);
            }
        }
        // New mappings are there before the old ones are gone.
        let margin = data / 64 + 16;
        let blocks = |part: &dyn Fn(&Range<u64>) -> u64| journal.iter().map(part).sum::<u64>() / ratio;
        let log = blocks(&|range| range.end - range.start);
        let log_before = blocks(&|range| range.end.min(end).saturating_sub(range.start));
        let twice = if log == log_before || free_behind >= log + log / 64 + 16 { 0 } else { log_before };
        free >= data + twice + if data > 0 { margin } else { 0 }
    }
}
