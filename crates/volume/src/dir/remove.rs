//! Taking names out, pointing them elsewhere, and telling whether there are any.

use super::htree::{self, Path};
use super::{DOTDOT, Dir, Entry, bad};
use crate::op::{Op, Reader};
use crate::{Ino, Result};
use ondol_format::dirent::DirBlockMut;

/// Removes a found entry from directory `ino`, which `op` holds and has not changed since. The directory keeps its blocks.
pub(crate) fn remove(op: &mut Op<'_>, ino: Ino, entry: &Entry) -> Result<()> {
    change(op, ino, entry, |leaf| leaf.remove(entry.offset))
}

/// Points a found entry to another inode.
pub(crate) fn replace(op: &mut Op<'_>, ino: Ino, entry: &Entry, to: Ino, file_type: u8) -> Result<()> {
    change(op, ino, entry, |leaf| leaf.set_ino(entry.offset, to, file_type))
}

type Changed = ondol_format::Result<std::ops::Range<usize>>;

fn change(op: &mut Op<'_>, ino: Ino, entry: &Entry, edit: impl FnOnce(&mut DirBlockMut<'_>) -> Changed) -> Result<()> {
    let dir = Dir::of(op, ino)?;
    let (block, kind) = (entry.block, dir.leaf_kind());
    let mut bytes = op.block(block, kind)?.to_vec();
    let leaf = DirBlockMut::new(&mut bytes, dir.csum, dir.place(block));
    let changed = leaf.and_then(|mut leaf| edit(&mut leaf)).map_err(|e| bad(block, &e))?;
    Ok(op.handle()?.write(block, kind, changed.start, &bytes[changed])?)
}

/// Makes `parent` what ".." of directory `ino` names.
pub(crate) fn set_parent(op: &mut Op<'_>, ino: Ino, parent: Ino) -> Result<()> {
    let dir = Dir::of(op, ino)?;
    let (_, block) = dir.parent(op)?;
    Ok(op.handle()?.write(block, dir.first_kind(), DOTDOT, &parent.to_le_bytes())?)
}

/// Whether a directory has no entries but "." and "..".
pub(crate) fn is_empty(reader: &mut dyn Reader, dir: &Dir) -> Result<bool> {
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
