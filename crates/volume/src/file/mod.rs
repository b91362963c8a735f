//! Contents of files: extents, read, write, truncate, fallocate.
//!
//! ```text
//!   read view write batch append truncate fallocate seek copy exchange   grow, shrink (directories, orphans)
//!        │        │        │                              │
//!        │        └── data: home or journal               │
//!        └───────────────┬────────────────────────────────┘
//!                     mapping
//!                        ├── tree: extents
//!                        └── blocks: ext2's block map            inline: bytes in the inode, until they do not fit
//! ```
//!
//! **Crash guarantee**: a write of at most [`crate::FileIo::atomic_bytes`] bytes, and every step of larger work, is one
//! operation. A truncate that needs several is on the orphan list meanwhile, so that recovery ends it.

pub(crate) mod batch;
mod batched;
mod blocks;
mod cluster;
mod copy;
pub(crate) mod counts;
mod data;
mod exchange;
mod extents;
mod fallocate;
mod grow;
mod inline;
mod mapping;
pub(crate) mod once_journaled;
pub(crate) mod plan;
mod read;
mod replay;
mod shift;
mod tree;
pub(crate) mod truncate;
mod view;
pub(crate) mod write;

pub use blocks::DIRECT;
pub use copy::{MOST_BYTES, MOST_RUNS};
pub use fallocate::STEP_BLOCKS;

pub(crate) use grow::{free_cost, grow, grow_blocks, grow_cost, has_blocks, has_root_room, init_mapping, shrink};
pub(crate) use replay::{convert_run, map_run, unmap};

use crate::inline::is_inline;
use crate::op::Reader;
use crate::{Error, Ino, Result, Volume};
use ondol_format::extent::MAX_LOGICAL;
use ondol_format::{FormatError, Inode};
use ondol_journal::{Block, Kind};

/// `FileIo` reads and writes the contents of one file, and changes its size and what is allocated to it.
#[derive(Clone, Copy)]
pub struct FileIo<'v> {
    vol: &'v Volume,
}

/// `FileRanges` changes ranges of files as one: batches, exchanges and copies.
#[derive(Clone, Copy)]
pub struct FileRanges<'v> {
    vol: &'v Volume,
}

impl Volume {
    /// The part that works on the contents of one file.
    pub fn files(&self) -> FileIo<'_> {
        FileIo { vol: self }
    }

    /// The part that works on ranges of files, of several files too.
    pub fn ranges(&self) -> FileRanges<'_> {
        FileRanges { vol: self }
    }
}

/// What a run of a file's blocks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// Nothing is allocated.
    Hole,
    /// Allocated from this block on, reads as zeros.
    Unwritten(u64),
    /// Stored from this block on.
    Written(u64),
}

/// A run of a file's blocks that are mapped alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First logical block.
    pub(crate) at: u32,
    /// Blocks.
    pub(crate) len: u32,
    /// How they are mapped.
    pub(crate) what: Mapped,
}

/// Where a look-up gets mapping blocks from, and what it may believe of them.
pub(crate) trait Source {
    /// The content of a block of the mapping.
    fn node(&mut self, block: u64, kind: Kind) -> Result<Block>;
    /// Whether the run can belong to file `ino`.
    fn may_own(&self, ino: Ino, start: u64, len: u64) -> bool;
    /// Bytes in a block.
    fn block_size(&self) -> u32;
}

/// A volume, or an operation on it, as a source.
pub(crate) struct Mounted<'a>(pub(crate) &'a mut dyn Reader);

impl Source for Mounted<'_> {
    fn node(&mut self, block: u64, kind: Kind) -> Result<Block> {
        self.0.block(block, kind)
    }

    fn may_own(&self, ino: Ino, start: u64, len: u64) -> bool {
        let shared = &self.0.volume().shared;
        // A journal's blocks were looked at when it was opened, and are nobody else's.
        let own = || shared.is_journal(ino) && shared.sb.contains_blocks(&(start..start.saturating_add(len)));
        shared.may_own(start, len) || own()
    }

    fn block_size(&self) -> u32 {
        self.0.volume().shared.sb.block_size()
    }
}

/// One look-up: the run, and the node that it was found in.
pub(crate) struct Found {
    /// The run that begins at the block that was looked for.
    pub(crate) run: Run,
    /// Levels of the tree above the leaves.
    pub(crate) depth: u16,
    /// The leaf's block; 0 for the root in the inode.
    pub(crate) leaf: u64,
    /// How many more entries the leaf has room for.
    pub(crate) room: usize,
}

/// The run that contains logical block `at`, beginning at `at`.
///
/// # Errors
/// `FileTooBig` past the last logical block; corruption of the mapping; the store's failure.
pub(crate) fn map(reader: &mut dyn Reader, ino: Ino, inode: &Inode, at: u32) -> Result<Run> {
    Ok(find(&mut Mounted(reader), ino, inode, at)?.run)
}

/// As [`map`], from any source, with what the look-up saw on its way.
pub(crate) fn find(source: &mut dyn Source, ino: Ino, inode: &Inode, at: u32) -> Result<Found> {
    if at == MAX_LOGICAL {
        return Err(Error::FileTooBig);
    }
    if is_inline(inode) {
        return Err(Error::corrupt(format!("mapping of inode {ino}"), 0, "its contents lie in the inode"));
    }
    if inode.has_extents() {
        tree::find(source, ino, inode, at)
    } else {
        let run = blocks::find(source, ino, inode, at)?;
        Ok(Found { run, depth: 0, leaf: 0, room: 0 })
    }
}

/// The error for a mapping that breaks its rules in `block`.
fn bad_node(ino: Ino, block: u64) -> impl Fn(FormatError) -> Error {
    move |e| Error::corrupt(format!("mapping of inode {ino}"), block, e.to_string())
}

/// The error for a pointer in the mapping to what cannot be the file's.
fn bad_pointer(ino: Ino, block: u64, len: u64) -> Error {
    let what = format!("a run of {len} blocks there cannot belong to a file");
    Error::corrupt(format!("mapping of inode {ino}"), block, what)
}

/// Refuses to go on through a map in which `allocated` blocks have been passed, if the volume does not have so many: a
/// hostile one names the same blocks again and again.
fn check_passed(vol: &Volume, ino: Ino, allocated: u64) -> Result<()> {
    if allocated <= vol.shared.sb.blocks_count() {
        return Ok(());
    }
    Err(Error::corrupt(format!("mapping of inode {ino}"), 0, "more blocks are mapped than the volume has"))
}
