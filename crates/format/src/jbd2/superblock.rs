//! The journal superblock: block 0 of the journal, and the one place that says where the log begins.

use super::extension::{Extension, RawExtension};
use super::{BlockType, Header, LogCsum, LogFormat, RawBlockHeader};
use crate::csum::{crc32c, crc32c_skip4};
use crate::error::{FormatError, Place, Result};
use bitflags::bitflags;
use std::mem::offset_of;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const SUPERBLOCK: &str = "journal superblock";

bitflags! {
    /// s_feature_compat.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct JournalCompat: u32 {
        /// Commit blocks carry the old checksum of the whole transaction.
        const CHECKSUM = 0x1;
        const _ = !0;
    }
}

bitflags! {
    /// s_feature_incompat.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct JournalIncompat: u32 {
        /// The log may hold revoke blocks.
        const REVOKE = 0x1;
        /// Block numbers have 64 bits.
        const BIT64 = 0x2;
        /// Commit blocks may be written before their transaction is.
        const ASYNC_COMMIT = 0x4;
        /// Checksums of 16 bits a tag.
        const CSUM_V2 = 0x8;
        /// Checksums of 32 bits a tag.
        const CSUM_V3 = 0x10;
        /// The end of the journal is a fast-commit area.
        const FAST_COMMIT = 0x20;
        /// The log holds units of Ondol's compressed journal. Nobody else knows this.
        const COMPRESSED = 0x4000_0000;
        /// What is newer than home lies in the NVM pool that the extension names. Nobody else knows this.
        const NVM = 0x2000_0000;
        const _ = !0;
    }
}

/// Names of the incompatible features, as `debugfs logdump -S` and `dumpe2fs` write them.
const INCOMPAT_NAMES: [(&str, JournalIncompat); 8] = [
    ("journal_incompat_revoke", JournalIncompat::REVOKE),
    ("journal_64bit", JournalIncompat::BIT64),
    ("journal_async_commit", JournalIncompat::ASYNC_COMMIT),
    ("journal_checksum_v2", JournalIncompat::CSUM_V2),
    ("journal_checksum_v3", JournalIncompat::CSUM_V3),
    ("fast_commit", JournalIncompat::FAST_COMMIT),
    ("ondol_compressed", JournalIncompat::COMPRESSED),
    ("ondol_nvm", JournalIncompat::NVM),
];

/// `struct journal_superblock_s`, 1024 bytes. Field names are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawJournalSuperblock {
    /// Block header.
    pub s_header: RawBlockHeader,
    /// Bytes of a block.
    pub s_blocksize: U32,
    /// Blocks of the journal.
    pub s_maxlen: U32,
    /// First block of the log.
    pub s_first: U32,
    /// First transaction expected in the log.
    pub s_sequence: U32,
    /// Block where the log starts; 0 for an empty log.
    pub s_start: U32,
    /// Error of an earlier abort, as a negative errno.
    pub s_errno: U32,
    /// Compatible features.
    pub s_feature_compat: U32,
    /// Incompatible features.
    pub s_feature_incompat: U32,
    /// Read-only compatible features.
    pub s_feature_ro_compat: U32,
    /// UUID of the journal.
    pub s_uuid: [u8; 16],
    /// Volumes that share the journal.
    pub s_nr_users: U32,
    /// Block of a copy; unused.
    pub s_dynsuper: U32,
    /// Most blocks of a transaction; unused.
    pub s_max_transaction: U32,
    /// Most data blocks of a transaction; unused.
    pub s_max_trans_data: U32,
    /// 4 for crc32c.
    pub s_checksum_type: u8,
    /// Zero.
    pub s_padding2: [u8; 3],
    /// Blocks of the fast-commit area, 0 for the default.
    pub s_num_fc_blks: U32,
    /// Where the log's head was when it was emptied; a hint.
    pub s_head: U32,
    /// Zero.
    pub s_padding: [U32; 24],
    /// Ondol's own; padding for everybody else.
    pub s_ondol: RawExtension,
    /// crc32c of these 1024 bytes with this field zero.
    pub s_checksum: U32,
    /// UUIDs of the volumes that share the journal.
    pub s_users: [[u8; 16]; 48],
}

const CHECKSUM: usize = offset_of!(RawJournalSuperblock, s_checksum);
const _: () = {
    assert!(size_of::<RawJournalSuperblock>() == 1024);
    assert!(offset_of!(RawJournalSuperblock, s_feature_incompat) == 0x28);
    assert!(offset_of!(RawJournalSuperblock, s_nr_users) == 0x40);
    assert!(offset_of!(RawJournalSuperblock, s_num_fc_blks) == 0x54);
    assert!(CHECKSUM == 0xfc);
};

/// Bytes of a journal superblock.
pub const SIZE: usize = size_of::<RawJournalSuperblock>();
/// s_checksum_type of crc32c.
const CHECKSUM_CRC32C: u8 = 4;

/// A journal superblock whose numbers have been checked against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSuperblock {
    raw: RawJournalSuperblock,
}

impl JournalSuperblock {
    /// Reads and checks a journal superblock. `block_size` is the volume's, `blocks` the length of the journal inode.
    ///
    /// Features are not judged: see [`JournalSuperblock::require_incompat`].
    ///
    /// # Errors
    /// Wrong magic, wrong checksum, or numbers that contradict each other or the inode.
    pub fn parse(bytes: &[u8], block_size: u32, blocks: u64) -> Result<JournalSuperblock> {
        let place = Place::NONE;
        let raw = bytes.get(..SIZE).and_then(|bytes| RawJournalSuperblock::read_from_bytes(bytes).ok());
        let mut raw = raw.ok_or_else(|| place.corrupt(SUPERBLOCK, "too short"))?;
        let bad = |what: String| Err(place.corrupt(SUPERBLOCK, what));
        match Header::parse(bytes) {
            Some(Header { kind: BlockType::SuperblockV2, .. }) => {}
            Some(Header { kind: BlockType::SuperblockV1, .. }) => clear_v2_fields(&mut raw),
            _ => {
                let found = raw.s_header.h_magic.get();
                return Err(FormatError::BadMagic { what: SUPERBLOCK, found, expected: super::MAGIC });
            }
        }
        let this = JournalSuperblock { raw };
        let raw = &this.raw;
        if this.csum() != LogCsum::None {
            if raw.s_checksum_type != CHECKSUM_CRC32C {
                return bad(format!("checksum type {} is not crc32c", raw.s_checksum_type));
            }
            let (stored, computed) = (raw.s_checksum.get(), checksum(raw));
            if stored != computed {
                return Err(place.checksum(SUPERBLOCK, stored, computed));
            }
        } else if this.has_lost_csum() {
            return bad("its features have no checksums, but its checksum is right for features that have".into());
        }
        if this.incompat().contains(JournalIncompat::CSUM_V2 | JournalIncompat::CSUM_V3) {
            return bad("both checksum_v2 and checksum_v3".into());
        }
        if raw.s_blocksize.get() != block_size {
            return bad(format!("block size of {} bytes, not {block_size}", raw.s_blocksize.get()));
        }
        let (len, first) = (raw.s_maxlen.get(), raw.s_first.get());
        if u64::from(len) > blocks || len < 2 {
            return bad(format!("{len} blocks, but the journal has {blocks}"));
        }
        let end = len.saturating_sub(this.fast_commit_blocks());
        if first == 0 || first >= end {
            return bad(format!("the log begins at block {first} and ends at {end}"));
        }
        if raw.s_start.get() != 0 && !(first..end).contains(&raw.s_start.get()) {
            return bad(format!("the log starts at block {}, outside {first}..{end}", raw.s_start.get()));
        }
        Ok(this)
    }

    /// Whether the bit of a checksum feature is missing that was there when the superblock was written.
    fn has_lost_csum(&self) -> bool {
        let stored = self.raw.s_checksum.get();
        let with = |feature: JournalIncompat| {
            let mut raw = self.raw.clone();
            raw.s_feature_incompat.set(raw.s_feature_incompat.get() | feature.bits());
            checksum(&raw)
        };
        stored != 0 && [JournalIncompat::CSUM_V2, JournalIncompat::CSUM_V3].into_iter().any(|f| with(f) == stored)
    }

    /// A new, empty version 2 journal of `blocks` blocks, as mke2fs makes it: without features.
    pub fn new(block_size: u32, blocks: u32, uuid: [u8; 16]) -> JournalSuperblock {
        let mut raw = RawJournalSuperblock::new_zeroed();
        raw.s_header = Header { kind: BlockType::SuperblockV2, sequence: 0 }.encode();
        raw.s_blocksize.set(block_size);
        raw.s_maxlen.set(blocks);
        raw.s_first.set(1);
        raw.s_sequence.set(1);
        raw.s_nr_users.set(1);
        raw.s_uuid = uuid;
        JournalSuperblock { raw }
    }

    /// The bytes.
    pub fn raw(&self) -> &RawJournalSuperblock {
        &self.raw
    }

    /// The bytes with their checksum, ready to be written to block 0 of the journal.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut raw = self.raw.clone();
        if self.csum() != LogCsum::None {
            raw.s_checksum_type = CHECKSUM_CRC32C;
            raw.s_checksum.set(checksum(&raw));
        }
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Incompatible features.
    pub fn incompat(&self) -> JournalIncompat {
        JournalIncompat::from_bits_retain(self.raw.s_feature_incompat.get())
    }

    /// Compatible features.
    pub fn compat(&self) -> JournalCompat {
        JournalCompat::from_bits_retain(self.raw.s_feature_compat.get())
    }

    /// Sets the incompatible features.
    pub fn set_incompat(&mut self, features: JournalIncompat) {
        self.raw.s_feature_incompat.set(features.bits());
    }

    /// Sets the compatible features.
    pub fn set_compat(&mut self, features: JournalCompat) {
        self.raw.s_feature_compat.set(features.bits());
    }

    /// Makes a version 1 superblock one of version 2, which can have features; no change to one that is.
    pub fn upgrade(&mut self) {
        self.raw.s_header = Header { kind: BlockType::SuperblockV2, sequence: 0 }.encode();
        self.raw.s_nr_users.set(self.raw.s_nr_users.get().max(1));
    }

    /// Refuses with their names incompatible features that are not in `known`, and read-only compatible ones, of which
    /// there are none.
    pub fn require_incompat(&self, known: JournalIncompat) -> Result<()> {
        let unknown = self.incompat().bits() & !known.bits();
        let named = |n: u32| match INCOMPAT_NAMES.iter().find(|(_, bit)| bit.bits() == 1 << n) {
            Some((name, _)) => (*name).to_owned(),
            None => format!("FEATURE_I{n}"),
        };
        let read_only = self.raw.s_feature_ro_compat.get();
        let names: Vec<String> = (0..32)
            .filter(|n| unknown >> n & 1 == 1)
            .map(named)
            .chain((0..32).filter(|n| read_only >> n & 1 == 1).map(|n| format!("FEATURE_R{n}")))
            .collect();
        if names.is_empty() { Ok(()) } else { Err(FormatError::Unsupported { what: "journal features", names }) }
    }

    fn csum(&self) -> LogCsum {
        if self.incompat().contains(JournalIncompat::CSUM_V3) {
            LogCsum::V3
        } else if self.incompat().contains(JournalIncompat::CSUM_V2) {
            LogCsum::V2
        } else {
            LogCsum::None
        }
    }

    /// What reading and writing the log needs to know.
    pub fn format(&self) -> LogFormat {
        LogFormat {
            block_size: self.raw.s_blocksize.get(),
            bit64: self.incompat().contains(JournalIncompat::BIT64),
            csum: self.csum(),
            has_old_csum: self.csum() == LogCsum::None && self.compat().contains(JournalCompat::CHECKSUM),
            seed: crc32c(!0, &self.raw.s_uuid),
        }
    }

    /// Volumes that share the journal.
    pub fn users(&self) -> u32 {
        self.raw.s_nr_users.get()
    }

    /// UUID of the journal.
    pub fn uuid(&self) -> &[u8; 16] {
        &self.raw.s_uuid
    }

    /// Blocks of the journal, with its superblock and the fast-commit area.
    pub fn maxlen(&self) -> u32 {
        self.raw.s_maxlen.get()
    }

    /// First block of the log.
    pub fn first(&self) -> u32 {
        self.raw.s_first.get()
    }

    /// Where the log wraps: the block behind its last.
    pub fn end(&self) -> u32 {
        self.maxlen().saturating_sub(self.fast_commit_blocks())
    }

    /// Blocks of the fast-commit area.
    pub fn fast_commit_blocks(&self) -> u32 {
        match (self.incompat().contains(JournalIncompat::FAST_COMMIT), self.raw.s_num_fc_blks.get()) {
            (false, _) => 0,
            (true, 0) => super::DEFAULT_FC_BLOCKS,
            (true, blocks) => blocks,
        }
    }

    /// First transaction expected in the log.
    pub fn sequence(&self) -> u32 {
        self.raw.s_sequence.get()
    }

    /// Block where the log starts; None if it is empty.
    pub fn start(&self) -> Option<u32> {
        Some(self.raw.s_start.get()).filter(|start| *start != 0)
    }

    /// Says where the log starts and with which transaction; None empties it.
    pub fn set_start(&mut self, start: Option<u32>, sequence: u32) {
        self.raw.s_start.set(start.unwrap_or(0));
        self.raw.s_sequence.set(sequence);
    }

    /// The least blocks of a journal that has a fast-commit area as large as this one's.
    pub fn least_blocks(&self) -> u32 {
        super::MIN_BLOCKS.saturating_add(self.fast_commit_blocks())
    }

    /// The superblock of an empty journal of `blocks` blocks that takes this one's place: of the same identity,
    /// features, users and wishes, and with the next transaction id.
    pub fn resized(&self, blocks: u32) -> JournalSuperblock {
        let mut new = self.clone();
        new.upgrade();
        new.raw.s_maxlen.set(blocks);
        new.raw.s_first.set(1);
        new.raw.s_head.set(0);
        new.set_start(None, self.sequence());
        new
    }

    /// Sets s_head, where the log's head was when it was emptied.
    pub fn set_head(&mut self, head: u32) {
        self.raw.s_head.set(head);
    }

    /// What Ondol keeps in it.
    pub fn extension(&self) -> Extension {
        self.raw.s_ondol.get()
    }

    /// Keeps `extension` in it.
    pub fn set_extension(&mut self, extension: &Extension) {
        self.raw.s_ondol.set(extension);
    }

    /// Error of an earlier abort: a negative errno, or 0.
    pub fn errno(&self) -> i32 {
        self.raw.s_errno.get() as i32
    }

    /// Records the error of an abort: a negative errno, or 0.
    pub fn set_errno(&mut self, errno: i32) {
        self.raw.s_errno.set(errno as u32);
    }
}

/// A version 1 superblock has nothing behind s_errno.
fn clear_v2_fields(raw: &mut RawJournalSuperblock) {
    let from = offset_of!(RawJournalSuperblock, s_feature_compat);
    raw.as_mut_bytes()[from..].fill(0);
}

fn checksum(raw: &RawJournalSuperblock) -> u32 {
    crc32c_skip4(!0, raw.as_bytes(), CHECKSUM).unwrap_or_default()
}
