//! Extended attributes: in the inode behind its extra fields, and in a block of their own.

mod acl;
mod codec;
mod prefix;
mod value;

pub use acl::{acl_from_disk, acl_tag, acl_to_disk};
pub use codec::{
    block_fits, inode_fits, is_entry_hash, is_value_entry_hash, parse_block, parse_inode, refcount, seal_block,
    value_entry_hash, verify_block, write_block, write_inode,
};
pub use prefix::{index, join_name, split_name};
pub use value::{
    init_value_inode, is_value_inode, set_value_hash, set_value_refs, value_hash, value_refs, value_sectors,
};

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic number of the block header and before the entries in an inode.
pub const MAGIC: u32 = 0xea02_0000;
/// Most inodes that may share a block.
pub const REFCOUNT_MAX: u32 = 1024;
/// Longest name without its prefix, bytes.
pub const NAME_MAX: usize = 255;

/// Longest value, bytes: what the system calls take.
pub const VALUE_MAX: usize = 65_536;

/// `struct ext4_xattr_header`, at the beginning of an xattr block. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawHeader {
    /// 0xEA020000.
    pub h_magic: U32,
    /// Inodes that share the block.
    pub h_refcount: U32,
    /// Blocks used; always 1.
    pub h_blocks: U32,
    /// Hash of all attributes.
    pub h_hash: U32,
    /// Checksum.
    pub h_checksum: U32,
    /// Zero.
    pub h_reserved: [U32; 3],
}

const _: () = {
    assert!(size_of::<RawHeader>() == 32);
    assert!(std::mem::offset_of!(RawHeader, h_checksum) == 16);
};

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// The prefix of the name: see [`index`].
    pub name_index: u8,
    /// The name without its prefix.
    pub name: Vec<u8>,
    /// The value; empty if it lies in an inode.
    pub value: Vec<u8>,
    /// The inode that holds the value (ea_inode); 0 if the value lies here.
    pub value_inum: u32,
    /// e_value_size: bytes of the value, wherever it lies.
    pub value_size: u32,
    /// e_hash as read; for values that lie in an inode it must be kept.
    pub hash: u32,
}

impl Xattr {
    /// An attribute whose value lies with its name.
    pub fn new(name_index: u8, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Xattr {
        let value = value.into();
        let value_size = value.len() as u32;
        Xattr { name_index, name: name.into(), value, value_inum: 0, value_size, hash: 0 }
    }

    /// Whether the value lies in an inode of its own.
    pub fn in_inode(&self) -> bool {
        self.value_inum != 0
    }
}
