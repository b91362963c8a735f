//! Read and seek.

use super::plan::check_regular;
use super::view::Stored;
use super::{Mapped, check_passed, map};
use crate::alloc::Need;
use crate::inline::{self, is_inline};
use crate::node::Node;
use crate::op::{Cost, Op};
use crate::{Atime, Error, FileIo, Ino, Result, Seek};
use ondol_env::sync::Arc;
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;
use ondol_format::inode::InodeFlags;
use std::ops::Range;

/// An access time older than this is renewed by any read, seconds (mount(8), `relatime`).
const RELATIME: i64 = 24 * 60 * 60;

impl FileIo<'_> {
    /// Reads into `buf` from byte `offset` and returns how many bytes there were before the end of the file.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for what is no regular file, corruption, or the store's failure.
    pub fn read(self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_by(ino, buf, |inode, buf| self.read_at(ino, inode, offset, buf))
    }

    /// Has `read` read a regular file, and renews its access time.
    pub(crate) fn read_by(
        self,
        ino: Ino,
        buf: &mut [u8],
        read: impl FnOnce(&Inode, &mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let n = check_regular(ino, &state.inode).and_then(|()| read(&state.inode, buf));
        let n = n.map_err(|e| self.vol.noted(e))?;
        let stale = !buf.is_empty() && self.atime_is_stale(&state.inode);
        drop(state);
        if stale {
            self.renew_atime(&node);
        }
        Ok(n)
    }

    /// Where the next byte lies, from `offset` on, that is stored, or that is in a hole.
    ///
    /// # Errors
    /// `PastEnd` when `offset` is not below the size, or no stored byte follows; and as [`FileIo::read`].
    pub fn seek(self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let found = check_regular(ino, &state.inode).and_then(|()| self.seek_in(ino, &state.inode, offset, what));
        found.map_err(|e| self.vol.noted(e))
    }

    /// As [`FileIo::seek`], for whoever reads by [`crate::PageCache::read_pages`]: holes count as data where pages may
    /// have been changed.
    ///
    /// # Errors
    /// As [`FileIo::seek`].
    pub fn seek_pages(self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let given = self.vol.page_cache().range_given(ino);
        let given = given.start.max(offset)..given.end.min(state.inode.size);
        let seek = |from| self.seek_in(ino, &state.inode, from, what);
        let found = check_regular(ino, &state.inode).and_then(|()| match (seek(offset), what) {
            (Err(Error::PastEnd), Seek::Data) if !given.is_empty() => Ok(given.start),
            (Ok(data), Seek::Data) if !given.is_empty() => Ok(data.min(given.start)),
            (Ok(hole), Seek::Hole) if given.contains(&hole) && given.end < state.inode.size => seek(given.end),
            (Ok(hole), Seek::Hole) if given.contains(&hole) => Ok(state.inode.size),
            (found, _) => found,
        });
        found.map_err(|e| self.vol.noted(e))
    }

    /// Contents of any inode with mapped blocks.
    pub(crate) fn read_at(self, ino: Ino, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_seeing(ino, inode, offset, buf, &mut |_| ())
    }

    /// As [`FileIo::read_at`]; `hole` is told which bytes are stored nowhere.
    pub(crate) fn read_seeing(
        self,
        ino: Ino,
        inode: &Inode,
        offset: u64,
        buf: &mut [u8],
        hole: &mut dyn FnMut(Range<u64>),
    ) -> Result<usize> {
        let Some(left) = inode.size.checked_sub(offset) else { return Ok(0) };
        let n = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.each_stored(ino, inode, offset, n as u64, |done, len, stored| {
            let part = &mut buf[done as usize..(done + len) as usize];
            match stored {
                Stored::Inline(bytes) => part.copy_from_slice(bytes),
                Stored::Zeros => {
                    hole(offset + done..offset + done + len);
                    part.fill(0);
                }
                Stored::Blocks(start, skip) => self.vol.engine.read_data(start, skip, part)?,
            }
            Ok(())
        })?;
        Ok(n)
    }

    /// Calls `each` for parts of `len` bytes from `offset` on, which the file has: where each begins among them, how
    /// long it is, and what it is.
    pub(super) fn each_stored(
        self,
        ino: Ino,
        inode: &Inode,
        offset: u64,
        len: u64,
        mut each: impl FnMut(u64, u64, Stored<'_>) -> Result<()>,
    ) -> Result<()> {
        let block_size = u64::from(self.vol.shared.sb.block_size());
        if is_inline(inode) {
            let contents = inline::contents(ino, inode)?;
            let from = (offset as usize).min(contents.len());
            let bytes = contents.get(from..from.saturating_add(len as usize));
            let bytes = bytes
                .ok_or_else(|| Error::corrupt(format!("inode {ino}"), 0, "its size is not that of its contents"))?;
            return each(0, len, Stored::Inline(bytes));
        }
        let mut done = 0;
        while done < len {
            let byte = offset + done;
            let skip = byte % block_size;
            let Some(at) = u32::try_from(byte / block_size).ok().filter(|&at| at < MAX_LOGICAL) else {
                // A size past the last block that can be mapped.
                return each(done, len - done, Stored::Zeros);
            };
            let run = map(&mut &*self.vol, ino, inode, at)?;
            let part = (u64::from(run.len) * block_size - skip).min(len - done);
            let stored = match run.what {
                Mapped::Written(start) => Stored::Blocks(start, skip as usize),
                Mapped::Hole | Mapped::Unwritten(_) => Stored::Zeros,
            };
            each(done, part, stored)?;
            done += part;
        }
        Ok(())
    }

    fn seek_in(self, ino: Ino, inode: &Inode, offset: u64, what: Seek) -> Result<u64> {
        if is_inline(inode) {
            return match what {
                _ if offset >= inode.size => Err(Error::PastEnd),
                Seek::Data => Ok(offset),
                Seek::Hole => Ok(inode.size),
            };
        }
        let block_size = u64::from(self.vol.shared.sb.block_size());
        let (mut byte, mut allocated) = (offset, 0);
        while byte < inode.size {
            let Some(at) = u32::try_from(byte / block_size).ok().filter(|&at| at < MAX_LOGICAL) else { break };
            let run = map(&mut &*self.vol, ino, inode, at)?;
            let stored = matches!(run.what, Mapped::Written(_));
            if stored == (what == Seek::Data) {
                return Ok(byte);
            }
            byte = (u64::from(at) + u64::from(run.len)) * block_size;
            allocated += if run.what == Mapped::Hole { 0 } else { u64::from(run.len) };
            check_passed(self.vol, ino, allocated)?;
        }
        // The end of the file is a hole.
        if what == Seek::Hole && offset < inode.size { Ok(inode.size) } else { Err(Error::PastEnd) }
    }

    /// Whether reading the inode now renews its access time.
    pub(crate) fn atime_is_stale(self, inode: &Inode) -> bool {
        let never = self.vol.options.atime == Atime::Never || (self.vol.options.nodiratime && inode.is_dir());
        if never || self.vol.is_read_only() || inode.flags.contains(InodeFlags::NOATIME) {
            return false;
        }
        let (atime, now) = (inode.atime, crate::time::to_disk(self.vol.now()));
        if self.vol.options.atime == Atime::Always {
            return atime != now;
        }
        (atime <= inode.mtime.max(inode.ctime) && atime != now) || now.sec.saturating_sub(atime.sec) >= RELATIME
    }

    /// As [`FileIo::update_atime`]. An access time is not worth failing a read that has succeeded.
    pub(super) fn renew_atime(self, node: &Arc<Node>) {
        let failed = |e| tracing::debug!("access time of inode {}: {e}", node.ino);
        self.update_atime(node).unwrap_or_else(failed);
    }

    /// Renews an inode's access time, if it still is stale.
    pub(crate) fn update_atime(self, node: &Arc<Node>) -> Result<()> {
        let guard = node.write()?;
        if !self.atime_is_stale(&guard.state.inode) {
            return Ok(());
        }
        let mut op = Op::begin(self.vol, vec![guard], Cost { journal: 1, blocks: 0, need: Need::Ordinary })?;
        op.in_passing();
        let now = crate::time::to_disk(op.now());
        op.inode_mut(node.ino)?.atime = now;
        op.close().map(|_| ())
    }
}
