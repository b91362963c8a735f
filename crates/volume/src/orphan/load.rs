//! What the image says of its orphans, read when it is first needed.

use super::file::OrphanFile;
use super::list::{HEAD, ListGuard};
use crate::file::{Mapped, map};
use crate::node::read_inode;
use crate::{Error, Ino, Result, Volume, kind};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::{RawSuperblock, orphan_file};
use std::collections::HashSet;
use std::mem::offset_of;

/// The largest orphan file that is believed, bytes; ext4 has the same limit.
const MAX_SIZE: u64 = 8 << 20;

/// The orphan file, if the volume has one.
///
/// # Errors
/// Corruption of its inode or of a block, an entry that cannot be an orphan or is there twice.
pub(super) fn file(vol: &Volume) -> Result<Option<Arc<OrphanFile>>> {
    let Some(ino) = vol.shared.sb.orphan_file_inum() else { return Ok(None) };
    if let Some(file) = &*vol.orphans.file.read() {
        return Ok(Some(file.clone()));
    }
    let mut file = vol.orphans.file.write();
    if file.is_none() {
        *file = Some(Arc::new(read_file(vol, ino)?));
    }
    Ok(file.clone())
}

/// Reads the whole file, inode `ino`.
fn read_file(vol: &Volume, ino: Ino) -> Result<OrphanFile> {
    let bad = |what: String| Error::corrupt(format!("orphan file (inode {ino})"), 0, what);
    let inode = read_inode(&vol.shared, &*vol.engine, ino)?;
    let block_size = u64::from(vol.shared.sb.block_size());
    let sound = inode.is_regular() && inode.size <= MAX_SIZE && inode.size.is_multiple_of(block_size);
    if !sound || inode.size == 0 {
        return Err(bad(format!("mode {:#o} with {} bytes cannot be one", inode.mode, inode.size)));
    }
    let mut file = OrphanFile::new(kind::orphan_file(ino, inode.generation));
    for at in 0..(inode.size / block_size) as u32 {
        let mut reader = vol;
        let Mapped::Written(block) = map(&mut reader, ino, &inode, at)?.what else {
            return Err(bad(format!("its block {at} is not allocated")));
        };
        let bytes = vol.engine.read(block, file.kind())?;
        let mut free = Vec::new();
        for (index, orphan) in (0..).zip(orphan_file::entries(&bytes)) {
            if orphan == 0 {
                free.push(index);
                continue;
            }
            check_orphan(vol, orphan).map_err(|what| bad(format!("it names inode {orphan}, {what}")))?;
            if !file.enter(orphan, block, index) {
                return Err(bad(format!("it names inode {orphan} twice")));
            }
        }
        // The first free slot is taken first.
        free.reverse();
        file.add_block(block, free);
    }
    Ok(file)
}

/// Reads the list from the image, if that has not been done.
///
/// # Errors
/// A list that is endless, or names what cannot be an orphan.
pub(super) fn list(vol: &Volume, list: &mut ListGuard<'_>) -> Result<()> {
    if list.is_loaded() {
        return Ok(());
    }
    let (mut inodes, mut seen) = (Vec::new(), HashSet::new());
    let mut before = HEAD;
    let mut ino = head(vol)?;
    while ino != HEAD {
        check(vol, ino, before)?;
        let inode = read_inode(&vol.shared, &*vol.engine, ino)?;
        if !seen.insert(ino) {
            return Err(bad(format!("inode {ino} is on it twice")));
        }
        inodes.push(ino);
        (before, ino) = (ino, inode.dtime);
    }
    vol.orphans.listed.store(list.set_loaded(&inodes), SeqCst);
    Ok(())
}

/// The head of the list as published.
fn head(vol: &Volume) -> Result<Ino> {
    let (block, at) = vol.shared.sb.superblock_location();
    let bytes = vol.engine.read(block, kind::SUPERBLOCK)?;
    let word = bytes.get(at + offset_of!(RawSuperblock, s_last_orphan)..).and_then(|b| b.first_chunk());
    word.map(|b| u32::from_le_bytes(*b)).ok_or_else(|| Error::corrupt("superblock", block, "short block"))
}

/// Whether `ino`, which is named behind `before`, may be an orphan at all.
fn check(vol: &Volume, ino: Ino, before: Ino) -> Result<()> {
    check_orphan(vol, ino).map_err(|what| match before {
        HEAD => bad(format!("it begins with inode {ino}, {what}")),
        before => bad(format!("inode {before} is followed by {ino}, {what}")),
    })
}

fn bad(what: String) -> Error {
    Error::corrupt("orphan list", 0, what)
}

/// Whether an inode may be an orphan at all: it exists, is not reserved, and is in use. Says why not.
fn check_orphan(vol: &Volume, ino: Ino) -> std::result::Result<(), String> {
    let shared = &vol.shared;
    if ino > shared.sb.inodes_count() {
        return Err("which does not exist".into());
    }
    if !shared.sb.may_be_named(ino) || ino == crate::ROOT || shared.is_journal(ino) {
        return Err("which is reserved".into());
    }
    let checked = shared.groups.check_freeing_inode(&shared.sb, &*vol.engine, ino);
    checked.map_err(|e| format!("which cannot be one: {e}"))
}
