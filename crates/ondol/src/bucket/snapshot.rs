//! Snapshots of volumes in object storage.

use super::{Snapshot, Terms, copy, delete, destroy, error, list, open_held};
use crate::target::is_in_bucket;
use crate::{Result, Volume};
use ondol_block::Access;
use rustix::io::Errno;
use std::path::Path;

fn require_bucket(target: &Path) -> Result<()> {
    if is_in_bucket(target) {
        return Ok(());
    }
    Err(error(Errno::OPNOTSUPP, format!("{}: only volumes in object storage have snapshots", target.display())))
}

/// Makes a snapshot of the volume at `target`, which nobody has open. Durable when this returns.
///
/// # Errors
/// `EBUSY`: somebody has it open; `EEXIST`: there is one of this name; `EINVAL`: a snapshot cannot have this name; it
/// is not in object storage; the store's failure.
pub fn snapshot(target: impl AsRef<Path>, name: &str) -> Result<()> {
    let target = target.as_ref();
    require_bucket(target)?;
    let held = open_held(target, Access::Write, &Terms::of("making a snapshot"))?;
    held.snapshot(name)?;
    held.close()
}

/// The snapshots of the volume at `target`, oldest first. Somebody may have it open.
///
/// # Errors
/// There is no volume, or it is not in object storage; the store's failure.
pub fn snapshots(target: impl AsRef<Path>) -> Result<Vec<Snapshot>> {
    require_bucket(target.as_ref())?;
    list(target.as_ref())
}

/// Deletes a snapshot. Somebody may have the volume open, who goes on; whoever reads the snapshot finds it gone sooner
/// or later.
///
/// # Errors
/// `ENOENT`: there is none of this name; it is not in object storage; the store's failure.
pub fn snapshot_delete(target: impl AsRef<Path>, name: &str) -> Result<()> {
    require_bucket(target.as_ref())?;
    delete(target.as_ref(), name)
}

/// Makes a volume at `to` that holds what the one at `from` does, or the snapshot that `from` names. No data is copied:
/// the clone names objects of the original, which cannot be deleted as long as it does. Durable when this returns.
///
/// # Errors
/// `EBUSY`: somebody has the volume open for writing, and no snapshot is named; `EEXIST`: something is at `to`; the two
/// are not in one bucket, or one lies in the other; the store's failure.
pub fn clone_volume(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    for target in [from.as_ref(), to.as_ref()] {
        if !is_in_bucket(target) {
            let what = format!("{}: only volumes in object storage have clones", target.display());
            return Err(error(Errno::OPNOTSUPP, what));
        }
    }
    copy(from.as_ref(), to.as_ref())
}

/// Deletes a volume in object storage with its snapshots, for good.
///
/// # Errors
/// `EBUSY`: somebody has it open for writing, or clones need its objects, which are named; there is none; the store's
/// failure.
pub fn delete_volume(target: impl AsRef<Path>) -> Result<()> {
    let target = target.as_ref();
    if !is_in_bucket(target) {
        let what = format!("{}: it is a file or a device, and not in object storage", target.display());
        return Err(error(Errno::OPNOTSUPP, what));
    }
    destroy(target)
}

/// The snapshots of a volume that is open, which lies in object storage.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots<'v>(&'v Volume);

impl Volume {
    /// Its snapshots.
    pub fn snapshots(&self) -> Snapshots<'_> {
        Snapshots(self)
    }
}

impl Snapshots<'_> {
    /// Makes everything that has returned so far durable, and a snapshot of the volume, which lies in object storage:
    /// [`snapshot`] of an open volume. Other operations go on; each of them is in it as a whole or not.
    ///
    /// # Errors
    /// `EEXIST`: there is one of this name; `EINVAL`: a snapshot cannot have this name; `EROFS`; `EOPNOTSUPP`: it is
    /// not in object storage; the store's failure.
    pub fn create(self, name: &str) -> Result<()> {
        let inodes = self.0.usable()?;
        let Some(held) = &self.0.doors.composed().held else {
            let what =
                format!("{}: only volumes in object storage have snapshots", self.0.doors.composed().store.name());
            return Err(error(Errno::OPNOTSUPP, what));
        };
        if inodes.is_read_only() {
            return Err(error(
                Errno::ROFS,
                format!("{}: it is open for reading", self.0.doors.composed().store.name()),
            ));
        }
        inodes.sync()?;
        held.snapshot(name)
    }

    /// The snapshots of the volume, oldest first, if it lies in object storage.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it does not; the store's failure.
    pub fn list(self) -> Result<Vec<Snapshot>> {
        self.0.usable()?;
        snapshots(self.place())
    }

    /// Deletes a snapshot of the volume, which lies in object storage.
    ///
    /// # Errors
    /// As [`snapshot_delete`].
    pub fn delete(self, name: &str) -> Result<()> {
        self.0.usable()?;
        snapshot_delete(self.place(), name)
    }

    /// The volume itself, also if a snapshot of it is open.
    fn place(&self) -> &Path {
        let name = self.0.doors.composed().store.name();
        let is_place = is_in_bucket(Path::new(name));
        Path::new(if is_place { name.split('?').next().unwrap_or(name) } else { name })
    }
}
