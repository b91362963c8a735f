//! The bytes of a chunk's key and value.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version: 1 |
//! | 1 | 1 | kind: 0 as it is, 1 LZ4 block |
//! | 2 | 2 | zero |
//! | 4 | 4 | crc32c of seed, number, bytes 0 to 4, and what follows the header |
//! | 8 | | the chunk, or its LZ4 block, which is shorter |

use crate::ChunkError;
use crc_fast::{CrcAlgorithm, Digest};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Bytes of the key of a chunk.
pub const CHUNK_KEY: usize = 9;

/// With what the keys of chunks begin.
const PREFIX: u8 = b'c';

const VERSION: u8 = 1;
const HEADER: usize = 8;
const RAW: u8 = 0;
const LZ4: u8 = 1;

/// The size of all chunks of a volume: a power of two from 4 KiB to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkSize(u32);

impl ChunkSize {
    /// The least.
    pub const MIN: Self = Self(4096);
    /// The largest.
    pub const MAX: Self = Self(65536);

    /// A size of so many bytes.
    ///
    /// # Errors
    /// `Size`: chunks have no such size.
    pub fn new(bytes: u64) -> Result<Self, ChunkError> {
        match u32::try_from(bytes) {
            Ok(size) if size.is_power_of_two() && (Self::MIN.0..=Self::MAX.0).contains(&size) => Ok(Self(size)),
            _ => Err(ChunkError::Size { bytes }),
        }
    }

    /// In bytes.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// How the chunks of one volume are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFormat {
    seed: u32,
    size: ChunkSize,
}

impl ChunkFormat {
    /// Chunks of `size`, whose checksums begin with the volume's `seed`.
    pub fn new(seed: u32, size: ChunkSize) -> Self {
        Self { seed, size }
    }

    /// The size of a chunk.
    pub fn size(&self) -> ChunkSize {
        self.size
    }

    /// The key of chunk `number`. Keys are in the order of numbers.
    pub fn key(number: u64) -> [u8; CHUNK_KEY] {
        let mut key = [PREFIX; CHUNK_KEY];
        key[1..].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// The number of the chunk that has this key; none if it is another's key.
    pub fn number(key: &[u8]) -> Option<u64> {
        let (&PREFIX, number) = key.split_first()? else { return None };
        number.try_into().ok().map(u64::from_be_bytes)
    }

    /// The value for chunk `number`; none for a chunk of zeros, which has no key.
    ///
    /// # Errors
    /// `Buffer`: `chunk` has not the size of one.
    pub fn encode(&self, number: u64, chunk: &[u8]) -> Result<Option<Vec<u8>>, ChunkError> {
        self.encode_with(number, chunk, &mut Scratch::default())
    }

    /// As [`ChunkFormat::encode`], for many of them.
    pub(crate) fn encode_with(
        &self,
        number: u64,
        chunk: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<u8>>, ChunkError> {
        self.require(number, chunk)?;
        if chunk.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (kind, stored) = match scratch.compress(chunk) {
            Some(shorter) => (LZ4, shorter),
            None => (RAW, chunk),
        };
        let mut value = Vec::with_capacity(HEADER + stored.len());
        value.extend_from_slice(&[VERSION, kind, 0, 0, 0, 0, 0, 0]);
        value.extend_from_slice(stored);
        let sum = self.checksum(number, &value);
        value[4..HEADER].copy_from_slice(&sum.to_le_bytes());
        Ok(Some(value))
    }

    /// Reads chunk `number` from the value of its key. `chunk` is undefined after an error.
    ///
    /// # Errors
    /// What is wrong with the value; `Buffer`: `chunk` has not the size of one.
    pub fn decode(&self, number: u64, value: &[u8], chunk: &mut [u8]) -> Result<(), ChunkError> {
        self.require(number, chunk)?;
        let size = chunk.len();
        let (bytes, len) = (value.len() as u64, value.len().wrapping_sub(HEADER));
        if len == 0 || len > size {
            return Err(ChunkError::Length { number, bytes });
        }
        let (header, stored) = value.split_at(HEADER);
        if header[0] != VERSION {
            return Err(ChunkError::Version { number, version: header[0] });
        }
        if header[4..] != self.checksum(number, value).to_le_bytes() {
            return Err(ChunkError::Checksum { number });
        }
        let zero = u16::from_le_bytes([header[2], header[3]]);
        if zero != 0 {
            return Err(ChunkError::Header { number, field: "reserved field", value: zero });
        }
        match header[1] {
            RAW if len == size => chunk.copy_from_slice(stored),
            RAW => return Err(ChunkError::Raw { number, bytes: len as u64, size: size as u64 }),
            LZ4 => {
                let fault = |what: String| ChunkError::Compressed { number, what };
                if len == size {
                    return Err(fault(format!("it takes {len} bytes, no fewer than the chunk")));
                }
                match lz4_flex::block::decompress_into(stored, chunk) {
                    Ok(n) if n == size => {}
                    Ok(n) => return Err(fault(format!("it has {n} bytes, not {size}"))),
                    Err(e) => return Err(fault(e.to_string())),
                }
            }
            kind => return Err(ChunkError::Header { number, field: "kind", value: kind.into() }),
        }
        Ok(())
    }

    fn require(&self, number: u64, chunk: &[u8]) -> Result<(), ChunkError> {
        let size = self.size.bytes();
        if chunk.len() == size {
            return Ok(());
        }
        Err(ChunkError::Buffer { number, bytes: chunk.len() as u64, size: size as u64 })
    }

    /// The checksum of a value that has at least a header.
    fn checksum(&self, number: u64, value: &[u8]) -> u32 {
        sum(&[&self.seed.to_le_bytes(), &number.to_le_bytes(), &value[..4], &value[HEADER..]])
    }
}

/// What compressing needs, for one chunk after the other.
#[derive(Default)]
pub(crate) struct Scratch {
    table: CompressTable,
    bytes: Vec<u8>,
}

impl Scratch {
    /// A chunk as an LZ4 block, if that is shorter.
    fn compress(&mut self, chunk: &[u8]) -> Option<&[u8]> {
        self.bytes.resize(get_maximum_output_size(chunk.len()), 0);
        let len = compress_into_with_table(chunk, &mut self.bytes, &mut self.table).ok()?;
        (len < chunk.len()).then(|| &self.bytes[..len])
    }
}

/// crc32c of these bytes, one after the other: begins with 0xFFFFFFFF, is not inverted.
pub(crate) fn sum(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(u32::MAX));
    parts.iter().for_each(|part| digest.update(part));
    !(digest.finalize() as u32)
}

#[cfg(test)]
mod tests;
