//! What a block holds, as the journal's opaque [`Kind`]: enough to verify and to seal it.

use ondol_journal::Kind;

/// Class numbers; 0 is file data.
pub(crate) mod class {
    pub(crate) const SUPERBLOCK: u8 = 1;
    pub(crate) const GROUP_DESCS: u8 = 2;
    pub(crate) const BLOCK_BITMAP: u8 = 3;
    pub(crate) const INODE_BITMAP: u8 = 4;
    pub(crate) const INODE_TABLE: u8 = 5;
    pub(crate) const EXTENT_NODE: u8 = 6;
    pub(crate) const DIR_LEAF: u8 = 7;
    pub(crate) const DX_ROOT: u8 = 8;
    pub(crate) const DX_NODE: u8 = 9;
    pub(crate) const XATTR: u8 = 10;
    pub(crate) const ORPHAN_FILE: u8 = 11;
    pub(crate) const SYMLINK: u8 = 12;
    pub(crate) const INDIRECT: u8 = 13;
}

const fn kind(class: u8, owner: u32, salt: u32) -> Kind {
    Kind { class, owner, salt }
}

/// The block with the primary superblock.
pub(crate) const SUPERBLOCK: Kind = kind(class::SUPERBLOCK, 0, 0);
/// A block of an indirect block map.
pub(crate) const INDIRECT: Kind = kind(class::INDIRECT, 0, 0);
/// An xattr block.
pub(crate) const XATTR: Kind = kind(class::XATTR, 0, 0);
/// The target of a long symlink.
pub(crate) const SYMLINK: Kind = kind(class::SYMLINK, 0, 0);

/// A block of group descriptors, the first of which is that of group `first`.
pub(crate) const fn group_descs(first: u32) -> Kind {
    kind(class::GROUP_DESCS, first, 0)
}
/// The block bitmap of a group.
pub(crate) const fn block_bitmap(group: u32) -> Kind {
    kind(class::BLOCK_BITMAP, group, 0)
}
/// The inode bitmap of a group.
pub(crate) const fn inode_bitmap(group: u32) -> Kind {
    kind(class::INODE_BITMAP, group, 0)
}
/// A block of the inode table whose first inode is `first_ino`.
pub(crate) const fn inode_table(first_ino: u32) -> Kind {
    kind(class::INODE_TABLE, first_ino, 0)
}
/// A block of an inode's extent tree.
pub(crate) const fn extent_node(ino: u32, generation: u32) -> Kind {
    kind(class::EXTENT_NODE, ino, generation)
}
/// A block of directory entries.
pub(crate) const fn dir_leaf(ino: u32, generation: u32) -> Kind {
    kind(class::DIR_LEAF, ino, generation)
}
/// The root of a directory's htree (its block 0).
pub(crate) const fn dx_root(ino: u32, generation: u32) -> Kind {
    kind(class::DX_ROOT, ino, generation)
}
/// An inner node of a directory's htree.
pub(crate) const fn dx_node(ino: u32, generation: u32) -> Kind {
    kind(class::DX_NODE, ino, generation)
}
/// A block of the orphan file.
pub(crate) const fn orphan_file(ino: u32, generation: u32) -> Kind {
    kind(class::ORPHAN_FILE, ino, generation)
}
