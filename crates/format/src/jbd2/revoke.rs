//! Revoke blocks: home blocks that no earlier transaction may overwrite at replay.

use super::{BlockType, HEADER, Header, LogFormat};
use crate::error::{Place, Result};
use zerocopy::IntoBytes;

const REVOKE: &str = "journal revoke block";
/// Bytes before the entries: block header and r_count, which counts them in.
const START: usize = HEADER + 4;

fn entry_bytes(format: &LogFormat) -> usize {
    if format.bit64 { 8 } else { 4 }
}

/// Entries that a revoke block of this log holds.
pub fn revoke_capacity(format: &LogFormat) -> usize {
    format.end(format.block_size as usize).saturating_sub(START) / entry_bytes(format)
}

/// Iterator over the blocks that a revoke block names.
#[derive(Clone, Debug)]
pub struct Revoke<'a> {
    entries: &'a [u8],
    size: usize,
}

impl<'a> Revoke<'a> {
    /// A revoke block whose header was read; its checksum is verified. `place` says where in the journal it lies.
    pub fn new(block: &'a [u8], format: LogFormat, place: Place) -> Result<Revoke<'a>> {
        format.verify_tail(REVOKE, block, place)?;
        let count = block.get(HEADER..START).and_then(|bytes| bytes.first_chunk());
        let count = count.map(|bytes| u32::from_be_bytes(*bytes) as usize);
        let entries = count.filter(|count| *count <= format.end(block.len())).and_then(|count| block.get(START..count));
        match entries {
            Some(entries) => Ok(Revoke { entries, size: entry_bytes(&format) }),
            None => Err(place.corrupt(REVOKE, format!("{} bytes in use", count.unwrap_or_default()))),
        }
    }
}

impl Iterator for Revoke<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (entry, rest) = self.entries.split_at_checked(self.size)?;
        self.entries = rest;
        Some(entry.iter().fold(0, |block, byte| block << 8 | u64::from(*byte)))
    }
}

/// Fills a revoke block.
#[derive(Debug)]
pub struct RevokeWriter<'a> {
    block: &'a mut [u8],
    format: LogFormat,
    at: usize,
}

impl<'a> RevokeWriter<'a> {
    /// Begins a revoke block of transaction `sequence`.
    pub fn new(block: &'a mut [u8], format: LogFormat, sequence: u32) -> RevokeWriter<'a> {
        block.fill(0);
        let header = Header { kind: BlockType::Revoke, sequence }.encode();
        if let Some(head) = block.get_mut(..HEADER) {
            head.copy_from_slice(header.as_bytes());
        }
        RevokeWriter { block, format, at: START }
    }

    /// Adds a block; false if the revoke block is full.
    pub fn push(&mut self, block: u64) -> bool {
        let size = entry_bytes(&self.format);
        let end = self.format.end(self.block.len());
        let Some(slot) = self.block.get_mut(self.at..self.at + size).filter(|_| self.at + size <= end) else {
            return false;
        };
        slot.copy_from_slice(&block.to_be_bytes()[8 - size..]);
        self.at += size;
        true
    }

    /// Whether no block was added.
    pub fn is_empty(&self) -> bool {
        self.at == START
    }

    /// Writes the count and the block's checksum.
    pub fn finish(self) {
        if let Some(slot) = self.block.get_mut(HEADER..START) {
            slot.copy_from_slice(&(self.at as u32).to_be_bytes());
        }
        self.format.seal_tail(self.block);
    }
}
