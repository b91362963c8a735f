//! FUSE's numbers, flags and times as the volume's words, and back.

use crate::ops::{Opening, Sender, UNTOLD};
use crate::proto::Header;
use crate::proto::numbers::fattr;
use crate::proto::wire::{self, OpenIn, SetattrIn, StatfsOut, Statx, StatxOut, StatxTime};
use ondol::{Attr, Device, FileType, Ino, ROOT, Rename, Seek, SetAttr, SetTime, SetXattr, StatFs, Timestamp};

const ST_BLOCK_SIZE: u32 = 4096;

/// ext4's number of FUSE's node.
pub(crate) fn ino(node: u64) -> Ino {
    match node {
        1 => ROOT,
        2 => 1,
        // Numbers come back as they were given out; 0 names no inode.
        n => Ino::try_from(n).unwrap_or(0),
    }
}

/// FUSE's node of ext4's number.
pub(crate) fn node(ino: Ino) -> u64 {
    match ino {
        ROOT => 1,
        1 => 2,
        n => n.into(),
    }
}

pub(crate) fn sender(header: &Header) -> Sender {
    Sender { uid: header.uid, gid: header.gid, umask: 0, thread: header.pid, mapped: header.uid == UNTOLD }
}

/// The type as listings name it (`DT_DIR` and so on; `DT_UNKNOWN` is 0).
pub(crate) fn listed(file_type: Option<FileType>) -> u32 {
    file_type.map_or(0, |known| u32::from(known.mode_bits() >> 12))
}

/// Seconds of a time travel as the bits of a signed number.
fn seconds(t: Timestamp) -> u64 {
    t.sec.cast_unsigned()
}

/// What stat(2) tells: the inode's own number, also of the root.
pub(crate) fn attr(a: &Attr) -> wire::Attr {
    wire::Attr {
        ino: a.ino.into(),
        size: a.size,
        blocks: a.blocks,
        atime: seconds(a.atime),
        mtime: seconds(a.mtime),
        ctime: seconds(a.ctime),
        atimensec: a.atime.nsec,
        mtimensec: a.mtime.nsec,
        ctimensec: a.ctime.nsec,
        mode: u32::from(a.file_type.mode_bits() | a.perm),
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        rdev: encode_device(a.rdev),
        blksize: ST_BLOCK_SIZE,
        flags: 0,
    }
}

/// What statx(2) tells; `seconds` says for how long it holds.
pub(crate) fn statx(a: &Attr, seconds: u64) -> StatxOut {
    const BASIC_STATS: u32 = 0x7FF;
    const BTIME: u32 = 0x800;
    /// `STATX_ATTR_COMPRESSED`, `_IMMUTABLE`, `_APPEND`, `_NODUMP`: the same bits as ext4's flags.
    const ATTRIBUTES: u64 = 0x74;
    let time = |t: Timestamp| StatxTime { tv_sec: t.sec, tv_nsec: t.nsec, reserved: 0 };
    let stat = Statx {
        mask: if a.crtime.is_some() { BASIC_STATS | BTIME } else { BASIC_STATS },
        blksize: ST_BLOCK_SIZE,
        attributes: u64::from(a.flags) & ATTRIBUTES,
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        mode: a.file_type.mode_bits() | a.perm,
        ino: a.ino.into(),
        size: a.size,
        blocks: a.blocks,
        attributes_mask: ATTRIBUTES,
        atime: time(a.atime),
        btime: time(a.crtime.unwrap_or_default()),
        ctime: time(a.ctime),
        mtime: time(a.mtime),
        rdev_major: a.rdev.major,
        rdev_minor: a.rdev.minor,
        ..Statx::default()
    };
    StatxOut { attr_valid: seconds, stat, ..StatxOut::default() }
}

/// What statfs(2) tells; with `minixdf` of all blocks.
pub(crate) fn statfs(s: &StatFs, minixdf: bool) -> StatfsOut {
    const NAME_MAX: u32 = 255;
    StatfsOut {
        blocks: s.blocks + if minixdf { s.overhead } else { 0 },
        bfree: s.free,
        bavail: s.available,
        files: s.files,
        ffree: s.files_free,
        bsize: s.block_size,
        namelen: NAME_MAX,
        frsize: s.block_size,
        ..StatfsOut::default()
    }
}

/// The sender of a request that makes an inode; `mapped` where mounts may map users.
pub(crate) fn maker(header: &Header, umask: u32, mapped: bool) -> Sender {
    Sender { umask: perm(umask), mapped, ..sender(header) }
}

/// The permission bits of a mode.
pub(crate) fn perm(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

pub(crate) fn set_attr(set: &SetattrIn) -> SetAttr {
    let has = |bit: u32| set.valid & bit != 0;
    let time = |bit, now, sec: u64, nsec| match (has(bit), has(now)) {
        (_, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::To(Timestamp { sec: sec.cast_signed(), nsec })),
        (false, false) => None,
    };
    SetAttr {
        perm: has(fattr::MODE).then(|| perm(set.mode)),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        size: has(fattr::SIZE).then_some(set.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
        kill_suid: has(fattr::KILL_SUIDGID),
    }
}

/// Flags of renameat2(2); `None`: not offered. A whiteout is `owner`'s.
pub(crate) fn rename_how(flags: u32, owner: Sender) -> Option<Rename> {
    const NOREPLACE: u32 = 1;
    const EXCHANGE: u32 = 2;
    const WHITEOUT: u32 = 4;
    const WHITEOUT_NOREPLACE: u32 = WHITEOUT | NOREPLACE;
    Some(match flags {
        0 => Rename::Replace,
        NOREPLACE => Rename::NoReplace,
        EXCHANGE => Rename::Exchange,
        WHITEOUT => Rename::Whiteout { owner: owner.caller(), replace: true },
        WHITEOUT_NOREPLACE => Rename::Whiteout { owner: owner.caller(), replace: false },
        _ => return None,
    })
}

pub(crate) fn seek_what(whence: u32) -> Option<Seek> {
    const SEEK_DATA: u32 = 3;
    const SEEK_HOLE: u32 = 4;
    match whence {
        SEEK_DATA => Some(Seek::Data),
        SEEK_HOLE => Some(Seek::Hole),
        _ => None,
    }
}

/// Flags of setxattr(2); `None` for both, which no attribute can satisfy.
pub(crate) fn xattr_how(flags: u32) -> Option<SetXattr> {
    const CREATE: u32 = 1;
    const REPLACE: u32 = 2;
    const BOTH: u32 = CREATE | REPLACE;
    match flags {
        CREATE => Some(SetXattr::Create),
        REPLACE => Some(SetXattr::Replace),
        BOTH => None,
        _ => Some(SetXattr::Any),
    }
}

/// A device number as FUSE and stat(2) of old carry it: 12 bits of the major number between two parts of the minor's
/// 20.
fn encode_device(Device { major, minor }: Device) -> u32 {
    (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor & 0xF_FF00) << 12)
}

/// The other way round.
pub(crate) fn decode_device(device: u32) -> Device {
    Device { major: (device >> 8) & 0xFFF, minor: (device & 0xFF) | ((device >> 12) & 0xF_FF00) }
}

pub(crate) fn opening(how: &OpenIn) -> Opening {
    use rustix::fs::OFlags;
    let flags = OFlags::from_bits_retain(how.flags);
    Opening { write: flags.intersects(OFlags::WRONLY | OFlags::RDWR), append: appends(how.flags) }
}

/// Whether open(2) was given `O_APPEND`.
pub(crate) fn appends(flags: u32) -> bool {
    rustix::fs::OFlags::from_bits_retain(flags).contains(rustix::fs::OFlags::APPEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_change_places() {
        for n in [1, 2, 3, 11, u32::MAX] {
            assert_eq!(ino(node(n)), n);
        }
        assert_eq!(node(ROOT), 1);
        assert_eq!(ino(1 << 40), 0);
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let before =
            SetattrIn { valid: fattr::MTIME, mtime: (-2i64).cast_unsigned(), mtimensec: 800, ..SetattrIn::default() };
        let set = set_attr(&before);
        assert_eq!(set.mtime, Some(SetTime::To(Timestamp { sec: -2, nsec: 800 })));
        assert_eq!((set.atime, set.size, set.perm), (None, None, None));
        let now = SetattrIn { valid: fattr::MTIME | fattr::MTIME_NOW, ..SetattrIn::default() };
        assert_eq!(set_attr(&now).mtime, Some(SetTime::Now));
    }

    #[test]
    fn device_numbers_survive_the_way() {
        assert_eq!(encode_device(Device { major: 8, minor: 1 }), 0x801);
        for (major, minor) in [(0, 0), (10, 229), (259, 1_000_000), (4095, 0xF_FFFF)] {
            let device = Device { major, minor };
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }

    #[test]
    fn only_what_is_offered_has_a_meaning() {
        assert_eq!(ondol::Fallocate::of_flags(3), Some(ondol::Fallocate::PunchHole));
        assert_eq!(ondol::Fallocate::of_flags(2), None);
        assert_eq!(ondol::Fallocate::of_flags(8), Some(ondol::Fallocate::CollapseRange));
        assert_eq!(ondol::Fallocate::of_flags(9), None);
        let nobody = Sender { uid: 0, gid: 0, umask: 0, thread: 0, mapped: false };
        assert_eq!(rename_how(2, nobody), Some(Rename::Exchange));
        assert_eq!(rename_how(6, nobody), None);
        assert_eq!(seek_what(0), None);
        assert_eq!((listed(Some(FileType::Directory)), listed(None)), (4, 0));
    }
}
