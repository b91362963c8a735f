//! Directory blocks: entries, the checksum tail, and changes in place.

mod block;
mod edit;

pub use block::{DirBlock, Entries, Searched, seal, verify};
pub use edit::{DirBlockMut, Dots, Edit};

/// Bytes of an entry before its name.
pub const HEADER: usize = 8;
/// Longest name, bytes.
pub const NAME_MAX: usize = 255;
/// Bytes of the checksum tail.
pub const TAIL: usize = 12;
/// file_type of the checksum tail.
pub const TAIL_FILE_TYPE: u8 = 0xde;

/// One entry in use, or one that a deletion left (inode 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Byte offset in the block.
    pub offset: usize,
    /// Inode; 0 if the entry is free.
    pub ino: u32,
    /// Bytes to the next entry.
    pub rec_len: usize,
    /// File type code, 0 on volumes without filetype: see [`crate::inode::FileType::from_dirent`].
    pub file_type: u8,
    /// The name.
    pub name: &'a [u8],
}

/// Bytes an entry with a name of `name_len` bytes needs: a multiple of 4.
pub const fn rec_len_for(name_len: usize) -> usize {
    (HEADER + 3 + name_len) & !3
}

/// Whether a directory can hold this name: 1 to 255 bytes, no slash, no zero, not "." or "..".
pub fn is_valid_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}
