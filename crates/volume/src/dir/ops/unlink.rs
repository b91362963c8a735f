//! unlink, rmdir, and what becomes of an inode that has lost a name.

use super::{check_movable, check_name, check_removable, drop_subdir, find, is_dots, touch_dir, touch_inode};
use crate::alloc::Need;
use crate::dir::init::INODE_COST;
use crate::dir::lock::Locked;
use crate::dir::remove::{is_empty, remove};
use crate::dir::{Dir, Entry};
use crate::op::{Cost, Op, View};
use crate::{Error, Ino, Namespace, Result, Volume, file, orphan, xattr};
use ondol_format::Inode;

/// What becomes of an inode when it loses a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has others.
    Kept,
    /// It is freed in the same operation.
    Freed,
    /// It becomes an orphan: it is open, somebody knows it by number, or it has more blocks than one operation frees.
    Orphan,
}

impl Fate {
    /// Decides it for a locked inode that is to lose a name, and says how many journal blocks that takes.
    pub(super) fn of(view: &mut dyn View, ino: Ino) -> Result<(Self, u32)> {
        let inode = view.inode(ino)?.clone();
        if !inode.is_dir() && inode.links > 1 {
            return Ok((Self::Kept, 1));
        }
        if !view.is_open(ino)?
            && !view.volume().lookups.knows(ino)
            && let Some(cost) = free_cost(view.volume(), &inode)
            && !xattr::names_values(view, ino, &inode)?
        {
            return Ok((Self::Freed, cost));
        }
        Ok((Self::Orphan, 1 + orphan::COST))
    }
}

/// Journal blocks that freeing a whole inode takes, if one operation can do it: its mapping is all in the inode.
fn free_cost(vol: &Volume, inode: &Inode) -> Option<u32> {
    let attributes = if inode.file_acl == 0 { 0 } else { xattr::FREE_COST };
    if !file::has_blocks(inode) {
        return Some(INODE_COST + attributes);
    }
    Some(INODE_COST + attributes + file::free_cost(vol, inode)?)
}

/// Takes a name's link off an inode that `op` holds, as has been decided before. Returns what has become of it.
pub(super) fn drop_link(op: &mut Op<'_>, ino: Ino, fate: Fate) -> Result<Fate> {
    let inode = op.inode_mut(ino)?;
    inode.links = if inode.is_dir() { 0 } else { inode.links.saturating_sub(1) };
    let (blocks, last) = (file::has_blocks(inode), inode.links == 0);
    touch_inode(op, ino)?;
    if last {
        op.not_linkable(ino)?;
    }
    match fate {
        Fate::Kept => return Ok(fate),
        Fate::Freed if !blocks || file::shrink(op, ino, 0)? => {
            xattr::free(op, ino)?;
            if blocks {
                // A truncate that failed may have left it there.
                orphan::remove(op, ino)?;
            }
            op.free_inode(ino)?;
            return Ok(fate);
        }
        Fate::Freed | Fate::Orphan => {}
    }
    orphan::add(op, ino)?;
    Ok(Fate::Orphan)
}

/// Checks whether a found name can be removed from a locked directory, and says what becomes of the inode, which is
/// locked too, and what it takes. `directory` says which kind of inode is meant.
///
/// # Errors
/// As [`Namespace::unlink`] and [`Namespace::rmdir`].
pub(crate) fn plan_unlink(view: &mut dyn View, parent: Ino, entry: &Entry, directory: bool) -> Result<(Fate, Cost)> {
    view.volume().check_writable()?;
    let inode = view.inode(entry.ino)?;
    check_removable(view.inode(parent)?)?;
    check_movable(inode)?;
    match (directory, inode.is_dir()) {
        (true, false) => return Err(Error::NotDirectory(entry.ino)),
        (false, true) => return Err(Error::IsDirectory(entry.ino)),
        _ => {}
    }
    if directory {
        check_empty(view, entry.ino)?;
    }
    let (fate, victim) = Fate::of(view, entry.ino)?;
    // The leaf and the parent's inode.
    Ok((fate, Cost { journal: victim + 2, blocks: 0, need: Need::ToFree }))
}

/// Removes a found name, and the inode if it was the last, as has been planned. `op` holds `parent` and the inode.
pub(crate) fn do_unlink(op: &mut Op<'_>, parent: Ino, entry: &Entry, fate: Fate) -> Result<Fate> {
    if op.inode(entry.ino)?.is_dir() {
        drop_subdir(op.inode_mut(parent)?);
    }
    remove(op, parent, entry)?;
    touch_dir(op, parent)?;
    drop_link(op, entry.ino, fate)
}

/// Checks that a locked directory can be removed.
pub(super) fn check_empty(view: &mut dyn View, ino: Ino) -> Result<()> {
    let dir = Dir::seen(view, ino)?;
    if is_empty(view, &dir)? { Ok(()) } else { Err(Error::NotEmpty(ino)) }
}

impl Namespace<'_> {
    /// Removes a name of something that is not a directory. With the last name goes the inode: at once, or when it is
    /// closed.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory` (`parent`), `NameTooLong`, `Invalid` name, `ReadOnly`, `NotPermitted`;
    /// corruption. Nothing has changed then.
    pub fn unlink(self, parent: Ino, name: &[u8]) -> Result<()> {
        if is_dots(name) {
            return Err(Error::IsDirectory(parent));
        }
        self.remove_name(parent, name, false).map_err(|e| self.vol.noted(e))
    }

    /// Removes an empty directory. If it is open, it lives on without names or entries until it is closed.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty`, `NotDirectory`, `NameTooLong`, `Invalid` name, `ReadOnly`, `NotPermitted`; corruption.
    /// Nothing has changed then.
    pub fn rmdir(self, parent: Ino, name: &[u8]) -> Result<()> {
        match name {
            b"." => Err(Error::Invalid("a directory cannot be removed by its own \".\"")),
            b".." => Err(Error::NotEmpty(parent)),
            name => self.remove_name(parent, name, true).map_err(|e| self.vol.noted(e)),
        }
    }

    fn remove_name(self, parent: Ino, name: &[u8], directory: bool) -> Result<()> {
        check_name(name)?;
        let (mut locked, entry) = Locked::with(self.vol, &[parent], |locked| {
            let entry = find(locked, parent, name)?.found()?;
            Ok((entry, vec![entry.ino]))
        })?;
        let (fate, cost) = plan_unlink(&mut locked, parent, &entry, directory)?;
        let mut op = Op::begin(self.vol, locked.into_guards(), cost)?;
        let fate = do_unlink(&mut op, parent, &entry, fate)?;
        op.close()?;
        self.bury(entry.ino, fate);
        Ok(())
    }

    /// After an operation that made an inode an orphan: deletes it if nobody has it open. Its name is gone whether this
    /// succeeds or not; what is left is deleted by the next mount.
    pub(crate) fn bury(self, ino: Ino, fate: Fate) {
        if fate == Fate::Orphan
            && let Err(e) = self.vol.inode_ops().delete_orphan(ino)
        {
            tracing::warn!("inode {ino} is left to be deleted by the next mount: {}", self.vol.noted(e));
        }
    }
}
