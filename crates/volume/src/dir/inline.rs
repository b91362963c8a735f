//! Directories whose entries lie in the inode.
//!
//! ```text
//!   0        parent's inode number         no "." and ".."
//!   4..60    a list of entries             in i_block
//!   60..     a list of entries             in the attribute system.data
//! ```
//!
//! Each list is a directory block in small. When a name does not fit, the directory gets a block, in which both lists
//! stand behind "." and "..", every entry [`SHIFT`] bytes behind where it was: so positions in the listing stay as they
//! are.

use super::memo::Entry;
use super::search::{Search, Slot};
use super::{Dir, NewEntry, bad, insert, search, valid_ino};
use crate::inline::{self, IN_BLOCK, is_inline};
use crate::op::{Op, Reader};
use crate::{Ino, Result};
use ondol_format::dirent::{DirBlock, DirBlockMut, Dots, Edit, TAIL, rec_len_for};
use ondol_format::{Incompat, Inode};
use std::ops::Range;

/// Where the entries begin: behind the parent.
const FIRST: usize = 4;
/// How far an entry moves when its directory gets a block.
pub(super) const SHIFT: usize = DOTS - FIRST;
/// Bytes that "." and ".." take in a block.
const DOTS: usize = 24;
/// Stands for the inode where an entry's block is named.
pub(super) const HERE: u64 = 0;

/// The lists among bytes of this length.
fn lists(len: usize) -> [Range<usize>; 2] {
    [FIRST..IN_BLOCK.min(len), IN_BLOCK.min(len)..len]
}

/// Makes an inode an empty directory below `parent`; false, and no change, if there is no room.
pub(super) fn init(inode: &mut Inode, parent: Ino) -> bool {
    let mut bytes = [0; IN_BLOCK];
    bytes[..FIRST].copy_from_slice(&parent.to_le_bytes());
    let place = ondol_format::Place::NONE;
    DirBlockMut::init_empty(&mut bytes[FIRST..], false, place);
    if !inline::store(inode, &bytes) {
        return false;
    }
    inode.size = IN_BLOCK as u64;
    true
}

impl Dir {
    /// Whether the entries lie in the inode.
    pub(super) fn is_inline(&self) -> bool {
        is_inline(&self.inode)
    }

    /// Calls `see` with each list and where it begins.
    pub(super) fn each_list(&self, see: &mut dyn FnMut(&DirBlock<'_>, usize) -> Result<bool>) -> Result<()> {
        let bytes = inline::stored(self.ino, &self.inode)?;
        for range in lists(bytes.len()) {
            let base = range.start;
            let view = DirBlock::new(&bytes[range], false, self.place(HERE)).map_err(|e| bad(HERE, &e))?;
            if !see(&view, base)? {
                break;
            }
        }
        Ok(())
    }

    /// The parent.
    pub(super) fn inline_parent(&self, reader: &dyn Reader) -> Result<Ino> {
        let parent = self.inode.block_word(0);
        if valid_ino(reader.volume(), parent) {
            return Ok(parent);
        }
        Err(self.corrupt(HERE, format!("it says that inode {parent} is its parent")))
    }
}

/// Looks for a name.
pub(super) fn find(reader: &dyn Reader, dir: &Dir, name: &[u8]) -> Result<Search> {
    let (mut found, mut room, mut used) = (None, false, DOTS);
    dir.each_list(&mut |view, base| {
        let seen = view.search(name).map_err(|e| bad(HERE, &e))?;
        if let Some(e) = seen.entry {
            search::check_found(reader, dir, HERE, &e)?;
            let before = seen.before.map(|before| base + before);
            found = Some(Entry { ino: e.ino, file_type: e.file_type, block: HERE, offset: base + e.offset, before });
        }
        room |= seen.gap.is_some();
        used += view.end();
        Ok(found.is_none())
    })?;
    let end = reader.volume().shared.sb.block_size() as usize - TAIL;
    Ok(match found {
        Some(entry) => Search::Found(entry),
        None if room => Search::Absent(Slot::Inline),
        None => Search::Absent(Slot::Unfold { fits: used + rec_len_for(name.len()) <= end }),
    })
}

/// Applies the change that `edit` makes of the lists, each of which it gets with where it begins, until it has one.
fn edit_lists(
    op: &mut Op<'_>,
    dir: &Dir,
    edit: &mut dyn FnMut(&DirBlock<'_>, usize) -> ondol_format::Result<Option<Edit>>,
) -> Result<bool> {
    let mut bytes = inline::stored(dir.ino, &dir.inode)?;
    for range in lists(bytes.len()) {
        let base = range.start;
        let list = DirBlock::new(&bytes[range.clone()], false, dir.place(HERE));
        if let Some(edit) = list.and_then(|list| edit(&list, base)).map_err(|e| bad(HERE, &e))? {
            edit.apply(&mut bytes[range]);
            return Ok(inline::store(op.inode_mut(dir.ino)?, &bytes));
        }
    }
    Ok(false)
}

/// Puts a name where a search has seen room for it.
pub(super) fn put(op: &mut Op<'_>, dir: &Dir, new: NewEntry<'_>) -> Result<()> {
    let done = edit_lists(op, dir, &mut |list, _| {
        let gap = list.search(new.name)?.gap;
        gap.map(|gap| list.insertion(gap, new.name, new.ino, new.file_type)).transpose()
    })?;
    if done { Ok(()) } else { Err(crate::Error::Invalid("a name was given a slot without room")) }
}

/// Applies the change that `edit` makes of the list that holds an entry, and of where it and the one before it begin
/// there.
pub(super) fn change(
    op: &mut Op<'_>,
    dir: &Dir,
    entry: &Entry,
    edit: impl FnOnce(&DirBlock<'_>, Option<usize>, usize) -> ondol_format::Result<Edit>,
) -> Result<()> {
    let &Entry { offset, before, .. } = entry;
    let mut edit = Some(edit);
    let done = edit_lists(op, dir, &mut |list, base| {
        let here = (base == IN_BLOCK) == (offset >= IN_BLOCK);
        let edit = edit.take_if(|_| here);
        edit.map(|edit| edit(list, before.map(|before| before - base), offset - base)).transpose()
    })?;
    if done { Ok(()) } else { Err(dir.corrupt(HERE, format!("there is no entry at byte {offset}"))) }
}

/// Gives a directory a block with its entries.
///
/// # Errors
/// `NoSpace` beyond the promise; corruption of what is stored.
pub(super) fn unfold(op: &mut Op<'_>, dir: &Dir) -> Result<()> {
    let vol = op.vol();
    let sb = &vol.shared.sb;
    let parent = dir.inline_parent(op)?;
    let stored = inline::stored(dir.ino, &dir.inode)?;
    let mut bytes = vec![0; sb.block_size() as usize];
    let dots = Dots { ino: dir.ino, parent, filetype: sb.has_incompat(Incompat::FILETYPE) };
    let areas = lists(stored.len()).map(|range| &stored[range]);
    DirBlockMut::init_unfolded(&mut bytes, dots, &areas, dir.csum, dir.place(HERE)).map_err(|e| bad(HERE, &e))?;
    let inode = op.inode_mut(dir.ino)?;
    inline::take(dir.ino, inode)?;
    inode.size = 0;
    crate::file::init_mapping(vol, inode);
    super::new_block(op, dir.ino, dir.leaf_kind(), &bytes).map(|_| ())
}

/// Gives a directory a block and puts a name into it, or behind it.
pub(super) fn unfold_and_put(op: &mut Op<'_>, dir: &Dir, new: NewEntry<'_>) -> Result<()> {
    unfold(op, dir)?;
    let dir = Dir::of(op, dir.ino)?;
    let slot = search::search(op, &dir, new.name)?.absent()?;
    insert::insert(op, dir.ino, slot, new)
}
