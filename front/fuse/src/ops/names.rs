//! Requests about names. Each answer that tells the kernel of an inode is counted: see [`Ops::forget`].

use super::{Answer, Op, Ops, Sender};
use ondol::inodes::{Error, Inodes};
use ondol::{Attr, Device, Ino, Rename};

/// Counts that the kernel is told of an inode.
fn told(inodes: &Inodes, attr: Attr) -> Attr {
    inodes.inode_ops().looked_up(attr.ino);
    attr
}

/// A name in a directory.
pub(crate) struct Named<'a> {
    pub(crate) dir: Ino,
    pub(crate) name: &'a [u8],
}

/// The operations on names of one mounted volume.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a>(pub(super) &'a Ops);

impl Ops {
    pub(crate) fn names(&self) -> Names<'_> {
        Names(self)
    }
}

impl Names<'_> {
    /// The inode that `name` names in `parent`; `None` if there is no such name.
    pub(crate) fn lookup(self, parent: Ino, name: &[u8]) -> Answer<Option<Attr>> {
        // By `.` the kernel finds an inode again of which it has forgotten everything but the number.
        let find = |i: &Inodes| if name == b"." { i.by_number(parent) } else { i.names().lookup(parent, name) };
        self.0.ask(Op::Lookup, |i| match find(i) {
            Ok(attr) => Ok(Some(told(i, attr))),
            Err(Error::NotFound) => Ok(None),
            Err(e) => Err(e),
        })
    }

    /// Makes a regular file and opens it.
    pub(crate) fn create(self, parent: Ino, name: &[u8], perm: u16, sender: Sender) -> Answer<Attr> {
        self.0.change(Op::Create, sender, |i| {
            let attr = i.names().create(parent, name, perm, sender.caller())?;
            Ok(told(i, i.inode_ops().open(attr.ino)?))
        })
    }

    /// Makes a regular file without a name, and opens it.
    pub(crate) fn tmpfile(self, dir: Ino, perm: u16, sender: Sender) -> Answer<Attr> {
        self.0.change(Op::Tmpfile, sender, |i| Ok(told(i, i.names().tmpfile(dir, perm, sender.caller())?)))
    }

    /// Makes a directory.
    pub(crate) fn mkdir(self, parent: Ino, name: &[u8], perm: u16, sender: Sender) -> Answer<Attr> {
        self.0.change(Op::Mkdir, sender, |i| Ok(told(i, i.names().mkdir(parent, name, perm, sender.caller())?)))
    }

    /// Makes a file of the type that `mode` says.
    pub(crate) fn mknod(self, parent: Ino, name: &[u8], mode: u16, rdev: Device, sender: Sender) -> Answer<Attr> {
        self.0.change(Op::Mknod, sender, |i| Ok(told(i, i.names().mknod(parent, name, mode, rdev, sender.caller())?)))
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(self, parent: Ino, name: &[u8], target: &[u8], sender: Sender) -> Answer<Attr> {
        self.0.change(Op::Symlink, sender, |i| Ok(told(i, i.names().symlink(parent, name, target, sender.caller())?)))
    }

    /// Gives an inode one more name.
    pub(crate) fn link(self, ino: Ino, parent: Ino, name: &[u8], sender: Sender) -> Answer<Attr> {
        self.0.change(Op::Link, sender, |i| Ok(told(i, i.names().link(ino, parent, name)?)))
    }

    /// Removes a name of anything but a directory.
    pub(crate) fn unlink(self, parent: Ino, name: &[u8], sender: Sender) -> Answer<()> {
        self.0.change(Op::Unlink, sender, |i| i.names().unlink(parent, name))
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(self, parent: Ino, name: &[u8], sender: Sender) -> Answer<()> {
        self.0.change(Op::Rmdir, sender, |i| i.names().rmdir(parent, name))
    }

    /// Moves a name; `how` is `None` for flags that nobody offers.
    pub(crate) fn rename(self, from: Named<'_>, to: Named<'_>, how: Option<Rename>, sender: Sender) -> Answer<()> {
        self.0.change(Op::Rename, sender, |i| {
            let how = how.ok_or(Error::Invalid("this kind of rename is not offered"))?;
            i.names().rename(from.dir, from.name, to.dir, to.name, how)
        })
    }
}
