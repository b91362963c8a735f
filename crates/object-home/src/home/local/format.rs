//! The bytes of a local log. Numbers are little-endian.
//!
//! The header, in the first page and again in the second:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `OndolLog` |
//! | 8 | 2 | version: 1 |
//! | 10 | 1 | size of a chunk, as a power of two |
//! | 11 | 1 | unit: records begin at multiples of it, as a power of two |
//! | 12 | 4 | crc32c of the rest of the page |
//! | 16 | 16 | UUID of the log |
//! | 32 | 16 | UUID of the home |
//! | 48 | 8 | attach epoch |
//! | 56 | 8 | generation: one more at each change of the header |
//! | 64 | 8 | bytes of the ring, which begins behind the second page |
//! | 72 | 8 | tail: position of the first record |
//! | 80 | 8 | tail: number of the batch that is or will be there |
//! | 88 | 4 | seed of the chunks' checksums |
//! | 92 | | zero |
//!
//! A record. Positions grow for ever; a byte lies at its position modulo the ring. The seal is the log's UUID, the
//! home's and the epoch.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | crc32c of the seal and bytes 4 to 64 |
//! | 4 | 4 | crc32c of the seal and what is behind byte 64 |
//! | 8 | 8 | length, head included |
//! | 16 | 8 | position |
//! | 24 | 8 | number of the batch: one more than in the record before |
//! | 32 | 8 | newest batch known to be in the bucket when this was written |
//! | 40 | 8 | newest batch known to be durable in the log when this was written |
//! | 48 | 8 | when: seconds since 1970 |
//! | 56 | 4 | chunks |
//! | 60 | 4 | runs of chunks that hold nothing |
//! | 64 | | of each chunk: number (8), length of value (4); of each run: first chunk (8), how many (8); the values |

use crate::format::sum;
use crate::home::change::Put;
use crate::{ChunkFormat, ChunkSize};

/// Bytes of a header.
pub(super) const PAGE: usize = 4096;
/// Where the ring begins.
pub(super) const RING_AT: u64 = 2 * PAGE as u64;
/// Bytes of a record's head.
pub(super) const HEAD: usize = 64;

const MAGIC: &[u8; 8] = b"OndolLog";
const VERSION: u16 = 1;
const SUM_AT: usize = 12;
/// What is behind is zeros.
const END: usize = 92;
/// Bytes of a chunk's entry, and of a run's.
const CHUNK: usize = 12;
const RUN: usize = 16;
/// The least unit, a line of NVM, and the greatest, a page of a file.
const UNITS: std::ops::RangeInclusive<u64> = 64..=4096;
/// Positions and numbers stay below, so that adding to them cannot overflow.
const LIMIT: u64 = 1 << 62;

/// Where the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) position: u64,
    pub(super) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) chunk: ChunkSize,
    pub(super) unit: u64,
    pub(super) uuid: [u8; 16],
    pub(super) home: [u8; 16],
    pub(super) epoch: u64,
    pub(super) generation: u64,
    pub(super) ring: u64,
    pub(super) tail: Tail,
    pub(super) seed: u32,
}

impl LogHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PAGE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.push(self.chunk.bytes().trailing_zeros() as u8);
        bytes.push(self.unit.trailing_zeros() as u8);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.uuid);
        bytes.extend_from_slice(&self.home);
        for number in [self.epoch, self.generation, self.ring, self.tail.position, self.tail.number] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        bytes.resize(PAGE, 0);
        let seal = header_sum(&bytes);
        bytes[SUM_AT..SUM_AT + 4].copy_from_slice(&seal);
        bytes
    }

    /// Reads a page. None: it holds zeros.
    pub(super) fn decode(page: &[u8]) -> Result<Option<Self>, String> {
        if page.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if page.len() != PAGE || page[..8] != MAGIC[..] {
            return Err("it holds something else than a log".into());
        }
        if page[SUM_AT..SUM_AT + 4] != header_sum(page) {
            return Err("the checksum of the header is wrong".into());
        }
        let version = u16::from_le_bytes(part(page, 8));
        if version != VERSION {
            return Err(format!("version {version} of the format is not known"));
        }
        let power = |at: usize| 1u64.checked_shl(page[at].into()).unwrap_or_default();
        let chunk = ChunkSize::new(power(10)).map_err(|e| format!("the header: {e}"))?;
        let number = |at| u64::from_le_bytes(part(page, at));
        let header = Self {
            chunk,
            unit: power(11),
            uuid: part(page, 16),
            home: part(page, 32),
            epoch: number(48),
            generation: number(56),
            ring: number(64),
            tail: Tail { position: number(72), number: number(80) },
            seed: u32::from_le_bytes(part(page, 88)),
        };
        header.check().map(|()| Some(header))
    }

    /// Whether a page that cannot be read may be zeros into which a part of a header was written.
    pub(super) fn is_torn(page: &[u8]) -> bool {
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        (page[..8] == MAGIC[..] || is_zero(&page[..8])) && is_zero(&page[END..])
    }

    fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{what} of the header has no meaning"));
        if !UNITS.contains(&self.unit) {
            return wrong("the unit");
        }
        if self.ring < self.unit || self.ring > LIMIT || !self.ring.is_multiple_of(self.unit) {
            return wrong("the length of the ring");
        }
        if self.tail.position > LIMIT || self.tail.number > LIMIT || !self.tail.position.is_multiple_of(self.unit) {
            return wrong("the tail");
        }
        if self.epoch > LIMIT || self.generation > LIMIT {
            return wrong("the epoch or the generation");
        }
        Ok(())
    }
}

fn header_sum(page: &[u8]) -> [u8; 4] {
    sum(&[&page[..SUM_AT], &page[SUM_AT + 4..]]).to_le_bytes()
}

/// What all checksums of a log's records begin with, so that no record of another log, home or epoch fits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal([u8; 40]);

impl Seal {
    pub(super) fn new(header: &LogHeader) -> Self {
        let mut seal = [0; 40];
        seal[..16].copy_from_slice(&header.uuid);
        seal[16..32].copy_from_slice(&header.home);
        seal[32..].copy_from_slice(&header.epoch.to_le_bytes());
        Self(seal)
    }
}

/// What the head of a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) body_sum: u32,
    pub(super) len: u64,
    pub(super) position: u64,
    pub(super) number: u64,
    pub(super) shipped: u64,
    pub(super) logged: u64,
    pub(super) time: i64,
    chunks: u32,
    runs: u32,
}

/// Where and when a record is written, and what is known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) position: u64,
    pub(super) number: u64,
    pub(super) shipped: u64,
    pub(super) logged: u64,
    pub(super) time: i64,
}

/// What a record holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Logged {
    /// Chunks and their values.
    pub(super) chunks: Vec<(u64, Vec<u8>)>,
    /// First chunk and how many.
    pub(super) runs: Vec<(u64, u64)>,
}

/// Bytes of the record of a batch.
pub(super) fn record_len(puts: &[Put]) -> u64 {
    let values: usize = puts.iter().filter_map(|(_, value)| value.as_ref()).map(|value| CHUNK + value.len()).sum();
    (HEAD + values + RUN * runs(puts).len()) as u64
}

/// The record of a batch.
pub(super) fn encode_record(seal: Seal, at: Moment, puts: &[Put]) -> Vec<u8> {
    let runs = runs(puts);
    let chunks: Vec<(u64, &[u8])> =
        puts.iter().filter_map(|(number, value)| Some((*number, value.as_deref()?))).collect();
    let mut bytes = vec![0; HEAD];
    for (number, value) in &chunks {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    for (first, count) in &runs {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    chunks.iter().for_each(|(_, value)| bytes.extend_from_slice(value));
    let body_sum = sum(&[&seal.0, &bytes[HEAD..]]);
    let words = [bytes.len() as u64, at.position, at.number, at.shipped, at.logged, at.time as u64];
    bytes[4..8].copy_from_slice(&body_sum.to_le_bytes());
    for (n, word) in words.into_iter().enumerate() {
        bytes[8 + 8 * n..16 + 8 * n].copy_from_slice(&word.to_le_bytes());
    }
    bytes[56..60].copy_from_slice(&(chunks.len() as u32).to_le_bytes());
    bytes[60..64].copy_from_slice(&(runs.len() as u32).to_le_bytes());
    let head_sum = sum(&[&seal.0, &bytes[4..HEAD]]);
    bytes[..4].copy_from_slice(&head_sum.to_le_bytes());
    bytes
}

/// Chunks without a value, joined where they lie in a row.
fn runs(puts: &[Put]) -> Vec<(u64, u64)> {
    let mut numbers: Vec<u64> = puts.iter().filter(|(_, value)| value.is_none()).map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            // Named twice.
            Some((first, count)) if number < *first + *count => {}
            _ => runs.push((number, 1)),
        }
    }
    runs
}

impl Head {
    /// Reads the head of a record of this log. None: there is none.
    pub(super) fn decode(seal: Seal, bytes: &[u8; HEAD]) -> Option<Self> {
        if bytes[..4] != sum(&[&seal.0, &bytes[4..]]).to_le_bytes() {
            return None;
        }
        let word = |at| u64::from_le_bytes(part(bytes, at));
        let half = |at| u32::from_le_bytes(part(bytes, at));
        Some(Self {
            body_sum: half(4),
            len: word(8),
            position: word(16),
            number: word(24),
            shipped: word(32),
            logged: word(40),
            time: word(48) as i64,
            chunks: half(56),
            runs: half(60),
        })
    }

    /// Whether these are the bytes behind it.
    pub(super) fn is_whole(&self, seal: Seal, body: &[u8]) -> bool {
        sum(&[&seal.0, body]) == self.body_sum
    }

    /// What the record holds, or what is wrong with it.
    pub(super) fn contents(&self, body: &[u8]) -> Result<Logged, String> {
        let wrong = |what: &str| format!("the record of batch {}: {what}", self.number);
        let (chunks, runs) = (self.chunks as usize, self.runs as usize);
        let table = chunks * CHUNK + runs * RUN;
        if body.len() < table {
            return Err(wrong("it is shorter than its table"));
        }
        let (table, mut values) = body.split_at(table);
        let (of_chunks, of_runs) = table.split_at(chunks * CHUNK);
        let mut logged = Logged::default();
        for entry in of_chunks.chunks_exact(CHUNK) {
            let len = u32::from_le_bytes(part(entry, 8)) as usize;
            let (value, rest) = values.split_at_checked(len).ok_or_else(|| wrong("it is shorter than its values"))?;
            logged.chunks.push((u64::from_le_bytes(part(entry, 0)), value.to_vec()));
            values = rest;
        }
        if !values.is_empty() {
            return Err(wrong("it is longer than its values"));
        }
        for entry in of_runs.chunks_exact(RUN) {
            let (first, count) = (u64::from_le_bytes(part(entry, 0)), u64::from_le_bytes(part(entry, 8)));
            first.checked_add(count).ok_or_else(|| wrong("a run is too long"))?;
            logged.runs.push((first, count));
        }
        Ok(logged)
    }
}

impl Logged {
    /// Nothing of it lies outside of a volume of so many chunks.
    pub(super) fn is_inside(&self, chunks: u64) -> bool {
        self.chunks.iter().all(|(number, _)| *number < chunks)
            && self.runs.iter().all(|(first, count)| first + count <= chunks)
    }

    /// Every value is a chunk in the place that it names.
    pub(super) fn check(&self, format: &ChunkFormat) -> Result<(), crate::ChunkError> {
        let mut chunk = vec![0; format.size().bytes()];
        self.chunks.iter().try_for_each(|(number, value)| format.decode(*number, value, &mut chunk))
    }
}

/// `N` bytes at `at`, which are there.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[at + n])
}

#[cfg(test)]
mod tests;
