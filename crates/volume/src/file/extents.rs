//! Where the contents of a file lie on the medium.

use super::plan::check_regular;
use super::{Mapped, check_passed, map};
use crate::inline::is_inline;
use crate::{Error, Extent, FileIo, Ino, Result};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;

impl FileIo<'_> {
    /// The allocated parts of a regular file that lie in `len` bytes from `offset` on, in order, as the FIEMAP ioctl
    /// tells: the first begins in the block of `offset` at the earliest, the last may end behind the range. Blocks
    /// behind the end of the file are among them.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for what is no regular file; `Unsupported` for one whose contents lie in its inode;
    /// corruption, or the store's failure.
    pub fn extents(self, ino: Ino, offset: u64, len: u64) -> Result<Vec<Extent>> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let found = check_regular(ino, &state.inode).and_then(|()| self.extents_in(ino, &state.inode, offset, len));
        found.map_err(|e| self.vol.noted(e))
    }

    fn extents_in(self, ino: Ino, inode: &Inode, offset: u64, len: u64) -> Result<Vec<Extent>> {
        if is_inline(inode) {
            return Err(Error::Unsupported("extents of a file whose contents lie in its inode".into()));
        }
        let block_size = u64::from(self.vol.shared.sb.block_size());
        let most = u64::from(MAX_LOGICAL);
        let end = offset.saturating_add(len).div_ceil(block_size).min(most);
        let (mut at, mut allocated, mut found) = (offset / block_size, 0, Vec::<Extent>::new());
        while let Some(first) = u32::try_from(at).ok().filter(|_| at < end) {
            let run = map(&mut &*self.vol, ino, inode, first)?;
            let (logical, len) = (at * block_size, u64::from(run.len) * block_size);
            at += u64::from(run.len);
            let (start, unwritten) = match run.what {
                Mapped::Hole => continue,
                Mapped::Unwritten(start) => (start, true),
                Mapped::Written(start) => (start, false),
            };
            allocated += u64::from(run.len);
            check_passed(self.vol, ino, allocated)?;
            let new = Extent { logical, physical: start * block_size, len, unwritten, last: false };
            match found.last_mut() {
                Some(last) if last.continues(&new) => last.len += new.len,
                _ => found.push(new),
            }
        }
        if let Some(last) = found.last_mut() {
            last.last = self.is_hole_from(ino, inode, last.end() / block_size)?;
        }
        Ok(found)
    }

    /// Whether nothing is allocated from a logical block on.
    fn is_hole_from(self, ino: Ino, inode: &Inode, mut at: u64) -> Result<bool> {
        while let Some(first) = u32::try_from(at).ok().filter(|&at| at < MAX_LOGICAL) {
            let run = map(&mut &*self.vol, ino, inode, first)?;
            if run.what != Mapped::Hole {
                return Ok(false);
            }
            at += u64::from(run.len);
        }
        Ok(true)
    }
}
