//! The words in which a volume is asked and answers.

use ondol_env::Timestamp;
use ondol_format::inode::{Device, FileType};

/// An inode number. 2 is the root directory.
pub type Ino = u32;

/// The root directory's inode number.
pub const ROOT: Ino = 2;

/// The longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;

/// Who asks: decides ownership of new inodes and who may use the reserved blocks. Permission to do the operation at all
/// is checked by the caller (the kernel, for a mount).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User id for new inodes.
    pub uid: u32,
    /// Group id for new inodes, unless the directory hands down its own (setgid).
    pub gid: u32,
    /// Permission bits that new inodes do not get, unless the directory has a default ACL, which decides alone then.
    pub umask: u16,
}

impl Caller {
    /// This user and group, with nothing masked.
    pub fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid, umask: 0 }
    }
}

/// What stat(2) tells about an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Generation: differs between successive inodes with one number.
    pub generation: u32,
    /// Type.
    pub file_type: FileType,
    /// Permission bits with setuid, setgid and sticky (0o7777).
    pub perm: u16,
    /// Number of names. 1 for a directory with too many subdirectories to count.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: Device,
    /// Size in bytes.
    pub size: u64,
    /// Space held, in units of 512 bytes; a regular file whose contents lie in its inode counts them.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation; `None` where the inode has no room for it.
    pub crtime: Option<Timestamp>,
    /// The `chattr` flags as ext4 stores them.
    pub flags: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The volume's clock.
    Now,
    /// This time.
    To(Timestamp),
}

/// What `setattr` changes; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits (0o7777).
    pub perm: Option<u16>,
    /// Owner. A new owner or group takes setuid and setgid from what is not a directory, unless `perm` is given.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes: truncates or extends with zeros.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of the contents.
    pub mtime: Option<SetTime>,
    /// Clear setuid and setgid as a write by an unprivileged user does.
    pub kill_suid: bool,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The inode it names.
    pub ino: Ino,
    /// Its type, if the directory stores types.
    pub file_type: Option<FileType>,
    /// Its name, without a terminating zero.
    pub name: &'a [u8],
    /// Where a later call goes on after this entry.
    pub next: u64,
}

/// What statfs(2) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes in a block.
    pub block_size: u32,
    /// Data blocks in all, as `bsddf` counts them: without the file system's own overhead.
    pub blocks: u64,
    /// Blocks of that overhead, which `minixdf` counts, too.
    pub overhead: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks for users without privilege.
    pub available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Identifier, from the UUID.
    pub fsid: u64,
}

/// Flags of `rename`, as renameat2(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// Replace the target if there is one.
    #[default]
    Replace,
    /// Fail if there is a target.
    NoReplace,
    /// Exchange source and target, which must both exist.
    Exchange,
    /// Leave a whiteout (character device 0:0 without permissions) under the old name.
    Whiteout {
        /// Who the whiteout belongs to.
        owner: Caller,
        /// Whether a target is replaced; otherwise there must be none.
        replace: bool,
    },
}

/// Flags of `setxattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Create or replace.
    #[default]
    Any,
    /// Fail if the attribute exists.
    Create,
    /// Fail if it does not.
    Replace,
}

/// What `seek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is stored.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// Modes of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocate; grow the file if the range reaches past its end.
    Allocate,
    /// Allocate, keeping the size.
    KeepSize,
    /// Deallocate the range; it reads as zeros. The size stays.
    PunchHole,
    /// The range reads as zeros and stays allocated; the file grows if the range reaches past its end.
    ZeroRange,
    /// As `ZeroRange`, keeping the size.
    ZeroRangeKeepSize,
    /// Take the range out; what follows it moves up, and the file becomes shorter.
    CollapseRange,
    /// Put a hole before what is at the offset, which moves down with all that follows; the file becomes longer.
    InsertRange,
}

impl Fallocate {
    /// What fallocate(2) calls by these flags (`FALLOC_FL_…`); `None` for those that are not offered.
    pub fn of_flags(flags: u32) -> Option<Self> {
        const KEEP_SIZE: u32 = 0x01;
        const PUNCH_HOLE: u32 = 0x02;
        const COLLAPSE_RANGE: u32 = 0x08;
        const ZERO_RANGE: u32 = 0x10;
        const INSERT_RANGE: u32 = 0x20;
        const PUNCH: u32 = PUNCH_HOLE | KEEP_SIZE;
        const ZERO_KEEP: u32 = ZERO_RANGE | KEEP_SIZE;
        Some(match flags {
            0 => Self::Allocate,
            KEEP_SIZE => Self::KeepSize,
            PUNCH => Self::PunchHole,
            ZERO_RANGE => Self::ZeroRange,
            ZERO_KEEP => Self::ZeroRangeKeepSize,
            COLLAPSE_RANGE => Self::CollapseRange,
            INSERT_RANGE => Self::InsertRange,
            _ => return None,
        })
    }

    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Allocate,
        Self::KeepSize,
        Self::PunchHole,
        Self::ZeroRange,
        Self::ZeroRangeKeepSize,
        Self::CollapseRange,
        Self::InsertRange,
    ];
}

/// ext4's data modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataMode {
    /// Data may be lost or stale after a crash.
    Writeback,
    /// Data of new blocks is home before the commit that names them.
    #[default]
    Ordered,
    /// Data goes through the journal with its metadata.
    Journal,
}

/// There is no data mode of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no data mode: choose journal, ordered or writeback")]
pub struct UnknownDataMode(
    /// The name.
    pub String,
);

impl std::str::FromStr for DataMode {
    type Err = UnknownDataMode;

    fn from_str(name: &str) -> Result<Self, UnknownDataMode> {
        let found = [Self::Writeback, Self::Ordered, Self::Journal].into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| UnknownDataMode(name.to_owned()))
    }
}

/// What an fsync of a file or directory makes durable (`fsync=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Every operation that has returned.
    #[default]
    Prefix,
    /// Every operation up to the last that was done to that file or directory, or to a name of it, and whatever was
    /// written to it in place. Where nothing was done to it since it was last durable, that costs nothing.
    File,
}

impl Fsync {
    /// As in `fsync=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::File => "file",
        }
    }
}

/// When reading changes an access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atime {
    /// Never.
    Never,
    /// When it is not newer than the last change, or a day old (`relatime`).
    #[default]
    Relative,
    /// Always (`strictatime`).
    Always,
}

/// What to do when corruption is found (`errors=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Report and go on.
    Continue,
    /// Refuse every further change.
    #[default]
    RemountReadOnly,
}

impl OnError {
    /// As in `errors=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::RemountReadOnly => "remount-ro",
        }
    }
}

impl DataMode {
    /// As in `data=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Writeback => "writeback",
            Self::Ordered => "ordered",
            Self::Journal => "journal",
        }
    }
}

/// What is copied from file to file: bytes.
#[derive(Clone, Copy, Debug)]
pub struct CopyRange {
    /// Where they begin in the file that is read.
    pub from: u64,
    /// Where they go in the other.
    pub to: u64,
    /// How many.
    pub len: u64,
}

/// What two files exchange and how, as XFS_IOC_EXCHANGE_RANGE has it: see [`crate::FileRanges::exchange`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes of each file. `None`: everything from the offsets to the ends of the files, and their sizes with it.
    pub len: Option<u64>,
    /// Only what is written in the first file changes places, in whole units of allocation; the rest of the ranges
    /// stays.
    pub written_only: bool,
    /// The exchange is durable on return, and with it everything that was done before.
    pub durable: bool,
    /// Everything is checked and promised, and nothing changes.
    pub dry_run: bool,
    /// Both files lose what a write by an unprivileged user takes from them.
    pub kill_suid: bool,
}

/// A part of a file that is stored in one run, as the FIEMAP ioctl tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte of the file.
    pub logical: u64,
    /// First byte of the volume.
    pub physical: u64,
    /// Bytes.
    pub len: u64,
    /// Allocated, but reads as zeros (`FIEMAP_EXTENT_UNWRITTEN`).
    pub unwritten: bool,
    /// Nothing of the file is allocated behind it (`FIEMAP_EXTENT_LAST`).
    pub last: bool,
}

impl Extent {
    /// The byte of the file behind it.
    pub fn end(&self) -> u64 {
        self.logical + self.len
    }

    /// Whether `next` goes on where this ends, in the file and on the volume.
    pub(crate) fn continues(&self, next: &Self) -> bool {
        self.unwritten == next.unwritten && self.end() == next.logical && self.physical + self.len == next.physical
    }
}
