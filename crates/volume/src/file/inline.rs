//! Files whose bytes lie in the inode: changed there as long as they fit, moved to a block when they do not.

use super::{data, grow, mapping, tree};
use crate::alloc::Need;
use crate::inline::{self, is_inline};
use crate::node::NodeGuard;
use crate::op::{Cost, Op};
use crate::{FileIo, Ino, Result, Volume};
use ondol_format::{Incompat, Inode};
use ondol_journal::{Before, Bytes};

/// Whether files of this volume may lie in their inodes.
pub(super) fn possible(vol: &Volume) -> bool {
    vol.shared.sb.has_incompat(Incompat::INLINE_DATA)
}

/// Whether an inline file can stay that with `size` bytes.
pub(super) fn stays(inode: &Inode, size: u64) -> bool {
    is_inline(inode) && inline::fits(inode, inode.size.max(size))
}

/// What a change takes that only concerns the inode.
pub(super) fn small_change() -> Cost {
    Cost { journal: 1, blocks: 0, need: Need::Ordinary }
}

/// The inode as it is mapped when its bytes have left it, and how many blocks they take then.
pub(super) fn unfolded(vol: &Volume, inode: &Inode) -> (Inode, u64) {
    let mut plain = inode.clone();
    plain.flags.remove(ondol_format::inode::InodeFlags::INLINE_DATA);
    plain.i_block = [0; inline::IN_BLOCK];
    grow::init_mapping(vol, &mut plain);
    (plain, u64::from(inode.size > 0))
}

/// Writes into the inode; false, and no change, if there is no room for it.
pub(super) fn write(op: &mut Op<'_>, ino: Ino, offset: u64, bytes: &[u8]) -> Result<bool> {
    let inode = op.inode(ino)?;
    let end = offset.saturating_add(bytes.len() as u64);
    if !stays(inode, end) {
        return Ok(false);
    }
    let mut contents = inline::contents(ino, inode)?;
    let (from, end) = (offset as usize, end as usize);
    contents.resize(contents.len().max(end), 0);
    contents[from..end].copy_from_slice(bytes);
    put(op, ino, &contents)
}

/// Cuts or extends the contents in the inode; false, and no change, if there is no room for it.
pub(super) fn set_size(op: &mut Op<'_>, ino: Ino, size: u64) -> Result<bool> {
    let inode = op.inode(ino)?;
    if size > inode.size && !stays(inode, size) {
        return Ok(false);
    }
    let mut contents = inline::contents(ino, inode)?;
    contents.resize(size as usize, 0);
    put(op, ino, &contents)
}

fn put(op: &mut Op<'_>, ino: Ino, contents: &[u8]) -> Result<bool> {
    let inode = op.inode_mut(ino)?;
    if !inline::store(inode, contents) {
        return Ok(false);
    }
    inode.size = contents.len() as u64;
    Ok(true)
}

/// Moves the bytes of an inline file to a block of its own.
///
/// # Errors
/// `NoSpace` beyond the promise; corruption of what is stored.
pub(super) fn unfold(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let vol = op.vol();
    let contents = inline::contents(ino, op.inode(ino)?)?;
    let inode = op.inode_mut(ino)?;
    inline::take(ino, inode)?;
    grow::init_mapping(vol, inode);
    if contents.is_empty() {
        return Ok(());
    }
    let got = mapping::fill_hole(op, ino, 0, 1, false)?;
    let target = data::target(op, ino, got.start, Before::New, contents.len())?;
    data::put(op, target, 0, Bytes::Passing(&contents))
}

/// What [`unfold`] takes: the inode, and if it holds anything, a block for that.
pub(super) fn unfold_cost(vol: &Volume, ino: Ino, inode: &Inode) -> Cost {
    let (plain, blocks) = unfolded(vol, inode);
    let data = if blocks > 0 { data::fill_cost(vol, ino, &plain) } else { 0 };
    Cost { journal: 1 + data + tree::alloc_cost(vol, blocks), blocks, need: Need::Ordinary }
}

impl FileIo<'_> {
    /// Moves the bytes of a locked file out of its inode, if that is where they are, in an operation of its own: what
    /// works on blocks begins with it.
    ///
    /// # Errors
    /// `NoSpace`; corruption, or the journal's or store's failure.
    pub(super) fn unfold_locked(self, guard: NodeGuard) -> Result<NodeGuard> {
        if !is_inline(&guard.state.inode) {
            return Ok(guard);
        }
        let ino = guard.node.ino;
        let cost = unfold_cost(self.vol, ino, &guard.state.inode);
        let mut op = Op::begin(self.vol, vec![guard], cost)?;
        unfold(&mut op, ino)?;
        op.close_holding(ino)
    }
}
