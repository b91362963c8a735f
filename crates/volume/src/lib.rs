//! The file system: names, inodes, extents, allocation and file I/O over ext4's own structures.
//!
//! ```text
//!   Volume, with its parts Namespace, FileIo, FileRanges, InodeOps, Xattrs, FreeSpace, PageCache (inode-level calls)
//!     └─ Op: locked inodes + claims on space + Handle ──▶ journal engine (whichever)
//!          ├─ dir/      names: linear blocks and htree
//!          ├─ file/     mapping, read, write, truncate, fallocate
//!          ├─ inline    contents in the inode, of files and directories
//!          ├─ alloc/    bitmaps, sharded by group
//!          └─ orphan, xattr
//!   Shared: geometry and groups; verifies and seals blocks for the journal (Client)
//! ```
//!
//! **Crash guarantee**: every call that changes the volume is one closed handle, or a documented sequence of them, each
//! of which leaves an image that e2fsck finds nothing to mend in. Which prefix of them survives is the journal's
//! promise. This crate never sees which engine or medium lies below, and knows no paths and no errno.
#![forbid(unsafe_code)]

mod alloc;
mod attr;
mod behalf;
mod check;
pub mod contents;
mod dir;
mod error;
mod examine;
mod fast_commit;
mod file;
mod flags;
mod geometry;
mod growing;
mod image;
mod inline;
mod inode;
mod journal_map;
mod journal_swap;
mod kind;
mod lookups;
mod memory;
mod mmp;
mod mounting;
mod newest;
mod node;
mod noted;
mod op;
mod orphan;
mod page_cache;
mod pages;
mod resize;
mod shared;
mod space;
mod stats;
pub mod thresholds;
mod time;
mod transaction;
mod trim;
mod types;
mod volume;
mod xattr;

pub use check::{CheckReport, Pass, Problem, Progress, check};
pub use dir::ops::Namespace;
pub use error::{Deceived, Error, Result, images_may_deceive};
pub use file::batch::Batch;
pub use file::{FileIo, FileRanges};
pub use flags::FsxAttr;
pub use image::Image;
pub use inode::InodeOps;
pub use memory::{Aside, MemoryBlocks};
pub use mmp::Mmp;
pub use mounting::Replay;
pub use ondol_format::inode::{Device, FileType};
pub use ondol_journal::Piece;
pub use orphan::Processed;
pub use page_cache::PageCache;
pub use resize::{Resize, ResizeStep, Resized, end_resize, fitted_blocks};
pub use shared::{Shared, inodes_changed};
pub use space::FreeSpace;
pub use stats::VolumeStats;
pub use transaction::{Step, Trail, TransactionError};
pub use types::*;
pub use volume::{Volume, VolumeOptions};
pub use xattr::Xattrs;
