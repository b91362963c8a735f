//! Inodes that hold a value (ea_inode): how many entries share one, and the hash of what it holds.

use super::Xattr;
use crate::inode::{FileType, Inode, InodeFlags};
use crate::superblock::Superblock;
use crate::time::Time;

/// What the owner of an attribute has in `i_blocks` for its value, if that lies in an inode: whole clusters, in units
/// of 512 bytes.
pub fn value_sectors(sb: &Superblock, xattr: &Xattr) -> u64 {
    if !xattr.in_inode() {
        return 0;
    }
    let cluster = u64::from(sb.block_size()) * u64::from(sb.cluster_ratio());
    u64::from(xattr.value_size).next_multiple_of(cluster.max(1)) / 512
}

/// Makes a new inode one that holds a value of this hash, with no references yet. Its contents and size are the
/// caller's matter.
pub fn init_value_inode(inode: &mut Inode, hash: u32) {
    inode.mode = FileType::Regular.mode_bits() | 0o600;
    inode.links = 1;
    inode.flags.insert(InodeFlags::EA_INODE);
    set_value_hash(inode, hash);
    set_value_refs(inode, 0);
}

/// Whether an inode holds a value.
pub fn is_value_inode(inode: &Inode) -> bool {
    inode.is_regular() && inode.flags.contains(InodeFlags::EA_INODE)
}

/// The hash of the value, kept as the access time.
pub fn value_hash(inode: &Inode) -> u32 {
    inode.atime.sec as u32
}

/// Sets the hash of the value.
pub fn set_value_hash(inode: &mut Inode, hash: u32) {
    inode.atime = Time { sec: i64::from(hash as i32), nsec: 0 };
}

/// Entries that share the value, kept as the times of change and the version.
pub fn value_refs(inode: &Inode) -> u64 {
    u64::from(inode.ctime.sec as u32) << 32 | u64::from(inode.version as u32)
}

/// Sets the number of entries that share the value.
pub fn set_value_refs(inode: &mut Inode, refs: u64) {
    inode.ctime = Time { sec: i64::from((refs >> 32) as i32), nsec: 0 };
    inode.version = refs & 0xffff_ffff;
}
