//! Names: directories as linear blocks and as htrees, and the operations on them.
//!
//! ```text
//!   ops/      lookup, create…, link, unlink, rename: lock, plan, begin an Op, do_…, close
//!     ├─ search   where a name is, or the slot where it goes    ├─ insert   into that slot: room, split, new block
//!     ├─ read     readdir                                       ├─ remove   and replace
//!     ├─ lock     several inodes at once                        └─ init     new inodes, the first block of a directory
//!     └─ memo     the name that was last looked for
//!   inline    entries in the inode
//!   htree/    the index: descent, splits of nodes, growth by a level
//! ```
//!
//! A plan (a found [`Entry`] or a [`Slot`]) holds as long as the directory stays locked and unchanged: a name is looked
//! for once, and the plan says exactly what journal space and how many blocks the change needs.

mod htree;
pub(crate) mod init;
mod inline;
mod insert;
pub(crate) mod lock;
pub(crate) mod memo;
pub(crate) mod ops;
mod read;
mod remove;
mod search;

pub(crate) use insert::insert as insert_name;
pub(crate) use memo::Entry;
pub(crate) use ops::find_in;
pub(crate) use remove::remove as remove_name;
pub(crate) use search::{Search, Slot};

use crate::file::{self, Mapped};
use crate::inline::is_inline;
use crate::op::{Op, Reader, View};
use crate::{Error, Ino, Result, Volume, kind};
use ondol_format::hash::{DxHash, HashVersion};
use ondol_format::inode::{FileType, InodeFlags};
use ondol_format::{Compat, FormatError, Incompat, Inode, Place, dirent};
use ondol_journal::{Block, Kind};

/// What a change takes: journal blocks, and blocks to allocate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Journal blocks beside the inodes of the directories.
    pub(crate) journal: u32,
    /// Blocks.
    pub(crate) blocks: u64,
}

impl std::ops::Add for Needs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { journal: self.journal + other.journal, blocks: self.blocks + other.blocks }
    }
}

/// A directory as one operation sees it, checked.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    pub(crate) ino: Ino,
    pub(crate) inode: Inode,
    blocks: u32,
    csum: bool,
    dir_index: bool,
}

/// Directories of these kinds are not read: their entries lie elsewhere or cannot be compared byte by byte.
const FOREIGN: InodeFlags = InodeFlags::ENCRYPT.union(InodeFlags::CASEFOLD);

impl Dir {
    /// Checks that `inode` is a directory that has not been removed.
    pub(crate) fn new(vol: &Volume, ino: Ino, inode: &Inode) -> Result<Self> {
        if !inode.is_dir() {
            return Err(Error::NotDirectory(ino));
        }
        if inode.links == 0 {
            return Err(Error::NotFound);
        }
        if inode.flags.intersects(FOREIGN) {
            let what = format!("directory {ino} with encryption or case folding");
            return Err(Error::Unsupported(what));
        }
        let sb = &vol.shared.sb;
        // None has more blocks than the volume, even with holes: a search through all of them comes to an end.
        let (size, most) = if is_inline(inode) {
            // One list of entries, as a single block is.
            (crate::inline::stored(ino, inode)?.len() as u64, 1)
        } else {
            (u64::from(sb.block_size()), sb.blocks_count())
        };
        let possible = |n: &u32| (1..=most).contains(&u64::from(*n)) && inode.size.is_multiple_of(size);
        let blocks = u32::try_from(inode.size / size).ok().filter(possible);
        let Some(blocks) = blocks else {
            let at = crate::node::locate(&vol.shared, ino).map_or(0, |(block, ..)| block);
            return Err(Error::corrupt(format!("directory {ino}"), at, format!("a size of {} bytes", inode.size)));
        };
        let dir_index = sb.has_compat(Compat::DIR_INDEX);
        Ok(Self { ino, inode: inode.clone(), blocks, csum: sb.features().has_metadata_csum(), dir_index })
    }

    /// The directory as `op`, which holds it, has it so far.
    pub(crate) fn of(op: &Op<'_>, ino: Ino) -> Result<Self> {
        Self::new(op.vol(), ino, op.inode(ino)?)
    }

    /// The directory as a view has it.
    pub(crate) fn seen(view: &dyn View, ino: Ino) -> Result<Self> {
        Self::new(view.volume(), ino, view.inode(ino)?)
    }

    /// Whether the entries are found through an index. Without the feature dir_index, the flag means nothing.
    fn indexed(&self) -> bool {
        self.dir_index && !self.is_inline() && self.inode.flags.contains(InodeFlags::INDEX)
    }

    /// Whether the entries are listed by hash, and may therefore move: htrees, and what becomes one when it grows.
    fn hashed(&self) -> bool {
        self.dir_index && (self.blocks == 1 || self.indexed())
    }

    fn leaf_kind(&self) -> Kind {
        kind::dir_leaf(self.ino, self.inode.generation)
    }

    fn node_kind(&self) -> Kind {
        kind::dx_node(self.ino, self.inode.generation)
    }

    fn root_kind(&self) -> Kind {
        kind::dx_root(self.ino, self.inode.generation)
    }

    /// What block 0 is.
    fn first_kind(&self) -> Kind {
        if self.indexed() { self.root_kind() } else { self.leaf_kind() }
    }

    fn place(&self, block: u64) -> Place {
        Place::inode(self.ino).in_block(block)
    }

    fn corrupt(&self, block: u64, what: impl Into<String>) -> Error {
        Error::corrupt(format!("directory {}", self.ino), block, what)
    }

    /// The hash function of version `version`, or of new indexes.
    fn hasher(&self, vol: &Volume, version: Option<HashVersion>) -> DxHash {
        let sb = &vol.shared.sb;
        version.map_or_else(|| sb.dx_hash(), |version| sb.dx_hash_of(version))
    }

    /// Where logical block `logical`, which must not be a hole, lies.
    fn physical(&self, reader: &mut dyn Reader, logical: u32) -> Result<u64> {
        match file::map(reader, self.ino, &self.inode, logical)?.what {
            Mapped::Written(block) => Ok(block),
            _ => Err(self.corrupt(0, format!("its block {logical} is a hole"))),
        }
    }

    /// The first block that is no hole, from logical block `from` on: logical and physical.
    fn next_block(&self, reader: &mut dyn Reader, from: u32) -> Result<Option<(u32, u64)>> {
        let mut at = from;
        while at < self.blocks {
            let run = file::map(reader, self.ino, &self.inode, at)?;
            if let Mapped::Written(block) = run.what {
                return Ok(Some((at, block)));
            }
            at = at.saturating_add(run.len.max(1));
        }
        Ok(None)
    }

    /// A block of entries.
    fn leaf<'b>(&self, bytes: &'b Block, block: u64) -> Result<dirent::DirBlock<'b>> {
        dirent::DirBlock::new(bytes, self.csum, self.place(block)).map_err(|e| bad(block, &e))
    }

    /// The parent that ".." in block 0 names, and that block; [`inline::HERE`] where there is none.
    pub(crate) fn parent(&self, reader: &mut dyn Reader) -> Result<(Ino, u64)> {
        if self.is_inline() {
            return Ok((self.inline_parent(reader)?, inline::HERE));
        }
        let block = self.physical(reader, 0)?;
        let bytes = reader.block(block, self.first_kind())?;
        // An htree's root looks like a block of these two entries to whoever does not ask for its end.
        let view = dirent::DirBlock::new(&bytes, self.csum && !self.indexed(), self.place(block));
        let view = view.map_err(|e| bad(block, &e))?;
        let entry = |at: usize| view.entry_at(at).map_err(|e| bad(block, &e));
        let (dot, dotdot) = (entry(0)?, entry(DOTDOT)?);
        if dot.ino != self.ino || dot.name != b"." || dot.rec_len != DOTDOT {
            return Err(self.corrupt(block, "the first entry is not \".\""));
        }
        if dotdot.name != b".." || !valid_ino(reader.volume(), dotdot.ino) {
            return Err(self.corrupt(block, "the second entry is not \"..\""));
        }
        Ok((dotdot.ino, block))
    }
}

/// Where ".." begins in block 0.
const DOTDOT: usize = 12;

/// Whether an entry may name this inode.
fn valid_ino(vol: &Volume, ino: Ino) -> bool {
    vol.shared.sb.may_be_named(ino)
}

/// The file type code that a new entry gets.
fn type_code(vol: &Volume, file_type: FileType) -> u8 {
    if vol.shared.sb.has_incompat(Incompat::FILETYPE) { file_type.dirent_code() } else { 0 }
}

/// What the format found wrong in `block`.
fn bad(block: u64, e: &FormatError) -> Error {
    match e {
        FormatError::Corrupt(c) => {
            let owner = c.place.inode.map_or(String::new(), |ino| format!(" of directory {ino}"));
            Error::corrupt(format!("{}{owner}", c.structure), block, c.what.clone())
        }
        e => Error::corrupt("directory", block, e.to_string()),
    }
}

/// What growing this directory or symlink by `n` blocks takes, the new blocks included.
fn grow_needs(inode: &Inode, n: u32) -> Needs {
    if file::has_root_room(inode, n) {
        // The block, its bitmap and its group's descriptor; the mapping stays in the inode.
        return Needs { journal: 3 * n, blocks: u64::from(n) };
    }
    Needs { journal: (file::grow_cost() + 1) * n, blocks: file::grow_blocks() * u64::from(n) }
}

/// What the first block of a new inode takes.
const FIRST_BLOCK: Needs = Needs { journal: 3, blocks: 1 };

/// Grows directory `ino` by a block of these bytes: logical and physical block.
fn new_block(op: &mut Op<'_>, ino: Ino, kind: Kind, bytes: &[u8]) -> Result<(u32, u64)> {
    let (logical, block) = file::grow(op, ino)?;
    let handle = op.handle()?;
    handle.fresh(block, kind)?;
    handle.write(block, kind, 0, bytes)?;
    Ok((logical, block))
}

/// An entry as it is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    /// The name.
    pub(crate) name: &'a [u8],
    /// The inode it names.
    pub(crate) ino: Ino,
    /// Its file type code.
    pub(crate) file_type: u8,
}
