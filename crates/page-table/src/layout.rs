//! How large the parts of a table are.

use crate::format::{ENTRY, LINE, MOST_PAGES};
use ondol_medium::PAGE;

/// Bytes of the configuration table: two copies, a page each.
pub(crate) const CONFIG_LEN: u64 = 2 * PAGE;
/// Pages beyond the image's blocks, at least: a write of 1 MiB and as much metadata.
const LEAST_RESERVE: u64 = 512;
/// Lines of the log: as many as blocks of a journal that is checkpointed at once.
const LOG_LINES: std::ops::RangeInclusive<u64> = 1024..=65_536;

/// Bytes of each area, for an image of some blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) blocks: u64,
    pub(crate) pages: u64,
    pub(crate) map: u64,
    pub(crate) log: u64,
}

impl Layout {
    /// `reserve`: pages beyond those; without it as many as a large transaction needs. `None`: a table cannot be so
    /// large.
    pub(crate) fn of(blocks: u64, reserve: Option<u64>) -> Option<Self> {
        let reserve = reserve.unwrap_or(LEAST_RESERVE.max(blocks / 64)).max(1);
        let pages = blocks.checked_add(reserve).filter(|pages| *pages <= MOST_PAGES && blocks > 0)?;
        let lines = (blocks / 32).clamp(*LOG_LINES.start(), *LOG_LINES.end());
        let map = (blocks * ENTRY).next_multiple_of(PAGE);
        // A page for the state.
        Some(Self { blocks, pages, map, log: lines * LINE + PAGE })
    }

    pub(crate) fn data(&self) -> u64 {
        self.pages * PAGE
    }

    /// Bytes of all areas.
    pub(crate) fn total(&self) -> u64 {
        CONFIG_LEN + self.map + self.log + self.data()
    }

    /// The largest that `fits`, which is to hold for all smaller ones, too.
    pub(crate) fn largest(reserve: Option<u64>, fits: impl Fn(&Self) -> bool) -> Option<Self> {
        let fitting = |blocks| Self::of(blocks, reserve).filter(&fits);
        let (mut below, mut above) = (0, MOST_PAGES);
        while above - below > 1 {
            let blocks = below + (above - below) / 2;
            if fitting(blocks).is_some() { below = blocks } else { above = blocks }
        }
        fitting(below)
    }
}

/// Bytes of a pool that has room for the page table of an image of `size` bytes, and for nothing else; `None`: no table
/// is so large.
pub fn pool_size(size: u64) -> Option<u64> {
    Layout::of(size / PAGE, None).map(|layout| layout.total() + ondol_medium::AREAS_START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_image_that_fits_is_found() {
        for room in [4 << 20, 64 << 20, 1 << 30, 1 << 40] {
            let layout = Layout::largest(None, |layout| layout.total() <= room).unwrap();
            assert!(
                layout.total() <= room && Layout::of(layout.blocks + 1, None).unwrap().total() > room,
                "{layout:?}"
            );
            assert!(layout.pages >= layout.blocks + 512 && layout.map >= layout.blocks * 8);
            let size = layout.blocks * PAGE;
            assert_eq!(pool_size(size), Some(layout.total() + 8192));
        }
        assert_eq!(Layout::largest(None, |layout| layout.total() <= 1 << 20), None);
        assert_eq!((Layout::of(0, None), pool_size(0), pool_size(u64::MAX)), (None, None, None));
    }
}
