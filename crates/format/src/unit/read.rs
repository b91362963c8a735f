//! Reading units, which may be anything: torn, stale, hostile.

use super::{CHUNK, CHUNK_ENTRY, HEADER, MAGIC, STAGED, StagedRun, TABLES, VERSION};
use crate::csum::crc32c;
use crate::{Place, Result, Time};

const UNIT: &str = "journal unit";

/// The first bytes of a unit. Nothing in it is to be believed before [`Unit::read`] has seen the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the unit, this header included.
    pub size: usize,
    /// Its number; the lower half is the transaction id.
    pub sequence: u64,
    /// The newest unit that was known to be durable when it was written; 0 for none.
    pub durable: u64,
    checksum: u32,
    chunks: usize,
    raw: usize,
}

impl Header {
    /// The header at the beginning of `bytes`; None if there is none that makes sense in a ring of `ring` bytes.
    pub fn parse(bytes: &[u8], ring: u64) -> Option<Self> {
        let at = |n: usize| Some(u32::from_le_bytes(bytes.get(n..n + 4)?.try_into().ok()?));
        let long = |n: usize| Some(u64::from_le_bytes(bytes.get(n..n + 8)?.try_into().ok()?));
        if bytes.len() < HEADER || at(8)? != MAGIC || at(12)? != VERSION {
            return None;
        }
        let header = Self {
            size: at(0)? as usize,
            checksum: at(4)?,
            sequence: long(16)?,
            durable: long(24)?,
            chunks: at(32)? as usize,
            raw: at(36)? as usize,
        };
        let table = HEADER.checked_add(header.chunks.checked_mul(CHUNK_ENTRY)?)?;
        let fits = header.size as u64 <= ring && header.raw as u64 <= ring && table <= header.size;
        (fits && header.durable < header.sequence && header.raw >= TABLES).then_some(header)
    }

    /// Whether `bytes`, which begin with this header, are all of the unit: nothing of it is missing or of another time.
    pub fn is_whole(&self, bytes: &[u8], seed: u32) -> bool {
        bytes.get(8..self.size).is_some_and(|covered| crc32c(seed, covered) == self.checksum)
    }
}

/// An image in a unit.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// Its home.
    pub block: u64,
    /// Its contents.
    pub bytes: &'a [u8],
}

/// A whole unit.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its number.
    pub sequence: u64,
    /// When it was committed.
    pub time: Time,
    /// Blocks whose older images must not be replayed.
    pub revoked: Vec<u64>,
    /// Runs that were written home.
    pub staged: Vec<StagedRun>,
    blocks: Vec<u64>,
    images: Vec<u8>,
    block_size: usize,
}

impl Unit {
    /// Reads a unit that [`Header::is_whole`].
    ///
    /// # Errors
    /// It breaks a rule of the format, which no crash does.
    pub fn read(header: &Header, bytes: &[u8], block_size: usize) -> Result<Self> {
        let bad = |what: &str| Place::NONE.corrupt(UNIT, format!("unit {}: {what}", header.sequence));
        let mut raw = unpack(header, bytes).map_err(|what| bad(&what))?;
        let tables = Tables::read(&raw).ok_or_else(|| bad("its tables are longer than it"))?;
        if tables.sequence != header.sequence {
            return Err(bad("its tables are of another"));
        }
        if tables.block_size as usize != block_size {
            return Err(bad("its blocks are of another size"));
        }
        let images = raw.split_off(tables.end);
        if images.len() != tables.blocks.len() * block_size {
            return Err(bad(&format!("{} bytes for {} images", images.len(), tables.blocks.len())));
        }
        let Tables { sequence, time, blocks, revoked, staged, .. } = tables;
        Ok(Self { sequence, time, revoked, staged, blocks, images, block_size })
    }

    /// Its images.
    pub fn images(&self) -> impl Iterator<Item = Image<'_>> {
        let contents = self.images.chunks_exact(self.block_size);
        self.blocks.iter().zip(contents).map(|(&block, bytes)| Image { block, bytes })
    }

    /// Homes of its images.
    pub fn blocks(&self) -> &[u64] {
        &self.blocks
    }
}

/// The contents of all chunks.
fn unpack(header: &Header, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let short = || "its chunks are longer than it".to_owned();
    let table = HEADER + header.chunks * CHUNK_ENTRY;
    let entries = bytes.get(HEADER..table).ok_or_else(short)?;
    let mut at = table;
    let mut raw = vec![0; header.raw];
    let mut filled = 0usize;
    for (i, entry) in entries.chunks_exact(CHUNK_ENTRY).enumerate() {
        let [a, b, c, d, e, f, g, h] = *entry else { return Err(short()) };
        let (len, stored) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
        let from = at.checked_add(stored).and_then(|end| bytes.get(at..end)).filter(|_| at + stored <= header.size);
        let from = from.ok_or_else(short)?;
        let into = filled.checked_add(len).filter(|_| len <= CHUNK).and_then(|end| raw.get_mut(filled..end));
        let into = into.ok_or_else(|| format!("chunk {i} has {len} bytes"))?;
        if stored == len {
            into.copy_from_slice(from);
        } else {
            let got = lz4_flex::block::decompress_into(from, into).map_err(|e| format!("chunk {i}: {e}"))?;
            if got != len {
                return Err(format!("chunk {i} has {got} bytes, not {len}"));
            }
        }
        (at, filled) = (at + stored, filled + len);
    }
    if filled == raw.len() && at == header.size { Ok(raw) } else { Err("its chunks do not fill it".to_owned()) }
}

struct Tables {
    sequence: u64,
    time: Time,
    block_size: u32,
    blocks: Vec<u64>,
    revoked: Vec<u64>,
    staged: Vec<StagedRun>,
    /// Where the images begin.
    end: usize,
}

impl Tables {
    fn read(raw: &[u8]) -> Option<Self> {
        let word = |n: usize| Some(u32::from_le_bytes(raw.get(n..n.checked_add(4)?)?.try_into().ok()?));
        let long = |n: usize| Some(u64::from_le_bytes(raw.get(n..n.checked_add(8)?)?.try_into().ok()?));
        let (images, revoked, staged) = (word(24)? as usize, word(28)? as usize, word(32)? as usize);
        let (first_revoke, first_run) = (TABLES + images * 8, TABLES + images * 8 + revoked * 8);
        let end = first_run + staged * STAGED;
        if end > raw.len() {
            return None;
        }
        let run = |i: usize| {
            let at = first_run + i * STAGED;
            Some(StagedRun { start: long(at)?, blocks: word(at + 8)?, checksum: word(at + 12)? })
        };
        Some(Self {
            sequence: long(0)?,
            time: Time { sec: long(8)? as i64, nsec: word(16)? },
            block_size: word(20)?,
            blocks: (0..images).map(|i| long(TABLES + i * 8)).collect::<Option<_>>()?,
            revoked: (0..revoked).map(|i| long(first_revoke + i * 8)).collect::<Option<_>>()?,
            staged: (0..staged).map(run).collect::<Option<_>>()?,
            end,
        })
    }
}
