//! The superblock of a device that holds nothing but the journal of another volume (`mke2fs -O journal_dev`).

use super::{MAGIC, RawSuperblock, SIZE};
use crate::error::{FormatError, Place, Result};
use crate::feature::Incompat;
use zerocopy::FromBytes;

/// A journal's device. Block numbers in its log count from the beginning of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDevice {
    /// Bytes of a block, which must be those of the volume's.
    pub block_size: u32,
    /// Blocks, from the beginning of the device.
    pub blocks: u64,
    /// The block of the journal's own superblock, directly behind this one.
    pub journal_block: u64,
    /// UUID, by which the volume knows its journal.
    pub uuid: [u8; 16],
}

impl JournalDevice {
    /// Reads and checks the superblock of a journal's device of `size` bytes.
    ///
    /// # Errors
    /// Not one, a wrong checksum, or more blocks than the device has.
    pub fn parse(bytes: &[u8; SIZE], size: u64) -> Result<JournalDevice> {
        let place = Place::NONE;
        let raw = RawSuperblock::read_from_bytes(bytes).map_err(|_| place.corrupt("superblock", "too short"))?;
        if raw.s_magic.get() != MAGIC || !raw.features().incompat.contains(Incompat::JOURNAL_DEV) {
            let found = u32::from(raw.s_magic.get());
            return Err(FormatError::BadMagic { what: "journal device", found, expected: u32::from(MAGIC) });
        }
        raw.verify()?;
        let log = raw.s_log_block_size.get();
        if log > 2 {
            return Err(place.corrupt("superblock", format!("block size of 1024 << {log} bytes")));
        }
        let (block_size, blocks) = (1024u32 << log, u64::from(raw.s_blocks_count_lo.get()));
        let room = size.checked_div(block_size.into()).unwrap_or(0);
        if blocks > room {
            return Err(place.corrupt("superblock", format!("{blocks} blocks, but the device has room for {room}")));
        }
        Ok(JournalDevice { block_size, blocks, journal_block: if log == 0 { 2 } else { 1 }, uuid: raw.s_uuid })
    }
}
