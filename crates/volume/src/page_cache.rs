//! What is asked and told of a page cache above.

use crate::pages::{Holes, PAGE};
use crate::{Fallocate, Ino, Result, Volume};
use ondol_env::sync::atomic::Ordering::Relaxed;
use std::ops::Range;

/// `PageCache` knows what a page cache above was given of files, and what it may still write.
#[derive(Clone, Copy)]
pub struct PageCache<'v> {
    pub(crate) vol: &'v Volume,
}

impl Volume {
    /// The part that a page cache above asks and tells.
    pub fn page_cache(&self) -> PageCache<'_> {
        PageCache { vol: self }
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
            if !holes.is_empty() {
                let before = self.vol.space_told(ino, inode);
                self.vol.lookups.note_holes(ino, holes);
                grows = self.vol.space_told(ino, inode) > before;
            }
            Ok(n)
        })?;
        Ok((n, grows))
    }

    /// The range in which holes count as data: the cache has pages there.
    pub(crate) fn range_given(self, ino: Ino) -> Range<u64> {
        self.vol.lookups.holes_given(ino).map_or(0..0, |holes| holes.range)
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
            self.vol.lookups.note_holes(ino, Holes::of(edge));
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
                pages.nothing_late();
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
        self.vol.lookups.with_pages(ino, |pages| pages.has_any_end()).filter(|has| *has)?;
        let size = self.vol.node(ino).ok()?.read().ok()?.inode.size;
        self.vol.lookups.with_pages(ino, |pages| pages.has_end(size)).filter(|has| *has)?;
        Some(size)
    }

    /// The cache is about to drop that page.
    pub fn end_leaves_pages(self, ino: Ino) {
        self.vol.lookups.with_pages(ino, |pages| pages.drop_end());
    }
}
