//! FUSE's numbers, flags and times as the volume's words, and back.

use crate::ops::{Errno as Number, Sender};
use fuser::{Errno, FileAttr, Generation, INodeNo, RenameFlags, Request, TimeOrNow};
use ondol::{Attr, Fallocate, FileType, Ino, ROOT, Rename, Seek, SetTime, SetXattr, Timestamp};
use std::time::{Duration, SystemTime};

const ST_BLOCK_SIZE: u32 = 4096;

/// ext4's number of FUSE's node.
pub(crate) fn ino(node: INodeNo) -> Ino {
    match node.0 {
        1 => ROOT,
        2 => 1,
        // Numbers come back as they were given out; 0 names no inode.
        n => Ino::try_from(n).unwrap_or(0),
    }
}

/// FUSE's node of ext4's number.
pub(crate) fn node(ino: Ino) -> INodeNo {
    INodeNo(match ino {
        ROOT => 1,
        1 => 2,
        n => n.into(),
    })
}

pub(crate) fn sender(req: &Request) -> Sender {
    Sender { uid: req.uid(), gid: req.gid() }
}

pub(crate) fn errno(e: Number) -> Errno {
    Errno::from_i32(e.0)
}

pub(crate) fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
    }
}

pub(crate) fn to_system(t: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(t.sec.unsigned_abs());
    let second =
        if t.sec < 0 { SystemTime::UNIX_EPOCH.checked_sub(whole) } else { SystemTime::UNIX_EPOCH.checked_add(whole) };
    second.and_then(|s| s.checked_add(Duration::from_nanos(t.nsec.into()))).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The inverse of what `fuser` makes of a time in a request: before 1970 it counts the nanoseconds backwards.
pub(crate) fn from_system(t: SystemTime) -> Timestamp {
    let seconds = |d: Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    match t.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(d) => Timestamp { sec: seconds(d), nsec: d.subsec_nanos() },
        Err(e) => Timestamp { sec: -seconds(e.duration()), nsec: e.duration().subsec_nanos() },
    }
}

pub(crate) fn set_time(t: TimeOrNow) -> SetTime {
    match t {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(t) => SetTime::To(from_system(t)),
    }
}

pub(crate) fn file_attr(a: &Attr, number: INodeNo) -> FileAttr {
    FileAttr {
        ino: number,
        size: a.size,
        blocks: a.blocks,
        atime: to_system(a.atime),
        mtime: to_system(a.mtime),
        ctime: to_system(a.ctime),
        crtime: a.crtime.map_or(SystemTime::UNIX_EPOCH, to_system),
        kind: kind(a.file_type),
        perm: a.perm,
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        rdev: encode_device(a.rdev),
        blksize: ST_BLOCK_SIZE,
        flags: a.flags,
    }
}

/// Attributes for an entry that has none: they expire at once. As node 0 they say that a name does not exist.
pub(crate) fn blank(number: INodeNo, file_type: FileType) -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: number,
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: kind(file_type),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: ST_BLOCK_SIZE,
        flags: 0,
    }
}

pub(crate) fn generation(a: &Attr) -> Generation {
    Generation(a.generation.into())
}

pub(crate) fn perm(mode: u32, umask: u32) -> u16 {
    // The kernel has applied the umask; doing it again changes nothing.
    (mode & !umask & 0o7777) as u16
}

/// `None`: flags that are not offered (`RENAME_WHITEOUT`).
pub(crate) fn rename_how(flags: RenameFlags) -> Option<Rename> {
    match flags {
        f if f.is_empty() => Some(Rename::Replace),
        RenameFlags::RENAME_NOREPLACE => Some(Rename::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(Rename::Exchange),
        _ => None,
    }
}

/// The modes of fallocate(2) that are offered, by its flag values.
pub(crate) fn fallocate_how(mode: i32) -> Option<Fallocate> {
    const KEEP_SIZE: i32 = 0x01;
    const PUNCH_HOLE: i32 = 0x02;
    const ZERO_RANGE: i32 = 0x10;
    const PUNCH: i32 = PUNCH_HOLE | KEEP_SIZE;
    const ZERO_KEEP: i32 = ZERO_RANGE | KEEP_SIZE;
    Some(match mode {
        0 => Fallocate::Allocate,
        KEEP_SIZE => Fallocate::KeepSize,
        PUNCH => Fallocate::PunchHole,
        ZERO_RANGE => Fallocate::ZeroRange,
        ZERO_KEEP => Fallocate::ZeroRangeKeepSize,
        _ => return None,
    })
}

pub(crate) fn seek_what(whence: i32) -> Option<Seek> {
    const SEEK_DATA: i32 = 3;
    const SEEK_HOLE: i32 = 4;
    match whence {
        SEEK_DATA => Some(Seek::Data),
        SEEK_HOLE => Some(Seek::Hole),
        _ => None,
    }
}

pub(crate) fn xattr_how(flags: i32) -> SetXattr {
    const CREATE: i32 = 1;
    const REPLACE: i32 = 2;
    match flags {
        CREATE => SetXattr::Create,
        REPLACE => SetXattr::Replace,
        _ => SetXattr::Any,
    }
}

/// A device number as FUSE and stat(2) of old carry it: 12 bits of the major number between two parts of the minor's 20.
pub(crate) fn encode_device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor & 0xF_FF00) << 12)
}

/// Major and minor number.
pub(crate) fn decode_device(device: u32) -> (u32, u32) {
    ((device >> 8) & 0xFFF, (device & 0xFF) | ((device >> 12) & 0xF_FF00))
}

pub(crate) fn truncates(flags: i32) -> bool {
    flags & rustix::fs::OFlags::TRUNC.bits() as i32 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_change_places() {
        for n in [1, 2, 3, 11, u32::MAX] {
            assert_eq!(ino(node(n)), n);
        }
        assert_eq!(node(ROOT), INodeNo::ROOT);
        assert_eq!(ino(INodeNo(1 << 40)), 0);
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let t = to_system(Timestamp { sec: -2, nsec: 800_000_000 });
        assert_eq!(SystemTime::UNIX_EPOCH.duration_since(t).unwrap(), Duration::from_millis(1200));
        // What the transport makes of the pair (-2, 800_000_000) in a request.
        let received = SystemTime::UNIX_EPOCH - Duration::new(2, 800_000_000);
        assert_eq!(from_system(received), Timestamp { sec: -2, nsec: 800_000_000 });
        let after = Timestamp { sec: 5, nsec: 7 };
        assert_eq!(from_system(to_system(after)), after);
    }

    #[test]
    fn device_numbers_survive_the_way() {
        assert_eq!(encode_device((8, 1)), 0x801);
        for device in [(0, 0), (10, 229), (259, 1_000_000), (4095, 0xF_FFFF)] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }

    #[test]
    fn only_what_is_offered_has_a_meaning() {
        assert_eq!(fallocate_how(3), Some(Fallocate::PunchHole));
        assert_eq!(fallocate_how(2), None);
        assert_eq!(fallocate_how(8), None);
        assert_eq!(rename_how(RenameFlags::RENAME_WHITEOUT), None);
        assert_eq!(rename_how(RenameFlags::RENAME_EXCHANGE), Some(Rename::Exchange));
        assert_eq!(seek_what(0), None);
    }
}
