//! Ranges of open files: allocating, moving, copying, and what is stored where.

use super::File;
use crate::path::at;
use crate::{CopyRange, Exchange, Extent, Fallocate, Result, Seek};
use ondol_volume::Error as VolumeError;

impl File {
    /// Allocates, punches, zeroes, cuts out or makes room for `len` bytes from `offset` on. A sequence of atomic
    /// operations, each of which leaves the file sound; the move of [`Fallocate::CollapseRange`] and
    /// [`Fallocate::InsertRange`] is one of them.
    ///
    /// # Errors
    /// As fallocate(2).
    pub fn fallocate(&self, how: Fallocate, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        at(&self.path, self.volume.usable()?.files().fallocate(self.ino, how, offset, len))
    }

    /// Where the next data, or the next hole, begins at or behind `offset`: lseek(2) with `SEEK_DATA` and `SEEK_HOLE`.
    /// The end of the file is a hole; what is allocated and never written is one, too.
    ///
    /// # Errors
    /// `ENXIO` when the offset is not before the end of the file, or no data follows.
    pub fn find(&self, what: Seek, offset: u64) -> Result<u64> {
        at(&self.path, self.volume.usable()?.files().seek(self.ino, offset, what))
    }

    /// Copies up to `len` bytes from `offset` on to `to_offset` of `to`, a file of the same volume, and returns how
    /// many: less than `len` at the end of this file, and when that is much. Holes stay holes. After each of its atomic
    /// operations, `to` has a beginning of what is copied.
    ///
    /// # Errors
    /// As copy_file_range(2).
    pub fn copy_range(&self, offset: u64, to: &File, to_offset: u64, len: u64) -> Result<u64> {
        if !self.volume.is_of(&to.volume) {
            return at(&to.path, Err(VolumeError::Invalid("the files are not on one volume")));
        }
        self.check_readable()?;
        to.check_writable()?;
        let kill_suid = to.caller.uid != 0;
        let (inodes, range) = (self.volume.usable()?, CopyRange { from: offset, to: to_offset, len });
        at(&to.path, inodes.ranges().copy_range(self.ino, to.ino, range, kill_suid))
    }

    /// Exchanges what this file holds from `offset` on for what `other`, a file of the same volume, holds from
    /// `other_offset` on: `len` bytes of each, or everything up to their ends and the sizes with it. One atomic
    /// operation: a crash leaves both as they were, or both done. No bytes are copied. Offsets are multiples of the
    /// unit of allocation (a block, mostly 4 KiB), and so is the length, unless both ranges end with their files.
    /// Durable on return with [`Exchange::durable`] and without `data=journal`, otherwise with the next sync.
    ///
    /// # Errors
    /// As the XFS_IOC_EXCHANGE_RANGE ioctl: `EINVAL` for other offsets and lengths, and for ranges that overlap;
    /// `EPERM` for an immutable or append-only file; `E2BIG` for more extents than one operation changes; `ENOSPC`.
    /// Nothing has changed then.
    pub fn exchange(&self, offset: u64, other: &File, other_offset: u64, how: &Exchange) -> Result<()> {
        if !self.volume.is_of(&other.volume) {
            return at(&other.path, Err(VolumeError::Invalid("the files are not on one volume")));
        }
        for file in [self, other] {
            file.check_readable()?;
            file.check_writable()?;
        }
        let how = Exchange { kill_suid: how.kill_suid || self.caller.uid != 0, ..*how };
        at(&self.path, self.act(|inodes| inodes.ranges().exchange(self.ino, offset, other.ino, other_offset, &how)))
    }

    /// The allocated parts of the file that lie in `len` bytes from `offset` on, in order, as the FIEMAP ioctl tells.
    ///
    /// # Errors
    /// Corruption, or the store's failure.
    pub fn extents(&self, offset: u64, len: u64) -> Result<Vec<Extent>> {
        at(&self.path, self.volume.usable()?.files().extents(self.ino, offset, len))
    }
}
