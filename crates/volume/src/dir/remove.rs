//! Taking names out, pointing them elsewhere, and telling whether there are any.

use super::htree::{self, Path};
use super::{DOTDOT, Dir, Entry, bad, inline};
use crate::op::{Op, Reader};
use crate::{Ino, Result};
use ondol_format::dirent::{DirBlock, Edit};

/// Removes a found entry from directory `ino`, which `op` holds and has not changed since. The directory keeps its
/// blocks.
pub(crate) fn remove(op: &mut Op<'_>, ino: Ino, entry: &Entry) -> Result<()> {
    change(op, ino, entry, |leaf, before, offset| leaf.removal(before, offset))
}

/// Points a found entry to another inode.
pub(crate) fn replace(op: &mut Op<'_>, ino: Ino, entry: &Entry, to: Ino, file_type: u8) -> Result<()> {
    change(op, ino, entry, |leaf, _, offset| leaf.redirection(offset, to, file_type))
}

/// Changes a found entry by what `edit` makes of its block and of where it and the one before it begin there.
fn change(
    op: &mut Op<'_>,
    ino: Ino,
    entry: &Entry,
    edit: impl FnOnce(&DirBlock<'_>, Option<usize>, usize) -> ondol_format::Result<Edit>,
) -> Result<()> {
    op.forget_names(ino)?;
    let dir = Dir::of(op, ino)?;
    if dir.is_inline() {
        return inline::change(op, &dir, entry, edit);
    }
    let (block, kind) = (entry.block, dir.leaf_kind());
    let bytes = op.block(block, kind)?;
    let edit = edit(&dir.leaf(&bytes, block)?, entry.before, entry.offset).map_err(|e| bad(block, &e))?;
    Ok(op.handle()?.write(block, kind, edit.at, &edit.bytes)?)
}

/// Makes `parent` what ".." of directory `ino` names.
pub(crate) fn set_parent(op: &mut Op<'_>, ino: Ino, parent: Ino) -> Result<()> {
    op.forget_parent(ino)?;
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
