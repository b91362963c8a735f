//! Making units.

use super::{CHUNK, CHUNK_ENTRY, HEADER, MAGIC, Tables, VERSION};
use crate::csum::crc32c;

/// Consecutive contents of a unit, as they lie in it; parts of them may be lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<B = Vec<u8>> {
    raw: usize,
    len: usize,
    parts: Parts<B>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Parts<B> {
    Made(Vec<u8>),
    Lent(Vec<B>),
}

impl<B: AsRef<[u8]>> Chunk<B> {
    /// `contents`, at most [`CHUNK`] bytes, compressed if that makes them smaller.
    pub fn compressed(contents: &[u8]) -> Self {
        debug_assert!(contents.len() <= CHUNK);
        let bytes = lz4_flex::block::compress(contents);
        let bytes = if bytes.len() < contents.len() { bytes } else { contents.to_vec() };
        Self { raw: contents.len(), len: bytes.len(), parts: Parts::Made(bytes) }
    }

    /// `parts`, at most [`CHUNK`] bytes in all, as they are.
    pub fn stored(parts: Vec<B>) -> Self {
        let len = parts.iter().map(|part| part.as_ref().len()).sum();
        Self { raw: len, len, parts: Parts::Lent(parts) }
    }

    /// Bytes of its contents.
    pub fn raw_len(&self) -> usize {
        self.raw
    }

    /// Bytes that it takes in the unit.
    pub fn len(&self) -> usize {
        self.len
    }

    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it is in the unit, piece by piece.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (made, lent) = match &self.parts {
            Parts::Made(bytes) => (Some(&bytes[..]), None),
            Parts::Lent(parts) => (None, Some(parts)),
        };
        made.into_iter().chain(lent.into_iter().flatten().map(AsRef::as_ref))
    }
}

/// The bytes with which a unit's contents begin; the images follow, in the order of `tables.images`.
pub fn tables(tables: &Tables<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + 8 * (tables.images.len() + tables.revoked.len()) + 16 * tables.staged.len());
    out.extend(tables.sequence.to_le_bytes());
    out.extend(tables.time.sec.to_le_bytes());
    out.extend(tables.time.nsec.to_le_bytes());
    out.extend(tables.block_size.to_le_bytes());
    for count in [tables.images.len(), tables.revoked.len(), tables.staged.len()] {
        out.extend((count as u32).to_le_bytes());
    }
    out.extend([0; 12]);
    tables.images.iter().chain(tables.revoked).for_each(|block| out.extend(block.to_le_bytes()));
    for run in tables.staged {
        out.extend(run.start.to_le_bytes());
        out.extend(run.blocks.to_le_bytes());
        out.extend(run.checksum.to_le_bytes());
    }
    out
}

/// What precedes the chunks of the unit number `sequence`. `durable` is the newest unit known to be durable, 0 for
/// none; `seed` the crc32c of the journal's UUID. `None` when the unit would be 4 GiB or more.
pub fn head<B: AsRef<[u8]>>(sequence: u64, durable: u64, chunks: &[Chunk<B>], seed: u32) -> Option<Vec<u8>> {
    let size = HEADER + chunks.iter().map(|chunk| CHUNK_ENTRY + chunk.len()).sum::<usize>();
    let raw: usize = chunks.iter().map(Chunk::raw_len).sum();
    let mut out = Vec::with_capacity(HEADER + chunks.len() * CHUNK_ENTRY);
    out.extend(u32::try_from(size).ok()?.to_le_bytes());
    out.extend([0; 4]);
    out.extend(MAGIC.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend(sequence.to_le_bytes());
    out.extend(durable.to_le_bytes());
    out.extend(u32::try_from(chunks.len()).ok()?.to_le_bytes());
    out.extend(u32::try_from(raw).ok()?.to_le_bytes());
    out.resize(HEADER, 0);
    for chunk in chunks {
        out.extend((chunk.raw as u32).to_le_bytes());
        out.extend((chunk.len as u32).to_le_bytes());
    }
    let parts = chunks.iter().flat_map(Chunk::parts);
    let checksum = parts.fold(crc32c(seed, &out[8..]), crc32c);
    out[4..8].copy_from_slice(&checksum.to_le_bytes());
    Some(out)
}

/// The whole unit in one piece, padded with zeros to whole blocks of `block_size` bytes. As [`head`].
pub fn write<B: AsRef<[u8]>>(
    sequence: u64,
    durable: u64,
    chunks: &[Chunk<B>],
    seed: u32,
    block_size: usize,
) -> Option<Vec<u8>> {
    let mut out = head(sequence, durable, chunks, seed)?;
    chunks.iter().flat_map(Chunk::parts).for_each(|part| out.extend_from_slice(part));
    out.resize(out.len().next_multiple_of(block_size), 0);
    Some(out)
}

/// Bytes of a block that are looked at to see whether it would compress, and how many of them lie together.
const SAMPLE: usize = 512;
const TOGETHER: usize = 32;

/// Whether a block looks as if it would not compress: its bytes are as evenly spread as chance would have them. A guess
/// from a sample, within a fraction of a microsecond.
pub fn looks_random(block: &[u8]) -> bool {
    if block.len() < SAMPLE {
        return false;
    }
    let mut counts = [0u16; 256];
    let step = block.len() / (SAMPLE / TOGETHER);
    for part in block.chunks(step) {
        part.iter().take(TOGETHER).for_each(|&b| counts[usize::from(b)] += 1);
    }
    // 512 independent bytes come to 1,534 on average, seldom to more than 1,700; base64, the evenest of texts, to
    // 4,600.
    let squares: u32 = counts.iter().map(|&n| u32::from(n) * u32::from(n)).sum();
    squares < 2_000
}
