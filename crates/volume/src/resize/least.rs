//! The smallest size that a volume can have: an estimate that is never too small by what can be counted beforehand.

use super::edit::Edit;
use super::shape;
use crate::Result;
use ondol_format::{bitmap, layout};

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
                .map(|&(start, end)| end.min(range.end) - start.max(range.start))
                .sum();
            let meta = (own + self.sb.base_meta(g).blocks()) / u64::from(self.sb.cluster_ratio());
            let data = u64::from(self.sb.clusters_in_group(g)).saturating_sub(free).saturating_sub(meta);
            groups.push(Group { map, free, data });
        }
        let journal = match self.sb.journal_inum() {
            Some(ino) => self.mapped(ino, &self.inode(ino)?)?.extents,
            None => Vec::new(),
        };
        let log_end = journal.iter().map(|e| e.start + u64::from(e.len)).max().unwrap_or(0);
        let log = journal.iter().map(|e| u64::from(e.len)).sum::<u64>() / u64::from(self.sb.cluster_ratio());
        let used = u64::from(self.sb.inodes_count()) - u64::from(self.raw.s_free_inodes_count.get());
        let first = used.div_ceil(self.sb.inodes_per_group().into()).max(1);
        let first = u64::from(self.sb.first_data_block()) + (first - 1) * u64::from(self.sb.blocks_per_group());
        let (mut low, mut high) = (first, self.sb.blocks_count());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let fits = shape::fitted(&self.sb, middle)
                .is_ok_and(|n| n > first && self.has_room(n, &groups, if log_end > n { log } else { 0 }));
            if fits {
                high = middle;
            } else {
                low = middle;
            }
        }
        shape::fitted(&self.sb, high)
    }

    /// Whether what lies behind `end` finds room before it, with `log` clusters for the journal, whose old ones are free only afterwards.
    fn has_room(&self, end: u64, groups: &[Group], log: u64) -> bool {
        let ratio = u64::from(self.sb.cluster_ratio());
        let (mut free, mut data) = (0, 0);
        for (g, group) in groups.iter().enumerate() {
            let range = self.sb.block_range_of_group(g as u32);
            if range.end <= end {
                free += group.free;
            } else if range.start >= end {
                data += group.data;
            } else {
                let clusters = ((end - range.start) / ratio) as usize;
                let kept = bitmap::count_zeros(&group.map, clusters) as u64;
                free += kept;
                let behind = u64::from(self.sb.clusters_in_group(g as u32)) - clusters as u64;
                data += behind.saturating_sub(group.free - kept).min(group.data);
            }
        }
        // New mappings are there before the old ones are gone.
        let margin = data / 64 + 16;
        free >= data + log + if data > 0 { margin } else { 0 }
    }
}
