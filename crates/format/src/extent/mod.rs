//! Extent tree nodes: the root in i_block and the blocks below it.

mod edit;
mod node;

pub use edit::NodeMut;
pub use node::{Node, seal, verify};

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// eh_magic.
pub const MAGIC: u16 = 0xf30a;
/// Deepest tree: levels of index nodes above the leaves.
pub const MAX_DEPTH: u16 = 5;
/// Longest initialised extent, blocks.
pub const MAX_LEN: u32 = 32768;
/// Longest unwritten extent, blocks.
pub const MAX_UNWRITTEN_LEN: u32 = 32767;
/// Logical blocks end here: block 2^32-1 is not usable.
pub const MAX_LOGICAL: u32 = u32::MAX;
/// Bytes of the root in i_block.
pub const ROOT_SIZE: usize = 60;
/// Bytes of the header and of an entry.
pub(crate) const ENTRY: usize = 12;

/// `struct ext4_extent_header`. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawHeader {
    /// 0xF30A.
    pub eh_magic: U16,
    /// Entries in use.
    pub eh_entries: U16,
    /// Entries that fit.
    pub eh_max: U16,
    /// Levels below this node; 0 for a leaf.
    pub eh_depth: U16,
    /// Generation; unused by ext4.
    pub eh_generation: U32,
}

/// `struct ext4_extent`. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtent {
    /// First logical block.
    pub ee_block: U32,
    /// Blocks; above 32768 unwritten, and 32768 more than the blocks.
    pub ee_len: U16,
    /// First physical block, high half.
    pub ee_start_hi: U16,
    /// First physical block, low half.
    pub ee_start_lo: U32,
}

/// `struct ext4_extent_idx`. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawIndex {
    /// First logical block below.
    pub ei_block: U32,
    /// Block of the node below, low half.
    pub ei_leaf_lo: U32,
    /// Block of the node below, high half.
    pub ei_leaf_hi: U16,
    /// Unused.
    pub ei_unused: U16,
}

const _: () = {
    assert!(size_of::<RawHeader>() == ENTRY);
    assert!(size_of::<RawExtent>() == ENTRY);
    assert!(size_of::<RawIndex>() == ENTRY);
    assert!(std::mem::offset_of!(RawExtent, ee_start_lo) == 8);
    assert!(std::mem::offset_of!(RawIndex, ei_leaf_hi) == 8);
};

/// A run of blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First logical block.
    pub logical: u32,
    /// First physical block.
    pub start: u64,
    /// Blocks, 1 to [`MAX_LEN`] or, unwritten, [`MAX_UNWRITTEN_LEN`].
    pub len: u32,
    /// Allocated but reads as zeros.
    pub unwritten: bool,
}

impl Extent {
    /// The logical block behind the last.
    pub fn end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.len)
    }

    /// The physical block of `logical`; None outside the extent.
    pub fn map(&self, logical: u32) -> Option<u64> {
        let from = logical.checked_sub(self.logical)?;
        (from < self.len).then(|| self.start.saturating_add(u64::from(from)))
    }

    /// Whether `next` continues this extent and both fit into one.
    pub fn can_merge(&self, next: &Extent) -> bool {
        let most = if self.unwritten { MAX_UNWRITTEN_LEN } else { MAX_LEN };
        self.unwritten == next.unwritten
            && self.end() == u64::from(next.logical)
            && self.start + u64::from(self.len) == next.start
            && self.len.saturating_add(next.len) <= most
    }

    /// The entry as bytes. Lengths past the maximum are a caller's mistake and are cut.
    pub fn encode(&self) -> RawExtent {
        let len = if self.unwritten { self.len.min(MAX_UNWRITTEN_LEN) + MAX_LEN } else { self.len.min(MAX_LEN) };
        RawExtent {
            ee_block: U32::new(self.logical),
            ee_len: U16::new(len as u16),
            ee_start_hi: U16::new((self.start >> 32) as u16),
            ee_start_lo: U32::new(self.start as u32),
        }
    }

    /// From the bytes of an entry.
    pub fn decode(raw: &RawExtent) -> Extent {
        let len = u32::from(raw.ee_len.get());
        let unwritten = len > MAX_LEN;
        Extent {
            logical: raw.ee_block.get(),
            start: u64::from(raw.ee_start_lo.get()) | u64::from(raw.ee_start_hi.get()) << 32,
            len: if unwritten { len - MAX_LEN } else { len },
            unwritten,
        }
    }
}

/// A pointer to a node of the next level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// First logical block below.
    pub logical: u32,
    /// Physical block of the node.
    pub leaf: u64,
}

impl Index {
    /// The entry as bytes.
    pub fn encode(&self) -> RawIndex {
        RawIndex {
            ei_block: U32::new(self.logical),
            ei_leaf_lo: U32::new(self.leaf as u32),
            ei_leaf_hi: U16::new((self.leaf >> 32) as u16),
            ei_unused: U16::new(0),
        }
    }

    /// From the bytes of an entry.
    pub fn decode(raw: &RawIndex) -> Index {
        let leaf = u64::from(raw.ei_leaf_lo.get()) | u64::from(raw.ei_leaf_hi.get()) << 32;
        Index { logical: raw.ei_block.get(), leaf }
    }
}

/// Entries that fit into a node of `bytes` bytes: 4 in the root, 340 in a block of 4 KiB.
pub fn capacity(bytes: usize) -> u16 {
    (bytes / ENTRY).saturating_sub(1).min(usize::from(u16::MAX)) as u16
}
