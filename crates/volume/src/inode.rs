//! Inodes as a whole: what stat(2) tells, flags, who uses them, and their end when nobody does any more.

use crate::{Ino, Result, StatFs, Volume};

/// `InodeOps` changes attributes and flags of inodes, counts who uses them, and deletes those that nobody does.
#[derive(Clone, Copy)]
pub struct InodeOps<'v> {
    pub(crate) vol: &'v Volume,
}

impl Volume {
    /// The part that works on inodes as a whole.
    pub fn inode_ops(&self) -> InodeOps<'_> {
        InodeOps { vol: self }
    }
}

impl InodeOps<'_> {
    /// Counts that the inode was handed out to somebody who keeps its number, and who says so when he no longer does:
    /// see [`InodeOps::forget`].
    pub fn looked_up(self, ino: Ino) {
        // Nothing loses its name on a volume that is for reading only.
        if !self.vol.options.read_only {
            self.vol.lookups.count(ino);
        }
    }

    /// How many inodes memory must know of, however few are cached: those that somebody knows by number, or has open.
    pub fn known_inodes(self) -> usize {
        self.vol.lookups.known().max(self.vol.nodes.open_elsewhere())
    }

    /// Takes back so many of [`InodeOps::looked_up`]. The last deletes an inode that has neither names nor openers.
    ///
    /// # Errors
    /// As a deletion, which the next mount then finishes.
    pub fn forget(self, ino: Ino, times: u64) -> Result<()> {
        let Some(number) = self.vol.lookups.forget(ino, times) else { return Ok(()) };
        let released = match self.release(ino) {
            // The end of the mount came first.
            Err(_) if !self.vol.orphans.contains(ino) => Ok(()),
            released => released,
        };
        self.vol.lookups.left(ino, number);
        self.vol.lookups.changed(self.vol.env.monotonic_ns());
        released
    }

    /// As [`crate::Volume::statfs`], where what was removed just now counts as free, for it is about to be forgotten.
    /// What somebody has open is counted so for a moment, too.
    pub fn statfs_forgetting(self) -> StatFs {
        loop {
            let begun = self.vol.lookups.begun();
            if self.vol.lookups.awaits_forgetting(&*self.vol.env) {
                return self.with_what_is_held();
            }
            let now = self.vol.statfs();
            // Else a deletion may have freed a part.
            if self.vol.lookups.begun() == begun {
                return now;
            }
        }
    }

    fn with_what_is_held(self) -> StatFs {
        // Read before what is free, so that what a deletion frees in between counts twice for a moment, and not never.
        let (held, units) = self.vol.lookups.waiting();
        let now = self.vol.statfs();
        let free = (now.free + units / u64::from(now.block_size / 512)).min(now.blocks);
        let available = free.saturating_sub(self.vol.shared.groups.reserved());
        let files_free = (now.files_free + held).min(now.files);
        StatFs { free, available, files_free, ..now }
    }
}
