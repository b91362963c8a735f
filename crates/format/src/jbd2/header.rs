//! The 12 bytes that begin every block of the log that is not a copy of a home block.

use super::MAGIC;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `struct journal_header_s`. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBlockHeader {
    /// 0xC03B3998.
    pub h_magic: U32,
    /// See [`BlockType`].
    pub h_blocktype: U32,
    /// Transaction.
    pub h_sequence: U32,
}

const _: () = assert!(size_of::<RawBlockHeader>() == super::HEADER);

/// h_blocktype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockType {
    /// Says where the blocks that follow belong.
    Descriptor,
    /// Ends a transaction.
    Commit,
    /// Superblock without features.
    SuperblockV1,
    /// Superblock.
    SuperblockV2,
    /// Blocks not to be replayed.
    Revoke,
}

impl BlockType {
    /// From h_blocktype.
    pub fn from_code(code: u32) -> Option<BlockType> {
        match code {
            1 => Some(BlockType::Descriptor),
            2 => Some(BlockType::Commit),
            3 => Some(BlockType::SuperblockV1),
            4 => Some(BlockType::SuperblockV2),
            5 => Some(BlockType::Revoke),
            _ => None,
        }
    }

    /// The value of h_blocktype.
    pub fn code(self) -> u32 {
        match self {
            BlockType::Descriptor => 1,
            BlockType::Commit => 2,
            BlockType::SuperblockV1 => 3,
            BlockType::SuperblockV2 => 4,
            BlockType::Revoke => 5,
        }
    }
}

/// A block header that has the magic number and a known type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the block.
    pub kind: BlockType,
    /// Its transaction.
    pub sequence: u32,
}

impl Header {
    /// Reads the header of a block; None if it is none: the log ends there.
    pub fn parse(block: &[u8]) -> Option<Header> {
        let (raw, _) = RawBlockHeader::ref_from_prefix(block).ok()?;
        let kind = BlockType::from_code(raw.h_blocktype.get())?;
        (raw.h_magic.get() == MAGIC).then(|| Header { kind, sequence: raw.h_sequence.get() })
    }

    /// The header as bytes.
    pub fn encode(&self) -> RawBlockHeader {
        RawBlockHeader {
            h_magic: U32::new(MAGIC),
            h_blocktype: U32::new(self.kind.code()),
            h_sequence: U32::new(self.sequence),
        }
    }
}
