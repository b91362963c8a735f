//! Looking for a name: where it is, or the slot where it goes.

use super::htree::{self, Path};
use super::memo::{Entry, Remembered};
use super::{Dir, FIRST_BLOCK, Needs, bad, grow_needs, inline, valid_ino};
use crate::op::Reader;
use crate::{Error, Result};
use ondol_format::Inode;
use ondol_format::dirent::{DirEntry, rec_len_for};
use ondol_journal::Block;

/// Where a name that is not there goes.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// This block has room.
    Leaf {
        /// Where it lies.
        block: u64,
        /// In place of, or behind which of its entries; `None` if it has room only once its entries are packed.
        gap: Option<usize>,
    },
    /// A new block behind the last of a linear directory.
    Append,
    /// The only block is full: the directory becomes an htree.
    Convert,
    /// The leaf that the path leads to is full and is split.
    Split(Box<Path>),
    /// The leaf is full and the index cannot take another.
    Full,
    /// One of the lists in the inode has room.
    Inline,
    /// They have none: the directory gets a block, which has room if the name `fits`.
    Unfold {
        /// Whether the name fits into that block.
        fits: bool,
    },
}

/// What a search found.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// The name.
    Found(Entry),
    /// Its absence.
    Absent(Slot),
}

impl From<Remembered> for Search {
    fn from(found: Remembered) -> Self {
        match found {
            Remembered::Found(entry) => Self::Found(entry),
            Remembered::Leaf { block, gap } => Self::Absent(Slot::Leaf { block, gap }),
        }
    }
}

impl Search {
    /// What of it is worth remembering, if anything is.
    pub(crate) fn remembered(&self) -> Option<Remembered> {
        match *self {
            Self::Found(entry) => Some(Remembered::Found(entry)),
            Self::Absent(Slot::Leaf { block, gap }) => Some(Remembered::Leaf { block, gap }),
            Self::Absent(_) => None,
        }
    }

    /// The entry.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn found(self) -> Result<Entry> {
        match self {
            Self::Found(entry) => Ok(entry),
            Self::Absent(_) => Err(Error::NotFound),
        }
    }

    /// The slot.
    ///
    /// # Errors
    /// `Exists`.
    pub(crate) fn absent(self) -> Result<Slot> {
        match self {
            Self::Found(_) => Err(Error::Exists),
            Self::Absent(slot) => Ok(slot),
        }
    }
}

impl Slot {
    /// What an insertion there takes at most, beside the inode of the directory, which is `dir`.
    ///
    /// # Errors
    /// `NoSpace` if it is not possible at all.
    pub(crate) fn needs(&self, dir: &Inode) -> Result<Needs> {
        let changed = |journal: u32| Needs { journal, blocks: 0 };
        Ok(match self {
            Self::Leaf { .. } => changed(1),
            Self::Append => grow_needs(dir, 1),
            Self::Convert => changed(1) + grow_needs(dir, 2),
            Self::Split(path) => changed(path.levels() + 1) + grow_needs(dir, 1 + path.new_nodes()),
            Self::Inline => changed(0),
            Self::Unfold { fits: true } => FIRST_BLOCK,
            // That block may at once be too full.
            Self::Unfold { fits: false } => FIRST_BLOCK + changed(1) + FIRST_BLOCK + FIRST_BLOCK,
            Self::Full => return Err(Error::NoSpace("the directory's index is full")),
        })
    }
}

/// One block of entries, searched.
pub(super) struct Scan {
    /// The name, if it is there.
    pub(super) found: Option<Entry>,
    /// In place of, or behind which entry the name would fit as they lie.
    gap: Option<usize>,
    /// It would fit if they were packed.
    packed: bool,
}

impl Scan {
    /// How `block`, which has been searched, can take the name, if it can; its entries may be moved if `movable`.
    pub(super) fn room(&self, block: u64, movable: bool) -> Option<Slot> {
        (self.gap.is_some() || (movable && self.packed)).then_some(Slot::Leaf { block, gap: self.gap })
    }
}

/// Searches one block of entries.
pub(super) fn scan(reader: &dyn Reader, dir: &Dir, bytes: &Block, block: u64, name: &[u8]) -> Result<Scan> {
    let view = dir.leaf(bytes, block)?;
    let seen = view.search(name).map_err(|e| bad(block, &e))?;
    let Some(e) = seen.entry else {
        let packed = seen.used + rec_len_for(name.len()) <= view.end();
        return Ok(Scan { found: None, gap: seen.gap, packed });
    };
    check_found(reader, dir, block, &e)?;
    let found = Entry { ino: e.ino, file_type: e.file_type, block, offset: e.offset, before: seen.before };
    Ok(Scan { found: Some(found), gap: None, packed: false })
}

/// Refuses an entry that names what no name of a directory may lead to.
pub(super) fn check_found(reader: &dyn Reader, dir: &Dir, block: u64, e: &DirEntry<'_>) -> Result<()> {
    if valid_ino(reader.volume(), e.ino) && e.ino != crate::ROOT && e.ino != dir.ino {
        return Ok(());
    }
    Err(dir.corrupt(block, format!("an entry names inode {}, which cannot be", e.ino)))
}

/// Looks for a name other than "." and "..".
///
/// # Errors
/// Corruption, or the store's failure.
pub(crate) fn search(reader: &mut dyn Reader, dir: &Dir, name: &[u8]) -> Result<Search> {
    if dir.is_inline() {
        inline::find(reader, dir, name)
    } else if dir.indexed() {
        htree::search(reader, dir, name)
    } else {
        linear(reader, dir, name)
    }
}

fn linear(reader: &mut dyn Reader, dir: &Dir, name: &[u8]) -> Result<Search> {
    let (mut room, mut from) = (None, 0);
    while let Some((logical, block)) = dir.next_block(reader, from)? {
        let bytes = reader.block(block, dir.leaf_kind())?;
        let scan = scan(reader, dir, &bytes, block, name)?;
        if let Some(entry) = scan.found {
            return Ok(Search::Found(entry));
        }
        room = room.or_else(|| scan.room(block, dir.hashed()));
        from = logical + 1;
    }
    Ok(Search::Absent(match room {
        Some(slot) => slot,
        None if dir.hashed() => Slot::Convert,
        None => Slot::Append,
    }))
}
