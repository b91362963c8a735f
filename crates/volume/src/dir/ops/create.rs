//! create, mkdir, mknod, symlink.

use super::{add_subdir, check_subdirs, plan_new, touch_dir};
use crate::behalf;
use crate::dir::init::{self, NewInode};
use crate::dir::insert::insert;
use crate::dir::lock::Locked;
use crate::dir::{Needs, NewEntry, Slot};
use crate::op::{Cost, Op, View};
use crate::xattr::Inherited;
use crate::{Attr, Caller, Device, Error, Ino, Namespace, Result};
use ondol_format::inode::FileType;

/// Where a new name goes, and what its inode inherits.
pub(crate) type Place = (Slot, Inherited);

/// Makes an inode and its name in directory `parent`, which `op` holds and where `name` has been found absent.
pub(crate) fn do_create(op: &mut Op<'_>, parent: Ino, name: &[u8], place: Place, new: &NewInode<'_>) -> Result<Ino> {
    let (slot, inherited) = place;
    let ino = init::make(op, parent, new, &inherited)?;
    let file_type = init::code_of(op, ino)?;
    insert(op, parent, slot, NewEntry { name, ino, file_type })?;
    if new.file_type == FileType::Directory {
        add_subdir(op.inode_mut(parent)?);
    }
    touch_dir(op, parent)?;
    Ok(ino)
}

/// Checks whether `new` can be made as `name` in a locked directory, and says where the name goes and what it takes.
///
/// # Errors
/// As [`Namespace::create`].
pub(crate) fn plan_create(view: &mut dyn View, parent: Ino, name: &[u8], new: &NewInode<'_>) -> Result<(Place, Cost)> {
    if new.file_type == FileType::Symlink {
        init::check_target(view.volume(), new.target)?;
    }
    let slot = plan_new(view, parent, name)?;
    view.volume().check_writable()?;
    if new.file_type == FileType::Directory {
        check_subdirs(view.volume(), parent, view.inode(parent)?)?;
    }
    let (inherited, of_inode) = new.plan(view, parent)?;
    let needs = of_inode + slot.needs(view.inode(parent)?)? + Needs { journal: 1, blocks: 0 };
    let need = behalf::of_owner(&view.volume().shared.sb, new.caller);
    Ok(((slot, inherited), Cost { journal: needs.journal, blocks: needs.blocks, need }))
}

impl Namespace<'_> {
    /// Makes an empty regular file with permission bits `mode`, which the directory's default ACL masks, or else the
    /// caller's umask.
    ///
    /// # Errors
    /// `Exists`, `NotFound` when the directory is gone, `NotDirectory`, `NameTooLong`, `Invalid` name, `NoSpace`,
    /// `ReadOnly`, `NotPermitted`; corruption. Nothing has changed then.
    pub fn create(self, parent: Ino, name: &[u8], mode: u16, caller: Caller) -> Result<Attr> {
        self.new_inode(parent, name, &plain(FileType::Regular, mode, caller))
    }

    /// Makes an empty directory with permission bits `mode`, as [`Namespace::create`]; setuid and setgid are not asked
    /// for.
    ///
    /// # Errors
    /// As [`Namespace::create`]; `TooManyLinks`.
    pub fn mkdir(self, parent: Ino, name: &[u8], mode: u16, caller: Caller) -> Result<Attr> {
        self.new_inode(parent, name, &plain(FileType::Directory, mode & 0o1777, caller))
    }

    /// Makes a file of the type that `mode` says with its permission bits: regular, device, pipe or socket. `rdev` is
    /// a device's number.
    ///
    /// # Errors
    /// As [`Namespace::create`]; `Invalid` for another type.
    pub fn mknod(self, parent: Ino, name: &[u8], mode: u16, rdev: Device, caller: Caller) -> Result<Attr> {
        let file_type = match FileType::from_mode(mode) {
            None if mode >> 12 == 0 => FileType::Regular,
            Some(FileType::Directory | FileType::Symlink) | None => return Err(Error::Invalid("mknod of this type")),
            Some(file_type) => file_type,
        };
        let new = NewInode { device: rdev, ..plain(file_type, mode & 0o7777, caller) };
        self.new_inode(parent, name, &new)
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`Namespace::create`]; `NotFound` for an empty target, `NameTooLong` for one that a block cannot hold.
    pub fn symlink(self, parent: Ino, name: &[u8], target: &[u8], caller: Caller) -> Result<Attr> {
        self.new_inode(parent, name, &NewInode { target, ..plain(FileType::Symlink, 0o777, caller) })
    }

    fn new_inode(self, parent: Ino, name: &[u8], new: &NewInode<'_>) -> Result<Attr> {
        self.try_new_inode(parent, name, new).map_err(|e| self.vol.noted(e))
    }

    fn try_new_inode(self, parent: Ino, name: &[u8], new: &NewInode<'_>) -> Result<Attr> {
        let mut locked = Locked::one(self.vol, parent)?;
        let (place, cost) = plan_create(&mut locked, parent, name, new)?;
        let mut op = Op::begin(self.vol, locked.into_guards(), cost)?;
        let ino = do_create(&mut op, parent, name, place, new)?;
        let attr = self.vol.attr(ino, op.inode(ino)?)?;
        op.close()?;
        Ok(attr)
    }
}

/// A new inode of this type, without device number and target.
pub(crate) fn plain(file_type: FileType, perm: u16, caller: Caller) -> NewInode<'static> {
    NewInode { file_type, perm, device: Device::default(), target: b"", caller }
}
