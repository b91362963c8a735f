//! Free clusters before the end that a volume is to have.

use super::edit::Edit;
use crate::{Error, Result};
use ondol_format::bitmap;
use std::ops::Range;

/// See the module.
pub(super) struct Space {
    /// The bitmaps of all groups before the end, as far as they are read.
    maps: Vec<Option<Vec<u8>>>,
    end: u64,
    /// Blocks whose clusters are freed by a transaction that is not durable: bitmaps that are read in the meantime do
    /// not have them.
    later: Vec<u64>,
    /// By powers of two: before this group no run of so many clusters is free.
    none_before: [usize; 32],
}

impl Space {
    pub(super) fn new(edit: &Edit, end: u64) -> Self {
        let groups = super::shape::groups(&edit.sb, end) as usize;
        Self { maps: vec![None; groups], end, later: Vec::new(), none_before: [0; 32] }
    }

    /// What is free behind `start`, as the volume is now.
    pub(super) fn behind(edit: &Edit, start: u64) -> Result<Self> {
        let mut space = Self::new(edit, edit.sb.blocks_count());
        for g in 0..super::shape::groups(&edit.sb, start) as usize {
            let kept = start.saturating_sub(edit.sb.group_first_block(g as u32)) / u64::from(edit.sb.cluster_ratio());
            let clusters = kept.min(u64::from(edit.sb.clusters_in_group(g as u32))) as usize;
            bitmap::set_range(space.map(edit, g)?, 0, clusters);
        }
        Ok(space)
    }

    /// How many clusters are free.
    pub(super) fn free(&mut self, edit: &Edit) -> Result<u64> {
        let clusters = edit.sb.clusters_per_group() as usize;
        (0..self.maps.len()).map(|g| Ok(bitmap::count_zeros(self.map(edit, g)?, clusters) as u64)).sum()
    }

    fn map(&mut self, edit: &Edit, g: usize) -> Result<&mut Vec<u8>> {
        let slot = self.maps.get_mut(g).ok_or(Error::Invalid("no such group"))?;
        if slot.is_none() {
            let mut map = edit.read_block_bitmap(g as u32)?;
            let ratio = u64::from(edit.sb.cluster_ratio());
            let usable = (self.end - edit.sb.group_first_block(g as u32)) / ratio;
            bitmap::pad(&mut map, usable.min(u64::from(edit.sb.clusters_in_group(g as u32))) as usize);
            let first = edit.sb.group_first_block(g as u32);
            for &block in self.later.iter().filter(|&&block| edit.sb.group_of_block(block) == Some(g as u32)) {
                bitmap::set(&mut map, ((block - first) / ratio) as usize);
            }
            *slot = Some(map);
        }
        slot.as_mut().ok_or(Error::Invalid("no bitmap"))
    }

    /// Takes up to `want` consecutive clusters: the blocks in them.
    pub(super) fn take(&mut self, edit: &Edit, want: u64) -> Result<Range<u64>> {
        let mut len = want.min(u64::from(edit.sb.clusters_per_group()));
        while len > 0 {
            // So that many searches do not all begin at the first group.
            let from = self.none_before[..=len.ilog2() as usize].iter().copied().max().unwrap_or(0);
            let (mut g, mut found) = (from, None);
            while g < self.maps.len() && found.is_none() {
                found = self.take_in(edit, g, len)?;
                g += usize::from(found.is_none());
            }
            let none = &mut self.none_before[len.next_power_of_two().ilog2() as usize];
            *none = g.max(*none);
            if let Some(found) = found {
                return Ok(found);
            }
            len /= 2;
        }
        Err(Error::NoSpace("blocks below the new size"))
    }

    /// Takes `len` consecutive clusters of a group.
    pub(super) fn take_in(&mut self, edit: &Edit, g: usize, len: u64) -> Result<Option<Range<u64>>> {
        let clusters = edit.sb.clusters_per_group() as usize;
        let (first, ratio) = (edit.sb.group_first_block(g as u32), u64::from(edit.sb.cluster_ratio()));
        let map = self.map(edit, g)?;
        let Some(at) = bitmap::find_zero_run(map, 0, clusters, len as usize) else { return Ok(None) };
        bitmap::set_range(map, at, len as usize);
        let start = first + at as u64 * ratio;
        Ok(Some(start..start + len * ratio))
    }

    /// A transaction frees the cluster of a block: it is not used again before [`Space::durable`].
    pub(super) fn free_later(&mut self, block: u64) {
        if block < self.end {
            self.later.push(block);
        }
    }

    /// What was freed is free: the transaction is durable.
    pub(super) fn durable(&mut self, edit: &Edit) {
        for block in std::mem::take(&mut self.later) {
            let Some(g) = edit.sb.group_of_block(block) else { continue };
            let at = (block - edit.sb.group_first_block(g)) / u64::from(edit.sb.cluster_ratio());
            if let Some(Some(map)) = self.maps.get_mut(g as usize) {
                bitmap::clear(map, at as usize);
                self.none_before.iter_mut().for_each(|none| *none = (g as usize).min(*none));
            }
        }
    }
}
