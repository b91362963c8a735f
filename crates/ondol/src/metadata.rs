//! What is known about a file besides its contents, and changes of it.

use crate::path::{Follow, at, resolve};
use crate::{File, FileType, Ino, Result, Timestamp, Volume};
use ondol_volume::{Attr, Device, SetAttr, SetTime};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What stat(2) tells of a file: as `std::fs::Metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(Attr);

impl Metadata {
    pub(crate) fn new(attr: Attr) -> Self {
        Self(attr)
    }

    /// Size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "the size of a file, as in std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Its type.
    pub fn file_type(&self) -> FileType {
        self.0.file_type
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.file_type == FileType::Directory
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.file_type == FileType::Regular
    }

    /// Whether it is a symbolic link: only [`Volume::symlink_metadata`] and entries of a directory tell.
    pub fn is_symlink(&self) -> bool {
        self.0.file_type == FileType::Symlink
    }

    /// Permission bits with setuid, setgid and sticky (0o7777).
    pub fn permissions(&self) -> u16 {
        self.0.perm
    }

    /// Last change of the contents.
    pub fn modified(&self) -> SystemTime {
        system_time(self.0.mtime)
    }

    /// Last access, as far as the mount option `atime` keeps it.
    pub fn accessed(&self) -> SystemTime {
        system_time(self.0.atime)
    }

    /// Last change of the inode.
    pub fn changed(&self) -> SystemTime {
        system_time(self.0.ctime)
    }

    /// Creation; `None` where the image's inodes are too small to keep it.
    pub fn created(&self) -> Option<SystemTime> {
        self.0.crtime.map(system_time)
    }

    /// Inode number.
    pub fn ino(&self) -> Ino {
        self.0.ino
    }

    /// Number of names. 1 for a directory with too many subdirectories to count.
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Space held, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.0.blocks
    }

    /// Device number of a device file.
    pub fn rdev(&self) -> Device {
        self.0.rdev
    }
}

/// Times to set: as `std::fs::FileTimes`. What is not set stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// No time to set yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last access.
    #[must_use]
    pub fn set_accessed(mut self, time: SystemTime) -> Self {
        self.accessed = Some(time);
        self
    }

    /// The last change of the contents.
    #[must_use]
    pub fn set_modified(mut self, time: SystemTime) -> Self {
        self.modified = Some(time);
        self
    }

    fn change(self) -> SetAttr {
        let to = |time: SystemTime| SetTime::To(timestamp(time));
        SetAttr { atime: self.accessed.map(to), mtime: self.modified.map(to), ..SetAttr::default() }
    }
}

impl Volume {
    /// What stat(2) tells.
    ///
    /// # Errors
    /// As stat(2).
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        resolve(self.usable()?, path.as_ref(), Follow::Yes).map(Metadata)
    }

    /// What lstat(2) tells.
    ///
    /// # Errors
    /// As lstat(2).
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        resolve(self.usable()?, path.as_ref(), Follow::No).map(Metadata)
    }

    /// Changes the permission bits (0o7777).
    ///
    /// # Errors
    /// As chmod(2).
    pub fn set_permissions(&self, path: impl AsRef<Path>, perm: u16) -> Result<()> {
        self.change(path.as_ref(), &SetAttr { perm: Some(perm), ..SetAttr::default() })
    }

    /// Sets the times of last access and change. One atomic operation; seen at once, durable with the next
    /// [`Volume::sync`]. ext4 keeps times from 1901 to 2446 (to 2038, in whole seconds, in inodes of 128 bytes); others
    /// become the nearest of these.
    ///
    /// ```
    /// # use ondol::{FileTimes, FormatOptions, Volume};
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// volume.write("/old", b"unpacked")?;
    /// let year_2001 = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    /// volume.set_times("/old", FileTimes::new().set_modified(year_2001))?;
    /// assert_eq!(volume.metadata("/old")?.modified(), year_2001);
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As utimensat(2).
    pub fn set_times(&self, path: impl AsRef<Path>, times: FileTimes) -> Result<()> {
        self.change(path.as_ref(), &times.change())
    }

    /// Changes owner and group; `None` leaves one as it is. Setuid and setgid are taken from what is not a directory,
    /// as the kernel does.
    ///
    /// # Errors
    /// As chown(2).
    pub fn chown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.change(path.as_ref(), &SetAttr { uid, gid, ..SetAttr::default() })
    }

    fn change(&self, path: &Path, set: &SetAttr) -> Result<()> {
        let ino = resolve(self.usable()?, path, Follow::Yes)?.ino;
        at(path, self.usable()?.inode_ops().setattr(ino, set)).map(|_| ())
    }
}

impl File {
    /// What fstat(2) tells.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn metadata(&self) -> Result<Metadata> {
        at(self.path(), self.volume().usable()?.getattr(self.ino())).map(Metadata)
    }

    /// As [`Volume::set_permissions`].
    ///
    /// # Errors
    /// As fchmod(2).
    pub fn set_permissions(&self, perm: u16) -> Result<()> {
        self.change(&SetAttr { perm: Some(perm), ..SetAttr::default() })
    }

    /// As [`Volume::set_times`].
    ///
    /// # Errors
    /// As futimens(3).
    pub fn set_times(&self, times: FileTimes) -> Result<()> {
        self.change(&times.change())
    }

    fn change(&self, set: &SetAttr) -> Result<()> {
        at(self.path(), self.volume().usable()?.inode_ops().setattr(self.ino(), set)).map(|_| ())
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.sec.unsigned_abs());
    let whole = if time.sec < 0 { UNIX_EPOCH - seconds } else { UNIX_EPOCH + seconds };
    whole + Duration::from_nanos(time.nsec.into())
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { sec: since.as_secs().cast_signed(), nsec: since.subsec_nanos() },
        Err(e) => {
            let before = e.duration();
            let sec = 0_i64.saturating_sub_unsigned(before.as_secs());
            match before.subsec_nanos() {
                0 => Timestamp { sec, nsec: 0 },
                nanos => Timestamp { sec: sec.saturating_sub(1), nsec: 1_000_000_000 - nanos },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_are_the_same_in_both_forms() {
        for (sec, nsec) in
            [(0, 0), (1, 999_999_999), (-1, 1), (-1, 999_999_999), (-2_000_000_000, 0), (15_000_000_000, 7)]
        {
            let time = Timestamp { sec, nsec };
            assert_eq!(timestamp(system_time(time)), time);
        }
        assert_eq!(system_time(Timestamp { sec: -1, nsec: 999_999_999 }), UNIX_EPOCH - Duration::from_nanos(1));
    }
}
