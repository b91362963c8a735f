//! ioctl(2): the commands of ext4 whose number says all about the size of their argument, which is what FUSE lets through, two of
//! our own, and F2FS's of batches.

use super::answer::Answering;
use super::{Terms, batches, exchange};
use crate::ops::Ops;
use crate::proto::Header;
use crate::proto::wire::IoctlIn;
use crate::words::{ino, sender};
use ondol::FsxAttr;
use ondol_ring::SnapshotAsked;
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Commands, by the numbers of x86 and ARM (`linux/fs.h`, and ext4's own).
mod command {
    pub(super) const GETFLAGS: u32 = 0x8008_6601;
    pub(super) const SETFLAGS: u32 = 0x4008_6602;
    pub(super) const GETVERSION: u32 = 0x8008_7601;
    pub(super) const EXT4_GETVERSION: u32 = 0x8008_6603;
    pub(super) const FSGETXATTR: u32 = 0x801C_581F;
    pub(super) const FSSETXATTR: u32 = 0x401C_5820;
    pub(super) const FITRIM: u32 = 0xC018_5879;
    pub(super) const GETFSLABEL: u32 = 0x8100_9431;
}

/// `struct fsxattr`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Fsxattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    padding: [u8; 8],
}

/// `struct fstrim_range`, in bytes; the answer's `len` says how much was trimmed.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TrimRange {
    start: u64,
    len: u64,
    minlen: u64,
}

/// Serves one command; those that nobody knows are answered with ENOTTY.
pub(super) fn serve(ops: &Ops, terms: &Terms, answer: &Answering<'_>, header: &Header, how: &IoctlIn, data: &[u8]) {
    let (ino, from) = (ino(header.nodeid), sender(header));
    let room = how.out_size as usize;
    let tell = |bytes: &[u8]| answer.ioctl(bytes.get(..room).unwrap_or(bytes));
    let changed = || {
        answer.forget_mode(true, header.nodeid);
        tell(&[]);
    };
    match how.cmd {
        command::GETFLAGS => answer.with(ops.flags(ino), |flags| tell(flags.as_bytes())),
        command::GETVERSION | command::EXT4_GETVERSION => {
            answer.with(ops.ioctl_attr(ino), |a| tell(a.generation.as_bytes()));
        }
        command::FSGETXATTR => answer.with(ops.fsxattr(ino), |x| tell(from_volume(x).as_bytes())),
        command::GETFSLABEL => answer.with(ops.label(), |label| tell([label.as_bytes(), &[0]].concat().as_slice())),
        command::FITRIM => match TrimRange::read_from_prefix(data) {
            Ok((range, _)) => answer.with(ops.trim(range.start, range.len, range.minlen, from), |len| {
                tell(TrimRange { len: *len, ..range }.as_bytes());
            }),
            Err(_) => answer.error(Errno::INVAL),
        },
        command::SETFLAGS => match u32::read_from_prefix(data) {
            Ok((flags, _)) => answer.with(ops.set_flags(ino, flags, from), |()| changed()),
            Err(_) => answer.error(Errno::INVAL),
        },
        command::FSSETXATTR => match Fsxattr::read_from_prefix(data) {
            Ok((x, _)) => answer.with(ops.set_fsxattr(ino, &to_volume(&x), from), |()| changed()),
            Err(_) => answer.error(Errno::INVAL),
        },
        ondol_ring::RESIZE_FS => match u64::read_from_prefix(data) {
            Ok((blocks, _)) => answer.with(ops.resize(blocks, from), |()| tell(&[])),
            Err(_) => answer.error(Errno::INVAL),
        },
        ondol_ring::SNAPSHOT => match SnapshotAsked::read_from_prefix(data) {
            Ok((asked, _)) => answer.with(ops.snapshot(&asked, from), |()| tell(&[])),
            Err(_) => answer.error(Errno::INVAL),
        },
        ondol_ring::EXCHANGE_RANGE => exchange::serve(ops, terms, answer, header, data),
        _ if terms.batches && batches::is_command(how.cmd) => batches::serve(ops, answer, header, how),
        _ => answer.error(Errno::NOTTY),
    }
}

fn from_volume(x: &FsxAttr) -> Fsxattr {
    let FsxAttr { xflags, extsize, nextents, projid, cowextsize } = *x;
    Fsxattr { xflags, extsize, nextents, projid, cowextsize, padding: [0; 8] }
}

fn to_volume(x: &Fsxattr) -> FsxAttr {
    let Fsxattr { xflags, extsize, nextents, projid, cowextsize, .. } = *x;
    FsxAttr { xflags, extsize, nextents, projid, cowextsize }
}
