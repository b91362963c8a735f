//! The small file API that workloads are written against, so that one workload runs through system calls and in
//! process alike.

#[cfg(any(feature = "peers", test))]
pub(crate) mod crate_fs;
pub(crate) mod lib_fs;
pub(crate) mod std_fs;

use std::io;
use std::sync::Arc;

/// A place to work in: a fresh directory of a file system under test.
pub(crate) trait Fs: Send + Sync {
    /// The working directory.
    fn root(&self) -> Arc<dyn Dir>;
    /// Makes everything durable, so that preparing is not paid for in the measured time.
    fn sync(&self) -> io::Result<()> {
        self.root().sync_all()
    }
}

/// An open directory. Names are single components.
pub(crate) trait Dir: Send + Sync {
    /// Makes a directory and opens it.
    fn mkdir(&self, name: &str) -> io::Result<Arc<dyn Dir>>;
    /// Opens a directory.
    fn enter(&self, name: &str) -> io::Result<Arc<dyn Dir>>;
    /// A directory only to reach what is in it: system calls take it as a part of their paths.
    fn pass(&self, name: &str) -> io::Result<Arc<dyn Dir>>;
    /// Makes a file, which must not exist, and opens it for reading and writing.
    fn create(&self, name: &str, append: Append) -> io::Result<Box<dyn File>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, append: Append) -> io::Result<Box<dyn File>>;
    /// Removes a file's name.
    fn unlink(&self, name: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, name: &str) -> io::Result<()>;
    /// Names of the entries, without `.` and `..`.
    fn list(&self) -> io::Result<Vec<String>>;
    /// What stat(2) tells of an entry; `.` is the directory itself.
    fn stat(&self, name: &str) -> io::Result<Stat>;
    /// Makes everything on the file system durable.
    fn sync_all(&self) -> io::Result<()>;
}

/// An open file.
pub(crate) trait File: Send {
    /// Reads at `offset`; 0 at the end of the file.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `data` at `offset`.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Writes all of `data` at the end of the file.
    fn append(&mut self, data: &[u8]) -> io::Result<()>;
    /// Makes the file durable.
    fn fsync(&mut self, sync: Durable) -> io::Result<()>;
    /// Closes the file.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// How a file will be appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// By seeking to its end first, as Filebench does.
    Seek,
    /// By `O_APPEND`.
    Flag,
}

/// What an fsync has to make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Data and all metadata.
    All,
    /// Data and the metadata needed to find it.
    Data,
}

/// What a workload wants to know of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Size in bytes.
    pub(crate) size: u64,
    /// True for directories.
    pub(crate) is_dir: bool,
}

/// Removes everything in `dir`.
pub(crate) fn clear(dir: &dyn Dir) -> io::Result<()> {
    for name in dir.list()? {
        if dir.stat(&name)?.is_dir {
            clear(dir.enter(&name)?.as_ref())?;
            dir.rmdir(&name)?;
        } else {
            dir.unlink(&name)?;
        }
    }
    Ok(())
}

/// Puts the name of the operation before an error's text.
pub(crate) fn in_op(op: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{op}: {e}"))
}

#[cfg(test)]
pub(crate) mod tests;
