//! ioctl(2): the commands of ext4 whose number says all about the size of their argument, which is what FUSE lets
//! through. The kernel checks nothing for them but for those of chattr(1), so none of the others changes anything;
//! FITRIM asks for a capability.

use super::Terms;
use super::answer::Answering;
use crate::ops::{Op, Ops};
use crate::proto::numbers::Init;
use crate::proto::wire::IoctlIn;
use crate::words::{ino, sender};
use ondol::FsxAttr;
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
pub(super) fn serve(ops: &Ops, terms: &Terms, answer: &Answering<'_>, how: &IoctlIn, data: &[u8]) {
    let header = answer.header;
    let (ino, from) = (ino(header.nodeid), sender(header));
    let room = how.out_size as usize;
    let tell = |bytes: &[u8]| answer.ioctl(bytes.get(..room).unwrap_or(bytes));
    let changed = || {
        answer.forget_mode(true, header.nodeid);
        tell(&[]);
    };
    // Kernels without the flag, before 5.13, pass the commands of chattr(1) on as they come, from anybody.
    let kernel_checks = terms.agreed.contains(Init::SETXATTR_EXT);
    match how.cmd {
        command::GETFLAGS => answer.with(ops.flags(ino), |flags| tell(flags.as_bytes())),
        command::GETVERSION | command::EXT4_GETVERSION => {
            answer.with(ops.getattr(Op::Ioctl, ino), |a| tell(a.generation.as_bytes()));
        }
        command::FSGETXATTR => answer.with(ops.fsxattr(ino), |x| tell(from_volume(x).as_bytes())),
        command::GETFSLABEL => answer.with(ops.label(), |label| tell([label.as_bytes(), &[0]].concat().as_slice())),
        command::FITRIM => match TrimRange::read_from_prefix(data) {
            Ok((range, _)) => answer.with(ops.trim(range.start, range.len, range.minlen, from), |len| {
                tell(TrimRange { len: *len, ..range }.as_bytes());
            }),
            Err(_) => answer.error(Errno::INVAL),
        },
        command::SETFLAGS if kernel_checks => match u32::read_from_prefix(data) {
            Ok((flags, _)) => answer.with(ops.set_flags(ino, flags, from), |()| changed()),
            Err(_) => answer.error(Errno::INVAL),
        },
        command::FSSETXATTR if kernel_checks => match Fsxattr::read_from_prefix(data) {
            Ok((x, _)) => answer.with(ops.set_fsxattr(ino, &to_volume(&x), from), |()| changed()),
            Err(_) => answer.error(Errno::INVAL),
        },
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
