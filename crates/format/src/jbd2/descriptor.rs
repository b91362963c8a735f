//! Descriptor blocks: one tag for each block that follows, saying where it belongs.

use super::{BlockType, HEADER, Header, LogCsum, LogFormat, MAGIC};
use crate::csum::crc32c;
use crate::error::{Place, Result};
use zerocopy::IntoBytes;

const DESCRIPTOR: &str = "journal descriptor block";
/// t_flags: the first word of the block was the magic number and was zeroed in the log.
const ESCAPE: u32 = 1;
/// t_flags: no UUID follows.
const SAME_UUID: u32 = 2;
/// t_flags: the last tag.
const LAST: u32 = 8;
/// Bytes of the UUID that follows the first tag.
const UUID: usize = 16;

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Home block.
    pub block: u64,
    /// Whether the block in the log has zeros where the magic number belongs: see [`unescape`].
    pub escaped: bool,
    /// Checksum as stored, see [`tag_checksum_matches`]; 0 if the log has none.
    pub checksum: u32,
}

/// Iterator over the tags of a descriptor block.
#[derive(Clone, Debug)]
pub struct Descriptor<'a> {
    rest: Option<&'a [u8]>,
    format: LogFormat,
    place: Place,
}

impl<'a> Descriptor<'a> {
    /// A descriptor block whose header was read; its checksum is verified. `place` says where in the journal it lies.
    pub fn new(block: &'a [u8], format: LogFormat, place: Place) -> Result<Descriptor<'a>> {
        format.verify_tail(DESCRIPTOR, block, place)?;
        let rest = block.get(HEADER..format.end(block.len()));
        let rest = rest.ok_or_else(|| place.corrupt(DESCRIPTOR, "too short"))?;
        Ok(Descriptor { rest: Some(rest), format, place })
    }

    /// Reads one tag; also says whether it is the last and how many bytes it took.
    fn read(&self, rest: &[u8]) -> Option<(Tag, bool, usize)> {
        let tag = rest.get(..self.format.tag_bytes())?;
        let word = |at: usize| tag.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let low = word(0)?;
        let (flags, high, checksum) = match self.format.csum {
            LogCsum::V3 => (word(4)?, word(8)?, word(12)?),
            csum => {
                let both = word(4)?;
                let checksum = if csum == LogCsum::V2 { both >> 16 } else { 0 };
                (both & 0xffff, if self.format.bit64 { word(8)? } else { 0 }, checksum)
            }
        };
        let high = if self.format.bit64 { high } else { 0 };
        let bytes = tag.len() + if flags & SAME_UUID == 0 { UUID } else { 0 };
        let block = u64::from(low) | u64::from(high) << 32;
        Some((Tag { block, escaped: flags & ESCAPE != 0, checksum }, flags & LAST != 0, bytes))
    }
}

impl Iterator for Descriptor<'_> {
    type Item = Result<Tag>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        if rest.len() < self.format.tag_bytes() {
            // A full block needs no last tag.
            return None;
        }
        let Some((tag, last, bytes)) = self.read(rest) else {
            return Some(Err(self.place.corrupt(DESCRIPTOR, "a tag passes the end")));
        };
        if !last {
            self.rest = rest.get(bytes..);
        }
        Some(Ok(tag))
    }
}

/// Checksum of a block as stored in the log (after escaping), for its tag in transaction `sequence`.
pub fn tag_checksum(format: &LogFormat, sequence: u32, stored: &[u8]) -> u32 {
    let crc = crc32c(format.tag_seed(sequence), stored);
    match format.csum {
        LogCsum::None => 0,
        LogCsum::V2 => crc & 0xffff,
        LogCsum::V3 => crc,
    }
}

/// Whether a tag's checksum is that of the block as stored in the log. True if the log has none.
pub fn tag_checksum_matches(format: &LogFormat, sequence: u32, tag: &Tag, stored: &[u8]) -> bool {
    tag.checksum == tag_checksum(format, sequence, stored)
}

/// Whether a block begins with the magic number and must be escaped in the log.
pub fn is_escape_needed(block: &[u8]) -> bool {
    block.first_chunk() == Some(&MAGIC.to_be_bytes())
}

/// Zeroes the first word of `copy`, a copy of a block for the log, if it is the magic number; says whether it was.
pub fn escape(copy: &mut [u8]) -> bool {
    let needed = is_escape_needed(copy);
    if let Some(word) = copy.first_chunk_mut::<4>().filter(|_| needed) {
        *word = [0; 4];
    }
    needed
}

/// Puts the magic number back into `copy`, the copy of an escaped block from the log.
pub fn unescape(copy: &mut [u8]) {
    if let Some(word) = copy.first_chunk_mut::<4>() {
        *word = MAGIC.to_be_bytes();
    }
}

/// Fills a descriptor block tag by tag, in the log's own format.
#[derive(Debug)]
pub struct DescriptorWriter<'a> {
    block: &'a mut [u8],
    format: LogFormat,
    uuid: [u8; 16],
    at: usize,
    last: Option<usize>,
}

impl<'a> DescriptorWriter<'a> {
    /// Begins a descriptor block of transaction `sequence`. `uuid` is the journal's.
    pub fn new(block: &'a mut [u8], format: LogFormat, sequence: u32, uuid: &[u8; 16]) -> DescriptorWriter<'a> {
        block.fill(0);
        let header = Header { kind: BlockType::Descriptor, sequence }.encode();
        if let Some(head) = block.get_mut(..HEADER) {
            head.copy_from_slice(header.as_bytes());
        }
        DescriptorWriter { block, format, uuid: *uuid, at: HEADER, last: None }
    }

    /// Tags that a descriptor block of this log holds.
    pub fn capacity(format: &LogFormat) -> usize {
        let room = format.end(format.block_size as usize).saturating_sub(HEADER + UUID);
        room / format.tag_bytes()
    }

    /// Adds a tag; false if the block is full.
    pub fn push(&mut self, tag: &Tag) -> bool {
        let first = self.last.is_none();
        let size = self.format.tag_bytes() + if first { UUID } else { 0 };
        let end = self.format.end(self.block.len());
        let Some(slot) = self.block.get_mut(self.at..self.at + size).filter(|_| self.at + size <= end) else {
            return false;
        };
        let flags = if tag.escaped { ESCAPE } else { 0 } | if first { 0 } else { SAME_UUID };
        let high = (tag.block >> 32) as u32;
        slot[..4].copy_from_slice(&(tag.block as u32).to_be_bytes());
        if self.format.csum == LogCsum::V3 {
            slot[4..8].copy_from_slice(&flags.to_be_bytes());
            slot[8..12].copy_from_slice(&high.to_be_bytes());
            slot[12..16].copy_from_slice(&tag.checksum.to_be_bytes());
        } else {
            slot[4..8].copy_from_slice(&(tag.checksum << 16 | flags).to_be_bytes());
            if self.format.bit64 {
                slot[8..12].copy_from_slice(&high.to_be_bytes());
            }
        }
        if first {
            slot[size - UUID..].copy_from_slice(&self.uuid);
        }
        self.last = Some(self.at);
        self.at += size;
        true
    }

    /// Whether no tag was added.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Marks the last tag and writes the block's checksum.
    pub fn finish(self) {
        if let Some(last) = self.last {
            // The low byte of t_flags: of a 32-bit word in v3, of a 16-bit half behind the checksum before.
            self.block[last + 7] |= LAST as u8;
        }
        self.format.seal_tail(self.block);
    }
}
