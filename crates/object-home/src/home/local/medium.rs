//! What a local log lies on.

use ondol_medium::{Area, Nvm, NvmError};
use rustix::fs::FlockOperation;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A medium of a log: bytes that are durable from [`LogMedium::persist`] on.
pub trait LogMedium: fmt::Debug + Send + Sync {
    /// As the user named it.
    fn name(&self) -> &str;

    /// Bytes.
    fn size(&self) -> u64;

    /// Records begin at multiples of it: what a crash may do to one record then does nothing to another. 64 to 4096, a
    /// power of two.
    fn unit(&self) -> u64;

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// The medium fails, or ends before.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Writes `bytes` at `offset`. They may be durable in any order, in part, or not at all until
    /// [`LogMedium::persist`] returns.
    ///
    /// # Errors
    /// The medium fails, or ends before.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes everything durable that was written before, by whichever thread.
    ///
    /// # Errors
    /// The medium fails: nothing is known of what was written since the last time.
    fn persist(&self) -> Result<()>;
}

/// A log in an ordinary file, kept for this process by flock(2).
#[derive(Debug)]
pub struct RedoFile {
    name: String,
    file: File,
    size: u64,
}

/// Zeros are written in such parts.
const PART: usize = 1 << 20;

impl RedoFile {
    /// Makes a file of `size` bytes that holds zeros, which others can neither read nor lock. Its blocks are there, so
    /// that no commit has to find some.
    ///
    /// # Errors
    /// It exists, or the system fails.
    pub fn create(path: &Path, size: u64) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = fill(&file, size).and_then(|()| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent)?.sync_all()?;
            Self::of(path, file)
        });
        made.inspect_err(|_| {
            // The failure that led here is the one to tell.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// There is none, another process has it, or the system fails.
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(path, OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// Opens a file to look at what it holds: it cannot be written.
    ///
    /// # Errors
    /// There is none, another process writes to it, or the system fails.
    pub fn look(path: &Path) -> Result<Self> {
        Self::locked(path, File::open(path)?, FlockOperation::NonBlockingLockShared)
    }

    fn of(path: &Path, file: File) -> Result<Self> {
        Self::locked(path, file, FlockOperation::NonBlockingLockExclusive)
    }

    fn locked(path: &Path, file: File, lock: FlockOperation) -> Result<Self> {
        let kind = file.metadata()?;
        if !kind.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, "it is no ordinary file"));
        }
        rustix::fs::flock(&file, lock).map_err(|e| match e {
            rustix::io::Errno::WOULDBLOCK => Error::new(ErrorKind::ResourceBusy, "another process uses it"),
            e => e.into(),
        })?;
        Ok(Self { name: path.display().to_string(), file, size: kind.len() })
    }
}

fn fill(mut file: &File, size: u64) -> Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size)?;
    let zeros = vec![0; PART];
    let mut left = size;
    while left > 0 {
        let part = left.min(PART as u64) as usize;
        file.write_all(&zeros[..part])?;
        left -= part as u64;
    }
    file.sync_all()
}

impl LogMedium for RedoFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// A page is written as a whole.
    fn unit(&self) -> u64 {
        4096
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        inside(offset, bytes.len(), self.size)?;
        self.file.write_all_at(bytes, offset)
    }

    fn persist(&self) -> Result<()> {
        self.file.sync_data()
    }
}

/// A log in an area of a pool. A fence is of one thread, so each write has its own, and a commit has nothing left to
/// do.
#[derive(Debug)]
pub struct RedoNvm {
    nvm: Arc<Nvm>,
    start: u64,
    len: u64,
}

impl RedoNvm {
    /// In this area of a pool, which has it for itself.
    pub fn new(nvm: Arc<Nvm>, area: Area) -> Self {
        Self { nvm, start: area.start, len: area.len }
    }
}

impl LogMedium for RedoNvm {
    fn name(&self) -> &str {
        self.nvm.name()
    }

    fn size(&self) -> u64 {
        self.len
    }

    /// A line.
    fn unit(&self) -> u64 {
        64
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        inside(offset, buf.len(), self.len)?;
        self.nvm.read(self.start + offset, buf).map_err(failed)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        inside(offset, bytes.len(), self.len)?;
        let mut batch = self.nvm.stored();
        batch.copy(self.start + offset, bytes).map_err(failed)?;
        batch.write_back().fence().map(drop).map_err(failed)
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }
}

fn failed(e: NvmError) -> Error {
    Error::other(e)
}

fn inside(offset: u64, len: usize, size: u64) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::new(ErrorKind::UnexpectedEof, "it ends before")),
    }
}
