//! What a page cache above has of files' contents. Its pages may be changed through mappings, of which nobody hears
//! before they are written. So what is told of a file's holes and space counts what the cache was given of holes as
//! data, and what was stored behind the end of a file, in its last page, is kept from becoming contents when the file
//! grows.
//!
//! This is known for each inode that was looked up and not forgotten yet ([`crate::lookups`]): who maps a file keeps
//! its inode.

use std::ops::Range;

/// Bytes of a page of the caches above.
pub const PAGE: u64 = 4096;

/// What the cache may have of one inode. Pages have numbers from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// What it has of holes; most inodes have none.
    holes: Option<Box<Holes>>,
    /// The page that it has with the end of the file; 0 if none.
    end: u32,
    /// The page that it may still write with what it had behind a former end; 0 if none.
    late: u32,
    /// Where that end was in the page.
    late_from: u16,
}

/// Holes in one range: where they begin and end, and how many bytes of it they are at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holes {
    pub(crate) range: Range<u64>,
    pub(crate) bytes: u64,
}

impl Holes {
    /// All of one range.
    pub(crate) fn of(range: Range<u64>) -> Self {
        let bytes = range.end.saturating_sub(range.start);
        Self { range, bytes }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Takes in others.
    pub(crate) fn add(&mut self, other: Self) {
        if self.bytes == 0 || other.bytes == 0 {
            *self = if self.bytes == 0 { other } else { std::mem::take(self) };
            return;
        }
        let range = self.range.start.min(other.range.start)..self.range.end.max(other.range.end);
        self.bytes = self.bytes.saturating_add(other.bytes).min(range.end - range.start);
        self.range = range;
    }
}

/// The number of the page that has a byte. Those behind 16 TiB count as one.
fn page(byte: u64) -> u32 {
    u32::try_from(byte / PAGE + 1).unwrap_or(u32::MAX)
}

fn touches(bytes: &Range<u64>, number: u32) -> bool {
    number > 0 && !bytes.is_empty() && (page(bytes.start)..=page(bytes.end - 1)).contains(&number)
}

impl Pages {
    /// Those that it has.
    pub(crate) fn holes(&self) -> Option<Holes> {
        self.holes.as_deref().cloned()
    }

    /// It was given more of them.
    pub(crate) fn add_holes(&mut self, new: Holes) {
        self.holes.get_or_insert_default().add(new);
    }

    /// Whether it has the page in which a file ends.
    pub(crate) fn has_any_end(&self) -> bool {
        self.end > 0
    }

    /// The page with the end is dropped.
    pub(crate) fn drop_end(&mut self) {
        self.end = 0;
    }

    /// Nothing is late: it writes pages that it never read.
    pub(crate) fn nothing_late(&mut self) {
        self.late = 0;
    }

    /// The cache reads the pages of `bytes` of a file of `size` bytes.
    pub(crate) fn read(&mut self, bytes: &Range<u64>, size: u64) {
        if touches(bytes, self.late) {
            self.late = 0;
        }
        if !size.is_multiple_of(PAGE) && touches(bytes, page(size)) {
            self.end = page(size);
        }
    }

    /// Whether it has the page in which a file of `size` bytes ends.
    pub(crate) fn has_end(&self, size: u64) -> bool {
        self.end > 0 && !size.is_multiple_of(PAGE) && self.end == page(size)
    }

    /// The cache is told of another size. Then it drops all pages, and writes those that were changed, to the new end.
    pub(crate) fn resized(&mut self, old: u64, new: u64) {
        self.late = 0;
        if new > old && self.has_end(old) {
            (self.late, self.late_from) = (self.end, (old % PAGE) as u16);
        }
        self.end = 0;
    }

    /// Some bytes are written. Those of them that the cache may have from behind a former end: only the first write
    /// can.
    pub(crate) fn late_in(&mut self, bytes: &Range<u64>) -> Option<Range<u64>> {
        if !touches(bytes, self.late) {
            return None;
        }
        let start = u64::from(std::mem::take(&mut self.late) - 1) * PAGE;
        let late = (start + u64::from(self.late_from)).max(bytes.start)..(start + PAGE).min(bytes.end);
        (!late.is_empty()).then_some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_counted_once_or_more_and_never_beyond_their_range() {
        let mut holes = Holes::default();
        holes.add(Holes::of(5..5));
        assert_eq!(holes.bytes, 0);
        holes.add(Holes::of(4096..8192));
        holes.add(Holes::of(4096..8192));
        holes.add(Holes::of(9..9));
        assert_eq!(holes, Holes { range: 4096..8192, bytes: 4096 });
        holes.add(Holes::of(100_000..100_010));
        assert_eq!(holes, Holes { range: 4096..100_010, bytes: 4106 });
        holes.add(Holes::of(0..u64::MAX));
        assert_eq!(holes, Holes { range: 0..u64::MAX, bytes: u64::MAX });
    }

    #[test]
    fn only_the_first_write_after_a_new_size_is_late() {
        let mut pages = Pages::default();
        pages.resized(100, 5000);
        assert_eq!(pages.late_in(&(0..5000)), None, "the page was not read");
        pages.read(&(0..4096), 100);
        assert!(pages.has_end(100) && !pages.has_end(4096) && !pages.has_end(5000));
        pages.resized(100, 9000);
        assert!(!pages.has_end(100) && !pages.has_end(9000));
        assert_eq!(pages.late_in(&(4096..9000)), None, "another page");
        assert_eq!(pages.late_in(&(0..9000)), Some(100..4096));
        assert_eq!(pages.late_in(&(0..9000)), None, "once");
        // A page that is read anew has what is stored.
        pages.read(&(8192..12_288), 9000);
        pages.resized(9000, 10_000);
        pages.read(&(0..16_384), 10_000);
        assert_eq!(pages.late_in(&(8192..10_000)), None);
        pages.resized(10_000, 20_000);
        assert_eq!(pages.late_in(&(8192..9000)), None, "nothing of what is written");
        pages.read(&(16_384..20_480), 20_000);
        pages.resized(20_000, 16_384);
        pages.resized(16_384, 50_000);
        assert_eq!(pages.late_in(&(0..50_000)), None, "the end was where a page ends");
    }
}
