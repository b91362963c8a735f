//! Everything is handed on to a directory of another file system: what a server costs that does nothing of its own.
//!
//! Whatever the kernel knows is held by a descriptor: of a regular file or directory one to work with, made when it is first
//! worked on; of all else a mere place (`O_PATH`). No request opens a file, as none does for a volume, so the descriptor stays until
//! the kernel forgets the inode. While it is held, nothing else below can have its inode number, which is the number that the kernel
//! is told.

use super::files::{DIRECTORY, Files, Listed, ROOT, TYPE, Told, kind, stale, without_suid};
use super::table::Table;
use crate::ops::{Answer, Errno as Number};
use crate::proto::numbers::fattr;
use crate::proto::wire::{Attr, SetattrIn, StatfsOut};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const REGULAR: u32 = 0o100_000;

pub(super) struct Through {
    known: Table<Node>,
    /// The file system that it stays on.
    device: u64,
    /// What its root has there; whatever has number 1 there is told by this.
    root: u64,
}

struct Node {
    place: OwnedFd,
    /// `place` can be worked with.
    works: bool,
    mode: u32,
    working: OnceLock<OwnedFd>,
}

impl Node {
    /// A descriptor to read, write, list or sync with.
    fn working(&self) -> Answer<BorrowedFd<'_>> {
        if self.works {
            return Ok(self.place.as_fd());
        }
        if let Some(open) = self.working.get() {
            return Ok(open.as_fd());
        }
        let how = match self.mode & TYPE {
            REGULAR => OFlags::RDWR,
            DIRECTORY => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => return Err(Errno::OPNOTSUPP.into()),
        };
        let opened = rustix::fs::open(self.path(), how | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.working.get_or_init(|| opened).as_fd())
    }

    /// Where the kernel shows what the descriptor has.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }

    fn stat(&self) -> Answer<Stat> {
        Ok(rustix::fs::fstat(&self.place)?)
    }
}

impl Through {
    pub(super) fn new(below: &Path) -> io::Result<Self> {
        let place = rustix::fs::open(below, PLACE | OFlags::DIRECTORY, Mode::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        let known = Table::new();
        let node = Node { place, works: false, mode: stat.st_mode, working: OnceLock::new() };
        known.tell(ROOT, Arc::new(node));
        Ok(Self { known, device: stat.st_dev, root: stat.st_ino })
    }

    fn node(&self, number: u64) -> Answer<Arc<Node>> {
        self.known.get(number).ok_or_else(stale)
    }

    /// The number that the kernel is told.
    fn number(&self, ino: u64) -> u64 {
        match ino {
            ino if ino == self.root => ROOT,
            ROOT => self.root,
            ino => ino,
        }
    }

    /// Tells the kernel of what `place` has.
    fn tell(&self, place: OwnedFd, works: bool) -> Answer<Told> {
        let stat = rustix::fs::fstat(&place)?;
        if stat.st_dev != self.device {
            return Err(Errno::XDEV.into());
        }
        let number = self.number(stat.st_ino);
        self.known.tell(number, Arc::new(Node { place, works, mode: stat.st_mode, working: OnceLock::new() }));
        Ok(Told { node: number, attr: attr(&stat) })
    }

    fn find(&self, dir: &Node, name: &[u8]) -> Answer<Told> {
        self.tell(rustix::fs::openat(&dir.place, name, PLACE, Mode::empty())?, false)
    }
}

impl Files for Through {
    fn lookup(&self, dir: u64, name: &[u8]) -> Answer<Told> {
        self.find(&*self.node(dir)?, name)
    }

    fn forget(&self, node: u64, times: u64) {
        if node != ROOT {
            self.known.forget(node, times);
        }
    }

    fn getattr(&self, node: u64) -> Answer<Attr> {
        Ok(attr(&self.node(node)?.stat()?))
    }

    fn setattr(&self, node: u64, set: &SetattrIn) -> Answer<Attr> {
        let node = self.node(node)?;
        let has = |bit: u32| set.valid & bit != 0;
        if has(fattr::UID | fattr::GID) {
            let uid = has(fattr::UID).then(|| Uid::from_raw(set.uid));
            let gid = has(fattr::GID).then(|| Gid::from_raw(set.gid));
            rustix::fs::chownat(&node.place, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if has(fattr::MODE) {
            rustix::fs::chmodat(CWD, node.path(), Mode::from_raw_mode(set.mode & 0o7777), AtFlags::empty())?;
        }
        if has(fattr::SIZE) {
            rustix::fs::ftruncate(node.working()?, set.size)?;
        }
        if has(fattr::ATIME | fattr::MTIME | fattr::ATIME_NOW | fattr::MTIME_NOW) {
            let time = |bit, now, sec: u64, nsec: u32| Timespec {
                tv_sec: sec.cast_signed(),
                tv_nsec: if has(now) {
                    UTIME_NOW
                } else if has(bit) {
                    nsec.into()
                } else {
                    UTIME_OMIT
                },
            };
            let times = Timestamps {
                last_access: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
                last_modification: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
            };
            rustix::fs::utimensat(CWD, node.path(), &times, AtFlags::empty())?;
        }
        Ok(attr(&node.stat()?))
    }

    fn make(&self, dir: u64, name: &[u8], mode: u32, rdev: u32) -> Answer<Told> {
        let dir = self.node(dir)?;
        let bits = Mode::from_raw_mode(mode & 0o7777);
        match mode & TYPE {
            REGULAR => {
                let how = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                self.tell(rustix::fs::openat(&dir.place, name, how, bits)?, true)
            }
            DIRECTORY => {
                rustix::fs::mkdirat(&dir.place, name, bits)?;
                self.find(&dir, name)
            }
            _ => {
                let device = rustix::fs::makedev(rdev >> 8 & 0xFFF, rdev & 0xFF | rdev >> 12 & 0xF_FF00);
                rustix::fs::mknodat(&dir.place, name, FileType::from_raw_mode(mode), bits, device)?;
                self.find(&dir, name)
            }
        }
    }

    fn symlink(&self, dir: u64, name: &[u8], target: &[u8]) -> Answer<Told> {
        let dir = self.node(dir)?;
        rustix::fs::symlinkat(target, &dir.place, name)?;
        self.find(&dir, name)
    }

    fn readlink(&self, node: u64) -> Answer<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.node(node)?.place, c"", Vec::new())?.into_bytes())
    }

    fn link(&self, node: u64, dir: u64, name: &[u8]) -> Answer<Told> {
        let (node, dir) = (self.node(node)?, self.node(dir)?);
        rustix::fs::linkat(CWD, node.path(), &dir.place, name, AtFlags::SYMLINK_FOLLOW)?;
        self.find(&dir, name)
    }

    fn remove(&self, dir: u64, name: &[u8], is_dir: bool) -> Answer<()> {
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(&self.node(dir)?.place, name, flags)?)
    }

    fn rename(&self, (from, name): (u64, &[u8]), (to, new_name): (u64, &[u8]), flags: u32) -> Answer<()> {
        let (from, to) = (self.node(from)?, self.node(to)?);
        let flags = RenameFlags::from_bits_retain(flags);
        Ok(rustix::fs::renameat_with(&from.place, name, &to.place, new_name, flags)?)
    }

    fn take_suid(&self, node: u64) -> Answer<bool> {
        let node = self.node(node)?;
        let mode = node.stat()?.st_mode;
        let without = without_suid(mode);
        if without != mode {
            rustix::fs::chmodat(CWD, node.path(), Mode::from_raw_mode(without & 0o7777), AtFlags::empty())?;
        }
        Ok(without != mode)
    }

    fn read(&self, node: u64, offset: u64, space: &mut [u8]) -> Answer<usize> {
        Ok(rustix::io::pread(self.node(node)?.working()?, space, offset)?)
    }

    fn write(&self, node: u64, offset: u64, data: &[u8]) -> Answer<usize> {
        Ok(rustix::io::pwrite(self.node(node)?.working()?, data, offset)?)
    }

    fn fsync(&self, node: u64, data_only: bool) -> Answer<()> {
        let node = self.node(node)?;
        let sync = if data_only { rustix::fs::fdatasync } else { rustix::fs::fsync };
        Ok(sync(node.working()?)?)
    }

    fn list(&self, dir: u64, offset: u64, each: &mut dyn FnMut(&Listed<'_>) -> bool) -> Answer<()> {
        const ROOM: usize = 32 << 10;
        let dir = self.node(dir)?;
        // A descriptor of its own: several may list side by side, each from its place.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&dir.place, c".", flags, Mode::empty())?;
        rustix::fs::seek(&fd, SeekFrom::Start(offset))?;
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut entries = RawDir::new(&fd, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let known = entry.file_type();
            let kind = if known == FileType::Unknown { 0 } else { kind(known.as_raw_mode()) };
            let (name, ino) = (entry.file_name().to_bytes(), self.number(entry.ino()));
            if !each(&Listed { name, ino, kind, next: entry.next_entry_cookie() }) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Answer<StatfsOut> {
        let s = rustix::fs::fstatvfs(&self.node(ROOT)?.place)?;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(StatfsOut {
            blocks: s.f_blocks,
            bfree: s.f_bfree,
            bavail: s.f_bavail,
            files: s.f_files,
            ffree: s.f_ffree,
            bsize: narrow(s.f_bsize),
            frsize: narrow(s.f_frsize),
            namelen: narrow(s.f_namemax),
            ..StatfsOut::default()
        })
    }

    fn getxattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>> {
        let node = self.node(node)?;
        let name = OsStr::from_bytes(name);
        whole(|room| rustix::fs::getxattr(node.path(), name, room))
    }

    fn setxattr(&self, node: u64, name: &[u8], value: &[u8], flags: u32) -> Answer<()> {
        let flags = XattrFlags::from_bits_retain(flags);
        Ok(rustix::fs::setxattr(self.node(node)?.path(), OsStr::from_bytes(name), value, flags)?)
    }

    fn listxattr(&self, node: u64) -> Answer<Vec<u8>> {
        let node = self.node(node)?;
        whole(|room| rustix::fs::listxattr(node.path(), room))
    }

    fn removexattr(&self, node: u64, name: &[u8]) -> Answer<()> {
        Ok(rustix::fs::removexattr(self.node(node)?.path(), OsStr::from_bytes(name))?)
    }
}

/// All of what a call puts into the room that it is lent; most have little.
fn whole(mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> Answer<Vec<u8>> {
    const LITTLE: usize = 256;
    const MOST: usize = 64 << 10;
    let mut room = vec![0; LITTLE];
    let len = match call(&mut room) {
        Err(Errno::RANGE) => {
            room.resize(MOST, 0);
            call(&mut room)
        }
        done => done,
    };
    room.truncate(len.map_err(Number::from)?);
    Ok(room)
}

fn attr(s: &Stat) -> Attr {
    let nsec = |n: u64| u32::try_from(n).unwrap_or(0);
    Attr {
        ino: s.st_ino,
        size: s.st_size.cast_unsigned(),
        blocks: s.st_blocks.cast_unsigned(),
        atime: s.st_atime.cast_unsigned(),
        mtime: s.st_mtime.cast_unsigned(),
        ctime: s.st_ctime.cast_unsigned(),
        atimensec: nsec(s.st_atime_nsec.cast_unsigned()),
        mtimensec: nsec(s.st_mtime_nsec.cast_unsigned()),
        ctimensec: nsec(s.st_ctime_nsec.cast_unsigned()),
        mode: s.st_mode,
        nlink: u32::try_from(s.st_nlink).unwrap_or(u32::MAX),
        uid: s.st_uid,
        gid: s.st_gid,
        // Both hold 12 bits of the major number and 20 of the minor, in the same places.
        rdev: u32::try_from(s.st_rdev).unwrap_or(0),
        blksize: u32::try_from(s.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}
