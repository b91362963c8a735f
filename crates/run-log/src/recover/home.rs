//! The file systems that recovery brings a log home to, as it calls them: those that are mounted here, or a model of
//! one. What is open is a file of this kernel in both, whose bytes are read without asking.

use crate::client::wall_ns;
use crate::handle::Handle;
use crate::look::{Look, Subject, Times};
use crate::name_record::NameRecord;
use crate::recover::place::{Tree, mounted};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Which.
    pub name: Vec<u8>,
    /// The inode that it stands for.
    pub ino: u64,
    /// That may be a directory.
    pub may_be_dir: bool,
}

/// Where files are looked for.
#[allow(clippy::missing_errors_doc, reason = "the system's, all of them")]
pub trait Lookup: std::fmt::Debug {
    /// The clock that files get their times by: nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// What is mounted of these file systems (`f_fsid`).
    fn trees(&self, fsids: &BTreeSet<u64>) -> Vec<Tree>;

    /// Opens what lies at a path below a directory, through no link and no other mount.
    fn open_below(&self, dir: &File, path: &Path, flags: OFlags) -> io::Result<File>;

    /// Opens a file by its handle, for its name only, on the file system of `mount`.
    fn open_handle(&self, mount: &File, handle: &Handle) -> io::Result<File>;

    /// Opens what is open for its name only: to be read, or to be written to as well.
    fn reopen(&self, found: &File, writable: bool) -> io::Result<File>;

    /// Opens what has a name.
    fn open(&self, dir: &File, name: &[u8], flags: OFlags) -> io::Result<File>;

    /// The names in a directory that is open to be read.
    fn list(&self, dir: &File) -> io::Result<Vec<Listed>>;

    /// Looks at an open file.
    fn look(&self, file: &File) -> io::Result<Look>;

    /// The times of an open file that programs may set.
    fn times(&self, file: &File) -> io::Result<Times>;

    /// The handle of an open file.
    fn handle(&self, file: &File) -> io::Result<Handle>;

    /// What a name leads to.
    fn subject(&self, dir: &File, name: &[u8]) -> io::Result<Subject>;

    /// The handle of what a name leads to.
    fn handle_at(&self, dir: &File, name: &[u8]) -> io::Result<Handle>;
}

/// The same, and what is done to files there.
#[allow(clippy::missing_errors_doc, reason = "the system's, all of them")]
pub trait Home: Lookup {
    /// Makes a file without a name, with the owner and permissions that a record tells.
    fn unnamed(&self, dir: &File, record: &NameRecord) -> io::Result<File>;

    /// Makes a file for its owner alone; none may have the name.
    fn create(&self, dir: &File, name: &[u8]) -> io::Result<File>;

    /// Gives an open file one more name.
    fn link(&self, file: &File, dir: &File, name: &[u8]) -> io::Result<()>;

    /// Removes a name.
    fn unlink(&self, dir: &File, name: &[u8]) -> io::Result<()>;

    /// Gives a name's file another one instead, in its directory.
    fn rename(&self, dir: &File, old: &[u8], new: &[u8]) -> io::Result<()>;

    /// Writes all of these bytes.
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts or extends a file.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()>;

    /// Gives a file these times.
    fn set_times(&self, file: &File, times: Times) -> io::Result<()>;

    /// Makes a file or directory durable.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// What is mounted here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mounted;

fn c_name(name: &[u8]) -> io::Result<CString> {
    Ok(CString::new(name)?)
}

/// A path that leads to what is open.
pub(super) fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Lookup for Mounted {
    fn now_ns(&self) -> u64 {
        wall_ns()
    }

    fn trees(&self, fsids: &BTreeSet<u64>) -> Vec<Tree> {
        mounted(|_| true, |fsid| fsids.contains(&fsid))
    }

    fn open_below(&self, dir: &File, path: &Path, flags: OFlags) -> io::Result<File> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)?.into())
    }

    fn open_handle(&self, mount: &File, handle: &Handle) -> io::Result<File> {
        handle.open(mount.as_fd())
    }

    fn reopen(&self, found: &File, writable: bool) -> io::Result<File> {
        OpenOptions::new().read(true).write(writable).custom_flags(libc::O_NONBLOCK).open(path_of(found))
    }

    fn open(&self, dir: &File, name: &[u8], flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(dir, &*c_name(name)?, flags, Mode::empty())?.into())
    }

    fn list(&self, dir: &File) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_vec();
            if !matches!(&*name, b"." | b"..") {
                let may_be_dir = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
                listed.push(Listed { name, ino: entry.ino(), may_be_dir });
            }
        }
        Ok(listed)
    }

    fn look(&self, file: &File) -> io::Result<Look> {
        Ok(Look::at(file.as_fd())?)
    }

    fn times(&self, file: &File) -> io::Result<Times> {
        Ok(Times::of(file.as_fd())?)
    }

    fn handle(&self, file: &File) -> io::Result<Handle> {
        Handle::of(file.as_fd())
    }

    fn subject(&self, dir: &File, name: &[u8]) -> io::Result<Subject> {
        Subject::at(dir.as_fd(), &c_name(name)?)
    }

    fn handle_at(&self, dir: &File, name: &[u8]) -> io::Result<Handle> {
        Handle::at(dir.as_fd(), &c_name(name)?)
    }
}

impl Home for Mounted {
    fn unnamed(&self, dir: &File, record: &NameRecord) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR)?);
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (record.uid, record.gid) {
            rustix::fs::fchown(&file, Some(Uid::from_raw(record.uid)), Some(Gid::from_raw(record.gid)))?;
        }
        // No file with setuid or setgid bits is ever logged.
        file.set_permissions(Permissions::from_mode(record.mode & 0o1777))?;
        Ok(file)
    }

    fn create(&self, dir: &File, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(dir, &*c_name(name)?, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    fn link(&self, file: &File, dir: &File, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, path_of(file), dir, &*c_name(name)?, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn unlink(&self, dir: &File, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(dir, &*c_name(name)?, AtFlags::empty())?)
    }

    fn rename(&self, dir: &File, old: &[u8], new: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::renameat(dir, &*c_name(old)?, dir, &*c_name(new)?)?)
    }

    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn set_times(&self, file: &File, times: Times) -> io::Result<()> {
        Ok(times.give(file.as_fd())?)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }
}
