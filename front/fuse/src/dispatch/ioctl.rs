//! ioctl(2): the commands of ext4 whose size says all about their argument, which is what FUSE lets through.

use super::answer::Answering;
use crate::ops::Ops;
use crate::proto::wire::IoctlIn;
use ondol::{Attr, Ino};
use rustix::io::Errno;

/// Commands, by the numbers of x86 and ARM (`_IOR` and `_IOW` of `linux/fs.h` and ext4).
mod command {
    pub(super) const GETFLAGS: u32 = 0x8008_6601;
    pub(super) const GETVERSION: u32 = 0x8008_7601;
    pub(super) const EXT4_GETVERSION: u32 = 0x8008_6603;
    pub(super) const FSGETXATTR: u32 = 0x801C_581F;
}

/// The flags that ext4 shows to users.
const VISIBLE: u32 = 0x725B_DFFF;

pub(super) fn serve(ops: &Ops, answer: &Answering<'_>, ino: Ino, how: &IoctlIn) {
    let room = how.out_size as usize;
    let tell = |bytes: &[u8]| answer.ioctl(bytes.get(..room).unwrap_or(bytes));
    match how.cmd {
        command::GETFLAGS => answer.with(ops.ioctl_attr(ino), |a| tell(&(a.flags & VISIBLE).to_ne_bytes())),
        command::GETVERSION | command::EXT4_GETVERSION => {
            answer.with(ops.ioctl_attr(ino), |a| tell(&a.generation.to_ne_bytes()));
        }
        command::FSGETXATTR => answer.with(ops.ioctl_attr(ino), |a| tell(&fsxattr(a))),
        _ => answer.error(Errno::NOTTY),
    }
}

/// `struct fsxattr`: flags in XFS's numbers, then extent size, extent count, project, and padding.
fn fsxattr(a: &Attr) -> [u8; 28] {
    const PAIRS: [(u32, u32); 6] =
        [(0x10, 0x08), (0x20, 0x10), (0x08, 0x20), (0x80, 0x40), (0x40, 0x80), (0x2000_0000, 0x200)];
    let flags = PAIRS.iter().filter(|(ext4, _)| a.flags & ext4 != 0).fold(0u32, |all, (_, xfs)| all | xfs);
    let mut bytes = [0; 28];
    if let Some(place) = bytes.first_chunk_mut() {
        *place = flags.to_ne_bytes();
    }
    bytes
}
