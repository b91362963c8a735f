//! Everything is handed on to a directory of another file system: what a server costs that does nothing of its own.
//!
//! The kernel is told the inode numbers of that file system. No request opens a file, as none does for a volume; `held`
//! has the descriptors. An inode that is about to lose a name is opened first, so that nothing else below has its
//! number while the kernel knows it.

use super::files::{Attributes, DIRECTORY, Files, InDir, Listed, ROOT, TYPE, Told, kind, stale, without_suid};
use super::held::{Descriptors, Held, Node};
use super::table::Table;
use crate::ops::{Answer, Errno as Number};
use crate::proto::numbers::fattr;
use crate::proto::wire::{Attr, SetattrIn, StatfsOut};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

const REGULAR: u32 = 0o100_000;

pub(super) struct Through {
    known: Table<Node>,
    descriptors: Descriptors,
    /// The file system that it stays on.
    device: u64,
    /// What its root has there; whatever has number 1 there is told by this.
    root: u64,
}

impl Through {
    pub(super) fn new(below: &Path) -> io::Result<Self> {
        /// Descriptors for all but files.
        const OTHERS: u64 = 1024;
        const LEAST: u64 = 64;
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = allowed.saturating_sub(OTHERS).max(LEAST);
        Self::with_descriptors(below, usize::try_from(most).unwrap_or(usize::MAX / 4))
    }

    /// With at most so many descriptors, but for those of what has lost its name.
    fn with_descriptors(below: &Path, most: usize) -> io::Result<Self> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(below, how, Mode::empty())?;
        let stat = rustix::fs::fstat(&root)?;
        let known = Table::new();
        let node = known.tell(ROOT, Node::new(stat.st_ino, stat.st_mode, None, b""));
        let descriptors = Descriptors::new(most);
        descriptors.hold(&node, root);
        Ok(Self { known, descriptors, device: stat.st_dev, root: stat.st_ino })
    }

    fn node(&self, number: u64) -> Answer<Arc<Node>> {
        self.known.get(number).ok_or_else(stale)
    }

    fn held(&self, number: u64) -> Answer<Arc<Held>> {
        self.descriptors.of(&self.node(number)?)
    }

    /// The number that the kernel is told.
    fn number(&self, ino: u64) -> u64 {
        match ino {
            ino if ino == self.root => ROOT,
            ROOT => self.root,
            ino => ino,
        }
    }

    /// Tells the kernel of what is found in `dir` by `name`.
    fn tell(&self, dir: &Arc<Node>, name: &[u8], stat: &Stat) -> Answer<(Arc<Node>, Told)> {
        if stat.st_dev != self.device {
            return Err(Errno::XDEV.into());
        }
        let number = self.number(stat.st_ino);
        let new = Node::new(stat.st_ino, stat.st_mode, Some(dir), name);
        let node = self.known.tell(number, Arc::clone(&new));
        if !Arc::ptr_eq(&node, &new) && number != ROOT && name != b"." && name != b".." {
            node.is_named(dir, name);
        }
        Ok((node, Told { node: number, attr: attr(stat) }))
    }

    fn find(&self, dir: &Arc<Node>, name: &[u8]) -> Answer<Told> {
        let stat = rustix::fs::statat(self.descriptors.of(dir)?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.tell(dir, name, &stat)?.1)
    }

    /// What the kernel knows by this name.
    fn known(&self, dir: &Held, name: &[u8]) -> Option<Arc<Node>> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        self.known.get(self.number(stat.st_ino))
    }

    /// The same, and it stays open, since this name is about to go.
    fn kept(&self, dir: &Held, name: &[u8]) -> Option<Arc<Node>> {
        let node = self.known(dir, name)?;
        // Whatever does not open is not worked on either.
        let _ = self.descriptors.keep(&node);
        Some(node)
    }
}

impl Files for Through {
    fn lookup(&self, dir: u64, name: &[u8]) -> Answer<Told> {
        self.find(&self.node(dir)?, name)
    }

    fn forget(&self, node: u64, times: u64) {
        if node != ROOT {
            self.known.forget(node, times);
        }
    }

    fn getattr(&self, node: u64) -> Answer<Attr> {
        Ok(attr(&rustix::fs::fstat(self.held(node)?)?))
    }

    fn setattr(&self, node: u64, set: &SetattrIn) -> Answer<Attr> {
        let held = self.held(node)?;
        let has = |bit: u32| set.valid & bit != 0;
        if has(fattr::UID | fattr::GID) {
            let uid = has(fattr::UID).then(|| Uid::from_raw(set.uid));
            let gid = has(fattr::GID).then(|| Gid::from_raw(set.gid));
            rustix::fs::chownat(&held, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if has(fattr::MODE) {
            rustix::fs::chmodat(CWD, held.path(), Mode::from_raw_mode(set.mode & 0o7777), AtFlags::empty())?;
        }
        if has(fattr::SIZE) {
            rustix::fs::ftruncate(&held, set.size)?;
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
            rustix::fs::utimensat(CWD, held.path(), &times, AtFlags::empty())?;
        }
        Ok(attr(&rustix::fs::fstat(&held)?))
    }

    fn make(&self, dir: u64, name: &[u8], mode: u32, rdev: u32) -> Answer<Told> {
        let dir = self.node(dir)?;
        let held = self.descriptors.of(&dir)?;
        let bits = Mode::from_raw_mode(mode & 0o7777);
        match mode & TYPE {
            REGULAR => {
                let how = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(&held, name, how, bits)?;
                let (node, told) = self.tell(&dir, name, &rustix::fs::fstat(&fd)?)?;
                self.descriptors.hold(&node, fd);
                return Ok(told);
            }
            DIRECTORY => rustix::fs::mkdirat(&held, name, bits)?,
            _ => {
                let device = rustix::fs::makedev(rdev >> 8 & 0xFFF, rdev & 0xFF | rdev >> 12 & 0xF_FF00);
                rustix::fs::mknodat(&held, name, FileType::from_raw_mode(mode), bits, device)?;
            }
        }
        self.find(&dir, name)
    }

    fn symlink(&self, dir: u64, name: &[u8], target: &[u8]) -> Answer<Told> {
        let dir = self.node(dir)?;
        rustix::fs::symlinkat(target, self.descriptors.of(&dir)?, name)?;
        self.find(&dir, name)
    }

    fn readlink(&self, node: u64) -> Answer<Vec<u8>> {
        Ok(rustix::fs::readlinkat(self.held(node)?, c"", Vec::new())?.into_bytes())
    }

    fn link(&self, node: u64, dir: u64, name: &[u8]) -> Answer<Told> {
        let (held, dir) = (self.held(node)?, self.node(dir)?);
        rustix::fs::linkat(CWD, held.path(), self.descriptors.of(&dir)?, name, AtFlags::SYMLINK_FOLLOW)?;
        self.find(&dir, name)
    }

    fn remove(&self, dir: u64, name: &[u8], is_dir: bool) -> Answer<()> {
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let dir = self.held(dir)?;
        let node = self.kept(&dir, name);
        let removed = rustix::fs::unlinkat(&dir, name, flags);
        if let Some(node) = node.filter(|_| removed.is_err()) {
            node.stays();
        }
        Ok(removed?)
    }

    fn rename(&self, from: InDir<'_>, to: InDir<'_>, flags: u32) -> Answer<()> {
        let (InDir { dir: from, name }, InDir { dir: to, name: new_name }) = (from, to);
        let flags = RenameFlags::from_bits_retain(flags);
        let (from, to) = (self.node(from)?, self.node(to)?);
        let (from_held, to_held) = (self.descriptors.of(&from)?, self.descriptors.of(&to)?);
        let moved = self.known(&from_held, name);
        let swapped = flags.contains(RenameFlags::EXCHANGE);
        let there = if swapped { self.known(&to_held, new_name) } else { self.kept(&to_held, new_name) };
        let _renaming = self.descriptors.renaming();
        let renamed = rustix::fs::renameat_with(&from_held, name, &to_held, new_name, flags);
        match (&renamed, there) {
            (Ok(()), Some(there)) if swapped => there.is_named(&from, name),
            (Err(_), Some(there)) => there.stays(),
            _ => {}
        }
        if let Some(moved) = moved.filter(|_| renamed.is_ok()) {
            moved.is_named(&to, new_name);
            moved.stays();
        }
        Ok(renamed?)
    }

    fn take_suid(&self, node: u64) -> Answer<bool> {
        let held = self.held(node)?;
        let mode = rustix::fs::fstat(&held)?.st_mode;
        let without = without_suid(mode);
        if without != mode {
            rustix::fs::chmodat(CWD, held.path(), Mode::from_raw_mode(without & 0o7777), AtFlags::empty())?;
        }
        Ok(without != mode)
    }

    fn read(&self, node: u64, offset: u64, space: &mut [u8]) -> Answer<usize> {
        Ok(rustix::io::pread(self.held(node)?, space, offset)?)
    }

    fn write(&self, node: u64, offset: u64, data: &[u8]) -> Answer<usize> {
        Ok(rustix::io::pwrite(self.held(node)?, data, offset)?)
    }

    fn fsync(&self, node: u64, data_only: bool) -> Answer<()> {
        let held = self.held(node)?;
        Ok(if data_only { rustix::fs::fdatasync(&held) } else { rustix::fs::fsync(&held) }?)
    }

    fn list(&self, dir: u64, offset: u64, each: &mut dyn FnMut(&Listed<'_>) -> bool) -> Answer<()> {
        const ROOM: usize = 32 << 10;
        // A descriptor of its own: several may list side by side, each from its place.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.held(dir)?, c".", flags, Mode::empty())?;
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
        let s = rustix::fs::fstatvfs(self.held(ROOT)?)?;
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
}

impl Attributes for Through {
    fn getxattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>> {
        let held = self.held(node)?;
        let name = OsStr::from_bytes(name);
        whole(|room| rustix::fs::getxattr(held.path(), name, room))
    }

    fn setxattr(&self, node: u64, name: &[u8], value: &[u8], flags: u32) -> Answer<()> {
        let flags = XattrFlags::from_bits_retain(flags);
        Ok(rustix::fs::setxattr(self.held(node)?.path(), OsStr::from_bytes(name), value, flags)?)
    }

    fn listxattr(&self, node: u64) -> Answer<Vec<u8>> {
        let held = self.held(node)?;
        whole(|room| rustix::fs::listxattr(held.path(), room))
    }

    fn removexattr(&self, node: u64, name: &[u8]) -> Answer<()> {
        Ok(rustix::fs::removexattr(self.held(node)?.path(), OsStr::from_bytes(name))?)
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

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 8;

    fn named(dir: u64, name: &[u8]) -> InDir<'_> {
        InDir { dir, name }
    }

    /// How many descriptors lead below a directory.
    fn open_below(dir: &Path) -> usize {
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        all.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).filter(|path| path.starts_with(dir)).count()
    }

    #[test]
    fn more_is_worked_on_than_there_are_descriptors() {
        let below = tempfile::tempdir().unwrap();
        let files = Through::with_descriptors(below.path(), MOST).unwrap();
        let numbered = |n: usize| format!("file {n}").into_bytes();
        let inner =
            (0..5).fold(ROOT, |dir, n| files.make(dir, format!("{n}").as_bytes(), DIRECTORY | 0o755, 0).unwrap().node);
        let made: Vec<u64> =
            (0..100).map(|n| files.make(inner, &numbered(n), REGULAR | 0o644, 0).unwrap().node).collect();
        for round in 0..3_usize {
            for (n, &node) in made.iter().enumerate() {
                let text = format!("{n} in round {round}");
                assert_eq!(files.write(node, 0, text.as_bytes()), Ok(text.len()));
                assert!(open_below(below.path()) <= MOST + 1, "{} are open", open_below(below.path()));
            }
            for (n, &node) in made.iter().enumerate() {
                let mut space = [0; 64];
                let len = files.read(node, 0, &mut space).unwrap();
                assert_eq!(&space[..len], format!("{n} in round {round}").as_bytes());
            }
        }

        // What is moved, with or without the directories above it, is found again where it is now.
        files.rename(named(ROOT, b"0"), named(ROOT, b"moved"), 0).unwrap();
        files.rename(named(inner, &numbered(0)), named(ROOT, b"zero"), 0).unwrap();
        let exchange = RenameFlags::EXCHANGE.bits();
        files.rename(named(inner, &numbered(1)), named(inner, &numbered(2)), exchange).unwrap();
        files.link(made[3], ROOT, b"three").unwrap();
        files.remove(inner, &numbered(3), false).unwrap();
        let text = |node| {
            let mut space = [0; 64];
            let len = files.read(node, 0, &mut space).unwrap();
            String::from_utf8(space[..len].to_vec()).unwrap()
        };
        let all_are_as_written = || {
            for (n, &node) in made.iter().enumerate() {
                assert_eq!(text(node), format!("{n} in round 2"));
            }
        };
        all_are_as_written();
        // What has lost its name stays open, and so nobody else has its number.
        for n in 10..60 {
            files.remove(inner, &numbered(n), false).unwrap();
        }
        files.rename(named(inner, &numbered(60)), named(inner, &numbered(61)), 0).unwrap();
        assert_eq!(files.remove(ROOT, b"moved", true), Err(Errno::NOTEMPTY.into()));
        assert_eq!(open_below(below.path()).clamp(51, 51 + MOST + 1), open_below(below.path()));
        all_are_as_written();
        made.iter().for_each(|&node| files.forget(node, 2));
        assert!(open_below(below.path()) <= MOST + 1, "{} are open", open_below(below.path()));
    }
}
