//! An image file or a block device, read and written through the kernel's page cache.

use crate::{BlockError, BlockStats, BlockStore, Caps, Counters, DeviceClass, Result, check_range, passed};
use ondol_env::waits;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; a shared lock.
    Read,
    /// Reading and writing; an exclusive lock.
    Write,
}

/// A file or block device that holds an image, locked with flock(2) as long as the store lives.
#[derive(Debug)]
pub struct FileStore {
    name: String,
    file: File,
    /// The byte of the file with which it begins, if it is a part of that.
    part: Option<u64>,
    /// It only grows, as long as the store is shared.
    size: AtomicU64,
    access: Access,
    on_memory: bool,
    device: DeviceClass,
    /// Reads of what the kernel has in memory have been refused: not every file system knows them.
    refuses_at_once: AtomicBool,
    /// The lock is shared with whoever passed the descriptor.
    passed: bool,
    /// What else is kept for this process alone.
    claims: Vec<File>,
    counters: Counters,
}

/// Who is named where nobody looked.
const SOMEBODY: &str = "another process";

/// How many buffers one `pwritev` takes.
const IOV_MAX: usize = 1024;

impl FileStore {
    /// Opens and locks `path`. `/dev/fd/N` and `/proc/self/fd/N` mean this process's descriptor N itself, which needs
    /// no access to any path; its lock is shared with whoever passed it, and lasts until all have closed it.
    ///
    /// # Errors
    /// `Locked` when another process holds it, `ReadOnly` when a descriptor cannot be written, `Open` otherwise.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let name = path.display().to_string();
        if let Some(number) = passed::number(path) {
            return Self::from_passed(number, name, access);
        }
        let file =
            open_file(path, access).map_err(|source| match source.raw_os_error().map(Errno::from_raw_os_error) {
                // A lease is as good as a lock.
                Some(Errno::BUSY | Errno::AGAIN) => BlockError::Locked { name: name.clone(), by: SOMEBODY.into() },
                _ => BlockError::Open { what: "open", name: name.clone(), source },
            })?;
        Self::from_file(file, name, access)
    }

    fn from_passed(number: i32, name: String, access: Access) -> Result<Self> {
        let fail = |name: &str, source| BlockError::Open { what: "use", name: name.to_owned(), source };
        let unfit = |name: &str, why| fail(name, std::io::Error::new(ErrorKind::InvalidInput, why));
        let file = File::from(passed::duplicate(number).map_err(|e| fail(&name, e))?);
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|e| fail(&name, e.into()))?;
        if flags.intersects(OFlags::APPEND | OFlags::DIRECT) {
            return Err(unfit(&name, "the descriptor must not have O_APPEND or O_DIRECT"));
        }
        match (flags & OFlags::ACCMODE, access) {
            (OFlags::WRONLY, _) => Err(unfit(&name, "the descriptor cannot be read")),
            (OFlags::RDONLY, Access::Write) => Err(BlockError::ReadOnly { name }),
            _ => {
                let mut store = Self::from_file(file, name, access)?;
                store.passed = true;
                Ok(store)
            }
        }
    }

    /// Creates a sparse file of `size` bytes at `path`, which must not exist.
    ///
    /// # Errors
    /// `Open` when the file exists or cannot be made.
    pub fn create(path: &Path, size: u64) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |source| BlockError::Open { what: "create", name: name.clone(), source };
        let file = File::options().read(true).write(true).create_new(true).open(path).map_err(fail)?;
        let made = file.set_len(size).map_err(fail).and_then(|()| Self::from_file(file, name.clone(), Access::Write));
        made.inspect_err(|_| {
            // The failure that led here is the one to tell.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Whether it is a block device, whose size is as it is.
    pub fn is_device(&self) -> bool {
        self.file.metadata().is_ok_and(|meta| meta.file_type().is_block_device())
    }

    /// The same restricted to `len` bytes from `start` on, which are all there is of it then: what lies outside is
    /// neither read nor written.
    ///
    /// # Errors
    /// `OutOfRange` when that is not within it.
    pub fn into_part(mut self, start: u64, len: u64) -> Result<Self> {
        check_range("use", &self.name, start, len, self.size())?;
        self.part = Some(self.base() + start);
        self.size = AtomicU64::new(len);
        Ok(self)
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// The byte of the file with which the part begins that it is restricted to, and its length.
    pub fn part(&self) -> Option<(u64, u64)> {
        self.part.map(|start| (start, self.size()))
    }

    /// Whether its size is as it is: that of a block device, or of a part.
    pub fn has_fixed_size(&self) -> bool {
        self.part.is_some() || self.is_device()
    }

    fn base(&self) -> u64 {
        self.part.unwrap_or(0)
    }

    /// Gives a regular file another size. What is added holds zeros.
    ///
    /// # Errors
    /// `ReadOnly`; the system's refusal; it is a part of something.
    pub fn resize(&mut self, size: u64) -> Result<()> {
        self.check("write", 0, 0)?;
        if self.part.is_some() {
            return Err(self.io(
                "resize",
                0,
                size,
                std::io::Error::new(ErrorKind::Unsupported, "it is a part of a disk"),
            ));
        }
        self.file.set_len(size).map_err(|e| self.io("resize", 0, size, e))?;
        self.size = AtomicU64::new(size);
        Ok(())
    }

    /// Sees to it that there is room for writes of `len` bytes from `offset` on, also behind the end. No byte changes.
    /// False where the file's medium cannot promise that.
    ///
    /// # Errors
    /// No space; the system's refusal.
    pub fn reserve(&self, offset: u64, len: u64) -> Result<bool> {
        self.check("write", 0, 0)?;
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.base() + offset, len) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL | Errno::NOSYS) => Ok(false),
            Err(e) => Err(self.io("reserve", offset, len, e.into())),
        }
    }

    /// Takes over an open file or block device and locks it.
    ///
    /// # Errors
    /// `Locked` when another process holds it, `ReadOnly` for a device that is write-protected, `Open` when its size
    /// cannot be found.
    pub fn from_file(file: File, name: String, access: Access) -> Result<Self> {
        match lock(&file, access) {
            Ok(()) => Self::from_claimed(file, name, access),
            Err(Errno::WOULDBLOCK) => Err(BlockError::Locked { name, by: SOMEBODY.into() }),
            Err(e) => Err(BlockError::Open { what: "lock", name, source: e.into() }),
        }
    }

    /// Takes over an open file that the caller has for himself by other means than its lock, which is taken if nobody
    /// has it.
    ///
    /// # Errors
    /// As [`Self::from_file`], but never `Locked`.
    pub fn from_claimed(file: File, name: String, access: Access) -> Result<Self> {
        if access == Access::Write && is_protected(&file) {
            return Err(BlockError::ReadOnly { name });
        }
        // A second time changes nothing.
        let _ = lock(&file, access);
        let size = size_of(&file).map_err(|source| BlockError::Open { what: "open", name: name.clone(), source })?;
        let on_memory = rustix::fs::fstatfs(&file).is_ok_and(|s| s.f_type == TMPFS_MAGIC);
        let device = if on_memory { DeviceClass::Memory } else { DeviceClass::of(&file) };
        Ok(Self {
            name,
            file,
            part: None,
            size: AtomicU64::new(size),
            access,
            on_memory,
            device,
            refuses_at_once: AtomicBool::new(false),
            passed: false,
            claims: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Keeps these files open, and locked if they are, as long as the store lives.
    #[must_use]
    pub fn with_claims(mut self, claims: Vec<File>) -> Self {
        self.claims = claims;
        self
    }

    /// The open file or device.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn check(&self, op: &'static str, offset: u64, len: u64) -> Result<()> {
        if op != "read" && self.access == Access::Read {
            return Err(BlockError::ReadOnly { name: self.name.clone() });
        }
        check_range(op, &self.name, offset, len, self.size()).map(drop)
    }

    fn io(&self, op: &'static str, offset: u64, len: u64, source: std::io::Error) -> BlockError {
        BlockError::Io { op, name: self.name.clone(), offset, len, source }
    }

    /// Does what may wait for the medium.
    fn waiting<T>(&self, f: impl FnOnce() -> T) -> T {
        if self.on_memory { f() } else { waits::long(f) }
    }

    /// Reads what the kernel has in memory, on a thread whose waits somebody watches; false where that is not all, or
    /// not known.
    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> bool {
        if self.on_memory || !waits::is_watched() || self.refuses_at_once.load(Relaxed) {
            return false;
        }
        let len = buf.len();
        let read =
            rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buf)], self.base() + offset, ReadWriteFlags::NOWAIT);
        if matches!(read, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) {
            self.refuses_at_once.store(true, Relaxed);
        }
        read == Ok(len)
    }

    fn write_all(&self, offset: u64, bufs: &[IoSlice<'_>]) -> std::io::Result<()> {
        let mut offset = self.base() + offset;
        for part in bufs.chunks(IOV_MAX) {
            let want: usize = part.iter().map(|b| b.len()).sum();
            let mut done = loop {
                match rustix::io::pwritev(&self.file, part, offset) {
                    Err(Errno::INTR) => continue,
                    other => break other?,
                }
            };
            if done < want {
                for buf in part {
                    if done >= buf.len() {
                        done -= buf.len();
                    } else {
                        let before: usize = done;
                        self.file.write_all_at(&buf[before..], offset + before as u64)?;
                        done = 0;
                    }
                    offset += buf.len() as u64;
                }
            } else {
                offset += want as u64;
            }
        }
        Ok(())
    }
}

/// Opens an image file or a block device, and nothing else: the path may be another user's choice, who put a pipe
/// there, or a device that does something when it is opened. A device to be written is opened for this process alone:
/// neither the kernel nor a program that asks for the same can have it mounted or in use meanwhile.
///
/// # Errors
/// Those of open(2), without waiting for anybody; `InvalidInput` for other kinds of files; `ResourceBusy` for a device
/// that is in use.
pub fn open_file(path: &Path, access: Access) -> std::io::Result<File> {
    let found = File::from(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    if Path::new(DESCRIPTORS).exists() {
        return reopen(&found, access);
    }
    let options = options(&found, access)?;
    options.open(path)
}

/// Through which an open file is opened anew.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Opens what `found`, a file opened with `O_PATH`, is; as [`open_file`].
///
/// # Errors
/// As [`open_file`].
pub fn reopen(found: &File, access: Access) -> std::io::Result<File> {
    options(found, access)?.open(format!("{DESCRIPTORS}/{}", found.as_raw_fd()))
}

fn options(found: &File, access: Access) -> std::io::Result<OpenOptions> {
    let kind = found.metadata()?.file_type();
    let mut flags = OFlags::NOCTTY;
    if kind.is_file() {
        // A lease that somebody has is not waited for.
        flags |= OFlags::NONBLOCK;
    } else if !kind.is_block_device() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, NO_IMAGE));
    } else if access == Access::Write {
        flags |= OFlags::EXCL;
    }
    let mut options = File::options();
    options.read(true).write(access == Access::Write).custom_flags(flags.bits().cast_signed());
    Ok(options)
}

const NO_IMAGE: &str = "neither a regular file nor a block device";

impl Drop for FileStore {
    /// Closing alone would leave the lock to children that have not called exec yet.
    fn drop(&mut self) {
        // The store's own comes last: whoever waits for that finds all of it free.
        for file in self.claims.iter().chain((!self.passed).then_some(&self.file)) {
            // If this fails, closing does it.
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }
}

fn lock(file: &File, access: Access) -> rustix::io::Result<()> {
    let operation = match access {
        Access::Read => FlockOperation::NonBlockingLockShared,
        Access::Write => FlockOperation::NonBlockingLockExclusive,
    };
    rustix::fs::flock(file, operation)
}

/// Whether it is a device that is write-protected: the kernel opens one for writing all the same, and refuses the first
/// write.
fn is_protected(file: &File) -> bool {
    let Ok(meta) = file.metadata() else { return false };
    let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let said = || std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    meta.file_type().is_block_device() && said().is_ok_and(|text| text.trim() == "1")
}

const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

fn size_of(file: &File) -> std::io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let meta = file.metadata()?;
    if meta.file_type().is_block_device() {
        return (&*file).seek(SeekFrom::End(0));
    }
    if !meta.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, NO_IMAGE));
    }
    Ok(meta.len())
}

impl BlockStore for FileStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    fn lengthen(&self, size: u64) -> Result<()> {
        if size <= self.size() {
            return Ok(());
        }
        self.check("lengthen", 0, 0)?;
        let longer = if self.has_fixed_size() { Err(Errno::NOSPC.into()) } else { self.file.set_len(size) };
        longer.and_then(|()| self.file.sync_all()).map_err(|e| self.io("lengthen", self.size(), size, e))?;
        self.size.fetch_max(size, Relaxed);
        Ok(())
    }

    fn caps(&self) -> Caps {
        Caps {
            atomic_unit: 512,
            durable_flush: !self.on_memory,
            swap: None,
            batch: None,
            read_only: self.access == Access::Read,
            device: self.device,
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check("read", offset, buf.len() as u64)?;
        self.counters.read(buf.len());
        if self.read_at_once(offset, buf) {
            return Ok(());
        }
        let read = self.waiting(|| self.file.read_exact_at(buf, self.base() + offset));
        read.map_err(|e| self.io("read", offset, buf.len() as u64, e))
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len: usize = bufs.iter().map(|b| b.len()).sum();
        self.check("write", offset, len as u64)?;
        self.counters.write(len);
        self.write_all(offset, bufs).map_err(|e| self.io("write", offset, len as u64, e))
    }

    fn flush(&self) -> Result<()> {
        if self.access == Access::Read {
            return Ok(());
        }
        self.counters.flush();
        self.waiting(|| self.file.sync_data()).map_err(|e| self.io("flush", 0, self.size(), e))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        self.check("discard", offset, len)?;
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, mode, self.base() + offset, len) {
            Ok(()) => {
                self.counters.discard(len);
                Ok(true)
            }
            // Block devices are asked in the same way, and refuse what their sectors do not allow.
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL | Errno::NOSYS) => Ok(false),
            Err(e) => Err(self.io("discard", offset, len, e.into())),
        }
    }

    fn stats(&self) -> BlockStats {
        self.counters.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_grows_while_it_is_used_and_a_part_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let store = FileStore::create(&path, 4096).unwrap();
        assert!(store.write(4096, &[1]).is_err());
        [8192, 4096].iter().for_each(|size| store.lengthen(*size).unwrap());
        store.write(8191, &[1]).unwrap();
        assert_eq!((store.size(), std::fs::metadata(&path).unwrap().len()), (8192, 8192));
        let part = store.into_part(0, 4096).unwrap();
        assert_eq!(part.lengthen(8192).unwrap_err().raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn a_part_is_all_there_is() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 16384]).unwrap();
        let whole = FileStore::from_file(file.try_clone().unwrap(), "disk".into(), Access::Write).unwrap();
        assert!(whole.part().is_none() && !whole.has_fixed_size());
        let mut part = whole.into_part(4096, 8192).unwrap().named("part".into());
        let is = (part.size(), part.part(), part.name(), part.has_fixed_size());
        assert_eq!(is, (8192, Some((4096, 8192)), "part", true));
        part.write_vectored(0, &[IoSlice::new(&[1; 100]), IoSlice::new(&[2; 100])]).unwrap();
        part.write(8000, &[3; 192]).unwrap();
        let mut read = [0; 300];
        part.read(0, &mut read).unwrap();
        assert!(read[..100] == [1; 100] && read[100..200] == [2; 100] && read[200..] == [7; 100]);
        let zeroed = part.discard(4096, 1024).unwrap();
        // Nothing reaches beyond it.
        for (offset, len) in [(8192, 1), (8000, 193), (u64::MAX, 1)] {
            assert!(part.write(offset, &vec![9; len]).is_err() && part.read(offset, &mut vec![0; len]).is_err());
            assert!(part.discard(offset, len as u64).is_err());
        }
        assert!(part.resize(16384).is_err() && part.resize(0).is_err());
        let mut bytes = vec![0; 16384];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let mut expected = vec![7; 16384];
        expected[4096..4196].fill(1);
        expected[4196..4296].fill(2);
        expected[12096..12288].fill(3);
        if zeroed {
            expected[8192..9216].fill(0);
        }
        assert!(bytes == expected && file.metadata().unwrap().len() == 16384);
        let inner = part.into_part(8000, 192).unwrap();
        assert_eq!(inner.part(), Some((12096, 192)));
        assert!(inner.into_part(100, 100).is_err());
    }
}
