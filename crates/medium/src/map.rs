//! A mapping as words that threads, and other processes, may change at any time.
#![expect(unsafe_code, reason = "maps memory")]

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As any file.
    Shared,
    /// `MAP_SYNC`: a written-back line is durable, with the file's blocks. Fails but on a DAX file system.
    Sync,
    /// What is stored stays in this mapping: a page is copied when it is stored to.
    Private,
}

/// A mapping of whole pages.
#[derive(Debug)]
pub(crate) struct Map {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and is only reached as atomic words.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Memory of this process: zeros, in a file without a name. `len` is a multiple of the page size above 0.
    pub(crate) fn memory(len: usize) -> rustix::io::Result<(File, Self)> {
        let file = File::from(rustix::fs::memfd_create("ondol-nvm", MemfdFlags::CLOEXEC)?);
        rustix::fs::ftruncate(&file, len as u64)?;
        let map = Self::file(&file, len, true, Way::Shared)?;
        Ok((file, map))
    }

    /// The first `len` bytes of `file`, which has them. `len` is a multiple of the page size above 0.
    pub(crate) fn file(file: &File, len: usize, writable: bool, way: Way) -> rustix::io::Result<Self> {
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = match way {
            Way::Shared => MapFlags::SHARED,
            Way::Sync => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Way::Private => MapFlags::PRIVATE,
        };
        // SAFETY: a new mapping where the kernel finds room replaces nothing.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, file, 0)? };
        Self::new(at.cast(), len)
    }

    fn new(at: *mut AtomicU64, len: usize) -> rustix::io::Result<Self> {
        let base = NonNull::new(at).ok_or(rustix::io::Errno::FAULT)?;
        Ok(Self { base, words: len / size_of::<AtomicU64>() })
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.words * size_of::<AtomicU64>()
    }

    /// All words. A mapping that is not writable takes loads only.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, has these words as long as `self` lives, every bit pattern is a word,
        // and whoever else maps the same pages changes them under atomics that may change.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Ends the mapping, in place: from now on its words are zeros, of this process alone.
    pub(crate) fn leave(&self) -> rustix::io::Result<()> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        // SAFETY: exactly this mapping is replaced, by as many words, which may change at any time.
        let at = unsafe {
            rustix::mm::mmap_anonymous(self.base.as_ptr().cast(), self.len(), prot, flags | MapFlags::NORESERVE)
        };
        at.map(drop)
    }

    /// Writes the pages that hold `bytes` to the file and waits.
    pub(crate) fn msync(&self, bytes: Range<usize>) -> rustix::io::Result<()> {
        let page = rustix::param::page_size();
        let end = bytes.end.min(self.len());
        let start = bytes.start.min(end) / page * page;
        // SAFETY: the range lies in the mapping; msync changes no memory.
        unsafe { rustix::mm::msync(self.base.as_ptr().byte_add(start).cast(), end - start, MsyncFlags::SYNC) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to its words outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
