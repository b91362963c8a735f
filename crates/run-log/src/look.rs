//! What the kernel says of a file: which it is, and whether it changed.

use crate::Handle;
use crate::client::wall_ns;
use crate::format::RawTimes;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps};
use rustix::io::Result;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use zerocopy::little_endian::{I64, U32};

/// One look at a file. Two equal looks, with nothing that this program did between them, say that nobody changed the
/// file, where timestamps are multigrain ([`multigrain`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The file system's device number.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// When it was made: nanoseconds since 1970, as all times here.
    pub birth: u64,
    /// Last change of anything.
    pub ctime: u64,
    /// Last change of its contents.
    pub mtime: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub kind: FileKind,
    /// A write by whoever may not set them takes its setuid and setgid bits away, which no record tells: it is never as
    /// expected.
    pub set_id: bool,
}

/// What has slots, and what has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    #[default]
    File,
    /// A directory.
    Directory,
    /// Anything else: it has no slot.
    Other,
}

impl FileKind {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::File => 0,
            Self::Directory => 1,
            Self::Other => 2,
        }
    }

    pub(crate) fn from_number(number: u64) -> Self {
        match number {
            0 => Self::File,
            1 => Self::Directory,
            _ => Self::Other,
        }
    }

    fn of(mode: u16) -> Self {
        match FileType::from_raw_mode(mode.into()) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// Times of a file that a program may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Last access.
    pub atime: Timespec,
    /// Last change of its contents.
    pub mtime: Timespec,
}

impl Times {
    /// Those of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self> {
        let seen = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::ATIME | StatxFlags::MTIME)?;
        let time = |at: StatxTimestamp| Timespec { tv_sec: at.tv_sec, tv_nsec: at.tv_nsec.into() };
        Ok(Self { atime: time(seen.stx_atime), mtime: time(seen.stx_mtime) })
    }

    /// Gives them to an open file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn give(self, fd: BorrowedFd<'_>) -> Result<()> {
        let times = Timestamps { last_access: self.atime, last_modification: self.mtime };
        rustix::fs::futimens(fd, &times)
    }
}

impl From<Times> for RawTimes {
    fn from(Times { atime, mtime }: Times) -> Self {
        Self {
            atime_s: atime.tv_sec.into(),
            mtime_s: mtime.tv_sec.into(),
            atime_ns: (atime.tv_nsec as u32).into(),
            mtime_ns: (mtime.tv_nsec as u32).into(),
        }
    }
}

impl From<RawTimes> for Times {
    fn from(raw: RawTimes) -> Self {
        let time = |s: I64, ns: U32| Timespec { tv_sec: s.get(), tv_nsec: ns.get().into() };
        Self { atime: time(raw.atime_s, raw.atime_ns), mtime: time(raw.mtime_s, raw.mtime_ns) }
    }
}

/// What a file is known by after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The file system: `f_fsid` of statfs(2).
    pub fsid: u64,
    /// Its inode.
    pub ino: u64,
    /// What it is.
    pub kind: FileKind,
    /// Inode and generation, as the file system encodes them.
    pub handle: Handle,
    /// Where it lay: a hint.
    pub path: PathBuf,
}

/// What is known of a file before or after its names change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// A look at it.
    pub look: Look,
    /// Its handle.
    pub handle: Handle,
    /// How many names it has.
    pub links: u32,
    /// Its permissions (`st_mode`).
    pub mode: u32,
    /// The user it belongs to.
    pub uid: u32,
    /// The group it belongs to.
    pub gid: u32,
}

impl Subject {
    /// What a name in the directory `dir` leads to, itself and not what it points to; with an empty name what `dir` is
    /// open for.
    ///
    /// # Errors
    /// The system's.
    pub fn at(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> std::io::Result<Self> {
        let flags = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
        let seen = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
        let handle = Handle::at(dir, name)?;
        let (look, mode) = (Look::from(&seen), seen.stx_mode.into());
        Ok(Self { look, handle, links: seen.stx_nlink, mode, uid: seen.stx_uid, gid: seen.stx_gid })
    }

    /// It is the same file.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.look.same(&other.look) && self.handle == other.handle
    }
}

impl Look {
    /// Looks at an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn at(fd: BorrowedFd<'_>) -> Result<Self> {
        Self::of(fd, c"", AtFlags::EMPTY_PATH)
    }

    /// Looks at what a path leads to, from the directory `dir`.
    ///
    /// # Errors
    /// The system's.
    pub fn path(dir: BorrowedFd<'_>, path: &std::ffi::CStr) -> Result<Self> {
        Self::of(dir, path, AtFlags::empty())
    }

    /// Looks at what has a name, itself and not what it points to.
    ///
    /// # Errors
    /// The system's.
    pub fn name(dir: BorrowedFd<'_>, path: &std::ffi::CStr) -> Result<Self> {
        Self::of(dir, path, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn of(fd: BorrowedFd<'_>, path: &std::ffi::CStr, flags: AtFlags) -> Result<Self> {
        Ok(Self::from(&rustix::fs::statx(fd, path, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?))
    }

    fn from(seen: &Statx) -> Self {
        let time =
            |at: StatxTimestamp| at.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec.into());
        Self {
            dev: rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor),
            ino: seen.stx_ino,
            birth: time(seen.stx_btime),
            ctime: time(seen.stx_ctime),
            mtime: time(seen.stx_mtime),
            size: seen.stx_size,
            kind: FileKind::of(seen.stx_mode),
            set_id: seen.stx_mode & 0o6000 != 0 && FileKind::of(seen.stx_mode) == FileKind::File,
        }
    }

    /// It was made within the last minute.
    pub fn is_new(&self) -> bool {
        self.kind == FileKind::File && wall_ns() < self.birth.saturating_add(60_000_000_000)
    }

    /// It is the same file.
    pub fn same(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.birth) == (other.dev, other.ino, other.birth)
    }
}

impl Identity {
    /// The identity of an open file that lies on a file system which knows handles.
    pub fn of(fd: BorrowedFd<'_>, path: PathBuf) -> Option<Self> {
        let handle = Handle::of(fd).ok()?;
        let fsid = rustix::fs::fstatvfs(fd).ok()?.f_fsid;
        let look = Look::at(fd).ok()?;
        Some(Self { fsid, ino: look.ino, kind: look.kind, handle, path })
    }
}

/// Whether a directory lies on ext4, the only file system whose fsync this slice of Ondol has tried.
///
/// # Errors
/// The system's.
pub fn is_ext4(dir: &Path) -> Result<bool> {
    const EXT4: rustix::fs::FsWord = 0xEF53;
    Ok(rustix::fs::statfs(dir)?.f_type == EXT4)
}

/// Why changes of names on the ext4 file system of `dir` cannot be logged; none if they can. Its journal has to commit
/// them in their order, all that is changed with each at once: there is one, and no fast commits (`fast_commit`), whose
/// replay is later changes to the kernel.
///
/// # Errors
/// The system's.
pub fn names_why_not(dir: &Path) -> Result<Option<&'static str>> {
    let name = device_name(rustix::fs::stat(dir)?.st_dev);
    let options = name.map(|name| Path::new("/proc/fs/ext4").join(name).join("options"));
    let Some(options) = options.and_then(|file| std::fs::read_to_string(file).ok()) else {
        return Ok(Some("its options are not to be seen in /proc/fs/ext4"));
    };
    // Each on a line of its own; the second stands there for the feature without the option.
    let has = |wanted: &str| options.lines().any(|line| line.starts_with(wanted));
    Ok(match () {
        () if !has("data=") => Some("it has no journal"),
        () if has("fast_commit") || has("fc_debug_force") => Some("it has fast commits"),
        () => None,
    })
}

/// The kernel's name of a block device.
fn device_name(device: u64) -> Option<OsString> {
    let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    std::fs::read_link(link).ok()?.file_name().map(OsStr::to_owned)
}

/// When the ext4 file system of this device was mounted, by the clock of today: nanoseconds since 1970, at most a tick
/// of the kernel's clock too early. The thread of its journal has begun then. None where that is not to be seen:
/// without a journal, or from another PID namespace.
pub(crate) fn mounted(device: u64) -> Option<u64> {
    let journal = Path::new("/sys/fs/ext4").join(device_name(device)?).join("journal_task");
    let thread = std::fs::read_to_string(journal).ok()?.trim().parse::<u32>().ok().filter(|thread| *thread > 0)?;
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // Its name may have anything in it; behind it come the state and 18 more before the start.
    let (name, rest) = stat.rsplit_once(") ")?;
    let ticks = rest.split(' ').nth(19)?.parse::<u64>().ok().filter(|_| name.contains("(jbd2/"))?;
    let since_boot = ticks.checked_mul(1_000_000_000)? / rustix::param::clock_ticks_per_second().max(1);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = now.tv_sec.cast_unsigned().checked_mul(1_000_000_000)?.checked_add(now.tv_nsec.cast_unsigned())?;
    wall_ns().checked_sub(now.checked_sub(since_boot)?)
}

/// Whether a change after a look always has another ctime on the file system of `dir` (multigrain timestamps). Tried
/// with a file without a name.
///
/// # Errors
/// The system's: no file can be made there, say.
pub fn multigrain(dir: &Path) -> Result<bool> {
    use rustix::fs::{CWD, Mode, OFlags};
    let tried =
        rustix::fs::openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    let file = File::from(tried);
    let mut before = Look::at(file.as_fd())?.ctime;
    // A clock that ticks every 4 ms at most shows the same time twice in so many steps.
    for _ in 0..64 {
        rustix::io::pwrite(&file, b"x", 0)?;
        let now = Look::at(file.as_fd())?.ctime;
        if now == before {
            return Ok(false);
        }
        before = now;
    }
    Ok(true)
}
