//! A file system of one file: bytes of this process under a path, for loop devices and for programs that want a file.
//!
//! It is mounted on a file, which it covers. Every read, write and fsync of whoever has it open arrives here as it was
//! asked for: the kernel keeps no pages of it and collects nothing.

use crate::MountError;
use crate::channel::{Device, Wire};
use crate::kernel::mount_directly;
use crate::options::MountOptions;
use crate::proto::numbers::{Fopen, Init};
use crate::proto::wire::{Attr, AttrOut, OpenOut, ReadIn, StatfsOut, WriteIn, WriteOut};
use crate::proto::{Header, Operation, Request, reply};
use crate::session::{buffer, handshake};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use zerocopy::{Immutable, IntoBytes};

/// What the file holds. Its size does not change: truncating it is accepted and does nothing.
pub trait Contents: Send + Sync {
    /// Bytes in it.
    fn size(&self) -> u64;

    /// Fills `buf` from byte `offset`; the range lies inside the file.
    ///
    /// # Errors
    /// What the reader shall get.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at byte `offset`; the range lies inside the file.
    ///
    /// # Errors
    /// What the writer shall get.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// What fsync(2) shall return.
    fn sync(&self) -> io::Result<()>;
}

/// Numbers in a file's mode: a regular file that its owner reads and writes.
const MODE: u32 = 0o100_600;
/// The file is FUSE's root.
const NODE: u64 = 1;
/// Seconds for which the kernel may keep the attributes.
const TTL: u64 = 3600;
const BLOCK: u32 = 4096;
/// No pages are kept, and writes need not wait for each other.
const OPEN_FLAGS: Fopen = Fopen::DIRECT_IO.union(Fopen::NOFLUSH).union(Fopen::PARALLEL_DIRECT_WRITES);
/// Without pages that could grow old, direct reads and writes need not be waited for.
const WANTED: Init =
    Init::ASYNC_READ.union(Init::BIG_WRITES).union(Init::ASYNC_DIO).union(Init::MAX_PAGES).union(Init::INIT_EXT);

/// A file being served. [`SingleFile::unmount`] ends it; dropping it does the same and logs what fails.
#[derive(Debug)]
pub struct SingleFile {
    path: PathBuf,
    threads: Vec<JoinHandle<()>>,
}

impl SingleFile {
    /// Covers the regular file at `path` with `contents`, served by `threads` threads: as many requests can be under
    /// way. Needs the privilege to mount.
    ///
    /// # Errors
    /// The mount could not be made; nothing is left of it then.
    pub fn mount(contents: Arc<dyn Contents>, path: &Path, threads: usize) -> Result<Self, MountError> {
        let fail = |source: io::Error| MountError::Mount { dir: path.to_owned(), source };
        let path = path.canonicalize().map_err(fail)?;
        let options = MountOptions { subtype: "ondol-file".into(), ..MountOptions::default() };
        let connection = mount_directly(&path, MODE, "ondol-file", &options)?;
        let connection = connection.ok_or_else(|| fail(io::ErrorKind::PermissionDenied.into()))?;
        let mut file = Self { path, threads: Vec::new() };
        let device = Arc::new(Device::new(connection));
        handshake(&device, WANTED).map_err(MountError::Handshake)?;
        for n in 0..threads.max(1) {
            let (device, contents) = (Arc::clone(&device), Arc::clone(&contents));
            let serve = move || serve(&device, &*contents);
            let builder = thread::Builder::new().name(format!("ondol-file-{n}"));
            file.threads.push(builder.spawn(serve).map_err(MountError::Threads)?);
        }
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it, and waits until nothing is served any more.
    ///
    /// # Errors
    /// It is in use (`ResourceBusy`, and it goes on), or the kernel refuses.
    pub fn unmount(&mut self) -> Result<(), MountError> {
        let flags = UnmountFlags::NOFOLLOW;
        let fail = |e: Errno| MountError::Unmount { dir: self.path.clone(), source: e.into() };
        rustix::mount::unmount(&self.path, flags).map_err(fail)?;
        self.join()
    }

    /// Unmounts it whether it is in use or not: the next request of whoever uses it fails. Nothing happens when it was
    /// unmounted before.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn close(&mut self) -> Result<(), MountError> {
        // With users left the connection lives on, and the threads end with the process.
        if std::mem::take(&mut self.threads).is_empty() {
            return Ok(());
        }
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
        let fail = |e: Errno| MountError::Unmount { dir: self.path.clone(), source: e.into() };
        rustix::mount::unmount(&self.path, flags).map_err(fail)
    }

    fn join(&mut self) -> Result<(), MountError> {
        let all = std::mem::take(&mut self.threads);
        let joined: Vec<_> = all.into_iter().map(JoinHandle::join).collect();
        if joined.iter().any(Result::is_err) { Err(MountError::Broken) } else { Ok(()) }
    }
}

impl Drop for SingleFile {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            tracing::error!("{e}");
        }
    }
}

fn serve(device: &Device, contents: &dyn Contents) {
    let mut message = buffer();
    let mut data = Vec::new();
    loop {
        match device.receive(&mut message) {
            Ok(None) => return,
            Ok(Some(message)) => match Request::parse(message, false) {
                Ok(request) => One { device, contents, header: &request.header }.answer(&request.operation, &mut data),
                Err((header, e)) => {
                    tracing::warn!("the kernel sent what is no request: {e}");
                    if let Some(header) = header {
                        One { device, contents, header: &header }.fail(Errno::INVAL.raw_os_error());
                    }
                }
            },
            Err(e) => {
                tracing::error!("a serving thread ends: {e}");
                return;
            }
        }
    }
}

/// One request to be answered.
struct One<'a> {
    device: &'a Device,
    contents: &'a dyn Contents,
    header: &'a Header,
}

impl One<'_> {
    fn answer(&self, operation: &Operation<'_>, data: &mut Vec<u8>) {
        use Operation as O;
        match operation {
            O::Getattr | O::Setattr(_) => {
                self.body(&AttrOut { attr_valid: TTL, attr: self.attr(), ..AttrOut::default() })
            }
            O::Open(_) => self.body(&OpenOut { open_flags: OPEN_FLAGS.bits(), ..OpenOut::default() }),
            O::Read(what) => self.read(what, data),
            O::Write(how, bytes) => self.write(how, bytes),
            O::Fsync { .. } => self.done(self.contents.sync()),
            O::Release | O::Destroy => self.send(0, &[]),
            O::Statfs => self.body(&StatfsOut { bsize: BLOCK, frsize: BLOCK, namelen: 255, ..StatfsOut::default() }),
            O::Forget(_) | O::BatchForget(_) => {}
            _ => self.fail(Errno::NOSYS.raw_os_error()),
        }
    }

    fn attr(&self) -> Attr {
        let size = self.contents.size();
        Attr { ino: NODE, size, blocks: size.div_ceil(512), mode: MODE, nlink: 1, blksize: BLOCK, ..Attr::default() }
    }

    fn read(&self, what: &ReadIn, data: &mut Vec<u8>) {
        let left = self.contents.size().saturating_sub(what.offset);
        data.resize(usize::try_from(left).unwrap_or(usize::MAX).min(what.size as usize), 0);
        match self.contents.read(what.offset, data) {
            Ok(()) => self.send(0, data),
            Err(e) => self.done(Err(e)),
        }
    }

    fn write(&self, how: &WriteIn, bytes: &[u8]) {
        let end = how.offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.contents.size()) {
            return self.fail(Errno::NOSPC.raw_os_error());
        }
        match self.contents.write(how.offset, bytes) {
            Ok(()) => self.body(&WriteOut { size: how.size, padding: 0 }),
            Err(e) => self.done(Err(e)),
        }
    }

    fn done(&self, result: io::Result<()>) {
        match result {
            Ok(()) => self.send(0, &[]),
            Err(e) => self.fail(e.raw_os_error().unwrap_or(Errno::IO.raw_os_error())),
        }
    }

    fn body<T: IntoBytes + Immutable>(&self, body: &T) {
        self.send(0, body.as_bytes());
    }

    fn fail(&self, errno: i32) {
        self.send(errno, &[]);
    }

    fn send(&self, errno: i32, data: &[u8]) {
        let header = reply::header(self.header.unique, errno, data.len());
        if let Err(e) = self.device.send(&header, [data, &[]]) {
            // The sender of a request may be gone before its answer comes.
            tracing::debug!("answer to opcode {}: {e}", self.header.opcode);
        }
    }
}
