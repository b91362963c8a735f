//! Letting the medium have the room of free blocks.

use super::Groups;
use super::blocks::load;
use crate::Result;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::{Superblock, bitmap};
use ondol_journal::{Engine, Extent};
use std::ops::Range;

impl Groups {
    /// Calls `discard` with every run of at least `minimum` free blocks in `range`, and returns how many blocks that
    /// were. A run is free in all that is durable, since busy is what is used, claimed, or freed and not yet durable;
    /// and it stays free meanwhile, since its group is locked. `discard` says whether to go on.
    ///
    /// # Errors
    /// Corruption of a bitmap, and what `discard` returns.
    pub(crate) fn trim(
        &self,
        sb: &Superblock,
        engine: &dyn Engine,
        range: Range<u64>,
        minimum: u32,
        discard: &mut dyn FnMut(Extent) -> Result<bool>,
    ) -> Result<u64> {
        // Bits stand for clusters; those that the range cuts are left alone.
        let ratio = u64::from(sb.cluster_ratio());
        let minimum = u64::from(minimum).div_ceil(ratio) as u32;
        let mut trimmed = 0;
        let first = sb.group_of_block(range.start).unwrap_or(0);
        for g in first..self.count() {
            let group = sb.block_range_of_group(g);
            if group.start >= range.end {
                break;
            }
            let info = self.get(g)?;
            let mut at = range.start.saturating_sub(group.start).div_ceil(ratio) as usize;
            let end = ((range.end.min(group.end) - group.start) / ratio) as usize;
            while info.free_blocks.load(SeqCst) >= minimum {
                // Locked anew for each run: others get at the group in between.
                let mut busy = info.busy.lock();
                let map = load(&mut busy.blocks, info, g, sb, engine)?;
                let Some(run) = next_run(map, at, end, minimum as usize) else { break };
                at = run.end;
                let len = (run.len() as u64 * ratio) as u32;
                if !discard(Extent { start: group.start + run.start as u64 * ratio, len })? {
                    return Ok(trimmed);
                }
                trimmed += u64::from(len);
            }
        }
        Ok(trimmed)
    }
}

/// The first run of at least `minimum` clear bits in `at..end`, whole.
fn next_run(map: &[u8], mut at: usize, end: usize, minimum: usize) -> Option<Range<usize>> {
    loop {
        let from = bitmap::find_next_zero(map, at, end)?;
        let to = bitmap::zero_run_end(map, from, end);
        if to - from >= minimum {
            return Some(from..to);
        }
        at = to;
    }
}
