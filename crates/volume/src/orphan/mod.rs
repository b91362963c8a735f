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
mod process;

pub use process::Processed;

use crate::node::locate;
use crate::op::Op;
use crate::{Error, Ino, InodeOps, Result, Volume, kind};
use file::OrphanFile;
use list::{List, ListGuard};
use ondol_env::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, RwLock};
use ondol_format::inode::RawInode;
use ondol_format::{RawSuperblock, RoCompat};
use ondol_journal::Merge;
use std::mem::offset_of;

/// Journal blocks that `add` or `remove` may change beside the inode itself: the superblock, and the predecessor's
/// inode or a block of the orphan file.
pub(crate) const COST: u32 = 3;

/// The orphans of a volume.
#[derive(Debug)]
pub(crate) struct Orphans {
    list: Mutex<List>,
    /// Inodes on the list, so that most operations need not lock it to know that theirs is not.
    listed: AtomicUsize,
    file: RwLock<Option<Arc<OrphanFile>>>,
    /// ORPHAN_PRESENT is set on the image.
    present: AtomicBool,
}

impl Orphans {
    /// Of a volume whose superblock says so; the orphans themselves are read when first needed.
    pub(crate) fn new(sb: &ondol_format::Superblock) -> Self {
        let present = AtomicBool::new(sb.has_ro_compat(RoCompat::ORPHAN_PRESENT));
        Self { list: Mutex::default(), listed: AtomicUsize::new(0), file: RwLock::default(), present }
    }

    /// The orphan file, if the volume has one.
    fn file(&self, vol: &Volume) -> Result<Option<Arc<OrphanFile>>> {
        let Some(ino) = vol.shared.sb.orphan_file_inum() else { return Ok(None) };
        if let Some(file) = &*self.file.read() {
            return Ok(Some(file.clone()));
        }
        let mut file = self.file.write();
        if file.is_none() {
            *file = Some(Arc::new(OrphanFile::load(vol, ino)?));
        }
        Ok(file.clone())
    }

    /// Whether `ino` is an orphan as far as closed operations say.
    pub(crate) fn contains(&self, ino: Ino) -> bool {
        let in_file = self.file.read().as_ref().is_some_and(|f| f.find(ino).is_some());
        in_file || self.list.lock().contains(ino)
    }
}

/// What one operation does to the orphans. Dropped before [`Changes::commit`], it leaves them as they were.
pub(crate) struct Changes<'v> {
    orphans: &'v Orphans,
    list: Option<ListGuard<'v>>,
    /// Inodes whose slots in the orphan file this operation took, and those whose slots it cleared.
    claimed: Vec<Ino>,
    released: Vec<Ino>,
    /// This operation sets ORPHAN_PRESENT.
    announced: bool,
}

impl<'v> Changes<'v> {
    /// None yet.
    pub(crate) fn new(orphans: &'v Orphans) -> Self {
        Self { orphans, list: None, claimed: Vec::new(), released: Vec::new(), announced: false }
    }

    /// Takes the lock of the list, which the operation then holds until it closes. It also guards what else several
    /// inodes share without any of their locks, the reference counts of xattr blocks: one lock, so that no two
    /// operations can take two of them in different order.
    pub(crate) fn hold(&mut self) {
        let orphans = self.orphans;
        self.list.get_or_insert_with(|| ListGuard::new(orphans.list.lock()));
    }

    fn list(&mut self, vol: &Volume) -> Result<&mut ListGuard<'v>> {
        self.hold();
        let list = self.list.as_mut().ok_or(Error::Invalid("the orphan list is not locked"))?;
        list.load(vol)?;
        Ok(list)
    }

    /// Whether `ino`, which the operation has locked, is on the list.
    fn on_list(&self, ino: Ino) -> bool {
        match &self.list {
            Some(list) => list.contains(ino),
            None => self.orphans.listed.load(SeqCst) > 0 && self.orphans.list.lock().contains(ino),
        }
    }

    /// What `i_dtime` of `ino` must be because of the list, if this operation holds the list and the inode is on it.
    pub(crate) fn link(&self, ino: Ino) -> Option<u32> {
        self.list.as_ref().and_then(|list| list.next(ino))
    }

    /// The operation is published.
    pub(crate) fn commit(&mut self) {
        if let Some(list) = self.list.take() {
            list.keep(&self.orphans.listed);
        }
        if std::mem::take(&mut self.announced) {
            self.orphans.present.store(true, SeqCst);
        }
        self.claimed.clear();
        let released = std::mem::take(&mut self.released);
        self.each_slot(&released);
    }

    /// Makes the slots of `inodes` claimable.
    fn each_slot(&self, inodes: &[Ino]) {
        if inodes.is_empty() {
            return;
        }
        if let Some(file) = &*self.orphans.file.read() {
            inodes.iter().for_each(|&ino| file.give_back(ino));
        }
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        self.each_slot(&claimed);
    }
}

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
    if let Some(file) = vol.orphans.file(vol)?
        && add_to_file(op, &file, ino)?
    {
        return Ok(());
    }
    let list = op.orphans.list(vol)?;
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
            file.write(op, slot, ino)?;
        }
        return Ok(true);
    }
    let Some(slot) = file.claim(ino) else { return Ok(false) };
    op.orphans.claimed.push(ino);
    file.write(op, slot, ino)?;
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
    if let Some(file) = vol.orphans.file(vol)?
        && let Some(slot) = file.find(ino)
    {
        if op.orphans.released.contains(&ino) {
            return Ok(());
        }
        op.orphans.released.push(ino);
        return file.write(op, slot, 0);
    }
    if !op.orphans.on_list(ino) {
        return Ok(());
    }
    let Some((before, next)) = op.orphans.list(vol)?.remove(ino) else { return Ok(()) };
    op.inode_mut(ino)?.dtime = 0;
    write_next(op, ino, 0)?;
    write_next(op, before, next)
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
    /// How many inodes are orphans now, but for those that nobody has looked for yet.
    pub(crate) fn orphans_known(self) -> u64 {
        let in_file = self.vol.orphans.file.read().as_ref().map_or(0, |file| file.len());
        (in_file + self.vol.orphans.listed.load(SeqCst)) as u64
    }

    /// Whether no inode is an orphan: nothing is deleted but open, and no truncate is in progress.
    ///
    /// # Errors
    /// Corruption of the orphan file or of the list, which may be read first here.
    pub fn orphans_empty(self) -> Result<bool> {
        let file = self.vol.orphans.file(self.vol).map_err(|e| self.vol.noted(e))?;
        let mut list = ListGuard::new(self.vol.orphans.list.lock());
        list.load(self.vol).map_err(|e| self.vol.noted(e))?;
        Ok(list.is_empty() && file.is_none_or(|f| f.inodes().is_empty()))
    }
}
