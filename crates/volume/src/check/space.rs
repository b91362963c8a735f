//! Which blocks something has claimed, and with bigalloc, which clusters.

use ondol_format::{Superblock, bitmap};

/// A bit for every block of the groups in which anything is claimed.
pub(super) struct Space {
    first: u64,
    per_group: u64,
    blocks: u64,
    /// Blocks of a cluster.
    ratio: u64,
    maps: Vec<Option<Box<[u8]>>>,
    /// The same by clusters, where they are larger than a block.
    clusters: Vec<Option<Box<[u8]>>>,
    /// Bitmaps, tables, superblocks and descriptors as `start..end`, sorted once they are all known.
    metadata: Vec<(u64, u64)>,
}

impl Space {
    pub(super) fn new(sb: &Superblock) -> Self {
        Self {
            first: u64::from(sb.first_data_block()),
            per_group: u64::from(sb.blocks_per_group()),
            blocks: sb.blocks_count(),
            ratio: sb.cluster_ratio().into(),
            maps: vec![None; sb.groups() as usize],
            clusters: vec![None; sb.groups() as usize],
            metadata: Vec::new(),
        }
    }

    /// Claims a run of blocks on the volume; returns how many of them were claimed before, and the first such.
    pub(super) fn claim(&mut self, start: u64, len: u64) -> Option<(u64, u64)> {
        let (mut again, mut first_again) = (0, None);
        let (mut at, end) = (start, start.saturating_add(len).min(self.blocks));
        while at < end {
            let Some(from) = at.checked_sub(self.first) else { break };
            let (g, bit) = (from / self.per_group, (from % self.per_group) as usize);
            let count = (self.per_group - bit as u64).min(end - at) as usize;
            let bytes = self.per_group.div_ceil(8) as usize;
            let Some(map) = self.maps.get_mut(g as usize) else { break };
            let map = map.get_or_insert_with(|| vec![0; bytes].into());
            if let Some(taken) = bitmap::find_next_one(map, bit, bit + count) {
                first_again = first_again.or(Some(at + (taken - bit) as u64));
                again += (bitmap::count_ones(map, bit + count) - bitmap::count_ones(map, bit)) as u64;
            }
            bitmap::set_range(map, bit, count);
            at += count as u64;
        }
        first_again.map(|block| (block, again))
    }

    /// Marks the clusters of a run as in use, with bigalloc; returns the first that was so before.
    pub(super) fn mark_clusters(&mut self, start: u64, len: u64) -> Option<u64> {
        let end = start.saturating_add(len).min(self.blocks);
        let (mut at, mut again) = (start - start % self.ratio, None);
        while self.ratio > 1 && at < end {
            let (g, bit) = (at / self.per_group, at % self.per_group / self.ratio);
            let bytes = (self.per_group / self.ratio).div_ceil(8) as usize;
            let Some(map) = self.clusters.get_mut(g as usize) else { break };
            let map = map.get_or_insert_with(|| vec![0; bytes].into());
            if bitmap::test(map, bit as usize) {
                again = again.or(Some(at));
            }
            bitmap::set(map, bit as usize);
            at += self.ratio;
        }
        again
    }

    /// Claims the file system's own blocks.
    pub(super) fn claim_metadata(&mut self, start: u64, len: u64) -> Option<(u64, u64)> {
        self.metadata.push((start, start.saturating_add(len)));
        // Several structures of the file system may share a cluster.
        self.mark_clusters(start, len);
        self.claim(start, len)
    }

    /// All metadata is known.
    pub(super) fn sort_metadata(&mut self) {
        self.metadata.sort_unstable();
    }

    /// Whether a block, or one that shares its cluster, is the file system's own.
    pub(super) fn is_metadata(&self, block: u64) -> bool {
        let first = block - block % self.ratio;
        let at = self.metadata.partition_point(|&(start, _)| start < first + self.ratio);
        // Ranges of a sound image do not overlap; on another the answer only words a message.
        at.checked_sub(1).and_then(|i| self.metadata.get(i)).is_some_and(|&(_, end)| first < end)
    }

    /// Clusters in use in a group, as its bitmap should have them; None if none is.
    pub(super) fn group(&self, g: u32) -> Option<&[u8]> {
        let maps = if self.ratio > 1 { &self.clusters } else { &self.maps };
        maps.get(g as usize)?.as_deref()
    }

    /// Clusters in use in a group of `clusters`.
    pub(super) fn used_in(&self, g: u32, clusters: u32) -> u32 {
        self.group(g).map_or(0, |map| bitmap::count_ones(map, clusters as usize) as u32)
    }
}
