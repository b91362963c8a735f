//! What happens to orphans when a volume is mounted.

use super::list::ListGuard;
use super::load;
use crate::alloc::Need;
use crate::op::{Cost, Op};
use crate::{Ino, InodeOps, Result};

/// What [`InodeOps::process_orphans`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// Inodes without names that were deleted.
    pub deleted: u64,
    /// Files whose truncate was finished.
    pub truncated: u64,
}

/// How an orphan ended.
enum Finished {
    Deleted,
    Truncated,
}

impl InodeOps<'_> {
    /// Deletes and truncates what a crash left half deleted or half truncated. To be called once, after the journal has
    /// been recovered and before anybody else uses the volume; a read-only volume keeps its orphans. Nothing of it
    /// is durable yet: interrupted, it is simply done again.
    ///
    /// # Errors
    /// A list or file that cannot be right (endless, naming inodes that do not exist, are reserved or not in use),
    /// which leaves everything as it is; corruption of an orphan, which leaves the rest of them.
    pub fn process_orphans(self) -> Result<Processed> {
        if self.vol.is_read_only() {
            return Ok(Processed::default());
        }
        self.finish_orphans().map_err(|e| self.vol.noted(e))
    }

    /// All orphans: those of the list from its head on, then those of the orphan file.
    ///
    /// # Errors
    /// A list or file that cannot be right.
    pub(crate) fn orphans_found(self) -> Result<Vec<Ino>> {
        let mut all = {
            let mut list = ListGuard::new(self.vol.orphans.list.lock());
            load::list(self.vol, &mut list)?;
            list.inodes()
        };
        if let Some(file) = load::file(self.vol)? {
            let in_file = file.inodes();
            if let Some(twice) = all.iter().find(|ino| in_file.binary_search(ino).is_ok()) {
                let what = format!("inode {twice} is also in the orphan file");
                return Err(crate::Error::corrupt("orphan list", 0, what));
            }
            all.extend(in_file);
        }
        Ok(all)
    }

    fn finish_orphans(self) -> Result<Processed> {
        let mut done = Processed::default();
        for ino in self.orphans_found()? {
            match self.finish_orphan(ino)? {
                Some(Finished::Deleted) => done.deleted += 1,
                Some(Finished::Truncated) => done.truncated += 1,
                None => {}
            }
        }
        Ok(done)
    }

    /// What has become of an orphan; None if somebody else was faster: the last who had it open, or knew its number.
    fn finish_orphan(self, ino: Ino) -> Result<Option<Finished>> {
        let node = match self.vol.nodes.get_orphan(&self.vol.shared, &*self.vol.engine, ino) {
            Err(_) if !self.vol.orphans.contains(ino) => return Ok(None),
            node => node?,
        };
        let Ok(guard) = node.write() else { return Ok(None) };
        if !self.vol.orphans.contains(ino) {
            return Ok(None);
        }
        if guard.state.inode.links == 0 {
            self.delete_locked(guard)?;
            return Ok(Some(Finished::Deleted));
        }
        if guard.state.inode.is_regular() {
            self.vol.files().finish_truncate(guard)?;
        } else {
            // Nothing else is ever cut: the entry alone goes.
            let cost = Cost { journal: 1 + super::COST, blocks: 0, need: Need::ToFree };
            let mut op = Op::begin(self.vol, vec![guard], cost)?;
            super::remove(&mut op, ino)?;
            op.close()?;
        }
        Ok(Some(Finished::Truncated))
    }
}
