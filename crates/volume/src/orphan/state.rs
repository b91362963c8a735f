//! What is known of the orphans, and what one operation changes of it.

use super::file::OrphanFile;
use super::list::{List, ListGuard};
use crate::{Error, Ino, Result};
use ondol_env::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, RwLock};
use ondol_format::RoCompat;

/// The orphans of a volume.
#[derive(Debug)]
pub(crate) struct Orphans {
    pub(super) list: Mutex<List>,
    /// Inodes on the list, so that most operations need not lock it to know that theirs is not.
    pub(super) listed: AtomicUsize,
    pub(super) file: RwLock<Option<Arc<OrphanFile>>>,
    /// ORPHAN_PRESENT is set on the image.
    pub(super) present: AtomicBool,
}

impl Orphans {
    /// Of a volume whose superblock says so; the orphans themselves are read when first needed.
    pub(crate) fn new(sb: &ondol_format::Superblock) -> Self {
        let present = AtomicBool::new(sb.has_ro_compat(RoCompat::ORPHAN_PRESENT));
        Self { list: Mutex::default(), listed: AtomicUsize::new(0), file: RwLock::default(), present }
    }

    /// How many inodes are orphans now, but for those that nobody has looked for yet.
    pub(crate) fn known(&self) -> u64 {
        let in_file = self.file.read().as_ref().map_or(0, |file| file.len());
        (in_file + self.listed.load(SeqCst)) as u64
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
    pub(super) claimed: Vec<Ino>,
    pub(super) released: Vec<Ino>,
    /// This operation sets ORPHAN_PRESENT.
    pub(super) announced: bool,
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

    /// The locked list.
    pub(super) fn list(&mut self) -> Result<&mut ListGuard<'v>> {
        self.hold();
        self.list.as_mut().ok_or(Error::Invalid("the orphan list is not locked"))
    }

    /// Whether `ino`, which the operation has locked, is on the list.
    pub(super) fn on_list(&self, ino: Ino) -> bool {
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
