//! A stretch of addresses in which pages of a file are mapped, here and there, for reading.
#![expect(unsafe_code, reason = "maps memory")]

use crate::PAGE;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Addresses are chosen to fit to the file's bytes modulo this, so that a large page of the file can be one of the
/// processor's.
const LARGE: usize = 2 << 20;

/// How a range of zeros is mapped: no memory is set aside for it.
const ZEROS: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// Reserved addresses. Where nothing is mapped there are zeros.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// The whole reservation.
    whole: NonNull<u8>,
    whole_len: usize,
    /// Where the first word lies in it.
    first: usize,
    words: usize,
    /// The addresses are given back: somebody else's mappings may lie there by now.
    lost: bool,
    /// And of these perhaps, in bytes of the reservation, since a mapping failed there.
    hole: Range<usize>,
}

// SAFETY: the mappings belong to no thread. What they show is changed through `&mut` only, and reached as atomic words,
// or as bytes that nobody changes, otherwise; `part` and `enter` change where the bytes lie and whether the processor
// knows, and the kernel does that beside whoever reads.
unsafe impl Send for Stretch {}
// SAFETY: as above.
unsafe impl Sync for Stretch {}

impl Stretch {
    /// Reserves `len` bytes of zeros, a multiple of the page size above 0, for bytes of a file from about `congruent`
    /// on.
    pub(crate) fn reserve(len: usize, congruent: u64) -> rustix::io::Result<Self> {
        let whole_len = len.checked_add(LARGE).ok_or(rustix::io::Errno::NOMEM)?;
        // SAFETY: a new mapping where the kernel finds room replaces nothing.
        let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), whole_len, ProtFlags::READ, ZEROS)? };
        let whole = NonNull::new(at.cast::<u8>()).ok_or(rustix::io::Errno::FAULT)?;
        let wanted = (congruent % LARGE as u64 / PAGE * PAGE) as usize;
        let first = wanted.wrapping_sub(whole.as_ptr().addr()) % LARGE;
        Ok(Self { whole, whole_len, first, words: len / size_of::<AtomicU64>(), lost: false, hole: 0..0 })
    }

    /// Nothing can be read or mapped any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// All words; they can be loaded, not stored.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `first` is a multiple of the page size below 2 MiB, so the words lie in the reservation, aligned,
        // which is readable for as long as nothing was lost; every bit pattern is a word; mappings under them change
        // through `&mut self` only; and whoever stores to the same pages elsewhere does it by atomics. With a loss
        // there are none.
        unsafe {
            let words = if self.lost { 0 } else { self.words };
            std::slice::from_raw_parts(self.whole.as_ptr().add(self.first).cast(), words)
        }
    }

    /// Maps `len` bytes of `file` from `offset` on at byte `at`: whole pages that both have. Reading them first takes
    /// no page fault with `populate`.
    ///
    /// # Errors
    /// The kernel's, which has changed nothing (too many mappings, say) or left nothing there. [`Stretch::clear`] must
    /// follow.
    pub(crate) fn map(
        &mut self,
        at: usize,
        len: usize,
        file: &File,
        offset: u64,
        populate: bool,
    ) -> rustix::io::Result<()> {
        let flags = if populate { MapFlags::SHARED | MapFlags::POPULATE } else { MapFlags::SHARED };
        self.map_as(at..at + len, ProtFlags::READ, flags, file, offset)
    }

    /// As [`Stretch::map`], and what is stored there is stored to the file.
    ///
    /// # Errors
    /// As [`Stretch::map`]; nothing may follow but dropping it.
    pub(crate) fn map_stored(&mut self, at: usize, len: usize, file: &File, offset: u64) -> rustix::io::Result<()> {
        self.map_as(at..at + len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, offset)
    }

    /// As [`Stretch::map`], so that pages can be parted from the file's. What is stored to those of the file shows
    /// until then.
    ///
    /// # Errors
    /// As [`Stretch::map`]; nothing may follow but dropping it.
    pub(crate) fn map_private(&mut self, at: usize, len: usize, file: &File, offset: u64) -> rustix::io::Result<()> {
        self.map_as(at..at + len, ProtFlags::READ, ZEROS, file, offset)?;
        self.allow_stores(at, len)
    }

    /// So that the kernel copies pages as if they were stored to, or bytes can be put there. In a step of its own,
    /// which leaves the mapping alone where memory for copies of all its pages cannot be promised: a mapping that is
    /// made so can leave a hole then.
    ///
    /// # Errors
    /// The kernel's; nothing has changed then.
    pub(crate) fn allow_stores(&self, at: usize, len: usize) -> rustix::io::Result<()> {
        let to = self.place(at, len)?;
        // SAFETY: the range lies in the reservation, and no byte changes.
        unsafe { rustix::mm::mprotect(to.cast(), len, MprotectFlags::READ | MprotectFlags::WRITE) }
    }

    fn map_as(
        &mut self,
        bytes: Range<usize>,
        prot: ProtFlags,
        flags: MapFlags,
        file: &File,
        offset: u64,
    ) -> rustix::io::Result<()> {
        let (at, len) = (bytes.start, bytes.len());
        let to = self.place(at, len)?;
        // SAFETY: the range lies in the reservation, which is ours, and no reference to its words is alive beside `&mut
        // self`.
        let mapped = unsafe { rustix::mm::mmap(to.cast(), len, prot, flags | MapFlags::FIXED, file, offset) };
        if mapped.is_err_and(|e| e != rustix::io::Errno::NOMEM) {
            // Where the file refuses, what was there is gone already. Too many mappings are refused before that.
            self.hole = self.first + at..self.first + at + len;
        }
        mapped.map(drop)
    }

    /// Puts zeros in the place of `len` bytes at byte `at`, whole pages.
    ///
    /// # Errors
    /// As [`Stretch::map`].
    pub(crate) fn zero(&mut self, at: usize, len: usize) -> rustix::io::Result<()> {
        let to = self.place(at, len)?;
        // SAFETY: as in `map`.
        let mapped = unsafe { rustix::mm::mmap_anonymous(to.cast(), len, ProtFlags::READ, ZEROS | MapFlags::FIXED) };
        mapped.map(drop)
    }

    /// Puts a copy of `bytes`, then zeros, in the place of `len` bytes at byte `at`, whole pages.
    ///
    /// # Errors
    /// As [`Stretch::map`].
    pub(crate) fn put(&mut self, at: usize, len: usize, bytes: &[u8]) -> rustix::io::Result<()> {
        self.zero(at, len)?;
        self.allow_stores(at, len)?;
        let (to, bytes) = (self.place(at, len)?, bytes.get(..len).unwrap_or(bytes));
        // SAFETY: these zeros are as long as `len`, writable, and nobody else knows them beside `&mut self`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Gives `len` bytes at byte `at`, whole pages that were mapped by [`Stretch::map_private`], memory of their own
    /// that holds the same.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub(crate) fn part(&self, at: usize, len: usize) -> rustix::io::Result<()> {
        let to = self.place(at, len)?;
        // SAFETY: the range lies in the reservation. Every byte stays what it is, for all who read meanwhile.
        unsafe { rustix::mm::madvise(to.cast(), len, Advice::LinuxPopulateWrite) }
    }

    /// Enters `len` bytes at byte `at`, whole pages, in the processor's table.
    ///
    /// # Errors
    /// The kernel's: it cannot do that, or not there.
    pub(crate) fn enter(&self, at: usize, len: usize) -> rustix::io::Result<()> {
        let to = self.place(at, len)?;
        // SAFETY: the range lies in the reservation, and no byte changes.
        unsafe { rustix::mm::madvise(to.cast(), len, Advice::LinuxPopulateRead) }
    }

    /// Whether the kernel can part pages.
    pub(crate) fn can_part() -> bool {
        // A failure may be one of a moment.
        static CAN: AtomicBool = AtomicBool::new(false);
        let tried = || {
            let stretch = Self::reserve(PAGE as usize, 0);
            stretch.is_ok_and(|mut stretch| {
                stretch.put(0, PAGE as usize, &[1]).is_ok() && stretch.part(0, PAGE as usize).is_ok()
            })
        };
        if !CAN.load(Relaxed) && rustix::param::page_size() as u64 == PAGE && tried() {
            CAN.store(true, Relaxed);
        }
        CAN.load(Relaxed)
    }

    /// A child of fork(2) does not have the mappings.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn keep_from_children(&self) -> rustix::io::Result<()> {
        let len = self.words * size_of::<AtomicU64>();
        let at = self.place(0, len)?;
        // SAFETY: the range lies in the reservation, and no byte changes.
        unsafe { rustix::mm::madvise(at.cast(), len, Advice::LinuxDontFork) }
    }

    /// All bytes.
    ///
    /// # Safety
    /// Nobody stores to a page that is mapped here as long as the slice lives, unless it was parted.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        let len = std::mem::size_of_val(self.words());
        // SAFETY: as for `words`, and bytes do not change, says the caller.
        unsafe { std::slice::from_raw_parts(self.whole.as_ptr().add(self.first), len) }
    }

    /// Some bytes of mappings that take stores and show nothing of a file, or the end of those that there are.
    ///
    /// # Safety
    /// [`Stretch::allow_stores`] has been called for them, and they were parted from the file, or are zeros or bytes
    /// that were put there; or [`Stretch::map_stored`] has mapped them. Nobody else has a slice of them as long as this
    /// one lives, or changes them.
    #[expect(clippy::mut_from_ref, reason = "what the caller says")]
    pub(crate) unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        let all = if self.lost { 0 } else { self.words * size_of::<AtomicU64>() };
        let end = range.end.min(all);
        let start = range.start.min(end);
        // SAFETY: the bytes lie in the reservation, which is mapped as long as nothing was lost; the rest says the
        // caller.
        unsafe { std::slice::from_raw_parts_mut(self.whole.as_ptr().add(self.first + start), end - start) }
    }

    /// Gives all mappings back and reserves addresses anew, of which there were too many mappings or none. If the
    /// kernel refuses that, too, nothing can be read or mapped any more.
    pub(crate) fn clear(&mut self, congruent: u64) {
        if self.unmap() {
            // The old one is lost, and unmaps nothing.
            if let Ok(new) = Self::reserve(self.words * size_of::<AtomicU64>(), congruent) {
                *self = new;
            }
        }
    }

    /// Gives the addresses back; whether they are.
    fn unmap(&mut self) -> bool {
        if self.lost {
            return false;
        }
        // What cannot be unmapped is not used any more.
        self.lost = true;
        let hole = std::mem::take(&mut self.hole);
        let parts = [0..hole.start, hole.end..self.whole_len];
        parts.into_iter().filter(|part| !part.is_empty()).fold(true, |all, part| {
            // SAFETY: the reservation is ours but for the hole, where somebody else's mapping may lie, and no reference
            // to its words is alive beside `&mut self`.
            let done = unsafe { rustix::mm::munmap(self.whole.as_ptr().add(part.start).cast(), part.len()) };
            all && done.is_ok()
        })
    }

    fn place(&self, at: usize, len: usize) -> rustix::io::Result<*mut u8> {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.words * size_of::<AtomicU64>());
        if self.lost || !is_inside || len == 0 {
            return Err(rustix::io::Errno::INVAL);
        }
        // SAFETY: it lies in the reservation.
        Ok(unsafe { self.whole.as_ptr().add(self.first + at) })
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        self.unmap();
    }
}
