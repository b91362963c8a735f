//! link.

use super::{check_movable, check_project, plan_new, touch_dir, touch_inode};
use crate::alloc::Need;
use crate::dir::insert::insert;
use crate::dir::lock::Locked;
use crate::dir::{NewEntry, Slot, init};
use crate::op::{Cost, Op, View};
use crate::{Attr, Error, Ino, Namespace, Result, orphan};
use ondol_format::inode::LINK_MAX;

/// Gives `ino` a further name in directory `parent`. `op` holds both, and `name` has been found absent.
pub(crate) fn do_link(op: &mut Op<'_>, ino: Ino, parent: Ino, name: &[u8], slot: Slot) -> Result<()> {
    check_linkable(op, ino, parent)?;
    let file_type = init::code_of(op, ino)?;
    insert(op, parent, slot, NewEntry { name, ino, file_type })?;
    if op.inode(ino)?.links == 0 {
        orphan::remove(op, ino)?;
    }
    op.inode_mut(ino)?.links += 1;
    touch_inode(op, ino)?;
    touch_dir(op, parent)
}

/// Whether an inode can have another name, or its first, in a directory.
fn check_linkable(view: &dyn View, ino: Ino, parent: Ino) -> Result<()> {
    let inode = view.inode(ino)?;
    if inode.is_dir() {
        return Err(Error::NotPermitted("a directory has one name"));
    }
    check_movable(inode)?;
    if inode.links == 0 && !view.is_linkable(ino)? {
        return Err(Error::NotFound);
    }
    if inode.links >= LINK_MAX {
        return Err(Error::TooManyLinks(ino));
    }
    check_project(view.inode(parent)?, inode)
}

/// Checks whether locked `ino` can get `name` in a locked directory, and says where the name goes and what it takes.
///
/// # Errors
/// As [`Namespace::link`].
pub(crate) fn plan_link(view: &mut dyn View, ino: Ino, parent: Ino, name: &[u8]) -> Result<(Slot, Cost)> {
    let slot = plan_new(view, parent, name)?;
    view.volume().check_writable()?;
    check_linkable(view, ino, parent)?;
    let needs = slot.needs(view.inode(parent)?)?;
    let orphan = if view.inode(ino)?.links == 0 { orphan::COST } else { 0 };
    Ok((slot, Cost { journal: needs.journal + 2 + orphan, blocks: needs.blocks, need: Need::Ordinary }))
}

impl Namespace<'_> {
    /// Gives an inode that is not a directory another name; or, if it comes from [`Namespace::tmpfile`] and is still
    /// open, its first.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `NotPermitted` (`ino` is a directory), `TooManyLinks`, `OtherProject`,
    /// `NameTooLong`, `Invalid` name, `NoSpace`, `ReadOnly`, `NotPermitted`; corruption. Nothing has changed then.
    pub fn link(self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.try_link(ino, parent, name).map_err(|e| self.vol.noted(e))
    }

    fn try_link(self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let (locked, (slot, cost)) =
            Locked::with(self.vol, &[parent, ino], |locked| Ok((plan_link(locked, ino, parent, name)?, Vec::new())))?;
        let mut op = Op::begin(self.vol, locked.into_guards(), cost)?;
        do_link(&mut op, ino, parent, name, slot)?;
        let attr = self.vol.attr(ino, op.inode(ino)?)?;
        op.close()?;
        Ok(attr)
    }
}
