//! Putting a name into the slot that a search found for it.

use super::htree::{self, Path};
use super::{Dir, NewEntry, Slot, bad, inline, new_block};
use crate::op::{Op, Reader};
use crate::{Error, Ino, Result};
use ondol_format::Incompat;
use ondol_format::dirent::{DirBlock, DirBlockMut, Dots, rec_len_for};
use ondol_format::htree::{DxBlockMut, RootInfo};
use ondol_format::inode::InodeFlags;

/// Inserts a name that is not there into directory `ino`, which `op` holds. The directory's times are the caller's
/// matter.
///
/// # Errors
/// Corruption; `NoSpace` when the slot is [`Slot::Full`] or the operation was promised less than [`Slot::needs`].
pub(crate) fn insert(op: &mut Op<'_>, ino: Ino, slot: Slot, new: NewEntry<'_>) -> Result<()> {
    op.forget_names(ino)?;
    let dir = Dir::of(op, ino)?;
    if !dir.indexed() && dir.inode.flags.contains(InodeFlags::INDEX) {
        // Without dir_index nobody keeps the index up: from now on it is none.
        op.inode_mut(ino)?.flags.remove(InodeFlags::INDEX);
    }
    match slot {
        Slot::Leaf { block, gap } => put(op, &dir, block, gap, new),
        Slot::Append => append(op, &dir, new),
        Slot::Convert => convert(op, &dir, new),
        Slot::Split(path) => htree::insert_split(op, &dir, *path, new),
        Slot::Inline => inline::put(op, &dir, new),
        Slot::Unfold { .. } => inline::unfold_and_put(op, &dir, new),
        Slot::Full => Err(Error::NoSpace("the directory's index is full")),
    }
}

/// Into a block with room, at `gap` or, without one, once its entries are packed and perhaps moved.
fn put(op: &mut Op<'_>, dir: &Dir, block: u64, gap: Option<usize>, new: NewEntry<'_>) -> Result<()> {
    let old = op.block(block, dir.leaf_kind())?;
    let leaf = dir.leaf(&old, block)?;
    if let Some(gap) = gap {
        let edit = leaf.insertion(gap, new.name, new.ino, new.file_type).map_err(|e| bad(block, &e))?;
        return Ok(op.handle()?.write(block, dir.leaf_kind(), edit.at, &edit.bytes)?);
    }
    if !dir.hashed() {
        return Err(Error::Invalid("a name was given a slot without room"));
    }
    let entries: Vec<_> = used(&leaf, block, 0)?.into_iter().chain([new]).collect();
    let bytes = packed(op, dir, &entries)?;
    Ok(op.handle()?.write(block, dir.leaf_kind(), 0, &bytes)?)
}

/// The entries in use from byte `from` on.
fn used<'b>(leaf: &DirBlock<'b>, block: u64, from: usize) -> Result<Vec<NewEntry<'b>>> {
    let entries = leaf.used().filter(|e| e.as_ref().map_or(true, |e| e.offset >= from));
    let new = entries.map(|e| e.map(|e| NewEntry { name: e.name, ino: e.ino, file_type: e.file_type }));
    new.collect::<std::result::Result<_, _>>().map_err(|e| bad(block, &e))
}

/// A block of these entries.
fn packed(op: &Op<'_>, dir: &Dir, entries: &[NewEntry<'_>]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; op.vol().shared.sb.block_size() as usize];
    let mut leaf = DirBlockMut::init_empty(&mut bytes, dir.csum, dir.place(0));
    leaf.fill(entries.iter().map(|e| (e.name, e.ino, e.file_type))).map_err(|e| bad(0, &e))?;
    Ok(bytes)
}

/// Into a new block behind the last.
fn append(op: &mut Op<'_>, dir: &Dir, new: NewEntry<'_>) -> Result<()> {
    let bytes = packed(op, dir, &[new])?;
    new_block(op, dir.ino, dir.leaf_kind(), &bytes).map(|_| ())
}

/// Makes the only block, which is full, the root of an index over a leaf with its entries, and the new one.
fn convert(op: &mut Op<'_>, dir: &Dir, new: NewEntry<'_>) -> Result<()> {
    let (parent, first) = dir.parent(op)?;
    let old = op.block(first, dir.leaf_kind())?;
    let leaf = dir.leaf(&old, first)?;
    // Behind "." and "..".
    let rest = leaf.entry_at(super::DOTDOT).map_or(0, |dotdot| dotdot.offset + 1);
    let mut entries = used(&leaf, first, rest)?;
    let size: usize = entries.iter().chain([&new]).map(|e| rec_len_for(e.name.len())).sum();
    let fits = size <= leaf.end();
    if fits {
        entries.push(new);
    }
    let bytes = packed(op, dir, &entries)?;
    let (logical, _) = new_block(op, dir.ino, dir.leaf_kind(), &bytes)?;
    let mut root = vec![0; old.len()];
    let hash_version = dir.hasher(op.vol(), None).version;
    let dots = Dots { ino: dir.ino, parent, filetype: op.vol().shared.sb.has_incompat(Incompat::FILETYPE) };
    let info = RootInfo { hash_version, indirect_levels: 0 };
    DxBlockMut::init_root(&mut root, dots, info, logical, dir.csum);
    let handle = op.handle()?;
    handle.fresh(first, dir.root_kind())?;
    handle.write(first, dir.root_kind(), 0, &root)?;
    op.inode_mut(dir.ino)?.flags.insert(InodeFlags::INDEX);
    if fits {
        return Ok(());
    }
    let dir = Dir::of(op, dir.ino)?;
    let path = Path::find(op, &dir, |hasher| hasher.hash(new.name).major)?;
    htree::insert_split(op, &dir, path, new)
}
