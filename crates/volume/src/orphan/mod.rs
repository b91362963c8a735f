//! Orphans: inodes without a name that are still open, and truncates in progress.
//!
//! An image names them in two ways. The **orphan file** has a slot for each, which costs nobody a lock; the **list**
//! begins in the superblock (`s_last_orphan`) and goes on through `i_dtime` of the inodes on it. The list is used where
//! there is no orphan file, and when that is full. Whatever a crash leaves in either, [`InodeOps::process_orphans`]
//! finishes at the next mount (kernel: `Documentation/filesystems/ext4/orphan.rst`).
//!
//! The links of the list belong to the list, not to the inodes: taking an inode out changes its predecessor's `i_dtime`
//! without that inode's lock. So an operation never writes the `i_dtime` of an inode that it has not itself put on or
//! taken off the list, and the order of the list is kept in memory, under a lock that an operation holds from its first
//! change until its close. The list on the medium thus changes in the order in which operations are published.

mod delete;
mod file;
mod list;
mod load;
mod process;
pub(crate) mod state;

pub use process::Processed;

use crate::node::locate;
use crate::op::Op;
use crate::{Ino, InodeOps, Result, kind};
use file::{OrphanFile, Slot};
use list::ListGuard;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::inode::RawInode;
use ondol_format::{RawSuperblock, RoCompat};
use ondol_journal::Merge;
use std::mem::offset_of;

/// Journal blocks that `add` or `remove` may change beside the inode itself: the superblock, and the predecessor's
/// inode or a block of the orphan file.
pub(crate) const COST: u32 = 3;

/// Enters a locked inode into the orphan file or list; no change if it is there already. An inode without names is
/// deleted when it is found there after a crash, one with names is cut to its size.
///
/// # Errors
/// Corruption of the orphan file or of the list.
pub(crate) fn add(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let vol = op.vol();
    op.inode(ino)?;
    if op.orphans.on_list(ino) {
        return Ok(());
    }
    if let Some(file) = load::file(vol)?
        && add_to_file(op, &file, ino)?
    {
        return Ok(());
    }
    let list = op.orphans.list()?;
    load::list(vol, list)?;
    if list.contains(ino) {
        return Ok(());
    }
    let next = list.push(ino);
    write_next(op, ino, next)?;
    write_next(op, list::HEAD, ino)
}

/// False if the file is full.
fn add_to_file(op: &mut Op<'_>, file: &OrphanFile, ino: Ino) -> Result<bool> {
    if let Some(slot) = file.find(ino) {
        // Still there, or released by this very operation.
        if op.orphans.released.contains(&ino) {
            op.orphans.released.retain(|&i| i != ino);
            write_slot(op, file, slot, ino)?;
        }
        return Ok(true);
    }
    let Some(slot) = file.claim(ino) else { return Ok(false) };
    op.orphans.claimed.push(ino);
    write_slot(op, file, slot, ino)?;
    if !op.vol().orphans.present.load(SeqCst) {
        announce(op)?;
    }
    Ok(true)
}

/// Takes a locked inode out of the orphan file or list; no change if it is in neither.
///
/// # Errors
/// Corruption of the orphan file or of the list.
pub(crate) fn remove(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let vol = op.vol();
    op.inode(ino)?;
    if let Some(file) = load::file(vol)?
        && let Some(slot) = file.find(ino)
    {
        if op.orphans.released.contains(&ino) {
            return Ok(());
        }
        op.orphans.released.push(ino);
        return write_slot(op, &file, slot, 0);
    }
    if !op.orphans.on_list(ino) {
        return Ok(());
    }
    let list = op.orphans.list()?;
    load::list(vol, list)?;
    let Some((before, next)) = list.remove(ino) else { return Ok(()) };
    op.inode_mut(ino)?.dtime = 0;
    write_next(op, ino, 0)?;
    write_next(op, before, next)
}

/// Stages a slot's content: an inode, or 0.
fn write_slot(op: &mut Op<'_>, file: &OrphanFile, slot: Slot, ino: Ino) -> Result<()> {
    Ok(op.handle()?.write(slot.block, file.kind(), slot.index as usize * 4, &ino.to_le_bytes())?)
}

/// Writes the link behind `ino`, or the head of the list.
fn write_next(op: &mut Op<'_>, ino: Ino, next: Ino) -> Result<()> {
    let shared = &op.vol().shared;
    let (block, kind, at) = if ino == list::HEAD {
        let (block, at) = shared.sb.superblock_location();
        (block, kind::SUPERBLOCK, at + offset_of!(RawSuperblock, s_last_orphan))
    } else {
        let (block, at, first) = locate(shared, ino)?;
        (block, kind::inode_table(first), at + offset_of!(RawInode, i_dtime))
    };
    Ok(op.handle()?.write(block, kind, at, &next.to_le_bytes())?)
}

/// Sets ORPHAN_PRESENT, without which nobody looks into the orphan file. A clean unmount clears it.
fn announce(op: &mut Op<'_>) -> Result<()> {
    let (block, at) = op.vol().shared.sb.superblock_location();
    let at = (at + offset_of!(RawSuperblock, s_feature_ro_compat)) as u32 * 8;
    op.orphans.announced = true;
    Ok(op.handle()?.merge(
        block,
        kind::SUPERBLOCK,
        Merge::Set { first: at + RoCompat::ORPHAN_PRESENT.bits().trailing_zeros(), count: 1 },
    )?)
}

impl InodeOps<'_> {
    /// Whether no inode is an orphan: nothing is deleted but open, and no truncate is in progress.
    ///
    /// # Errors
    /// Corruption of the orphan file or of the list, which may be read first here.
    pub fn orphans_empty(self) -> Result<bool> {
        let file = load::file(self.vol).map_err(|e| self.vol.noted(e))?;
        let mut list = ListGuard::new(self.vol.orphans.list.lock());
        load::list(self.vol, &mut list).map_err(|e| self.vol.noted(e))?;
        Ok(list.is_empty() && file.is_none_or(|f| f.inodes().is_empty()))
    }
}
