//! The block of multiple mount protection: who has the volume mounted, by a number that keeps changing (`struct
//! mmp_struct`, the kernel's `Documentation/filesystems/ext4/mmp.rst`).

use crate::csum::crc32c;
use crate::error::{Place, Result};
use crate::superblock::Superblock;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MMP: &str = "MMP block";
/// mmp_magic.
pub const MAGIC: u32 = 0x004d_4d50;
/// mmp_seq: nobody has the volume.
pub const SEQ_CLEAN: u32 = 0xff4d_4d50;
/// mmp_seq: a check is running.
pub const SEQ_FSCK: u32 = 0xe24d_4d50;
/// Highest mmp_seq of a mount.
pub const SEQ_MAX: u32 = 0xe24d_4d4f;
/// Seconds between updates, unless the superblock says so.
pub const UPDATE_INTERVAL: u16 = 5;
/// Least mmp_check_interval, seconds.
pub const MIN_CHECK_INTERVAL: u16 = 5;
/// Most, seconds.
pub const MAX_CHECK_INTERVAL: u16 = 300;

/// `struct mmp_struct`. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawMmp {
    /// 0x004D4D50.
    pub mmp_magic: U32,
    /// Changes with every update.
    pub mmp_seq: U32,
    /// Last update, seconds.
    pub mmp_time: U64,
    /// The machine, zero-padded.
    pub mmp_nodename: [u8; 64],
    /// The device, zero-padded.
    pub mmp_bdevname: [u8; 32],
    /// Seconds after which a holder that has not updated is taken for dead.
    pub mmp_check_interval: U16,
    /// Zero.
    pub mmp_pad1: U16,
    /// Zero.
    pub mmp_pad2: [U32; 226],
    /// crc32c of all bytes before it.
    pub mmp_checksum: U32,
}

/// Bytes of an MMP block that mean anything.
pub const SIZE: usize = size_of::<RawMmp>();

const _: () = {
    assert!(SIZE == 1024);
    assert!(offset_of!(RawMmp, mmp_checksum) == 1020);
};

impl RawMmp {
    /// Reads and verifies an MMP block.
    ///
    /// # Errors
    /// No magic number, a wrong checksum.
    pub fn parse(sb: &Superblock, bytes: &[u8; SIZE]) -> Result<RawMmp> {
        let place = Place { block: sb.mmp_block(), ..Place::NONE };
        let raw = RawMmp::read_from_bytes(bytes).map_err(|_| place.corrupt(MMP, "too short"))?;
        if raw.mmp_magic.get() != MAGIC {
            return Err(place.corrupt(MMP, format!("magic number {:#x}, not {MAGIC:#x}", raw.mmp_magic.get())));
        }
        match raw.checksum(sb) {
            Some(computed) if computed != raw.mmp_checksum.get() => {
                Err(place.checksum(MMP, raw.mmp_checksum.get(), computed))
            }
            _ => Ok(raw),
        }
    }

    fn checksum(&self, sb: &Superblock) -> Option<u32> {
        sb.csum_seed().map(|seed| crc32c(seed, &self.as_bytes()[..offset_of!(RawMmp, mmp_checksum)]))
    }

    /// The bytes with their checksum.
    pub fn encode(&self, sb: &Superblock) -> [u8; SIZE] {
        let mut raw = *self;
        if let Some(crc) = self.checksum(sb) {
            raw.mmp_checksum.set(crc);
        }
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Says who holds the volume; names are cut to their fields.
    pub fn set_holder(&mut self, node: &[u8], device: &[u8]) {
        self.mmp_nodename = std::array::from_fn(|i| node.get(i).copied().unwrap_or(0));
        self.mmp_bdevname = std::array::from_fn(|i| device.get(i).copied().unwrap_or(0));
    }

    /// The machine and the device of the last holder, as text.
    pub fn holder(&self) -> (String, String) {
        let text = |bytes: &[u8]| crate::printable(bytes.split(|b| *b == 0).next().unwrap_or_default());
        (text(&self.mmp_nodename), text(&self.mmp_bdevname))
    }

    /// Seconds within which a live holder has updated twice, as everybody waits for it.
    pub fn patience(&self) -> u64 {
        let interval = u64::from(self.mmp_check_interval.get().clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL));
        (2 * interval + 1).min(interval + 60)
    }
}

/// The number that follows `seq`.
pub fn next_seq(seq: u32) -> u32 {
    if seq >= SEQ_MAX { 1 } else { seq + 1 }
}
