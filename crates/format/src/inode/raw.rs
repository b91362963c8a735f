//! The bytes of an inode, field by field, and its checksum.

use super::InodeFormat;
use crate::csum::{crc32c, inode_seed};
use crate::error::{Place, Result};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the inode that every revision has.
pub const GOOD_OLD_SIZE: usize = 128;
/// i_extra_isize that covers every field this crate knows.
pub const EXTRA_ISIZE: u16 = 32;

/// `struct ext4_inode`: 128 bytes, then the extra fields as far as i_extra_isize reaches. In-inode xattrs follow.
/// Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawInode {
    /// File type and permissions.
    pub i_mode: U16,
    /// Owner, low half.
    pub i_uid: U16,
    /// Size in bytes, low half.
    pub i_size_lo: U32,
    /// Access time, seconds.
    pub i_atime: U32,
    /// Inode change time, seconds.
    pub i_ctime: U32,
    /// Modification time, seconds.
    pub i_mtime: U32,
    /// Deletion time, seconds; next orphan while on the orphan list.
    pub i_dtime: U32,
    /// Group, low half.
    pub i_gid: U16,
    /// Hard links.
    pub i_links_count: U16,
    /// Space used, low half.
    pub i_blocks_lo: U32,
    /// Flags.
    pub i_flags: U32,
    /// Version, low half (osd1).
    pub i_version_lo: U32,
    /// Extent root, block map, device number or fast symlink.
    pub i_block: [u8; 60],
    /// Generation, for NFS and checksums.
    pub i_generation: U32,
    /// Xattr block, low half.
    pub i_file_acl_lo: U32,
    /// Size in bytes, high half.
    pub i_size_high: U32,
    /// Fragment address; unused.
    pub i_obso_faddr: U32,
    /// Space used, high half.
    pub i_blocks_high: U16,
    /// Xattr block, high half.
    pub i_file_acl_high: U16,
    /// Owner, high half.
    pub i_uid_high: U16,
    /// Group, high half.
    pub i_gid_high: U16,
    /// Checksum, low half.
    pub i_checksum_lo: U16,
    /// Unused.
    pub i_reserved: U16,
    /// Bytes of extra fields that are valid.
    pub i_extra_isize: U16,
    /// Checksum, high half.
    pub i_checksum_hi: U16,
    /// Inode change time, epoch and nanoseconds.
    pub i_ctime_extra: U32,
    /// Modification time, epoch and nanoseconds.
    pub i_mtime_extra: U32,
    /// Access time, epoch and nanoseconds.
    pub i_atime_extra: U32,
    /// Creation time, seconds.
    pub i_crtime: U32,
    /// Creation time, epoch and nanoseconds.
    pub i_crtime_extra: U32,
    /// Version, high half.
    pub i_version_hi: U32,
    /// Project.
    pub i_projid: U32,
}

const CSUM_LO: usize = offset_of!(RawInode, i_checksum_lo);
const CSUM_HI: usize = offset_of!(RawInode, i_checksum_hi);
const _: () = {
    assert!(size_of::<RawInode>() == 160);
    assert!(offset_of!(RawInode, i_block) == 0x28);
    assert!(offset_of!(RawInode, i_generation) == 0x64);
    assert!(CSUM_LO == 0x7c);
    assert!(offset_of!(RawInode, i_extra_isize) == GOOD_OLD_SIZE);
    assert!(CSUM_HI == 0x82);
    assert!(offset_of!(RawInode, i_crtime) == 0x90);
    assert!(offset_of!(RawInode, i_projid) == 0x9c);
};

/// Whether the fields up to byte `end` of the inode are covered by `extra_isize`.
pub(super) fn fits(extra_isize: u16, end: usize) -> bool {
    GOOD_OLD_SIZE + usize::from(extra_isize) >= end
}

/// The checksum of an inode, and whether it has a high half. None if the bytes are too few for an inode.
fn compute(bytes: &[u8], seed: u32, ino: u32) -> Option<(u32, bool)> {
    let base = bytes.get(..GOOD_OLD_SIZE)?;
    let generation = u32::from_le_bytes(*base.get(0x64..)?.first_chunk()?);
    let crc = crc32c(inode_seed(seed, ino, generation), &base[..CSUM_LO]);
    let crc = crc32c(crc32c(crc, &[0; 2]), &base[CSUM_LO + 2..]);
    let Some(extra) = bytes[GOOD_OLD_SIZE..].first_chunk::<4>() else { return Some((crc, false)) };
    let has_high = fits(u16::from_le_bytes([extra[0], extra[1]]), CSUM_HI + 2);
    let high = if has_high { &[0; 2] } else { &extra[2..] };
    let crc = crc32c(crc32c(crc, &extra[..2]), high);
    Some((crc32c(crc, &bytes[CSUM_HI + 2..]), has_high))
}

/// Writes the checksum into `bytes`, an inode of the volume's full inode size, if the volume has checksums.
pub fn seal(bytes: &mut [u8], ino: u32, format: &InodeFormat) {
    let Some(seed) = format.csum_seed else { return };
    let Some((crc, has_high)) = compute(bytes, seed, ino) else { return };
    let halves = crc.to_le_bytes();
    bytes[CSUM_LO..CSUM_LO + 2].copy_from_slice(&halves[..2]);
    if has_high {
        bytes[CSUM_HI..CSUM_HI + 2].copy_from_slice(&halves[2..]);
    }
}

/// Verifies the checksum of `bytes`, an inode of the volume's full inode size. An all-zero inode was never used and
/// has none.
pub fn verify(bytes: &[u8], ino: u32, format: &InodeFormat) -> Result<()> {
    let Some(seed) = format.csum_seed else { return Ok(()) };
    let Some((crc, has_high)) = compute(bytes, seed, ino) else {
        return Err(Place::inode(ino).corrupt("inode", "fewer than 128 bytes"));
    };
    let low = u32::from(bytes[CSUM_LO]) | u32::from(bytes[CSUM_LO + 1]) << 8;
    let (stored, computed) = if has_high {
        (low | u32::from(bytes[CSUM_HI]) << 16 | u32::from(bytes[CSUM_HI + 1]) << 24, crc)
    } else {
        (low, crc & 0xffff)
    };
    if stored == computed || bytes.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    Err(Place::inode(ino).checksum("inode", stored, computed))
}
