//! Inodes: their bytes ([`RawInode`]) and the value a volume works with ([`Inode`]).

mod codec;
mod mode;
mod raw;

pub use mode::{Device, FileType, decode_device, encode_device};
pub use raw::{EXTRA_ISIZE, GOOD_OLD_SIZE, RawInode, seal, verify};

use crate::time::Time;
use bitflags::bitflags;
use std::sync::Arc;

/// The root directory.
pub const ROOT_INO: u32 = 2;
/// The resize inode, which owns the reserved descriptor blocks.
pub const RESIZE_INO: u32 = 7;
/// The journal of a volume as mke2fs makes it.
pub const JOURNAL_INO: u32 = 8;
/// Most links of a file, and of a directory without dir_nlink.
pub const LINK_MAX: u16 = 65_000;
/// Longest target that a symlink keeps in i_block.
pub const FAST_SYMLINK_MAX: usize = 59;

bitflags! {
    /// i_flags. Bits without a name are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InodeFlags: u32 {
        /// Secure deletion; not implemented anywhere.
        const SECRM = 0x1;
        /// Undelete; not implemented anywhere.
        const UNRM = 0x2;
        /// Compression; not implemented anywhere.
        const COMPR = 0x4;
        /// Writes are synchronous.
        const SYNC = 0x8;
        /// Immutable.
        const IMMUTABLE = 0x10;
        /// Append only.
        const APPEND = 0x20;
        /// Not dumped.
        const NODUMP = 0x40;
        /// Access times are not kept.
        const NOATIME = 0x80;
        /// Encrypted.
        const ENCRYPT = 0x800;
        /// The directory is an htree.
        const INDEX = 0x1000;
        /// AFS directory.
        const IMAGIC = 0x2000;
        /// Data is journaled.
        const JOURNAL_DATA = 0x4000;
        /// The tail is not merged.
        const NOTAIL = 0x8000;
        /// Directory operations are synchronous.
        const DIRSYNC = 0x10000;
        /// Top of a directory hierarchy.
        const TOPDIR = 0x20000;
        /// i_blocks counts file system blocks.
        const HUGE_FILE = 0x40000;
        /// i_block is an extent tree.
        const EXTENTS = 0x80000;
        /// fs-verity protected.
        const VERITY = 0x10_0000;
        /// Holds a large xattr value.
        const EA_INODE = 0x20_0000;
        /// Uses DAX.
        const DAX = 0x200_0000;
        /// Data is inline.
        const INLINE_DATA = 0x1000_0000;
        /// New files inherit the project.
        const PROJINHERIT = 0x2000_0000;
        /// Names are compared without case.
        const CASEFOLD = 0x4000_0000;
        const _ = !0;
    }
}

/// What reading and writing an inode needs to know of its volume: see [`crate::Superblock::inode_format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeFormat {
    /// Bytes of an inode on the image.
    pub inode_size: u16,
    /// Bytes of a block.
    pub block_size: u32,
    /// Whether the volume has huge_file.
    pub huge_file: bool,
    /// Whether the volume has 64bit.
    pub bit64: bool,
    /// Whether the volume has large_dir.
    pub large_dir: bool,
    /// Seed of checksums, if the volume has metadata_csum.
    pub csum_seed: Option<u32>,
}

/// An inode as a value. Which of its fields reach the image depends on `extra_isize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// File type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Hard links; 1 for a directory with too many to count.
    pub links: u16,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Flags.
    pub flags: InodeFlags,
    /// Generation.
    pub generation: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Last modification.
    pub mtime: Time,
    /// Creation; zero if the inode has no room for it.
    pub crtime: Time,
    /// Deletion, seconds; the next orphan while on the orphan list; 0 for a living inode.
    pub dtime: u32,
    /// Xattr block; 0 if none.
    pub file_acl: u64,
    /// Extent root, block map, device number or fast symlink.
    pub i_block: [u8; 60],
    /// Bytes of extra fields: 0 with 128-byte inodes.
    pub extra_isize: u16,
    /// Project; 0 if the inode has no room for it.
    pub project: u32,
    /// Change counter.
    pub version: u64,
    /// Everything behind the extra fields: the in-inode xattrs (see [`crate::xattr`]), empty with 128-byte inodes.
    /// Copies of an inode share it.
    pub tail: Arc<[u8]>,
}
