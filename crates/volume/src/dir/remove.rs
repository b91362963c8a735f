//! Taking names out, pointing them elsewhere, and telling whether there are any.

use super::htree::{self, Path};
use super::{DOTDOT, Dir, Entry, bad, inline};
use crate::op::{Op, Reader};
use crate::{Ino, Result};
use ondol_format::dirent::DirBlockMut;

/// Removes a found entry from directory `ino`, which `op` holds and has not changed since. The directory keeps its blocks.
pub(crate) fn remove(op: &mut Op<'_>, ino: Ino, entry: &Entry) -> Result<()> {
    change(op, ino, entry, |leaf, offset| leaf.remove(offset))
}

/// Points a found entry to another inode.
pub(crate) fn replace(op: &mut Op<'_>, ino: Ino, entry: &Entry, to: Ino, file_type: u8) -> Result<()> {
    change(op, ino, entry, |leaf, offset| leaf.set_ino(offset, to, file_type))
}

type Changed = ondol_format::Result<std::ops::Range<usize>>;

fn change(
    op: &mut Op<'_>,
    ino: Ino,
    entry: &Entry,
    edit: impl FnOnce(&mut DirBlockMut<'_>, usize) -> Changed,
) -> Result<()> {
    let dir = Dir::of(op, ino)?;
    if dir.is_inline() {
        return inline::change(op, &dir, entry.offset, edit);
    }
    let (block, kind) = (entry.block, dir.leaf_kind());
    let mut bytes = op.block(block, kind)?.to_vec();
    let leaf = DirBlockMut::new(&mut bytes, dir.csum, dir.place(block));
    let changed = leaf.and_then(|mut leaf| edit(&mut leaf, entry.offset)).map_err(|e| bad(block, &e))?;
    Ok(op.handle()?.write(block, kind, changed.start, &bytes[changed])?)
}

/// Makes `parent` what ".." of directory `ino` names.
pub(crate) fn set_parent(op: &mut Op<'_>, ino: Ino, parent: Ino) -> Result<()> {
    let dir = Dir::of(op, ino)?;
    let (_, block) = dir.parent(op)?;
    if dir.is_inline() {
        op.inode_mut(ino)?.set_block_word(0, parent);
        return Ok(());
    }
    Ok(op.handle()?.write(block, dir.first_kind(), DOTDOT, &parent.to_le_bytes())?)
}

/// Whether a directory has no entries but "." and "..".
pub(crate) fn is_empty(reader: &mut dyn Reader, dir: &Dir) -> Result<bool> {
    if dir.is_inline() {
        let mut empty = true;
        dir.each_list(&mut |list, _| {
            empty &= list.is_empty().map_err(|e| bad(inline::HERE, &e))?;
            Ok(empty)
        })?;
        return Ok(empty);
    }
    if !dir.indexed() {
        let mut from = 0;
        while let Some((logical, block)) = dir.next_block(reader, from)? {
            if !block_is_empty(reader, dir, block)? {
                return Ok(false);
            }
            from = logical + 1;
        }
        return Ok(true);
    }
    let path = Path::find(reader, dir, |_| 0)?;
    let mut empty = true;
    htree::leaves(reader, dir, path, &mut |reader, path| {
        empty = block_is_empty(reader, dir, path.leaf)?;
        Ok(empty)
    })?;
    Ok(empty)
}

fn block_is_empty(reader: &mut dyn Reader, dir: &Dir, block: u64) -> Result<bool> {
    let bytes = reader.block(block, dir.leaf_kind())?;
    dir.leaf(&bytes, block)?.is_empty().map_err(|e| bad(block, &e))
}
