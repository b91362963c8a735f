//! The namespace operations. Each has a part that locks and plans, and a `do_…` part for inodes that an operation
//! holds.

mod above;
mod create;
mod link;
mod lookup;
mod rename;
mod tmpfile;
mod unlink;

pub(crate) use above::Circle;
pub(crate) use create::{do_create, plain, plan_create};
pub(crate) use link::{do_link, plan_link};
pub(crate) use rename::{Names, do_rename, plan_rename};
pub(crate) use unlink::{Fate, do_unlink, plan_unlink};

use super::{Dir, Search, search};
use crate::op::{Op, Reader, View};
use crate::{Error, Ino, NAME_MAX, Result, Volume};
use ondol_format::Inode;
use ondol_format::inode::{InodeFlags, LINK_MAX};

/// `Namespace` looks names up, makes, moves and removes them.
#[derive(Clone, Copy)]
pub struct Namespace<'v> {
    vol: &'v Volume,
}

impl Volume {
    /// The part that works on names.
    pub fn names(&self) -> Namespace<'_> {
        Namespace { vol: self }
    }
}

/// Checks a name that is to be looked up, made or removed; "." and ".." are the caller's matter.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() {
        return Err(Error::Invalid("an empty name"));
    }
    if name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Invalid("a name contains a slash or a zero byte"));
    }
    Ok(())
}

/// "." or "..".
pub(crate) fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Looks for a name that is to be made.
fn plan_new(view: &mut dyn View, ino: Ino, name: &[u8]) -> Result<super::Slot> {
    check_name(name)?;
    let dir = Dir::seen(view, ino)?;
    if is_dots(name) {
        return Err(Error::Exists);
    }
    let slot = find_seen(view, &dir, name)?.absent()?;
    if dir.inode.flags.contains(InodeFlags::IMMUTABLE) {
        return Err(Error::NotPermitted("the directory is immutable"));
    }
    Ok(slot)
}

/// Looks for a name in a locked directory, whether it is there or not.
pub(crate) fn find(view: &mut dyn View, ino: Ino, name: &[u8]) -> Result<Search> {
    let dir = Dir::seen(view, ino)?;
    find_seen(view, &dir, name)
}

fn find_seen(view: &mut dyn View, dir: &Dir, name: &[u8]) -> Result<Search> {
    match view.recall(dir.ino, name) {
        Some(found) => Ok(found.into()),
        None => search::search(view, dir, name),
    }
}

/// As [`find`], in a directory that the caller has looked at.
pub(crate) fn find_in(reader: &mut dyn Reader, ino: Ino, inode: &Inode, name: &[u8]) -> Result<Search> {
    let dir = Dir::new(reader.volume(), ino, inode)?;
    search::search(reader, &dir, name)
}

/// Whether names may be taken out of a directory.
fn check_removable(dir: &Inode) -> Result<()> {
    if dir.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
        return Err(Error::NotPermitted("the directory is immutable or append-only"));
    }
    Ok(())
}

/// Whether an inode may lose, change or get a name.
fn check_movable(inode: &Inode) -> Result<()> {
    if inode.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
        return Err(Error::NotPermitted("the inode is immutable or append-only"));
    }
    Ok(())
}

/// Whether a directory that hands down its project takes an inode in.
fn check_project(dir: &Inode, inode: &Inode) -> Result<()> {
    if dir.flags.contains(InodeFlags::PROJINHERIT) && dir.project != inode.project {
        return Err(Error::OtherProject);
    }
    Ok(())
}

/// Stamps a directory whose names have changed.
fn touch_dir(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let now = crate::time::to_disk(op.now());
    let dir = op.inode_mut(ino)?;
    (dir.mtime, dir.ctime) = (now, now);
    Ok(())
}

/// Stamps an inode that has changed itself.
fn touch_inode(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let now = crate::time::to_disk(op.now());
    op.inode_mut(ino)?.ctime = now;
    Ok(())
}

/// Whether a directory can have another subdirectory.
fn check_subdirs(vol: &Volume, ino: Ino, inode: &Inode) -> Result<()> {
    let uncounted = vol.shared.sb.has_ro_compat(ondol_format::RoCompat::DIR_NLINK);
    if inode.links >= LINK_MAX && !uncounted {
        return Err(Error::TooManyLinks(ino));
    }
    Ok(())
}

/// Counts one more subdirectory. Too many to count are 1 link, for good.
pub(crate) fn add_subdir(inode: &mut Inode) {
    inode.links = match inode.links {
        1 => 1,
        n if n >= LINK_MAX => 1,
        n => n + 1,
    };
}

/// Counts one subdirectory less.
pub(crate) fn drop_subdir(inode: &mut Inode) {
    if inode.links > 2 {
        inode.links -= 1;
    }
}
