//! Commit blocks: a transaction that has one is whole.

use super::{BlockType, Header, LogFormat, RawBlockHeader};
use crate::csum::crc32c_skip4;
use crate::error::{Place, Result};
use crate::time::Time;
use std::mem::offset_of;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const COMMIT: &str = "journal commit block";

/// `struct commit_header`. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawCommit {
    /// Block header.
    pub header: RawBlockHeader,
    /// Kind of the old transaction checksum; 0 with csum_v2 and csum_v3.
    pub h_chksum_type: u8,
    /// Bytes of the old transaction checksum.
    pub h_chksum_size: u8,
    /// Zero.
    pub h_padding: [u8; 2],
    /// The first word is the block's checksum.
    pub h_chksum: [U32; 8],
    /// Time of the commit, seconds.
    pub h_commit_sec: U64,
    /// Time of the commit, nanoseconds.
    pub h_commit_nsec: U32,
}

const CHECKSUM: usize = offset_of!(RawCommit, h_chksum);
const _: () = {
    assert!(size_of::<RawCommit>() == 60);
    assert!(CHECKSUM == 0x10);
    assert!(offset_of!(RawCommit, h_commit_sec) == 0x30);
};

/// A commit block as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction.
    pub sequence: u32,
    /// When it was committed.
    pub time: Time,
    /// With the journal's `checksum` feature: what the transaction's descriptors and images must come to, see
    /// [`OldChecksum`].
    pub old_checksum: OldChecksum,
}

/// The checksum of a whole transaction, from before blocks had their own: [`crc32_be`](crate::csum::crc32_be), begun
/// with `!0`, of the descriptors and images in the order of the log, as they lie there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldChecksum {
    /// The commit block has none.
    #[default]
    None,
    /// This one.
    Crc32(u32),
    /// Of a kind that does not exist.
    Unknown,
}

/// h_chksum_type of crc32.
const TYPE_CRC32: u8 = 1;
/// Its h_chksum_size.
const SIZE_CRC32: u8 = 4;

fn old_checksum(raw: &RawCommit, format: &LogFormat) -> OldChecksum {
    match (raw.h_chksum_type, raw.h_chksum_size, raw.h_chksum[0].get()) {
        _ if !format.has_old_csum => OldChecksum::None,
        (0, 0, 0) => OldChecksum::None,
        (TYPE_CRC32, SIZE_CRC32, sum) => OldChecksum::Crc32(sum),
        _ => OldChecksum::Unknown,
    }
}

/// The checksum that the block would have with zeros behind its header.
fn checksum_of_beginning(block: &[u8], format: &LogFormat) -> Option<u32> {
    let mut whole = vec![0; block.len()];
    whole.get_mut(..size_of::<RawCommit>())?.copy_from_slice(block.get(..size_of::<RawCommit>())?);
    crc32c_skip4(format.seed, &whole, CHECKSUM)
}

impl Commit {
    /// Reads a commit block and verifies its checksum. `place` says where in the journal it lies. As the kernel does,
    /// it also takes one of which only the beginning arrived, if the rest was meant to be zeros.
    pub fn parse(block: &[u8], format: &LogFormat, place: Place) -> Result<Commit> {
        let Ok((raw, _)) = RawCommit::ref_from_prefix(block) else {
            return Err(place.corrupt(COMMIT, "too short"));
        };
        match Header::parse(block) {
            Some(Header { kind: BlockType::Commit, .. }) => {}
            _ => return Err(place.corrupt(COMMIT, "no commit block")),
        }
        if format.has_csum() {
            let computed = crc32c_skip4(format.seed, block, CHECKSUM).unwrap_or_default();
            let stored = raw.h_chksum[0].get();
            if stored != computed && Some(stored) != checksum_of_beginning(block, format) {
                return Err(place.checksum(COMMIT, stored, computed));
            }
        }
        let time = Time { sec: raw.h_commit_sec.get() as i64, nsec: raw.h_commit_nsec.get() };
        Ok(Commit { sequence: raw.header.h_sequence.get(), time, old_checksum: old_checksum(raw, format) })
    }

    /// Makes `block` this commit block, with its checksum.
    pub fn write(&self, block: &mut [u8], format: &LogFormat) {
        block.fill(0);
        let mut raw = RawCommit::new_zeroed();
        raw.header = Header { kind: BlockType::Commit, sequence: self.sequence }.encode();
        raw.h_commit_sec.set(self.time.sec as u64);
        raw.h_commit_nsec.set(self.time.nsec);
        if let Some(head) = block.get_mut(..size_of::<RawCommit>()) {
            head.copy_from_slice(raw.as_bytes());
        }
        if let Some(crc) = crc32c_skip4(format.seed, block, CHECKSUM).filter(|_| format.has_csum()) {
            block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&crc.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jbd2::LogCsum;

    #[test]
    fn what_lies_behind_the_header_may_be_old_and_nothing_else_may_be_wrong() {
        let format = LogFormat { block_size: 1024, bit64: true, csum: LogCsum::V3, has_old_csum: false, seed: 7 };
        let commit = Commit { sequence: 9, time: Time { sec: 5, nsec: 6 }, old_checksum: OldChecksum::None };
        let mut block = vec![0; 1024];
        commit.write(&mut block, &format);
        block[512..].fill(0xAB);
        assert_eq!(Commit::parse(&block, &format, Place::NONE).unwrap(), commit);
        for at in [CHECKSUM, CHECKSUM + 3, 0x37] {
            let mut wrong = block.clone();
            wrong[at] ^= 1;
            assert!(Commit::parse(&wrong, &format, Place::NONE).is_err(), "byte {at}");
        }
    }
}
