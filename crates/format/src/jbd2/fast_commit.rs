//! Fast commits: what ext4 itself writes behind the log when an fsync needs little. Tags of type, length and value, all
//! little-endian, in blocks without jbd2's headers; each commit ends with a tail that has its checksum.

use crate::csum::crc32c;
use crate::error::{FormatError, Result};
use crate::extent::{Extent, MAX_LEN};

/// Bytes of type and length.
const HEAD: usize = 4;
/// Bytes of an inode in a tag, behind its number, at least.
const LEAST_INODE: usize = 128;
/// Bytes of memory that the changes of one log may take.
const MOST: usize = 64 << 20;

/// One change that a fast commit tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCommit {
    /// A range of a file is mapped like this.
    AddRange {
        /// The file.
        ino: u32,
        /// Where its blocks lie.
        extent: Extent,
    },
    /// A range of a file is not mapped any more.
    DelRange {
        /// The file.
        ino: u32,
        /// First logical block.
        logical: u32,
        /// Blocks.
        len: u32,
    },
    /// A new inode has this name.
    Create(Named),
    /// An inode has this name, too.
    Link(Named),
    /// An inode does not have this name any more.
    Unlink(Named),
    /// An inode is like this, but for what it maps.
    Inode {
        /// Its number.
        ino: u32,
        /// Its bytes as far as they are told, without attributes.
        raw: Vec<u8>,
    },
}

/// A name in a directory, and the inode it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The directory.
    pub parent: u32,
    /// The inode.
    pub ino: u32,
    /// The name.
    pub name: Vec<u8>,
}

/// Reads the area block by block.
#[derive(Debug)]
pub struct FastCommitReader {
    tid: u32,
    crc: u32,
    /// Of the commit whose tail has not come yet.
    open: Vec<FastCommit>,
    whole: Vec<FastCommit>,
    /// A tail was right: there is something to replay, if only an empty commit.
    any: bool,
    /// Bytes that all changes take.
    held: usize,
}

fn word(value: &[u8], at: usize) -> Option<u32> {
    value.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn half(value: &[u8], at: usize) -> Option<u16> {
    value.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn named(value: &[u8]) -> Option<Named> {
    let name = value.get(8..).filter(|name| (1..=255).contains(&name.len()))?;
    Some(Named { parent: word(value, 0)?, ino: word(value, 4)?, name: name.to_vec() })
}

fn range(value: &[u8]) -> Option<FastCommit> {
    let (stored, high) = (half(value, 8)?, half(value, 10)?);
    let unwritten = stored > MAX_LEN as u16;
    let len = u32::from(if unwritten { stored - MAX_LEN as u16 } else { stored });
    let start = u64::from(high) << 32 | u64::from(word(value, 12)?);
    let extent = Extent { logical: word(value, 4)?, start, len, unwritten };
    let fits = len > 0 && extent.logical.checked_add(len).is_some();
    fits.then_some(FastCommit::AddRange { ino: word(value, 0)?, extent })
}

impl FastCommitReader {
    /// For fast commits that follow the end of the log, which has seen every transaction before `tid`.
    pub fn new(tid: u32) -> FastCommitReader {
        FastCommitReader { tid, crc: 0, open: Vec::new(), whole: Vec::new(), any: false, held: 0 }
    }

    /// Takes the next block of the area; false when nothing behind it counts.
    ///
    /// # Errors
    /// A commit of this transaction has features that are not known, or there is too much to be done.
    pub fn block(&mut self, block: &[u8]) -> Result<bool> {
        let mut at = 0;
        while let Some(head) = block.get(at..at + HEAD) {
            let (kind, len) =
                (u16::from_le_bytes([head[0], head[1]]), usize::from(u16::from_le_bytes([head[2], head[3]])));
            let Some(value) = block.get(at + HEAD..at + HEAD + len) else { return Ok(false) };
            let bytes = &block[at..at + HEAD + len];
            let change = match kind {
                1 if len == 16 => range(value),
                2 if len == 12 => match (word(value, 0), word(value, 4), word(value, 8)) {
                    (Some(ino), Some(logical), Some(len)) => Some(FastCommit::DelRange { ino, logical, len }),
                    _ => None,
                },
                3 => named(value).map(FastCommit::Create),
                4 => named(value).map(FastCommit::Link),
                5 => named(value).map(FastCommit::Unlink),
                6 if len >= 4 + LEAST_INODE => {
                    word(value, 0).map(|ino| FastCommit::Inode { ino, raw: value[4..].to_vec() })
                }
                7 => {
                    self.crc = crc32c(self.crc, bytes);
                    at += HEAD + len;
                    continue;
                }
                8 => return Ok(self.tail(bytes)),
                9 if len == 8 => {
                    if word(value, 4) != Some(self.tid) {
                        return Ok(false);
                    }
                    if word(value, 0) != Some(0) {
                        let names = vec![format!("{:#x}", word(value, 0).unwrap_or_default())];
                        return Err(FormatError::Unsupported { what: "fast_commit features", names });
                    }
                    self.crc = crc32c(self.crc, bytes);
                    at += HEAD + len;
                    continue;
                }
                _ => None,
            };
            let Some(change) = change else { return Ok(false) };
            self.held += size_of::<FastCommit>() + len;
            if self.held > MOST {
                let names = vec![format!("of more than {} MiB", MOST >> 20)];
                return Err(FormatError::Unsupported { what: "fast commits", names });
            }
            self.open.push(change);
            self.crc = crc32c(self.crc, bytes);
            at += HEAD + len;
        }
        Ok(true)
    }

    /// The end of a commit, and of its block: whether it was whole.
    fn tail(&mut self, bytes: &[u8]) -> bool {
        let covered = bytes.get(..HEAD + 4).unwrap_or_default();
        let computed = crc32c(self.crc, covered);
        if word(bytes, HEAD) != Some(self.tid) || word(bytes, HEAD + 4) != Some(computed) {
            return false;
        }
        (self.crc, self.any) = (0, true);
        self.whole.append(&mut self.open);
        true
    }

    /// The changes of all whole commits, in order; None if there is none.
    pub fn finish(self) -> Option<Vec<FastCommit>> {
        self.any.then_some(self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_area_is_long_enough_to_fill_the_memory() {
        let delete = [&2u16.to_le_bytes()[..], &12u16.to_le_bytes(), &[7; 12]].concat();
        let block = delete.repeat(4096 / delete.len());
        let mut reader = FastCommitReader::new(1);
        let blocks = (0..1 << 20).take_while(|_| reader.block(&block) == Ok(true)).count();
        assert!(reader.block(&block).is_err());
        assert!((2 << 20..MOST).contains(&(blocks * 4096)), "{blocks} blocks");
        assert!(reader.open.len() * size_of::<FastCommit>() < MOST);
    }
}
