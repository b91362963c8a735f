//! What a page cache above has of files' contents. Its pages may be changed through mappings, of which nobody hears
//! before they are written. So what is told of a file's holes and space counts what the cache was given of holes as
//! data, and what was stored behind the end of a file, in its last page, is kept from becoming contents when the file
//! grows.
//!
//! This is known for each inode that was looked up and not forgotten yet ([`crate::lookups`]): who maps a file keeps
//! its inode.

use crate::file::PAGE;
use crate::inline::is_inline;
use crate::{Fallocate, Ino, PageCache, Result, Volume};
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_format::Inode;
use std::ops::Range;

/// Bytes of a unit in which space is told.
const SECTOR: u64 = 512;

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
struct Holes {
    range: Range<u64>,
    bytes: u64,
}

impl Holes {
    fn of(range: Range<u64>) -> Self {
        let bytes = range.end.saturating_sub(range.start);
        Self { range, bytes }
    }

    fn add(&mut self, other: Self) {
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
    /// The cache reads the pages of `bytes` of a file of `size` bytes.
    fn read(&mut self, bytes: &Range<u64>, size: u64) {
        if touches(bytes, self.late) {
            self.late = 0;
        }
        if !size.is_multiple_of(PAGE) && touches(bytes, page(size)) {
            self.end = page(size);
        }
    }

    fn has_end(&self, size: u64) -> bool {
        self.end > 0 && !size.is_multiple_of(PAGE) && self.end == page(size)
    }

    /// The cache is told of another size. Then it drops all pages, and writes those that were changed, to the new end.
    fn resized(&mut self, old: u64, new: u64) {
        self.late = 0;
        if new > old && self.has_end(old) {
            (self.late, self.late_from) = (self.end, (old % PAGE) as u16);
        }
        self.end = 0;
    }

    /// Some bytes are written. Those of them that the cache may have from behind a former end: only the first write
    /// can.
    fn late_in(&mut self, bytes: &Range<u64>) -> Option<Range<u64>> {
        if !touches(bytes, self.late) {
            return None;
        }
        let start = u64::from(std::mem::take(&mut self.late) - 1) * PAGE;
        let late = (start + u64::from(self.late_from)).max(bytes.start)..(start + PAGE).min(bytes.end);
        (!late.is_empty()).then_some(late)
    }
}

impl PageCache<'_> {
    /// A cache above collects writes and keeps sizes itself, so that it may have data of every file.
    pub fn writes_are_collected(self) {
        self.vol.collected.store(true, Relaxed);
    }

    /// As [`crate::FileIo::read`], into whole pages of a cache. How many bytes, and whether the file is said to have
    /// more space from now on.
    ///
    /// # Errors
    /// As [`crate::FileIo::read`].
    pub fn read_pages(self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<(usize, bool)> {
        let mut grows = false;
        let bytes = offset..offset.saturating_add(buf.len() as u64);
        let n = self.vol.files().read_by(ino, buf, |inode, buf| {
            let mut holes = Holes::default();
            let n = self.vol.files().read_seeing(ino, inode, offset, buf, &mut |hole| holes.add(Holes::of(hole)))?;
            if n < buf.len() && offset < inode.size {
                // The page of the end reaches behind the last block.
                let to = |unit| inode.size.checked_next_multiple_of(unit).unwrap_or(inode.size);
                holes.add(Holes::of(to(self.vol.shared.sb.block_size().into())..to(PAGE)));
            }
            self.vol.lookups.with_pages(ino, |pages| pages.read(&bytes, inode.size));
            if holes.bytes > 0 {
                let before = self.vol.space_told(ino, inode);
                self.note_holes(ino, holes);
                grows = self.vol.space_told(ino, inode) > before;
            }
            Ok(n)
        })?;
        Ok((n, grows))
    }

    fn note_holes(self, ino: Ino, new: Holes) {
        if new.bytes > 0 {
            self.vol.lookups.has_holes.store(true, Relaxed);
            self.vol.lookups.with_pages(ino, |pages| pages.holes.get_or_insert_default().add(new));
        }
    }

    fn holes_given(self, ino: Ino) -> Option<Holes> {
        if !self.vol.lookups.has_holes.load(Relaxed) {
            return None;
        }
        self.vol.lookups.with_pages(ino, |pages| pages.holes.as_deref().cloned())?
    }

    /// The range in which holes count as data: the cache has pages there.
    pub(crate) fn range_given(self, ino: Ino) -> Range<u64> {
        self.holes_given(ino).map_or(0..0, |holes| holes.range)
    }

    /// A hole is made, or a range zeroed. Where blocks are smaller than pages the cache keeps the pages at both ends.
    pub(crate) fn note_edges(self, ino: Ino, how: Fallocate, offset: u64, len: u64) {
        let makes_holes = matches!(how, Fallocate::PunchHole | Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize);
        if !makes_holes || u64::from(self.vol.shared.sb.block_size()) >= PAGE {
            return;
        }
        let end = offset.saturating_add(len);
        let first = offset.checked_next_multiple_of(PAGE).unwrap_or(end).min(end);
        for edge in [offset..first, (end - end % PAGE).max(first)..end] {
            self.note_holes(ino, Holes::of(edge));
        }
    }

    /// A file's size was changed by a request upon which a cache drops its pages.
    pub(crate) fn note_resized(self, ino: Ino, old: u64, new: u64) {
        if old == new {
            return;
        }
        let collected = self.vol.collects_writes();
        self.vol.lookups.with_pages(ino, |pages| {
            pages.resized(old, new);
            if collected {
                // It writes pages that it never read.
                pages.late = 0;
            }
        });
    }

    /// The bytes of a write that a cache may have kept from behind a former end of the file: they are no contents if
    /// the write comes from its pages.
    pub fn late_in(self, ino: Ino, bytes: &Range<u64>) -> Option<Range<u64>> {
        self.vol.lookups.with_pages(ino, |pages| pages.late_in(bytes))?
    }

    /// A file's size, if a cache has the page in which it ends: what was stored there behind the end becomes contents
    /// when the file grows.
    pub fn end_in_pages(self, ino: Ino) -> Option<u64> {
        self.vol.lookups.with_pages(ino, |pages| pages.end > 0).filter(|has| *has)?;
        let size = self.vol.node(ino).ok()?.read().ok()?.inode.size;
        self.vol.lookups.with_pages(ino, |pages| pages.has_end(size)).filter(|has| *has)?;
        Some(size)
    }

    /// The cache is about to drop that page.
    pub fn end_leaves_pages(self, ino: Ino) {
        self.vol.lookups.with_pages(ino, |pages| pages.end = 0);
    }
}

impl Volume {
    /// Whether it does.
    pub fn collects_writes(&self) -> bool {
        self.collected.load(Relaxed)
    }

    /// The space that a file is said to have, in units of 512 bytes. Programs that copy files take one without any for
    /// a hole.
    pub(crate) fn space_told(&self, ino: Ino, inode: &Inode) -> u64 {
        if !inode.is_regular() {
            return inode.blocks;
        }
        // As the kernel's ext4 does.
        let inline = if is_inline(inode) { inode.size.div_ceil(SECTOR) } else { 0 };
        let stored = inode.blocks.saturating_add(inline);
        let block_size = u64::from(self.shared.sb.block_size());
        let most = inode.size.div_ceil(block_size).saturating_mul(block_size / SECTOR);
        let given = self.page_cache().holes_given(ino).map_or(0, |holes| holes.bytes.div_ceil(SECTOR));
        let told = stored.saturating_add(given).min(most).max(stored);
        if self.collects_writes() { told.max(block_size / SECTOR) } else { told }
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
