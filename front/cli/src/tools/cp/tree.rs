//! What copying asks of the two sides: files of this machine, and files of an image. Errors are words with the path in
//! them.

use ondol::{Device, FileType, Timestamp};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The result of a call.
pub(crate) type Said<T> = Result<T, String>;

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Host,
    Image,
}

/// What is known about a file besides its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// What tells it from all others of its side.
    pub(crate) id: (u64, u64),
    pub(crate) kind: FileType,
    pub(crate) perm: u16,
    pub(crate) nlink: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: Device,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
}

/// Extended attributes by name.
pub(crate) type Attributes = Vec<(OsString, Vec<u8>)>;

/// The files of one side.
pub(crate) trait Tree {
    fn side(&self) -> Side;

    /// A path as messages have it.
    fn shown(&self, path: &Path) -> String;

    /// What stat(2) or lstat(2) tells; `None` if nothing is there.
    fn stat(&self, path: &Path, follow: bool) -> Said<Option<Stat>>;

    /// The names in a directory, in their order; without `.` and `..`.
    fn list(&self, path: &Path) -> Said<Vec<OsString>>;

    fn read_link(&self, path: &Path) -> Said<PathBuf>;

    fn open(&self, path: &Path) -> Said<Box<dyn Reader + '_>>;

    /// Creates a file with these permissions, or truncates it; `fresh`: nothing may be there.
    fn create(&self, path: &Path, perm: u16, fresh: bool) -> Said<Box<dyn Writer + '_>>;

    fn make_dir(&self, path: &Path, perm: u16) -> Said<()>;

    fn symlink(&self, target: &Path, path: &Path) -> Said<()>;

    fn hard_link(&self, original: &Path, path: &Path) -> Said<()>;

    /// Makes a device, a pipe or a socket.
    fn make_node(&self, path: &Path, stat: &Stat) -> Said<()>;

    /// Removes what is no directory.
    fn remove(&self, path: &Path) -> Said<()>;

    /// The attributes of what the path itself names.
    fn attributes(&self, path: &Path) -> Said<Attributes>;

    /// Gives what the path itself names permissions alone.
    fn set_permissions(&self, path: &Path, perm: u16) -> Said<()>;

    /// Gives what the path itself names owner and group, then these attributes, for capabilities go with the owner,
    /// then permissions, which ACLs are a part of, and times.
    fn dress(&self, path: &Path, stat: &Stat, attributes: &Attributes) -> Said<()>;
}

/// A file that is read.
pub(crate) trait Reader {
    /// Its size; `None` where it comes as it comes.
    fn size(&self) -> Said<Option<u64>>;

    /// The next bytes from `at` on that are stored, up to the next hole.
    fn data_from(&self, at: u64) -> Said<Option<Range<u64>>>;

    /// Bytes from `at` on; of what comes as it comes, the next.
    fn read(&mut self, buffer: &mut [u8], at: u64) -> Said<usize>;
}

/// A file that is written.
pub(crate) trait Writer {
    /// Whether bytes must come in their order, without holes.
    fn is_stream(&self) -> bool;

    fn write(&mut self, bytes: &[u8], at: u64) -> Said<()>;

    /// Gives it its size, when all is written.
    fn end(&mut self, size: u64) -> Said<()>;
}
