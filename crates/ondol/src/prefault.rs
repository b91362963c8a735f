//! Pages of a map that are entered in the processor's table before they are read (papers/4, §2.5): some at once, in
//! windows that follow how the map is read.
//!
//! The paper's kernel sees every fault. A program does not; here a window begins where [`crate::Map::get`] is asked for
//! a page that no window has entered.

use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::ops::Range;

/// So many pages are known of a map; what lies behind, in a file of more than 64 GiB, is read by faults.
const KNOWN: u64 = 1 << 24;

/// How pages of a map get into the processor's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefault {
    /// By page faults, as they are read. The kernel may enter neighbours with each.
    #[default]
    Plain,
    /// All that is stored, when the map is made. Holes are not: they would take memory for that.
    Populate,
    /// By windows, where [`crate::Map::get`] reads: if what is read next lies behind the last window, the next is twice
    /// as long; otherwise half as long.
    Windows {
        /// Pages of the first window and of the smallest; 0 counts as 1.
        least: u32,
        /// Pages of the largest; less than `least` counts as `least`.
        most: u32,
    },
}

impl Prefault {
    /// The windows of papers/4, §2.5: 4 to 16 pages.
    pub const PAPER: Self = Self::Windows { least: 4, most: 16 };
    /// Windows of 16 pages, as the kernel's own, to 512 (2 MiB).
    pub const LONG: Self = Self::Windows { least: 16, most: 512 };
}

/// What was entered in the processor's table for a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapStats {
    /// Calls to the kernel.
    pub windows: u64,
    /// Pages that they have entered, of 4096 bytes.
    pub pages: u64,
}

/// The windows of one map.
#[derive(Debug)]
pub(crate) struct Windows {
    pages: u64,
    least: u64,
    most: u64,
    /// A bit for each page that was entered.
    entered: Vec<AtomicU64>,
    last: Mutex<Last>,
    windows: AtomicU64,
    entries: AtomicU64,
}

/// The last window.
#[derive(Debug, Default)]
struct Last {
    pages: u64,
    /// The page behind it.
    behind: u64,
}

impl Last {
    /// How long a window is that begins at `page`; it is the last one then.
    fn next(&mut self, page: u64, least: u64, most: u64) -> u64 {
        self.pages = match self.pages {
            0 => least,
            pages if page == self.behind => (pages * 2).min(most),
            pages => (pages / 2).max(least),
        };
        self.behind = page + self.pages;
        self.pages
    }
}

impl Windows {
    /// Of a map of so many pages; none for those that are read by faults alone.
    pub(crate) fn new(pages: u64, prefault: Prefault) -> Option<Self> {
        let (least, most) = match prefault {
            Prefault::Plain => return None,
            // For holes.
            Prefault::Populate => (4, 16),
            Prefault::Windows { least, most } => (u64::from(least.max(1)), u64::from(most.max(least).max(1))),
        };
        let entered = (0..pages.min(KNOWN).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let (windows, entries) = (AtomicU64::new(0), AtomicU64::new(0));
        Some(Self { pages, least, most, entered, last: Mutex::default(), windows, entries })
    }

    fn is_entered(&self, page: u64) -> bool {
        self.entered.get(page as usize / 64).is_none_or(|word| word.load(Acquire) >> (page % 64) & 1 == 1)
    }

    /// Has `enter` enter windows until all of these pages were in one. What the kernel refuses is read by faults.
    pub(crate) fn read(&self, pages: Range<u64>, enter: impl Fn(Range<u64>) -> bool) {
        for page in pages {
            if self.is_entered(page) {
                continue;
            }
            let mut last = self.last.lock();
            if !self.is_entered(page) {
                let window = page..(page + last.next(page, self.least, self.most)).min(self.pages);
                self.enter(window, &enter);
            }
        }
    }

    /// As [`Windows::read`], one window for these pages.
    pub(crate) fn enter(&self, window: Range<u64>, enter: impl Fn(Range<u64>) -> bool) {
        self.windows.fetch_add(1, Relaxed);
        enter(window.clone());
        for page in window {
            let bit = 1 << (page % 64);
            let was = self.entered.get(page as usize / 64).map_or(0, |word| word.fetch_or(bit, Release));
            self.entries.fetch_add(u64::from(was & bit == 0), Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> MapStats {
        MapStats { windows: self.windows.load(Relaxed), pages: self.entries.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pages: u64, order: impl Iterator<Item = u64>) -> (Vec<Range<u64>>, MapStats) {
        read_by(Prefault::PAPER, pages, order)
    }

    fn read_by(prefault: Prefault, pages: u64, order: impl Iterator<Item = u64>) -> (Vec<Range<u64>>, MapStats) {
        let (windows, seen) = (Windows::new(pages, prefault).unwrap(), Mutex::<Vec<Range<u64>>>::default());
        let enter = |window| {
            seen.lock().push(window);
            true
        };
        order.for_each(|page| windows.read(page..page + 1, enter));
        (seen.into_inner(), windows.stats())
    }

    #[test]
    fn windows_grow_where_reading_goes_on_behind_them() {
        let (seen, stats) = read(1024, 0..1024);
        assert_eq!(seen[..4], [0..4, 4..12, 12..28, 28..44]);
        assert_eq!((seen.last(), stats), (Some(&(1020..1024)), MapStats { windows: 66, pages: 1024 }));
    }

    #[test]
    fn they_shrink_where_it_does_not_and_are_never_below_four_nor_above_sixteen() {
        let (seen, stats) = read(1024, (0..100).chain([500, 700, 704, 712, 10, 900, 901, 902]));
        let behind = seen.iter().position(|window| window.start == 500).unwrap();
        assert_eq!(seen[behind - 1].end - seen[behind - 1].start, 16);
        assert_eq!(seen[behind..], [500..508, 700..704, 704..712, 712..728, 900..908]);
        assert_eq!(stats.windows, seen.len() as u64);
        // The worst pattern: one page of each window.
        assert_eq!(read(1024, (0..1024).step_by(16)).1, MapStats { windows: 64, pages: 256 });
        // Backwards each page begins one, and what was entered is not counted again.
        assert_eq!(read(16, (0..16).rev()).1, MapStats { windows: 16, pages: 16 });
    }

    #[test]
    fn windows_are_as_long_as_one_chooses() {
        let (seen, stats) = read_by(Prefault::LONG, 4096, 0..4096);
        assert_eq!(seen[..7], [0..16, 16..48, 48..112, 112..240, 240..496, 496..1008, 1008..1520]);
        assert_eq!((seen.last(), stats.windows), (Some(&(4080..4096)), 13));
        let fixed = read_by(Prefault::Windows { least: 8, most: 0 }, 64, (0..64).chain([0])).0;
        assert!(fixed.len() == 8 && fixed.iter().all(|window| window.end - window.start == 8));
        assert_eq!(read_by(Prefault::Windows { least: 0, most: 0 }, 4, 0..4).0, [0..1, 1..2, 2..3, 3..4]);
        assert!(Windows::new(4, Prefault::Plain).is_none());
    }
}
