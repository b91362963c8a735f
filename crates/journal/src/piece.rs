//! File data without a copy: where the newest contents of blocks lie, lent in pieces (papers/4, §2.2).

use crate::cache::Cache;
use crate::{Block, Result};
use ondol_block::{BlockStore, MapPart, Pin, Pinned};
use std::ops::Range;

/// Some bytes of a file as they were when they were asked for. They do not change.
#[derive(Debug)]
pub enum Piece {
    /// So many zeros, which lie nowhere.
    Zeros(u64),
    /// Bytes of the store itself.
    Stored(Pinned, Range<usize>),
    /// Bytes of a live block, which nobody changes as long as somebody else has it.
    Live(Block, Range<usize>),
    /// A copy.
    Copied(Vec<u8>),
}

impl Piece {
    /// How many bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Zeros(len) => *len,
            Self::Stored(_, range) | Self::Live(_, range) => range.len() as u64,
            Self::Copied(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes; `None` of zeros.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Zeros(_) => None,
            Self::Stored(bytes, range) => bytes.get(range.clone()),
            Self::Live(block, range) => block.get(range.clone()),
            Self::Copied(bytes) => Some(bytes),
        }
    }

    /// Bytes that were copied.
    pub fn copied(&self) -> u64 {
        match self {
            Self::Copied(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }

    /// What a map makes of it.
    pub fn part(&self) -> MapPart<'_> {
        match self {
            Self::Stored(bytes, range) => MapPart::Place(bytes.place() + range.start as u64, range.len() as u64),
            _ => self.bytes().map_or_else(|| MapPart::Zeros(self.len()), MapPart::Bytes),
        }
    }
}

/// Where pieces come from, and how.
pub(crate) struct Sources<'s> {
    /// What has blocks that are not home.
    pub(crate) cache: &'s Cache,
    pub(crate) store: &'s dyn BlockStore,
    pub(crate) block_size: usize,
    /// As [`BlockStore::pin`].
    pub(crate) bounded: bool,
}

impl Sources<'_> {
    /// Lends `len` bytes from byte `offset` of `block` on: block by block what is not home, and runs of others.
    pub(crate) fn view(&self, block: u64, offset: usize, len: usize, pieces: &mut Vec<Piece>) -> Result<()> {
        let (size, end) = (self.block_size, offset + len);
        let (mut at, mut home_from) = (offset, offset);
        while at < end {
            let home = self.cache.home_from(block + (at / size) as u64);
            if home > 0 {
                at = end.min((at / size + home.min(end as u64) as usize) * size);
                continue;
            }
            let stop = ((at / size + 1) * size).min(end);
            let found = self.not_home(block + (at / size) as u64, at % size..at % size + stop - at)?;
            if let Some(piece) = found {
                self.home(block, home_from..at, pieces)?;
                pieces.push(piece);
                home_from = stop;
            }
            at = stop;
        }
        self.home(block, home_from..end, pieces)
    }

    /// A part of a block that is live, or lies in a page that a record names.
    fn not_home(&self, block: u64, part: Range<usize>) -> Result<Option<Piece>> {
        let cache = self.cache;
        if let Some(image) = cache.peek_data(block) {
            return Ok(Some(Piece::Live(image, part)));
        }
        match cache.pin_elsewhere(block, self.bounded)? {
            None => Ok(None),
            Some(Some(pinned)) => Ok(Some(Piece::Stored(pinned, part))),
            Some(None) => {
                let mut bytes = vec![0; part.len()];
                crate::data::read(cache, self.store, block, part.start, &mut bytes)?;
                Ok(Some(Piece::Copied(bytes)))
            }
        }
    }

    /// Bytes from `block` on of which the store has the newest.
    fn home(&self, block: u64, mut bytes: Range<usize>, pieces: &mut Vec<Piece>) -> Result<()> {
        let base = block * self.block_size as u64;
        while !bytes.is_empty() {
            let (at, len) = (base + bytes.start as u64, bytes.len() as u64);
            let piece = match self.store.pin(at, len, self.bounded)? {
                Some(Pin::Zeros(zeros)) => Piece::Zeros(zeros),
                Some(Pin::Bytes(pinned)) => {
                    let all = 0..pinned.len();
                    Piece::Stored(pinned, all)
                }
                None => {
                    let mut copy = vec![0; bytes.len()];
                    self.store.read(at, &mut copy)?;
                    Piece::Copied(copy)
                }
            };
            bytes.start += piece.len().clamp(1, len) as usize;
            pieces.push(piece);
        }
        Ok(())
    }
}
