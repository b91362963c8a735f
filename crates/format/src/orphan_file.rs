//! Blocks of the orphan file: inode numbers, then a tail with magic and checksum.

use crate::csum::crc32c;
use crate::error::{Place, Result};

const BLOCK: &str = "orphan file block";
/// ob_magic.
pub const MAGIC: u32 = 0x0b10_ca04;
/// Bytes of the tail: magic, checksum.
pub const TAIL: usize = 8;

/// Inode numbers that a block holds.
pub fn slots(block_size: usize) -> usize {
    block_size.saturating_sub(TAIL) / 4
}

/// The inode number in slot `i`; 0 if free, None past the end.
pub fn get(block: &[u8], i: usize) -> Option<u32> {
    let at = i.checked_mul(4).filter(|_| i < slots(block.len()))?;
    block.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Puts an inode number, or 0, into slot `i`; false past the end.
pub fn set(block: &mut [u8], i: usize, ino: u32) -> bool {
    if i >= slots(block.len()) {
        return false;
    }
    block[i * 4..i * 4 + 4].copy_from_slice(&ino.to_le_bytes());
    true
}

/// All slots of a block.
pub fn entries(block: &[u8]) -> impl Iterator<Item = u32> + '_ {
    block[..slots(block.len()) * 4].chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
}

/// Makes `block` an empty block of the orphan file, with its magic.
pub fn init(block: &mut [u8]) {
    block.fill(0);
    if let Some(at) = block.len().checked_sub(TAIL) {
        block[at..at + 4].copy_from_slice(&MAGIC.to_le_bytes());
    }
}

/// Checksum of the block at physical block `number`; `inode_seed` is that of the orphan file.
fn checksum(block: &[u8], inode_seed: u32, number: u64) -> u32 {
    crc32c(crc32c(inode_seed, &number.to_le_bytes()), &block[..slots(block.len()) * 4])
}

/// Writes the checksum of the block at physical block `number`. `inode_seed` is that of the orphan file.
pub fn seal(block: &mut [u8], inode_seed: u32, number: u64) {
    if block.len() >= TAIL {
        let crc = checksum(block, inode_seed, number);
        let at = block.len() - 4;
        block[at..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Verifies magic and, if there is a seed, checksum of a block; `place` must know its physical block.
pub fn verify(block: &[u8], inode_seed: Option<u32>, place: Place) -> Result<()> {
    let Some(at) = block.len().checked_sub(TAIL) else { return Err(place.corrupt(BLOCK, "too short")) };
    let word = |at: usize| block[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if word(at) != MAGIC {
        return Err(place.corrupt(BLOCK, format!("magic number {:#x}, not {MAGIC:#x}", word(at))));
    }
    let (Some(seed), Some(number)) = (inode_seed, place.block) else { return Ok(()) };
    let (stored, computed) = (word(at + 4), checksum(block, seed, number));
    if stored == computed { Ok(()) } else { Err(place.checksum(BLOCK, stored, computed)) }
}
