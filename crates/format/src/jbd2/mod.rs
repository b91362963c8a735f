//! jbd2's log on the medium: superblock, descriptor, revoke and commit blocks. Everything is big-endian.

mod commit;
mod descriptor;
mod extension;
mod fast_commit;
mod header;
mod revoke;
mod superblock;

pub use commit::{Commit, OldChecksum, RawCommit};
pub use descriptor::{
    Descriptor, DescriptorWriter, Tag, escape, is_escape_needed, tag_checksum, tag_checksum_matches, unescape,
};
pub use extension::{Attached, Extension, RawExtension};
pub use fast_commit::{FastCommit, FastCommitReader, Named};
pub use header::{BlockType, Header, RawBlockHeader};
pub use revoke::{Revoke, RevokeWriter, revoke_capacity};
pub use superblock::{
    JournalCompat, JournalIncompat, JournalSuperblock, RawJournalSuperblock, SIZE as SUPERBLOCK_SIZE,
};

use crate::csum::{crc32c, crc32c_skip4};
use crate::error::{Place, Result};

/// h_magic of every block of the log that is not a copy of a home block.
pub const MAGIC: u32 = 0xc03b_3998;
/// Bytes of the block header.
pub const HEADER: usize = 12;
/// Bytes of the checksum that ends descriptor and revoke blocks.
pub const TAIL: usize = 4;
/// Least blocks of a journal.
pub const MIN_BLOCKS: u32 = 1024;
/// Default size of the fast-commit area, blocks.
pub const DEFAULT_FC_BLOCKS: u32 = 256;

/// What the rest of the log needs to know of its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// Bytes of a block.
    pub block_size: u32,
    /// Whether block numbers have 64 bits.
    pub bit64: bool,
    /// Which checksums blocks and tags carry.
    pub csum: LogCsum,
    /// Whether commit blocks carry the old checksum of the whole transaction (`checksum`, version 1).
    pub has_old_csum: bool,
    /// Seed of all of them: crc32c of the journal's UUID.
    pub seed: u32,
}

/// Which checksums a log carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogCsum {
    /// None on descriptors and tags.
    None,
    /// csum_v2: 16 bits a tag.
    V2,
    /// csum_v3: 32 bits a tag.
    V3,
}

impl LogFormat {
    /// Whether descriptor, revoke and commit blocks carry a checksum.
    pub fn has_csum(&self) -> bool {
        self.csum != LogCsum::None
    }

    /// Bytes of a tag, without the UUID that may follow.
    pub fn tag_bytes(&self) -> usize {
        match (self.csum, self.bit64) {
            (LogCsum::V3, _) => 16,
            (LogCsum::V2, true) => 14,
            (LogCsum::V2, false) => 10,
            (LogCsum::None, true) => 12,
            (LogCsum::None, false) => 8,
        }
    }

    /// Where tags and revoke entries must end.
    fn end(&self, block_len: usize) -> usize {
        block_len.saturating_sub(if self.has_csum() { TAIL } else { 0 })
    }

    /// Writes the checksum that ends a descriptor or revoke block, if the log has one.
    pub fn seal_tail(&self, block: &mut [u8]) {
        let Some(at) = block.len().checked_sub(TAIL).filter(|_| self.has_csum()) else { return };
        if let Some(crc) = crc32c_skip4(self.seed, block, at) {
            block[at..].copy_from_slice(&crc.to_be_bytes());
        }
    }

    /// Verifies the checksum that ends a descriptor or revoke block, if the log has one.
    pub fn verify_tail(&self, structure: &'static str, block: &[u8], place: Place) -> Result<()> {
        if !self.has_csum() {
            return Ok(());
        }
        let computed = block.len().checked_sub(TAIL).and_then(|at| crc32c_skip4(self.seed, block, at));
        let stored = block.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        match (stored, computed) {
            (Some(stored), Some(computed)) if stored == computed => Ok(()),
            (Some(stored), Some(computed)) => Err(place.checksum(structure, stored, computed)),
            _ => Err(place.corrupt(structure, "too short")),
        }
    }

    /// Seed of the tags of transaction `sequence`.
    fn tag_seed(&self, sequence: u32) -> u32 {
        crc32c(self.seed, &sequence.to_be_bytes())
    }
}

/// Whether transaction `a` comes after `b`; numbers wrap.
pub fn sequence_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
