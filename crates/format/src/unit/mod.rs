//! Units of the compressed journal: one transaction as one sequence of bytes that counts whole or not at all.
//!
//! Source: papers/3 (§3.1: everything of a transaction compressed as one, its size in the first four bytes) with the
//! checksum that the paper has not. `docs/format.md` specifies the bytes.

mod read;
mod write;

pub use read::{Failed, Header, Unit};
pub use write::{Chunk, head, looks_random, tables, write};

use crate::Time;

/// `h_magic` of a unit: `OnCU`, little-endian.
const MAGIC: u32 = 0x5543_6e4f;
/// The version of the format that is written and read.
const VERSION: u32 = 1;
/// Bytes of a unit's header.
pub const HEADER: usize = 64;
/// Bytes of an entry of the table of chunks.
const CHUNK_ENTRY: usize = 8;
/// Bytes of contents in a chunk, at most.
pub const CHUNK: usize = 256 << 10;
/// Bytes of the tables' head.
const TABLES: usize = 48;
/// Bytes of a staged run's entry.
pub const STAGED: usize = 16;

/// A run of blocks whose contents were written home and are not in the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedRun {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// crc32c of the contents, seeded as the unit.
    pub checksum: u32,
}

/// What a unit says beside the images themselves.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// The unit's number; its lower half is the transaction id.
    pub sequence: u64,
    /// When it was committed.
    pub time: Time,
    /// Bytes of a block.
    pub block_size: u32,
    /// Home blocks of the images, in their order.
    pub images: &'a [u64],
    /// Blocks whose older images must not be replayed.
    pub revoked: &'a [u64],
    /// Runs that were written home.
    pub staged: &'a [StagedRun],
}

/// The most bytes that a unit takes, however its contents compress, when it has at most `images` images or staged
/// blocks and `revoked` revokes.
pub fn most_bytes(block_size: u64, images: u64, revoked: u64) -> u64 {
    let contents = TABLES as u64 + images * (8 + STAGED as u64 + block_size) + revoked * 8;
    // The tables, what compresses, and what does not, each end in a chunk that need not be full.
    let chunks = contents / CHUNK as u64 + 3;
    HEADER as u64 + chunks * CHUNK_ENTRY as u64 + contents
}

#[cfg(test)]
mod tests;
