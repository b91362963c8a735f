//! Taking and returning blocks.

use super::group::Busy;
use super::{GroupInfo, Groups};
use crate::{Error, Ino, Result, kind};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::group::GroupDesc;
use ondol_format::{Superblock, bitmap};
use ondol_journal::{Engine, Extent};
use std::ops::Range;

/// Consecutive clusters that are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// So many at most.
    pub(crate) clusters: u32,
    /// The file that grows by them, if one goes on growing.
    pub(crate) stream: Option<Ino>,
}

/// Reads a group's block bitmap into memory if it is not there.
pub(super) fn load<'a>(
    blocks: &'a mut Option<Vec<u8>>,
    info: &GroupInfo,
    g: u32,
    sb: &Superblock,
    engine: &dyn Engine,
) -> Result<&'a mut Vec<u8>> {
    if blocks.is_none() {
        let map = engine.read(info.block_bitmap, kind::block_bitmap(g))?.to_vec();
        let free = bitmap::count_zeros(&map, sb.clusters_in_group(g) as usize) as u32;
        if free != info.free_blocks.load(SeqCst) {
            let what = format!("{free} clusters are free, its descriptor says {}", info.free_blocks.load(SeqCst));
            return Err(Error::corrupt(format!("block bitmap of group {g}"), info.block_bitmap, what));
        }
        *blocks = Some(map);
    }
    blocks.as_mut().ok_or(Error::Invalid("no bitmap"))
}

impl Groups {
    /// Where each group has its bitmaps and its table.
    pub(crate) fn places(&self) -> Result<Vec<GroupDesc>> {
        (0..self.count()).map(|g| self.get(g).map(GroupInfo::places)).collect()
    }

    /// Reads a group's block bitmap into memory, where it then stays.
    pub(crate) fn load_bitmap(&self, sb: &Superblock, engine: &dyn Engine, g: u32) -> Result<()> {
        let info = self.get(g)?;
        load(&mut info.busy.lock().blocks, info, g, sb, engine).map(drop)
    }

    /// Makes clusters at the end of a group free that were behind the end of the volume. The free count is the caller's
    /// business.
    pub(crate) fn extend(&self, g: u32, first: u32, clusters: u32) -> Result<()> {
        let info = self.get(g)?;
        let mut busy = info.busy.lock();
        let Busy { blocks, windows, .. } = &mut *busy;
        let map = blocks.as_mut().ok_or(Error::Invalid("no bitmap"))?;
        bitmap::clear_range(map, first as usize, clusters as usize);
        windows.cleared(map, first as usize..(first + clusters) as usize);
        info.free_blocks.fetch_add(clusters, SeqCst);
        Ok(())
    }

    /// Takes free clusters before the end of `place`, as near behind its beginning as there are; those before it are
    /// taken, too. The caller has been promised them. The run is in blocks.
    pub(crate) fn take_blocks(
        &self,
        sb: &Superblock,
        engine: &dyn Engine,
        place: Range<u64>,
        want: Wanted,
    ) -> Result<Extent> {
        let home = sb.group_of_block(place.start).unwrap_or(0);
        // Two rounds: first groups where the whole run may fit, then any group with a free block.
        for at_least in [want.clusters, 1] {
            for step in 0..self.count() {
                let g = (home + step) % self.count();
                let info = self.get(g)?;
                let first = sb.group_first_block(g);
                if info.free_blocks.load(SeqCst) < at_least || first >= place.end {
                    continue;
                }
                let goal = if step == 0 { place.start } else { first };
                if let Some(extent) = self.take_in_group(sb, engine, g, goal..place.end, want)? {
                    return Ok(extent);
                }
            }
        }
        Err(Error::NoSpace("blocks"))
    }

    fn take_in_group(
        &self,
        sb: &Superblock,
        engine: &dyn Engine,
        g: u32,
        place: Range<u64>,
        want: Wanted,
    ) -> Result<Option<Extent>> {
        let info = self.get(g)?;
        let range = sb.block_range_of_group(g);
        let ratio = u64::from(sb.cluster_ratio());
        let end = ((range.end.min(place.end) - range.start) / ratio) as usize;
        let mut busy = info.busy.lock();
        let Busy { blocks, windows, .. } = &mut *busy;
        let map = load(blocks, info, g, sb, engine)?;
        let from = (place.start.saturating_sub(range.start) / ratio) as usize;
        let run = windows.choose(map, from, end, want.clusters as usize, want.stream);
        let Some(run) = run else { return Ok(None) };
        let (start, len) = (run.start, run.len() as u32);
        bitmap::set_range(map, start, len as usize);
        info.free_blocks.fetch_sub(len, SeqCst);
        Ok(Some(Extent { start: range.start + start as u64 * ratio, len: len * ratio as u32 }))
    }

    /// Claims those blocks of a run that are free, so that nobody is given them: the runs that it found. The free count
    /// is the caller's business.
    pub(crate) fn claim_free(&self, sb: &Superblock, engine: &dyn Engine, extent: Extent) -> Result<Vec<Extent>> {
        let mut claimed = Vec::new();
        for (g, first, len) in per_group(sb, extent) {
            let info = self.get(g)?;
            let mut busy = info.busy.lock();
            let map = load(&mut busy.blocks, info, g, sb, engine)?;
            let (mut at, end) = (first as usize, (first + len) as usize);
            while let Some(start) = bitmap::find_next_zero(map, at, end) {
                at = bitmap::zero_run_end(map, start, end);
                bitmap::set_range(map, start, at - start);
                info.free_blocks.fetch_sub((at - start) as u32, SeqCst);
                claimed.push(Extent { start: sb.group_first_block(g) + start as u64, len: (at - start) as u32 });
            }
        }
        Ok(claimed)
    }

    /// Makes blocks allocatable again that were claimed and not used, or whose freeing is durable. The free count is
    /// the caller's business.
    pub(crate) fn return_blocks(&self, sb: &Superblock, extent: Extent) {
        for (g, first, len) in per_group(sb, extent) {
            let Ok(info) = self.get(g) else { continue };
            let mut busy = info.busy.lock();
            let Busy { blocks, windows, .. } = &mut *busy;
            if let Some(map) = blocks {
                bitmap::clear_range(map, first as usize, len as usize);
                windows.cleared(map, first as usize..(first + len) as usize);
                info.free_blocks.fetch_add(len, SeqCst);
            }
        }
    }

    /// Checks that a run that is to be freed is allocated, and reads its groups' bitmaps into memory.
    pub(crate) fn check_freeing(&self, sb: &Superblock, engine: &dyn Engine, extent: Extent) -> Result<()> {
        let blocks = extent.start..extent.start.saturating_add(u64::from(extent.len));
        if !sb.contains_blocks(&blocks) || self.touches_metadata(extent.start, u64::from(extent.len)) {
            let what = format!("a run of {} blocks there cannot belong to a file", extent.len);
            return Err(Error::corrupt("block pointer", extent.start, what));
        }
        for (g, first, len) in per_group(sb, extent) {
            let info = self.get(g)?;
            let mut busy = info.busy.lock();
            let map = load(&mut busy.blocks, info, g, sb, engine)?;
            let end = (first + len) as usize;
            if bitmap::find_next_zero(map, first as usize, end).is_some() {
                let what = format!("blocks {}..{} are freed, but not all in use", extent.start, blocks.end);
                return Err(Error::corrupt(format!("block bitmap of group {g}"), info.block_bitmap, what));
            }
        }
        Ok(())
    }
}

/// The whole clusters of a run.
pub(crate) fn clusters(sb: &Superblock, extent: Extent) -> u64 {
    per_group(sb, extent).map(|(.., clusters)| u64::from(clusters)).sum()
}

/// The whole clusters of a run by group: `(group, first bit, bits)`.
pub(crate) fn per_group(sb: &Superblock, extent: Extent) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
    let (first, ratio) = (u64::from(sb.first_data_block()), u64::from(sb.cluster_ratio()));
    let end = extent.start.saturating_add(u64::from(extent.len));
    // Groups begin with a cluster.
    let end = end - end.saturating_sub(first) % ratio;
    let mut at = first + extent.start.saturating_sub(first).next_multiple_of(ratio);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let g = sb.group_of_block(at)?;
        let range = sb.block_range_of_group(g);
        let stop = end.min(range.end);
        let part = (g, ((at - range.start) / ratio) as u32, ((stop - at) / ratio) as u32);
        at = stop;
        Some(part)
    })
}
