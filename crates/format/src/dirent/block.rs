//! Reading and validating a directory block.

use super::{DirEntry, HEADER, TAIL, TAIL_FILE_TYPE, rec_len_for};
use crate::csum::crc32c;
use crate::error::{FormatError, Place, Result};

const BLOCK: &str = "directory block";

/// Bytes of the shortest entry.
const LEAST: usize = rec_len_for(1);

/// No offset in a block.
const NOWHERE: usize = usize::MAX;

/// What [`DirBlock::search`] saw.
#[derive(Clone, Copy, Debug)]
pub struct Searched<'a> {
    /// The entry with the name, if it is there.
    pub entry: Option<DirEntry<'a>>,
    /// Where the entry before that one begins, unless it is the first.
    pub before: Option<usize>,
    /// Where the first entry begins behind which, or in whose place, the name would fit.
    pub gap: Option<usize>,
    /// Bytes that the entries in use take if they are packed.
    pub used: usize,
}

/// A directory block to be read: a leaf of an htree or a block of a linear directory.
#[derive(Clone, Copy, Debug)]
pub struct DirBlock<'a> {
    bytes: &'a [u8],
    /// Where entries end: the block's end, or the tail.
    end: usize,
    place: Place,
}

impl<'a> DirBlock<'a> {
    /// A whole block. `csum` says whether the volume has metadata_csum, that is, whether a tail of 12 bytes ends it.
    ///
    /// # Errors
    /// No tail where one must be. Entries are checked as they are read.
    pub fn new(bytes: &'a [u8], csum: bool, place: Place) -> Result<DirBlock<'a>> {
        let end = if csum { tail(bytes).ok_or_else(|| place.corrupt(BLOCK, "no checksum tail"))? } else { bytes.len() };
        Ok(DirBlock { bytes, end, place })
    }

    /// Where entries end, bytes.
    pub fn end(&self) -> usize {
        self.end
    }

    /// All entries, also free ones; stops after the first error.
    pub fn entries(&self) -> Entries<'a> {
        Entries { block: *self, offset: 0 }
    }

    /// The entries in use; stops after the first error.
    pub fn used(&self) -> impl Iterator<Item = Result<DirEntry<'a>>> + use<'a> {
        self.entries().filter(|entry| !matches!(entry, Ok(entry) if entry.ino == 0))
    }

    /// The entry that begins at `offset`, checked.
    #[inline]
    pub fn entry_at(&self, offset: usize) -> Result<DirEntry<'a>> {
        let rest = self.bytes.get(offset..self.end).unwrap_or_default();
        let Some((&[a, b, c, d, low, high, name_len, file_type], behind)) = rest.split_first_chunk::<HEADER>() else {
            return Err(self.bad_entry(offset));
        };
        let ino = u32::from_le_bytes([a, b, c, d]);
        let rec_len = usize::from(u16::from_le_bytes([low, high]));
        let name_len = usize::from(name_len);
        let left = rest.len().wrapping_sub(rec_len);
        let sound = (rec_len | offset) & 3 == 0
            && rec_len <= rest.len()
            && rec_len >= rec_len_for(name_len.max(1))
            && (left == 0 || left >= rec_len_for(1))
            && (ino == 0 || name_len != 0);
        match behind.get(..name_len) {
            Some(name) if sound => Ok(DirEntry { offset, ino, rec_len, file_type, name }),
            _ => Err(self.bad_entry(offset)),
        }
    }

    /// The byte behind the name of an entry of this block.
    pub fn byte_behind(&self, entry: &DirEntry<'_>) -> Option<u8> {
        self.bytes.get(entry.offset + HEADER + entry.name.len()).copied()
    }

    /// Some of its bytes.
    pub(super) fn part(&self, range: std::ops::Range<usize>) -> &'a [u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    pub(super) fn corrupt(&self, what: String) -> FormatError {
        self.place.corrupt(BLOCK, what)
    }

    /// Which rule the entry at `offset` breaks.
    #[cold]
    fn bad_entry(&self, offset: usize) -> FormatError {
        let fail = |what: String| self.place.corrupt(BLOCK, format!("entry at byte {offset}: {what}"));
        let room = self.end.saturating_sub(offset);
        let header = self.bytes.get(offset..self.end).and_then(|rest| rest.first_chunk::<HEADER>());
        let Some(&[.., low, high, name_len, _]) = header else {
            return fail(format!("{room} bytes are too few"));
        };
        let (rec_len, name_len) = (usize::from(u16::from_le_bytes([low, high])), usize::from(name_len));
        if !rec_len.is_multiple_of(4) || !offset.is_multiple_of(4) {
            return fail(format!("record length {rec_len} is not a multiple of 4"));
        }
        if rec_len > room {
            return fail(format!("record length {rec_len} passes the end, {room} bytes away"));
        }
        if rec_len < rec_len_for(name_len.max(1)) {
            return fail(format!("record length {rec_len} is too small for a name of {name_len} bytes"));
        }
        if name_len == 0 {
            return fail("no name".into());
        }
        fail(format!("record length {rec_len} leaves {} bytes", room - rec_len))
    }

    /// Looks for a name and for room for it, in one pass over the entries up to it, each of which is checked.
    ///
    /// # Errors
    /// A corrupt entry before the name.
    pub fn search(&self, name: &[u8]) -> Result<Searched<'a>> {
        let need = rec_len_for(name.len());
        let (entries, last) = (self.part(0..self.end), name.last());
        let mut found = Searched { entry: None, before: None, gap: None, used: 0 };
        let (mut at, mut before, mut gap, mut used) = (0, NOWHERE, NOWHERE, 0);
        while let Some(header) = entries.get(at..).and_then(|rest| rest.first_chunk::<HEADER>()) {
            // inode (32 bits), record length (16), name length (8), file type (8): taken apart in registers.
            let header = u64::from_le_bytes(*header);
            let (ino, rec_len) = (header as u32, usize::from((header >> 32) as u16));
            let name_len = usize::from((header >> 48) as u8);
            let (least, next) = (rec_len_for(name_len | usize::from(name_len == 0)), at + rec_len);
            let left = entries.len().wrapping_sub(next);
            let fits = rec_len >= least && next <= entries.len() && (left == 0 || left >= LEAST);
            if !fits || rec_len & 3 != 0 || (ino != 0 && name_len == 0) {
                return Err(self.bad_entry(at));
            }
            // Names in one directory tend to begin alike and to be equally long: their last byte tells them apart.
            let alike = name_len == name.len() && ino != 0 && entries.get(at + (HEADER - 1) + name_len) == last;
            if alike && entries.get(at + HEADER..at + HEADER + name_len) == Some(name) {
                found.entry = Some(self.entry_at(at)?);
                found.before = Some(before).filter(|&before| before != NOWHERE);
                break;
            }
            let keep = if ino == 0 { 0 } else { least };
            if gap == NOWHERE && rec_len - keep >= need {
                gap = at;
            }
            used += keep;
            (before, at) = (at, next);
        }
        if found.entry.is_none() && at < entries.len() {
            return Err(self.bad_entry(at));
        }
        (found.gap, found.used) = (Some(gap).filter(|&gap| gap != NOWHERE), used);
        Ok(found)
    }

    /// Reads every entry, and asks `valid` whether each inode number may stand there.
    pub fn check(&self, mut valid: impl FnMut(u32) -> bool) -> Result<()> {
        for entry in self.entries() {
            let entry = entry?;
            if entry.ino != 0 && !valid(entry.ino) {
                return Err(self.bad_inode(&entry));
            }
        }
        Ok(())
    }

    fn bad_inode(&self, entry: &DirEntry<'_>) -> FormatError {
        self.place.corrupt(BLOCK, format!("entry at byte {}: inode {} does not exist", entry.offset, entry.ino))
    }

    /// The entry in use with this name.
    pub fn find(&self, name: &[u8]) -> Result<Option<DirEntry<'a>>> {
        Ok(self.search(name)?.entry)
    }

    /// Whether no entry but "." and ".." is in use.
    pub fn is_empty(&self) -> Result<bool> {
        for entry in self.used() {
            let entry = entry?;
            if entry.name != b"." && entry.name != b".." {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Iterator over the entries of a block.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    block: DirBlock<'a>,
    offset: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<DirEntry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.block.end {
            return None;
        }
        let entry = self.block.entry_at(self.offset);
        self.offset = entry.as_ref().map_or(self.block.end, |entry| entry.offset + entry.rec_len);
        Some(entry)
    }
}

/// Where the checksum tail begins, if there is one.
pub(super) fn tail(bytes: &[u8]) -> Option<usize> {
    let at = bytes.len().checked_sub(TAIL)?;
    let tail = &bytes[at..];
    (tail[..4] == [0; 4] && tail[4..8] == [TAIL as u8, 0, 0, TAIL_FILE_TYPE]).then_some(at)
}

/// Writes the checksum of a block that has a tail. `inode_seed` is that of the directory.
pub fn seal(bytes: &mut [u8], inode_seed: u32) {
    if let Some(at) = tail(bytes) {
        let crc = crc32c(inode_seed, &bytes[..at]);
        bytes[at + HEADER..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Verifies the checksum of a block of a volume with metadata_csum.
pub fn verify(bytes: &[u8], inode_seed: u32, place: Place) -> Result<()> {
    let at = tail(bytes).ok_or_else(|| place.corrupt(BLOCK, "no checksum tail"))?;
    let stored = bytes[at + HEADER..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let computed = crc32c(inode_seed, &bytes[..at]);
    if stored == computed { Ok(()) } else { Err(place.checksum(BLOCK, stored, computed)) }
}
