//! Orphans: inodes without a name that are still open, and truncates in progress.

use crate::op::Op;
use crate::{Error, Ino, Result};
use ondol_env::sync::MutexGuard;

/// The orphan list, held by an operation until it closes.
pub(crate) struct OrphanGuard<'v>(pub(crate) MutexGuard<'v, ()>);

/// Enters a locked inode into the orphan file or list; no change if it is there already.
pub(crate) fn add(_op: &mut Op<'_>, _ino: Ino) -> Result<()> {
    Err(Error::Unsupported("orphans".into()))
}

/// Takes a locked inode out of the orphan file or list.
pub(crate) fn remove(_op: &mut Op<'_>, _ino: Ino) -> Result<()> {
    Err(Error::Unsupported("orphans".into()))
}

/// Journal blocks that `add` or `remove` may change beside the inode itself.
pub(crate) const COST: u32 = 4;

impl crate::Volume {
    /// Deletes an inode that has no names and no openers: frees its contents in steps, then its xattrs, the inode and its
    /// orphan entry. Nothing happens if it is open, has a name, or is gone already.
    ///
    /// # Errors
    /// Corruption, or the journal's failure; the inode is then still an orphan, which the next mount deletes.
    pub(crate) fn delete_orphan(&self, _ino: Ino) -> Result<()> {
        Err(Error::Unsupported("orphans".into()))
    }
}
