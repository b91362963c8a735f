//! Block and inode bitmaps: bits, runs of bits, and the checksum (which the group descriptor carries).
//!
//! Bit `n` is bit `n % 8` of byte `n / 8`; a set bit means in use. Positions past the slice read as set, and writes to
//! them are ignored, so that a caller's wrong number can neither panic nor hand out space that does not exist.

use crate::csum::crc32c;

/// Whether bit `n` is set.
pub fn test(map: &[u8], n: usize) -> bool {
    map.get(n / 8).is_none_or(|byte| byte >> (n % 8) & 1 == 1)
}

/// Sets bit `n`; returns what it was.
pub fn set(map: &mut [u8], n: usize) -> bool {
    match map.get_mut(n / 8) {
        None => true,
        Some(byte) => {
            let was = *byte >> (n % 8) & 1 == 1;
            *byte |= 1 << (n % 8);
            was
        }
    }
}

/// Clears bit `n`; returns what it was.
pub fn clear(map: &mut [u8], n: usize) -> bool {
    match map.get_mut(n / 8) {
        None => true,
        Some(byte) => {
            let was = *byte >> (n % 8) & 1 == 1;
            *byte &= !(1 << (n % 8));
            was
        }
    }
}

/// Sets `len` bits from `start`, whole bytes at a time.
pub fn set_range(map: &mut [u8], start: usize, len: usize) {
    for_each_byte(map, start, len, |byte, mask| *byte |= mask);
}

/// Clears `len` bits from `start`, whole bytes at a time.
pub fn clear_range(map: &mut [u8], start: usize, len: usize) {
    for_each_byte(map, start, len, |byte, mask| *byte &= !mask);
}

fn for_each_byte(map: &mut [u8], start: usize, len: usize, mut apply: impl FnMut(&mut u8, u8)) {
    let end = start.saturating_add(len).min(map.len().saturating_mul(8));
    if start >= end {
        return;
    }
    let (first, last) = (start / 8, (end - 1) / 8);
    let head = 0xffu8 << (start % 8);
    let tail = 0xffu8 >> (7 - (end - 1) % 8);
    for (i, byte) in map[first..=last].iter_mut().enumerate() {
        let mut mask = 0xff;
        if i == 0 {
            mask &= head;
        }
        if first + i == last {
            mask &= tail;
        }
        apply(byte, mask);
    }
}

/// The first clear bit in `start..end`.
pub fn find_next_zero(map: &[u8], start: usize, end: usize) -> Option<usize> {
    find(map, start, end, !0)
}

/// The first set bit in `start..end`.
pub fn find_next_one(map: &[u8], start: usize, end: usize) -> Option<usize> {
    find(map, start, end, 0)
}

/// The first bit in `start..end` that is set once the map is xored with `flip`.
fn find(map: &[u8], start: usize, end: usize, flip: u64) -> Option<usize> {
    let end = end.min(map.len().saturating_mul(8));
    let mut at = start;
    while at < end {
        let word = at / 64;
        let bits = (word_at(map, word) ^ flip) & (!0u64 << (at % 64));
        if bits != 0 {
            let found = word * 64 + bits.trailing_zeros() as usize;
            return (found < end).then_some(found);
        }
        at = (word + 1) * 64;
    }
    None
}

/// Little-endian 64-bit word `word` of the map, short words padded with zeros.
fn word_at(map: &[u8], word: usize) -> u64 {
    let bytes = map.get(word * 8..).unwrap_or_default();
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => bytes.iter().rev().fold(0u64, |acc, &byte| acc << 8 | u64::from(byte)),
    }
}

/// A run of at least `len` clear bits in `start..end`: its first bit.
pub fn find_zero_run(map: &[u8], start: usize, end: usize, len: usize) -> Option<usize> {
    let mut at = start;
    while let Some(from) = find_next_zero(map, at, end) {
        let to = zero_run_end(map, from, end);
        if to - from >= len {
            return Some(from);
        }
        at = to;
    }
    None
}

/// Where the run of clear bits that begins at `from` ends (exclusive, at most `end`).
pub fn zero_run_end(map: &[u8], from: usize, end: usize) -> usize {
    let end = end.min(map.len().saturating_mul(8));
    find_next_one(map, from, end).unwrap_or(end).max(from)
}

/// Where the run of clear bits begins that bit `at` is in; `at` itself if it is set, or not in the map.
pub fn zero_run_start(map: &[u8], at: usize) -> usize {
    if at / 8 >= map.len() || test(map, at) {
        return at;
    }
    let mut word = at / 64;
    // Bits up to `at`.
    let mut bits = word_at(map, word) & (!0 >> (63 - at % 64));
    while bits == 0 && word > 0 {
        word -= 1;
        bits = word_at(map, word);
    }
    word * 64 + 64 - bits.leading_zeros() as usize
}

/// How many of the bits `0..bits` are clear.
pub fn count_zeros(map: &[u8], bits: usize) -> usize {
    let bits = bits.min(map.len().saturating_mul(8));
    bits - count_ones(map, bits)
}

/// How many of the bits `0..bits` are set.
pub fn count_ones(map: &[u8], bits: usize) -> usize {
    let bits = bits.min(map.len().saturating_mul(8));
    // Bitmaps are long runs of equal bits: whole pieces of them need no counting.
    let (pieces, words) = map[..bits / 64 * 8].as_chunks::<32>();
    let count = |bytes: &[u8]| -> usize {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|w| u64::from_le_bytes(*w).count_ones() as usize).sum()
    };
    let mut ones = count(words);
    for piece in pieces {
        ones += match piece {
            p if *p == [0; 32] => 0,
            p if *p == [0xff; 32] => 256,
            p => count(p),
        };
    }
    let rest = bits % 64;
    if rest > 0 {
        ones += (word_at(map, bits / 64) & (!0u64 >> (64 - rest))).count_ones() as usize;
    }
    ones
}

/// Sets every bit from `bits` to the end of the block: the padding past the last block or inode of a group.
pub fn pad(map: &mut [u8], bits: usize) {
    set_range(map, bits, map.len().saturating_mul(8).saturating_sub(bits));
}

/// Whether the padding from `bits` to the end of the block is all ones.
pub fn is_padded(map: &[u8], bits: usize) -> bool {
    find_next_zero(map, bits, map.len().saturating_mul(8)).is_none()
}

/// Checksum of a bitmap of `bits` bits per group (clusters or inodes): the padding is not covered. The full 32 bits;
/// a 32-byte descriptor keeps the low 16.
pub fn checksum(seed: u32, map: &[u8], bits_per_group: u32) -> u32 {
    let bytes = (bits_per_group as usize / 8).min(map.len());
    crc32c(seed, &map[..bytes])
}
