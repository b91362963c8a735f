//! ext4 and jbd2 as bytes: the structures of an image, their checksums and the rules a reader must enforce.
//!
//! Nothing here does I/O or knows a cache, a lock or a journal engine. Raw structures carry the kernel's field names
//! and are read in place through zerocopy; next to each stands a checked view. Input is hostile: whatever the bytes
//! are, the answer is a value or a [`FormatError`] that names structure, block and inode.
//!
//! Sources: the kernel's `Documentation/filesystems/ext4/` and, where it and e2fsprogs disagree, what e2fsprogs does.
#![forbid(unsafe_code)]

pub mod bitmap;
pub mod csum;
pub mod dirent;
mod error;
pub mod extent;
pub mod feature;
pub mod group;
pub mod hash;
pub mod htree;
pub mod inode;
pub mod jbd2;
pub mod layout;
pub mod mkfs;
pub mod mmp;
pub mod orphan_file;
pub mod superblock;
mod text;
pub mod time;
pub mod unit;
pub mod xattr;

pub use error::{Corrupt, FormatError, Place, Result};
pub use feature::{Compat, Features, Incompat, RoCompat};
pub use inode::Inode;
pub use superblock::{RawSuperblock, Superblock};
pub use text::{is_printable, line, printable};
pub use time::Time;
