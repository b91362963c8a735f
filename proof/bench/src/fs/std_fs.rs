//! Files through system calls: any mounted file system.

use super::{Append, Dir, Durable, File, Fs, Stat, in_op};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// System calls that the calling thread has made on files so far.
pub(crate) fn calls() -> u64 {
    CALLS.get()
}

/// Counts a system call that is about to be made.
fn call() {
    CALLS.set(CALLS.get() + 1);
}

/// A directory on a mounted file system.
pub(crate) struct StdFs {
    root: Arc<StdDir>,
}

impl StdFs {
    /// Works in `dir`.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let fd = rustix::fs::open(dir, DIR_FLAGS, Mode::empty())?;
        Ok(Self { root: Arc::new(StdDir::of(fd)) })
    }
}

impl Fs for StdFs {
    fn root(&self) -> Arc<dyn Dir> {
        Arc::clone(&self.root) as Arc<dyn Dir>
    }
}

const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE_FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIR_MODE: Mode = Mode::from_raw_mode(0o755);

/// A directory, named by a path from one that is open.
struct StdDir {
    fd: Arc<OwnedFd>,
    /// Empty, or ends with a slash.
    prefix: String,
}

impl StdDir {
    fn of(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd), prefix: String::new() }
    }

    fn path<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.prefix.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(format!("{}{name}", self.prefix)) }
    }

    fn file(&self, name: &str, flags: OFlags, append: Append) -> io::Result<Box<dyn File>> {
        let flags = if append == Append::Flag { flags | OFlags::APPEND } else { flags };
        call();
        let fd = rustix::fs::openat(&*self.fd, &*self.path(name), FILE_FLAGS | flags, FILE_MODE)?;
        Ok(Box::new(StdFile { fd, append }))
    }
}

impl Dir for StdDir {
    fn mkdir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        call();
        rustix::fs::mkdirat(&*self.fd, &*self.path(name), DIR_MODE).map_err(io::Error::from).map_err(in_op("mkdir"))?;
        self.enter(name)
    }

    fn enter(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        call();
        let fd = rustix::fs::openat(&*self.fd, &*self.path(name), DIR_FLAGS, Mode::empty()).map_err(io::Error::from);
        Ok(Arc::new(Self::of(fd.map_err(in_op("opening a directory"))?)))
    }

    fn pass(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        Ok(Arc::new(Self { fd: Arc::clone(&self.fd), prefix: format!("{}{name}/", self.prefix) }))
    }

    fn create(&self, name: &str, append: Append) -> io::Result<Box<dyn File>> {
        self.file(name, OFlags::CREATE | OFlags::EXCL, append).map_err(in_op("create"))
    }

    fn open(&self, name: &str, append: Append) -> io::Result<Box<dyn File>> {
        self.file(name, OFlags::empty(), append).map_err(in_op("open"))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        call();
        rustix::fs::unlinkat(&*self.fd, &*self.path(name), AtFlags::empty()).map_err(|e| in_op("unlink")(e.into()))
    }

    fn rmdir(&self, name: &str) -> io::Result<()> {
        call();
        rustix::fs::unlinkat(&*self.fd, &*self.path(name), AtFlags::REMOVEDIR).map_err(|e| in_op("rmdir")(e.into()))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        // Opening and closing; how often it is read, the kernel decides.
        call();
        call();
        let fd = rustix::fs::openat(&*self.fd, &*self.path("."), DIR_FLAGS, Mode::empty());
        let fd = fd.map_err(|e| in_op("opening a directory")(e.into()))?;
        for entry in rustix::fs::Dir::read_from(&fd).map_err(|e| in_op("readdir")(e.into()))? {
            let entry = entry.map_err(|e| in_op("readdir")(e.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        call();
        let stat = rustix::fs::statat(&*self.fd, &*self.path(name), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| in_op("stat")(e.into()))?;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        Ok(Stat { size: u64::try_from(stat.st_size).unwrap_or(0), is_dir })
    }

    fn sync_all(&self) -> io::Result<()> {
        // syncfs does not reach a plain FUSE server; an fsync of the directory does, but not every server offers it.
        call();
        rustix::fs::syncfs(&*self.fd).map_err(io::Error::from).map_err(in_op("syncfs"))?;
        call();
        match rustix::fs::fsync(&*self.fd) {
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS) => Ok(()),
            Err(e) => Err(in_op("fsync of a directory")(e.into())),
        }
    }
}

struct StdFile {
    fd: OwnedFd,
    append: Append,
}

impl File for StdFile {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        call();
        rustix::io::pread(&self.fd, buf, offset).map_err(|e| in_op("read")(e.into()))
    }

    fn write_at(&mut self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            call();
            let written = rustix::io::pwrite(&self.fd, data, offset);
            data = rest(data, written)?;
            offset += written.unwrap_or(0) as u64;
        }
        Ok(())
    }

    fn append(&mut self, mut data: &[u8]) -> io::Result<()> {
        if self.append == Append::Seek {
            call();
            rustix::fs::seek(&self.fd, rustix::fs::SeekFrom::End(0)).map_err(|e| in_op("seek")(e.into()))?;
        }
        while !data.is_empty() {
            call();
            data = rest(data, rustix::io::write(&self.fd, data))?;
        }
        Ok(())
    }

    fn fsync(&mut self, sync: Durable) -> io::Result<()> {
        call();
        match sync {
            Durable::All => rustix::fs::fsync(&self.fd).map_err(|e| in_op("fsync")(e.into())),
            Durable::Data => rustix::fs::fdatasync(&self.fd).map_err(|e| in_op("fdatasync")(e.into())),
        }
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        call();
        drop(self.fd);
        Ok(())
    }
}

/// What is left of `data` after a write.
fn rest(data: &[u8], written: rustix::io::Result<usize>) -> io::Result<&[u8]> {
    let written = written.map_err(|e| in_op("write")(e.into()))?;
    match data.get(written..) {
        Some(rest) if written > 0 => Ok(rest),
        _ => Err(io::Error::new(io::ErrorKind::WriteZero, format!("write: {written} of {} bytes", data.len()))),
    }
}
