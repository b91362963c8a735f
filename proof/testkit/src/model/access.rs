//! POSIX ACLs, the flags of chattr and the setgid bits of directories: what they forbid, and what new inodes inherit.

use super::{Body, Id, Inode, Model, Tree};
use crate::Fail;
use crate::op::{Acl, File, Flags, Op, Path};

/// Attributes that hold ACLs.
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const SETGID: u16 = 0o2000;

type Done = Result<(), Fail>;

impl Tree {
    pub(super) fn has_flag(&self, id: Id, flags: u32) -> bool {
        self.inode(id).flags & flags != 0
    }

    pub(super) fn permitted(&self, id: Id, unless: u32) -> Done {
        if self.has_flag(id, unless) { Err(Fail::NotPermitted) } else { Ok(()) }
    }

    /// Whether a directory takes new names.
    pub(super) fn check_adds(&self, dir: Id) -> Done {
        self.permitted(dir, Flags::IMMUTABLE)
    }

    /// Whether a directory lets go of a name, and the inode too.
    pub(super) fn check_removes(&self, dir: Id, id: Id) -> Done {
        self.permitted(dir, Flags::IMMUTABLE | Flags::APPEND)?;
        self.check_moves(id)
    }

    /// Whether an inode may get or lose names, or change its attributes.
    pub(super) fn check_moves(&self, id: Id) -> Done {
        self.permitted(id, Flags::IMMUTABLE | Flags::APPEND)
    }

    /// Whether a file may be opened for writing. Directories are only opened to be read.
    pub(super) fn check_writes(&self, id: Id, append: bool) -> Done {
        if self.inode(id).is_dir() {
            return Ok(());
        }
        self.permitted(id, if append { Flags::IMMUTABLE } else { Flags::IMMUTABLE | Flags::APPEND })
    }

    /// Whether what a file holds may be cut off or cleared.
    pub(super) fn check_cuts(&self, file: &File) -> Done {
        self.check_is_regular(file)?;
        self.check_moves(self.openable(file)?)
    }

    pub(super) fn check_is_regular(&self, file: &File) -> Done {
        match self.inode(self.openable(file)?).body {
            Body::Regular(_) => Ok(()),
            _ => Err(Fail::IsDirectory),
        }
    }

    /// A new inode in a directory: made with permission bits `mode`, which nobody masks but the directory's default
    /// ACL.
    pub(super) fn heir(&self, dir: Id, mode: u16, body: Body) -> Inode {
        let mut new = Inode::new(mode, body);
        let dir = self.inode(dir);
        new.flags = dir.flags
            & match new.body {
                Body::Directory { .. } => Flags::INHERITED,
                Body::Regular(_) => Flags::INHERITED & !Flags::DIRSYNC,
                _ => Flags::OTHER,
            };
        let mut mode = mode;
        if dir.perm & SETGID != 0 {
            new.gid = dir.gid;
            mode |= if new.is_dir() { SETGID } else { 0 };
            new.perm = mode;
        }
        let default = dir.xattrs.get(DEFAULT);
        let (Some(value), false) = (default, matches!(new.body, Body::Symlink(_))) else { return new };
        let acl = Acl::of_value(value).expect("the model keeps ACLs").masked(mode);
        new.perm = mode & !0o777 | acl.perm();
        if acl.says_more() {
            new.xattrs.insert(ACCESS.to_vec(), acl.value());
        }
        if new.is_dir() {
            new.xattrs.insert(DEFAULT.to_vec(), value.clone());
        }
        new
    }
}

impl Model {
    pub(super) fn set_acl(&mut self, file: &File, default: bool, acl: Option<&Acl>) -> Done {
        let id = self.tree.file(file)?;
        if matches!(self.tree.inode(id).body, Body::Symlink(_)) {
            return Err(Fail::Unsupported);
        }
        self.tree.check_moves(id)?;
        let is_dir = self.tree.inode(id).is_dir();
        let inode = self.tree.inode_mut(id);
        match acl {
            Some(_) if default && !is_dir => return Err(Fail::NotPermitted),
            Some(acl) if default => drop(inode.xattrs.insert(DEFAULT.to_vec(), acl.value())),
            Some(acl) => {
                inode.perm = inode.perm & !0o777 | acl.perm();
                inode.xattrs.remove(ACCESS);
                if acl.says_more() {
                    inode.xattrs.insert(ACCESS.to_vec(), acl.value());
                }
            }
            None => drop(inode.xattrs.remove(if default { DEFAULT } else { ACCESS })),
        }
        Ok(())
    }

    pub(super) fn chattr(&mut self, file: &File, flags: Flags) -> Done {
        let id = self.tree.openable(file)?;
        let old = self.tree.inode(id).flags;
        if !self.tree.inode(id).is_dir() && flags.0 & (Flags::DIRSYNC | Flags::TOPDIR) != 0 {
            return Err(Fail::Unsupported);
        }
        if old & flags.0 & Flags::IMMUTABLE != 0 && old != flags.0 {
            return Err(Fail::NotPermitted);
        }
        self.tree.inode_mut(id).flags = flags.0;
        Ok(())
    }

    /// Whether a call sets the flags that an immutable inode has already. ext4 refuses that, too, where the inode has
    /// flags that nobody can set, such as that of an index, of which the model does not know.
    pub(crate) fn repeats_immutable(&self, op: &Op) -> bool {
        let Op::Chattr { file, flags } = op else { return false };
        flags.0 & Flags::IMMUTABLE != 0 && self.tree.openable(file).is_ok_and(|id| self.tree.inode(id).flags == flags.0)
    }

    /// Whether a call removes the default ACL of what is no directory: FUSE's kernel does not ask whether that is
    /// permitted.
    pub(crate) fn removes_impossible_acl(&self, op: &Op) -> bool {
        let Op::SetAcl { file, default: true, acl: None } = op else { return false };
        self.tree.file(file).is_ok_and(|id| !self.tree.inode(id).is_dir())
    }

    /// Whether a call that has been done, and led here from `before`, was durable when it returned, because of what it
    /// changed: a synchronous file or directory, in whatever way. Not for everything that is: for what surely changed
    /// something.
    pub fn is_synchronous(&self, before: &Self, op: &Op) -> bool {
        let is_dir = |id: Id| self.tree.inodes.get(&id).is_some_and(|inode| inode.is_dir());
        let flags = |id: Id| if is_dir(id) { Flags::SYNC | Flags::DIRSYNC } else { Flags::SYNC };
        let is_changed = || {
            let mut changed = self.tree.changed_since(&before.tree).into_iter();
            changed.any(|id| self.tree.inodes.contains_key(&id) && self.tree.has_flag(id, flags(id)))
        };
        self.is_synchronously_done(op) || is_changed()
    }

    /// What changes something that a model does not know, too: a time, or bytes that were the same.
    fn is_synchronously_done(&self, op: &Op) -> bool {
        let dir = |path: &Path| path.split().and_then(|(dir, _)| self.id_of(&dir));
        let synced = |dir: Option<Id>| dir.is_some_and(|dir| self.tree.has_flag(dir, Flags::SYNC | Flags::DIRSYNC));
        match op {
            Op::Create { path, .. }
            | Op::Mkdir { path, .. }
            | Op::Mkfifo { path, .. }
            | Op::Symlink { path, .. }
            | Op::Link { to: path, .. }
            | Op::Unlink { path }
            | Op::Rmdir { path } => synced(dir(path)),
            Op::Rename { from, to, .. } => self.id_of(from) != self.id_of(to) && (synced(dir(from)) || synced(dir(to))),
            Op::Write { file, len: 1.., .. }
            | Op::WriteBack { file, len: 1.., .. }
            | Op::Append { file, len: 1.., .. }
            | Op::Truncate { file, .. } => self.tree.file(file).is_ok_and(|id| self.tree.has_flag(id, Flags::SYNC)),
            _ => false,
        }
    }
}

impl Inode {
    /// New permission bits, which an access ACL follows.
    pub(super) fn set_perm(&mut self, perm: u16) {
        self.perm = perm;
        if let Some(value) = self.xattrs.get_mut(ACCESS) {
            *value = Acl::of_value(value).expect("the model keeps ACLs").with_perm(perm).value();
        }
    }

    /// What a new owner does to anything but a directory.
    pub(super) fn lose_setuid(&mut self) {
        if !self.is_dir() {
            self.perm &= if self.perm & 0o010 != 0 { !0o6000 } else { !0o4000 };
        }
    }
}
