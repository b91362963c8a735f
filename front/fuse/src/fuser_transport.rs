//! FUSE's messages over the `fuser` crate: turns each into a call of `ops` and the result into a reply.
//!
//! Nobody but this mount changes the image, so the kernel may keep what it learns: names (also names that do not exist),
//! attributes, pages and directory listings. Inode numbers are ext4's, with 1 and 2 exchanged: FUSE's root is 1. Forgetting
//! needs no work: what keeps an unlinked inode alive is being open.

use crate::fuser_words::{
    blank, decode_device, errno, fallocate_how, file_attr, generation, ino, kind, node, perm, rename_how, seek_what,
    sender, set_time, truncates, xattr_how,
};
use crate::ops::{Answer, Listed, ListedPlus, Ops};
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use ondol::{Attr, FileType, SetAttr};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// How long the kernel may keep what it was told.
const TTL: Duration = Duration::from_secs(3600);

/// The largest write in one request: also the largest read, since both are counted in the same pages.
const MAX_WRITE: u32 = 1 << 20;

/// Requests that the kernel may have under way on its own account (read-ahead, asynchronous I/O).
const MAX_BACKGROUND: u16 = 64;

const NAME_MAX: u32 = 255;

/// Feeds one FUSE connection into the operations.
pub(crate) struct Transport {
    ops: Arc<Ops>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Transport {
    pub(crate) fn new(ops: Arc<Ops>) -> Self {
        Self { ops, notifier: Arc::default() }
    }

    /// Where to put the connection's way of telling the kernel something, once there is a connection.
    pub(crate) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    /// Has the kernel forget a mode: replies to writes and opens do not carry the new one, and a setuid bit that is gone must
    /// not be honoured for the time that attributes are kept.
    fn mode_changed(&self, node: INodeNo) {
        const ATTRIBUTES_ONLY: i64 = -1;
        if let Some(notifier) = self.notifier.get()
            && let Err(e) = notifier.inval_inode(node, ATTRIBUTES_ONLY, 0)
        {
            tracing::warn!("the kernel keeps the old mode of inode {}: {e}", ino(node));
        }
    }
}

/// Pages stay valid between opens, closing needs no request, and direct writes need not wait for each other.
fn file_flags() -> FopenFlags {
    FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

fn dir_flags() -> FopenFlags {
    FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR
}

fn done(answer: Answer<()>, reply: ReplyEmpty) {
    match answer {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(errno(e)),
    }
}

fn entry(answer: Answer<Attr>, reply: ReplyEntry) {
    match answer {
        Ok(a) => reply.entry(&TTL, &file_attr(&a, node(a.ino)), generation(&a)),
        Err(e) => reply.error(errno(e)),
    }
}

fn attr(answer: Answer<Attr>, reply: ReplyAttr) {
    match answer {
        Ok(a) => reply.attr(&TTL, &file_attr(&a, INodeNo(a.ino.into()))),
        Err(e) => reply.error(errno(e)),
    }
}

/// Answers a request for `size` bytes of an attribute: 0 asks how many there are.
fn xattr(answer: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match answer {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() <= size as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(e) => reply.error(errno(e)),
    }
}

impl fuser::Filesystem for Transport {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_MAX_PAGES,
        ];
        for flag in wanted {
            if config.add_capabilities(flag).is_err() {
                tracing::debug!("this kernel's FUSE does not offer {flag:?}");
            }
        }
        let limits = [
            config.set_max_write(MAX_WRITE).err(),
            config.set_max_readahead(MAX_WRITE).err().and_then(|most| config.set_max_readahead(most).err()),
            config.set_max_background(MAX_BACKGROUND).err().map(u32::from),
        ];
        tracing::debug!("limits that the kernel did not take: {limits:?}");
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.ops.lookup(ino(parent), name.as_bytes()) {
            Ok(Some(a)) => entry(Ok(a), reply),
            Ok(None) => reply.entry(&TTL, &blank(INodeNo(0), FileType::Regular), Generation(0)),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn forget(&self, _req: &Request, _ino: INodeNo, _nlookup: u64) {}

    fn getattr(&self, _req: &Request, node: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        attr(self.ops.getattr(ino(node)), reply);
    }

    fn setattr(
        &self,
        req: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            perm: mode.map(|m| perm(m, 0)),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            kill_suid: false,
        };
        attr(self.ops.setattr(ino(node), set, sender(req)), reply);
    }

    fn readlink(&self, _req: &Request, node: INodeNo, reply: ReplyData) {
        match self.ops.readlink(ino(node)) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        let mode = (mode & 0xF000) as u16 | perm(mode, umask);
        entry(self.ops.mknod(ino(parent), name.as_bytes(), mode, decode_device(rdev), sender(req)), reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        entry(self.ops.mkdir(ino(parent), name.as_bytes(), perm(mode, umask), sender(req)), reply);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.ops.unlink(ino(parent), name.as_bytes()), reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.ops.rmdir(ino(parent), name.as_bytes()), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        entry(self.ops.symlink(ino(parent), name.as_bytes(), target, sender(req)), reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((ino(parent), name.as_bytes()), (ino(new_parent), new_name.as_bytes()));
        done(self.ops.rename(from, to, rename_how(flags)), reply);
    }

    fn link(&self, _req: &Request, node: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        entry(self.ops.link(ino(node), ino(new_parent), new_name.as_bytes()), reply);
    }

    fn open(&self, req: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.ops.open(ino(node), truncates(flags.0), sender(req)) {
            Ok(mode_changed) => {
                if mode_changed {
                    self.mode_changed(node);
                }
                reply.opened(FileHandle(0), file_flags());
            }
            Err(e) => reply.error(errno(e)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.ops.read(ino(node), offset, size, |got| match got {
            Ok(data) => reply.data(data),
            Err(e) => reply.error(errno(e)),
        });
    }

    fn write(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kill_suid = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.ops.write(ino(node), offset, data, kill_suid) {
            Ok(written) => {
                if written.mode_changed {
                    self.mode_changed(node);
                }
                reply.written(u32::try_from(written.len).unwrap_or(u32::MAX));
            }
            Err(e) => reply.error(errno(e)),
        }
    }

    /// Closing a file makes nothing durable; this answer keeps the kernel from asking again.
    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        done(self.ops.release(ino(node)), reply);
    }

    fn fsync(&self, _req: &Request, node: INodeNo, _fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        done(self.ops.fsync(ino(node), data_only), reply);
    }

    fn opendir(&self, _req: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.ops.opendir(ino(node)) {
            Ok(()) => reply.opened(FileHandle(0), dir_flags()),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn readdir(&self, _req: &Request, dir: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let answer = self.ops.readdir(ino(dir), offset, &mut |e: Listed<'_>| {
            !reply.add(INodeNo(e.ino.into()), e.next, kind(e.file_type), OsStr::from_bytes(e.name))
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn readdirplus(&self, _req: &Request, dir: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let answer = self.ops.readdirplus(ino(dir), offset, &mut |e: ListedPlus<'_>| {
            let ListedPlus { entry: Listed { ino, file_type, name, next }, attr } = e;
            let (attr, ttl, generation) = match attr {
                Some(a) => (file_attr(&a, node(ino)), TTL, generation(&a)),
                None => (blank(node(ino), file_type), Duration::ZERO, Generation(0)),
            };
            !reply.add(node(ino), next, OsStr::from_bytes(name), &ttl, &attr, generation)
        });
        match answer {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn releasedir(&self, _req: &Request, node: INodeNo, _fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        done(self.ops.releasedir(ino(node)), reply);
    }

    fn fsyncdir(&self, _req: &Request, node: INodeNo, _fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        done(self.ops.fsyncdir(ino(node), data_only), reply);
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.ops.statfs() {
            Ok(s) => {
                let size = s.block_size;
                reply.statfs(s.blocks, s.free, s.available, s.files, s.files_free, size, NAME_MAX, size);
            }
            Err(e) => reply.error(errno(e)),
        }
    }

    fn setxattr(
        &self,
        _req: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        done(self.ops.setxattr(ino(node), name.as_bytes(), value, xattr_how(flags)), reply);
    }

    fn getxattr(&self, _req: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattr(self.ops.getxattr(ino(node), name.as_bytes()), size, reply);
    }

    fn listxattr(&self, req: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(self.ops.listxattr(ino(node), sender(req)), size, reply);
    }

    fn removexattr(&self, _req: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.ops.removexattr(ino(node), name.as_bytes()), reply);
    }

    /// The kernel checks permissions; this answer keeps it from asking again.
    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.ops.create(ino(parent), name.as_bytes(), perm(mode, umask), sender(req)) {
            Ok(a) => {
                reply.created(&TTL, &file_attr(&a, node(a.ino)), generation(&a), FileHandle(0), file_flags());
            }
            Err(e) => reply.error(errno(e)),
        }
    }

    fn fallocate(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.ops.fallocate(ino(node), fallocate_how(mode), offset, length), reply);
    }

    fn lseek(&self, _req: &Request, node: INodeNo, _fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let answer = self.ops.seek(ino(node), u64::try_from(offset).unwrap_or(0), seek_what(whence));
        match answer.map(i64::try_from) {
            Ok(Ok(offset)) => reply.offset(offset),
            Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
            Err(e) => reply.error(errno(e)),
        }
    }
}
