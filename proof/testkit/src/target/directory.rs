//! A directory of a mounted file system, through the kernel's own calls.

use super::Target;
use super::library::acl_name;
use crate::dump::{self, Snapshot};
use crate::model::Mapping;
use crate::op::{Acl, Fallocate, File, Flags, Op, Path, Rename, SetXattr, sum_of};
use crate::{Fail, Outcome};
use ondol_env::Timestamp;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Unmounts and mounts again.
pub type Remount = Box<dyn FnMut() -> io::Result<()>>;

/// A directory, its open handles, and how its file system is unmounted and mounted again.
pub struct Directory {
    root: PathBuf,
    handles: BTreeMap<u8, OwnedFd>,
    remount: Remount,
    mapping: Mapping,
}

impl Directory {
    /// The directory `root`; `remount` is called, without open handles, for [`Op::Remount`].
    pub fn new(root: PathBuf, remount: Remount) -> Self {
        Self { root, handles: BTreeMap::new(), remount, mapping: Mapping::default() }
    }

    /// Of a file system that maps files in this way.
    #[must_use]
    pub fn with_mapping(self, mapping: Mapping) -> Self {
        Self { mapping, ..self }
    }

    /// Opens the directory of `path` component by component, so that no symbolic link is followed.
    fn parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p str), Fail> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = fs::open(&self.root, flags, Mode::empty())?;
        let mut names = path.components();
        let Some(name) = names.next_back() else { return Ok((dir, ".")) };
        for name in names {
            dir = fs::openat(&dir, name, flags, Mode::empty())?;
        }
        Ok((dir, name))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Fail> {
        let (dir, name) = self.parent(path)?;
        let stat = fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => return Err(Fail::Symlink),
            FileType::RegularFile | FileType::Directory => {}
            // Opening a pipe waits for its other end.
            _ => return Err(Fail::Invalid),
        }
        Ok(fs::openat(&dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Calls `f` with a descriptor that can be written to; by path, one that is opened with `flags` for it.
    fn with_writable<T>(
        &self,
        file: &File,
        flags: OFlags,
        f: impl FnOnce(&OwnedFd) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        match file {
            File::Path(path) => f(&self.open(path, OFlags::RDWR | flags)?),
            File::Handle(handle) => {
                let fd = self.handles.get(handle).ok_or(Fail::BadHandle)?;
                let is_dir = FileType::from_raw_mode(fs::fstat(fd)?.st_mode) == FileType::Directory;
                if is_dir { Err(Fail::IsDirectory) } else { f(fd) }
            }
        }
    }

    /// Calls `f` with a path that reaches the file itself, symbolic links included.
    fn with_path<T>(&self, file: &File, f: impl FnOnce(&str, bool) -> Result<T, rustix::io::Errno>) -> Result<T, Fail> {
        use std::os::fd::AsRawFd;
        match file {
            File::Path(path) => {
                let (dir, name) = self.parent(path)?;
                Ok(f(&format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()), false)?)
            }
            File::Handle(handle) => {
                let fd = self.handles.get(handle).ok_or(Fail::BadHandle)?;
                Ok(f(&proc_path(fd), true)?)
            }
        }
    }

    fn change_names(&mut self, op: &Op) -> Result<(), Fail> {
        match op {
            Op::Create { path, mode } => {
                let (dir, name) = self.parent(path)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                fs::openat(&dir, name, flags, permissions(*mode))?;
            }
            Op::Mkdir { path, mode } => {
                let (dir, name) = self.parent(path)?;
                fs::mkdirat(&dir, name, permissions(*mode))?;
            }
            Op::Mkfifo { path, mode } => {
                let (dir, name) = self.parent(path)?;
                fs::mknodat(&dir, name, FileType::Fifo, permissions(*mode), 0)?;
            }
            Op::Symlink { path, target } => {
                let (dir, name) = self.parent(path)?;
                fs::symlinkat(target.as_str(), &dir, name)?;
            }
            Op::Link { from: File::Handle(handle), to } => {
                let fd = self.handles.get(handle).ok_or(Fail::BadHandle)?;
                let (to_dir, to_name) = self.parent(to)?;
                fs::linkat(fs::CWD, proc_path(fd), &to_dir, to_name, AtFlags::SYMLINK_FOLLOW)?;
            }
            Op::Tmpfile { handle, dir, mode } => {
                let (parent, name) = self.parent(dir)?;
                let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = fs::openat(&parent, name, flags, permissions(*mode))?;
                self.handles.insert(*handle, opened);
            }
            Op::Link { from: File::Path(from), to } => {
                let (from_dir, from_name) = self.parent(from)?;
                // The kernel looks at the source before it walks to the target.
                fs::statat(&from_dir, from_name, AtFlags::SYMLINK_NOFOLLOW)?;
                let (to_dir, to_name) = self.parent(to)?;
                fs::linkat(&from_dir, from_name, &to_dir, to_name, AtFlags::empty())?;
            }
            Op::Unlink { path } => {
                let (dir, name) = self.parent(path)?;
                fs::unlinkat(&dir, name, AtFlags::empty())?;
            }
            Op::Rmdir { path } => {
                let (dir, name) = self.parent(path)?;
                fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?;
            }
            Op::Rename { from, to, how } => {
                let (from_dir, from_name) = self.parent(from)?;
                let (to_dir, to_name) = self.parent(to)?;
                let flags = match how {
                    Rename::Replace => RenameFlags::empty(),
                    Rename::NoReplace => RenameFlags::NOREPLACE,
                    Rename::Exchange => RenameFlags::EXCHANGE,
                    Rename::Whiteout { replace: true, .. } => RenameFlags::WHITEOUT,
                    Rename::Whiteout { replace: false, .. } => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
                };
                fs::renameat_with(&from_dir, from_name, &to_dir, to_name, flags)?;
            }
            Op::Open { handle, path } => {
                let opened = self.open(path, OFlags::RDWR).or_else(|e| match e {
                    Fail::IsDirectory => self.open(path, OFlags::RDONLY),
                    e => Err(e),
                })?;
                self.handles.insert(*handle, opened);
            }
            Op::Close { handle } => drop(self.handles.remove(handle).ok_or(Fail::BadHandle)?),
            _ => return Err(Fail::Unsupported),
        }
        Ok(())
    }

    fn change_bytes(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Write { file, at, len, fill } | Op::WriteBack { file, at, len, fill } => {
                self.with_writable(file, OFlags::empty(), |fd| write_at(fd, *at, &fill.bytes(*at, *len)))
            }
            Op::Append { file, len, fill } => self.with_writable(file, OFlags::APPEND, |fd| {
                let at = fs::fstat(fd)?.st_size as u64;
                write_at(fd, at, &fill.bytes(at, *len))
            }),
            Op::Truncate { file, size } => {
                self.with_writable(file, OFlags::empty(), |fd| Ok(fs::ftruncate(fd, *size).map(|()| 0)?))
            }
            Op::Fallocate { file, how, at, len } => {
                let flags = fallocate_flags(*how);
                self.with_writable(file, OFlags::empty(), |fd| Ok(fs::fallocate(fd, flags, *at, *len).map(|()| 0)?))
            }
            Op::Copy { from, at, to, to_at, len } => self.with_writable(from, OFlags::empty(), |source| {
                self.with_writable(to, OFlags::empty(), |target| copy_range(source, *at, target, *to_at, *len))
            }),
            _ => Err(Fail::Unsupported),
        }
    }

    fn change_attributes(&mut self, op: &Op) -> Result<(), Fail> {
        match op {
            Op::SetXattr { file, name, len, fill, how } => {
                let flags = match how {
                    SetXattr::Any => XattrFlags::empty(),
                    SetXattr::Create => XattrFlags::CREATE,
                    SetXattr::Replace => XattrFlags::REPLACE,
                };
                let value = fill.bytes(0, *len);
                self.with_path(file, |path, follow| match follow {
                    true => fs::setxattr(path, name.as_str(), &value, flags),
                    false => fs::lsetxattr(path, name.as_str(), &value, flags),
                })
            }
            Op::RemoveXattr { file, name } => self.with_path(file, |path, follow| match follow {
                true => fs::removexattr(path, name.as_str()),
                false => fs::lremovexattr(path, name.as_str()),
            }),
            Op::SetAcl { file, default, acl } => {
                let name = acl_name(*default);
                let value = acl.as_ref().map(Acl::value);
                self.with_path(file, |path, follow| match (&value, follow) {
                    (Some(value), true) => fs::setxattr(path, name, value, XattrFlags::empty()),
                    (Some(value), false) => fs::lsetxattr(path, name, value, XattrFlags::empty()),
                    (None, true) => fs::removexattr(path, name),
                    (None, false) => fs::lremovexattr(path, name),
                })
            }
            Op::Chattr { file, flags } => {
                let change = |fd: &OwnedFd| -> Result<(), Fail> {
                    let others = fs::ioctl_getflags(fd)?.bits() & !Flags::KNOWN;
                    Ok(fs::ioctl_setflags(fd, fs::IFlags::from_bits_retain(others | flags.0))?)
                };
                match file {
                    File::Path(path) => change(&self.open(path, OFlags::RDONLY)?),
                    File::Handle(handle) => change(self.handles.get(handle).ok_or(Fail::BadHandle)?),
                }
            }
            Op::Chmod { file, mode } => self.with_path(file, |path, follow| {
                let stat = if follow { fs::stat(path) } else { fs::lstat(path) }?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    return Err(rustix::io::Errno::OPNOTSUPP);
                }
                fs::chmod(path, permissions(*mode))
            }),
            Op::Chown { file, uid, gid } => {
                let (uid, gid) = (fs::Uid::from_raw(*uid), fs::Gid::from_raw(*gid));
                self.with_path(file, |path, follow| fs::chownat(fs::CWD, path, Some(uid), Some(gid), at_flags(follow)))
            }
            Op::Utimens { file, atime, mtime } => {
                let times = Timestamps { last_access: timespec(*atime), last_modification: timespec(*mtime) };
                self.with_path(file, |path, follow| fs::utimensat(fs::CWD, path, &times, at_flags(follow)))
            }
            _ => Err(Fail::Unsupported),
        }
    }

    fn fsync(&self, file: &File, data_only: bool) -> Result<(), Fail> {
        let sync = |fd: &OwnedFd| if data_only { fs::fdatasync(fd) } else { fs::fsync(fd) };
        match file {
            File::Path(path) => Ok(sync(&self.open(path, OFlags::RDONLY)?)?),
            File::Handle(handle) => Ok(sync(self.handles.get(handle).ok_or(Fail::BadHandle)?)?),
        }
    }

    fn sync(&self) -> Result<(), Fail> {
        let root = self.open(&Path::root(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        // A FUSE server hears of the second only.
        rustix::fs::syncfs(&root)?;
        Ok(fs::fsync(&root)?)
    }
}

/// The flags of fallocate(2) for a mode.
pub fn fallocate_flags(how: Fallocate) -> FallocateFlags {
    match how {
        Fallocate::Allocate => FallocateFlags::empty(),
        Fallocate::KeepSize => FallocateFlags::KEEP_SIZE,
        Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        Fallocate::ZeroRange => FallocateFlags::ZERO_RANGE,
        Fallocate::ZeroRangeKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        Fallocate::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
        Fallocate::InsertRange => FallocateFlags::INSERT_RANGE,
    }
}

fn copy_range(source: impl AsFd, at: u64, target: impl AsFd, to_at: u64, len: u64) -> Outcome {
    // A copy within a file makes it longer.
    let len = (fs::fstat(&source)?.st_size as u64).saturating_sub(at).min(len);
    let mut done = 0;
    while done < len {
        let (mut from, mut to) = (at + done, to_at + done);
        match fs::copy_file_range(&source, Some(&mut from), &target, Some(&mut to), (len - done) as usize) {
            Ok(0) | Err(rustix::io::Errno::NOSPC) if done > 0 => break,
            Ok(0) => break,
            Ok(n) => done += n as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(done)
}

/// A path that leads to what is open.
fn proc_path(fd: &OwnedFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn permissions(mode: u16) -> Mode {
    Mode::from_raw_mode(mode.into())
}

fn at_flags(follow: bool) -> AtFlags {
    if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

fn timespec(t: Timestamp) -> Timespec {
    Timespec { tv_sec: t.sec, tv_nsec: t.nsec.into() }
}

fn write_at(fd: impl AsFd, at: u64, bytes: &[u8]) -> Outcome {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(&fd, &bytes[done..], at + done as u64) {
            Ok(0) | Err(rustix::io::Errno::NOSPC) if done > 0 => break,
            Ok(n) => done += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(done as u64)
}

fn read_at(fd: impl AsFd, at: u64, len: u64) -> Outcome {
    let (mut bytes, mut done) = (vec![0; len as usize], 0);
    loop {
        match rustix::io::pread(&fd, &mut bytes[done..], at + done as u64) {
            Ok(0) => return Ok(sum_of([&bytes[..done]])),
            Ok(n) => done += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

impl Target for Directory {
    fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Write { .. }
            | Op::WriteBack { .. }
            | Op::Append { .. }
            | Op::Truncate { .. }
            | Op::Fallocate { .. }
            | Op::Copy { .. } => self.change_bytes(op),
            Op::SetXattr { .. } | Op::RemoveXattr { .. } | Op::SetAcl { .. } => self.change_attributes(op).map(|()| 0),
            Op::Chattr { .. } | Op::Chmod { .. } | Op::Chown { .. } | Op::Utimens { .. } => {
                self.change_attributes(op).map(|()| 0)
            }
            Op::Read { file, at, len, .. } => match file {
                File::Path(path) => read_at(self.open(path, OFlags::RDONLY)?, *at, *len),
                File::Handle(handle) => read_at(self.handles.get(handle).ok_or(Fail::BadHandle)?, *at, *len),
            },
            Op::Fsync { file, data_only } => self.fsync(file, *data_only).map(|()| 0),
            Op::Sync => self.sync().map(|()| 0),
            // Real time passes by itself, and so do checkpoints.
            Op::Idle { .. } | Op::BringHome | Op::Checkpoint => Ok(0),
            Op::Trim | Op::Scratch { .. } | Op::Exchange { .. } | Op::MapCommit { .. } => Err(Fail::Unsupported),
            Op::Remount => {
                self.handles.clear();
                (self.remount)().map(|()| 0).map_err(|_| Fail::Io)
            }
            _ => self.change_names(op).map(|()| 0),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        dump::of_directory(&self.root).map_err(|e| e.to_string())
    }

    fn is_fuse(&self) -> bool {
        const FUSE_MAGIC: fs::FsWord = 0x6573_5546;
        fs::statfs(&self.root).is_ok_and(|s| s.f_type == FUSE_MAGIC)
    }

    fn mapping(&self) -> Mapping {
        self.mapping
    }
}
