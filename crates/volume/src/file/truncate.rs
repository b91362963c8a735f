//! Setting a file's size.

use super::plan::{check_changeable, max_size};
use super::write::{touch, zero_behind};
use super::{inline, mapping};
use crate::alloc::Need;
use crate::inline::is_inline;
use crate::node::NodeGuard;
use crate::op::{Cost, Op};
use crate::{Error, FileIo, Ino, Result, Volume, orphan};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;

impl FileIo<'_> {
    /// Sets the size of a regular file. What is cut off is freed, also blocks that were allocated behind the end; what
    /// is added reads as zeros. One operation where the journal has room for it; otherwise the first one counts, and
    /// the rest follows, here or when the volume is recovered.
    ///
    /// # Errors
    /// `FileTooBig`, `NotPermitted`, `IsDirectory`, `Invalid`, `Unsupported`, `ReadOnly`, corruption, or the journal's
    /// or store's failure.
    pub fn truncate(self, ino: Ino, size: u64) -> Result<()> {
        let guard = self.vol.node(ino)?.write()?;
        self.truncate_locked(guard, size).map(|_| ()).map_err(|e| self.vol.noted(e))
    }

    /// As [`FileIo::truncate`], with the inode locked before and after.
    pub(crate) fn truncate_locked(self, guard: NodeGuard, size: u64) -> Result<NodeGuard> {
        let ino = guard.node.ino;
        let cost = set_size_cost(self.vol, ino, &guard.state.inode, size);
        let mut op = Op::begin(self.vol, vec![guard], cost)?;
        let done = do_set_size(&mut op, ino, size)?;
        let guard = op.close_holding(ino)?;
        if done { Ok(guard) } else { self.finish_truncate(guard) }
    }

    /// Frees what a truncate has left behind the end of a file that is on the orphan list because of it, and takes it
    /// off the list.
    ///
    /// # Errors
    /// Corruption, or the journal's or store's failure.
    pub(crate) fn finish_truncate(self, mut guard: NodeGuard) -> Result<NodeGuard> {
        let ino = guard.node.ino;
        loop {
            let mut op = Op::begin(self.vol, vec![guard], step_cost(self.vol))?;
            let done = free_behind_end(&mut op, ino)?;
            if done && op.inode(ino)?.links > 0 {
                orphan::remove(&mut op, ino)?;
            }
            guard = op.close_holding(ino)?;
            if done {
                return Ok(guard);
            }
        }
    }
}

/// What [`do_set_size`] of an inode needs.
pub(crate) fn set_size_cost(vol: &Volume, ino: Ino, inode: &Inode, size: u64) -> Cost {
    if is_inline(inode) {
        let leaves = !inline::stays(inode, size);
        return if leaves { inline::unfold_cost(vol, ino, inode) } else { inline::small_change() };
    }
    if size > inode.size {
        // The inode, and the block that was the last.
        return Cost { journal: 2, blocks: 0, need: Need::ToFree };
    }
    step_cost(vol)
}

/// What every operation needs that frees blocks.
fn step_cost(vol: &Volume) -> Cost {
    // The block at the new end too, where data is journaled.
    let journal = (mapping::step_cost(vol) + 1).min(vol.engine.max_blocks());
    Cost { journal, blocks: 0, need: Need::ToFree }
}

/// Sets the size of a regular file that `op` holds. False when not all of what was cut off could be freed: the file is
/// then on the orphan list, and once the operation is closed, [`FileIo::finish_truncate`] has to do the rest.
///
/// # Errors
/// As [`FileIo::truncate`]; the operation must then be dropped.
pub(crate) fn do_set_size(op: &mut Op<'_>, ino: Ino, size: u64) -> Result<bool> {
    let old = op.inode(ino)?.size;
    check_changeable(ino, op.inode(ino)?, false)?;
    if size > max_size(op.vol(), op.inode(ino)?) {
        return Err(Error::FileTooBig);
    }
    if is_inline(op.inode(ino)?) {
        if inline::set_size(op, ino, size)? {
            return touch(op, ino).map(|()| true);
        }
        inline::unfold(op, ino)?;
    }
    if size != old {
        zero_behind(op, ino, old.min(size))?;
        op.inode_mut(ino)?.size = size;
    }
    touch(op, ino)?;
    if size > old {
        return Ok(true);
    }
    let done = free_behind_end(op, ino)?;
    if !done {
        orphan::add(op, ino)?;
    }
    Ok(done)
}

/// Frees blocks behind the end of the file as far as the operation's journal space allows; true when done.
fn free_behind_end(op: &mut Op<'_>, ino: Ino) -> Result<bool> {
    let keep = op.inode(ino)?.size.div_ceil(u64::from(op.vol().shared.sb.block_size()));
    let keep = u32::try_from(keep).unwrap_or(MAX_LOGICAL);
    super::shrink(op, ino, keep)
}
