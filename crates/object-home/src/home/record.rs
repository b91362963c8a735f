//! The two records of a volume beside its chunks. Numbers are little-endian.
//!
//! Key `h`, the header:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `OndolHom` |
//! | 8 | 2 | version: 1 |
//! | 10 | 1 | size of a chunk, as a power of two |
//! | 11 | 1 | bit 0: the last writer closed |
//! | 12 | 4 | seed of the chunks' checksums |
//! | 16 | 16 | UUID of the home |
//! | 32 | 8 | size of the volume in bytes |
//! | 40 | 8 | attach epoch: one more at each opening for writing |
//! | 48 | 16 | UUID of the local log; zeros: none |
//! | 64 | 4 | crc32c of bytes 0 to 64 |
//!
//! Key `t`, the newest batch:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | its number |
//! | 8 | 8 | the attach epoch of who wrote it |
//! | 16 | 8 | when: seconds since 1970 |
//! | 24 | 4 | crc32c of the seed and bytes 0 to 24 |

use crate::ChunkSize;
use crate::format::sum;

pub(super) const HEADER_KEY: &[u8] = b"h";
pub(super) const NEWEST_KEY: &[u8] = b"t";

const MAGIC: &[u8; 8] = b"OndolHom";
const VERSION: u16 = 1;
const HEADER: usize = 68;
const NEWEST: usize = 28;
const CLOSED: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) chunk: ChunkSize,
    pub(super) closed: bool,
    pub(super) seed: u32,
    pub(super) uuid: [u8; 16],
    pub(super) size: u64,
    pub(super) epoch: u64,
    pub(super) log: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) time: i64,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.push(self.chunk.bytes().trailing_zeros() as u8);
        bytes.push(u8::from(self.closed) * CLOSED);
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        bytes.extend_from_slice(&self.uuid);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.log);
        bytes.extend_from_slice(&sum(&[&bytes]).to_le_bytes());
        bytes
    }

    /// Reads it, or says what is wrong with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let body = body(bytes, HEADER, "header")?;
        if body[..8] != MAGIC[..] {
            return Err("the header is not one".into());
        }
        if bytes[HEADER - 4..] != sum(&[body]).to_le_bytes() {
            return Err("the checksum of the header is wrong".into());
        }
        let version = u16::from_le_bytes([body[8], body[9]]);
        if version != VERSION {
            return Err(format!("version {version} of the format is not known"));
        }
        if body[11] & !CLOSED != 0 {
            return Err(format!("flags {:#x} of the header have no meaning", body[11]));
        }
        let size = 1u64.checked_shl(body[10].into()).unwrap_or_default();
        let chunk = ChunkSize::new(size).map_err(|e| format!("the header: {e}"))?;
        let (seed, uuid, log) = (u32::from_le_bytes(part(body, 12)), part(body, 16), part(body, 48));
        let (size, epoch) = (u64::from_le_bytes(part(body, 32)), u64::from_le_bytes(part(body, 40)));
        Ok(Self { chunk, closed: body[11] & CLOSED != 0, seed, uuid, size, epoch, log })
    }
}

impl Newest {
    pub(super) fn encode(&self, seed: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NEWEST);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.time.to_le_bytes());
        bytes.extend_from_slice(&sum(&[&seed.to_le_bytes(), &bytes]).to_le_bytes());
        bytes
    }

    pub(super) fn decode(seed: u32, bytes: &[u8]) -> Result<Self, String> {
        let body = body(bytes, NEWEST, "record of the newest batch")?;
        if bytes[NEWEST - 4..] != sum(&[&seed.to_le_bytes(), body]).to_le_bytes() {
            return Err("the checksum of the record of the newest batch is wrong".into());
        }
        let (number, epoch) = (u64::from_le_bytes(part(body, 0)), u64::from_le_bytes(part(body, 8)));
        Ok(Self { number, epoch, time: i64::from_le_bytes(part(body, 16)) })
    }
}

/// All but the checksum of a record that must have `len` bytes.
fn body<'a>(bytes: &'a [u8], len: usize, what: &str) -> Result<&'a [u8], String> {
    if bytes.len() == len {
        Ok(&bytes[..len - 4])
    } else {
        Err(format!("the {what} has {} bytes, not {len}", bytes.len()))
    }
}

/// `N` bytes at `at`, which are there.
fn part<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| body[at + n])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let chunk = ChunkSize::new(16384).unwrap();
        Header { chunk, closed: true, seed: 7, uuid: [3; 16], size: 1 << 40, epoch: 9, log: [0; 16] }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let bytes = header().encode();
        assert_eq!(bytes.len(), HEADER);
        assert_eq!(Header::decode(&bytes), Ok(header()));
        let newest = Newest { number: 5, epoch: 9, time: -3 };
        assert_eq!(Newest::decode(7, &newest.encode(7)), Ok(newest));
        assert!(Newest::decode(8, &newest.encode(7)).unwrap_err().contains("checksum"));
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_found() {
        let (header, newest) = (header().encode(), Newest { number: 5, epoch: 9, time: 3 }.encode(7));
        for bit in 0..header.len() * 8 {
            let mut broken = header.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            Header::decode(&broken).unwrap_err();
        }
        for bit in 0..newest.len() * 8 {
            let mut broken = newest.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            Newest::decode(7, &broken).unwrap_err();
        }
        for len in 0..header.len() {
            Header::decode(&header[..len]).unwrap_err();
        }
        for len in 0..newest.len() {
            Newest::decode(7, &newest[..len]).unwrap_err();
        }
    }

    #[test]
    fn fields_without_meaning_are_refused() {
        let resealed = |at: usize, byte: u8| {
            let mut bytes = header().encode();
            bytes[at] = byte;
            let seal = sum(&[&bytes[..HEADER - 4]]);
            bytes[HEADER - 4..].copy_from_slice(&seal.to_le_bytes());
            Header::decode(&bytes).unwrap_err()
        };
        assert!(resealed(0, b'X').contains("not one"));
        assert!(resealed(8, 2).contains("version 2"));
        assert!(resealed(10, 11).contains("2048 bytes"));
        assert!(resealed(10, 200).contains("0 bytes"));
        assert!(resealed(11, 2).contains("flags 0x2"));
    }
}
