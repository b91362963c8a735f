//! The calls that change names: in the order of checks that the kernel has.

use super::{Body, Content, Id, Inode, Model};
use crate::Fail;
use crate::op::{File, Op, Path, Rename};
use ondol_volume::FileType;
use std::collections::BTreeMap;

type Done = Result<(), Fail>;

impl Model {
    pub(super) fn change_names(&mut self, op: &Op) -> Done {
        match op {
            Op::Create { path, mode } => self.make(path, *mode, |_| Body::Regular(Content::default())),
            Op::Mkdir { path, mode } => {
                self.make(path, *mode, |parent| Body::Directory { entries: BTreeMap::new(), parent })
            }
            Op::Mkfifo { path, mode } => self.make(path, *mode, |_| Body::Special(FileType::Fifo, (0, 0))),
            Op::Symlink { path, target } => self.make(path, 0o777, |_| Body::Symlink(target.clone().into_bytes())),
            Op::Link { from, to } => self.link(from, to),
            Op::Unlink { path } => self.unlink(path),
            Op::Rmdir { path } => self.rmdir(path),
            Op::Rename { from, to, how } => self.rename(from, to, *how),
            Op::Tmpfile { handle, dir, mode } => self.tmpfile(*handle, dir, *mode),
            Op::Open { handle, path } => self.open(*handle, path),
            Op::Close { handle } => {
                self.tree.handles.contains_key(handle).then(|| self.tree.close(*handle)).ok_or(Fail::BadHandle)
            }
            _ => Err(Fail::Unsupported),
        }
    }

    fn make(&mut self, path: &Path, mode: u16, body: impl FnOnce(Id) -> Body) -> Done {
        if path.is_root() {
            return Err(Fail::Exists);
        }
        let (parent, name) = self.tree.parent(path)?;
        if self.tree.lookup(parent, name)?.is_some() {
            return Err(Fail::Exists);
        }
        self.tree.check_adds(parent)?;
        let new = self.tree.heir(parent, mode, body(parent));
        let id = self.tree.insert(new);
        self.tree.entries_mut(parent).insert(name.to_owned(), id);
        Ok(())
    }

    /// Keeps whatever `path` names as `handle`, also what cannot be opened.
    pub(crate) fn hold(&mut self, handle: u8, path: &Path) -> Done {
        let id = self.tree.find(path)?;
        self.tree.close(handle);
        self.tree.handles.insert(handle, id);
        Ok(())
    }

    /// Gives what is held another name.
    pub(crate) fn link_held(&mut self, handle: u8, to: &Path) -> Done {
        let id = self.tree.handles.get(&handle).copied().ok_or(Fail::BadHandle)?;
        self.link_inode(id, to)
    }

    /// Whether something is held.
    pub(crate) fn holds(&self, handle: u8) -> bool {
        self.tree.handles.contains_key(&handle)
    }

    /// Lets go of what is held.
    pub(crate) fn let_go(&mut self, handle: u8) {
        self.tree.close(handle);
    }

    fn link(&mut self, from: &File, to: &Path) -> Done {
        let id = self.tree.file(from)?;
        self.link_inode(id, to)
    }

    fn link_inode(&mut self, id: Id, to: &Path) -> Done {
        if to.is_root() {
            return Err(Fail::Exists);
        }
        let (parent, name) = self.tree.parent(to)?;
        if self.tree.lookup(parent, name)?.is_some() {
            return Err(Fail::Exists);
        }
        self.tree.check_adds(parent)?;
        self.tree.check_moves(id)?;
        if self.tree.inode(id).is_dir() {
            return Err(Fail::NotPermitted);
        }
        if self.tree.inode(id).links == 0 && !self.tree.inode(id).linkable {
            return Err(Fail::NotFound);
        }
        self.tree.inode_mut(id).links += 1;
        self.tree.entries_mut(parent).insert(name.to_owned(), id);
        Ok(())
    }

    fn unlink(&mut self, path: &Path) -> Done {
        if path.is_root() {
            return Err(Fail::IsDirectory);
        }
        let (parent, name) = self.tree.parent(path)?;
        let id = self.tree.lookup(parent, name)?.ok_or(Fail::NotFound)?;
        self.tree.check_removes(parent, id)?;
        if self.tree.inode(id).is_dir() {
            return Err(Fail::IsDirectory);
        }
        self.tree.remove_name(parent, name);
        Ok(())
    }

    fn rmdir(&mut self, path: &Path) -> Done {
        let (parent, name) = self.tree.parent(path)?;
        let id = self.tree.lookup(parent, name)?.ok_or(Fail::NotFound)?;
        self.tree.check_removes(parent, id)?;
        let entries = self.tree.entries(id).ok_or(Fail::NotDirectory)?;
        if !entries.is_empty() {
            return Err(Fail::NotEmpty);
        }
        self.tree.remove_name(parent, name);
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path, how: Rename) -> Done {
        let (old_dir, old_name) = self.tree.parent(from)?;
        let (new_dir, new_name) = self.tree.parent(to)?;
        let moved = self.tree.lookup(old_dir, old_name)?.ok_or(Fail::NotFound)?;
        let target = self.tree.lookup(new_dir, new_name)?;
        match (how, target) {
            (Rename::NoReplace | Rename::Whiteout { replace: false, .. }, Some(_)) => return Err(Fail::Exists),
            (Rename::Exchange, None) => return Err(Fail::NotFound),
            _ => {}
        }
        if self.tree.is_inside(new_dir, moved) {
            return Err(Fail::Invalid);
        }
        if target.is_some_and(|target| self.tree.is_inside(old_dir, target)) {
            return Err(if how == Rename::Exchange { Fail::Invalid } else { Fail::NotEmpty });
        }
        if target == Some(moved) {
            return Ok(());
        }
        self.tree.check_removes(old_dir, moved)?;
        match target {
            Some(target) => self.tree.check_removes(new_dir, target)?,
            None => self.tree.check_adds(new_dir)?,
        }
        match target {
            Some(target) if how == Rename::Exchange => {
                self.tree.entries_mut(old_dir).insert(old_name.to_owned(), target);
                self.tree.set_parent(target, old_dir);
            }
            Some(target) => {
                self.tree.check_replaces(moved, target)?;
                self.tree.remove_name(new_dir, new_name);
                self.tree.entries_mut(old_dir).remove(old_name);
            }
            None => {
                self.tree.entries_mut(old_dir).remove(old_name);
            }
        }
        if let Rename::Whiteout { .. } = how {
            let whiteout = self.tree.heir(old_dir, 0, Body::Special(FileType::CharDevice, (0, 0)));
            let id = self.tree.insert(whiteout);
            self.tree.entries_mut(old_dir).insert(old_name.to_owned(), id);
        }
        self.tree.entries_mut(new_dir).insert(new_name.to_owned(), moved);
        self.tree.set_parent(moved, new_dir);
        Ok(())
    }

    fn open(&mut self, handle: u8, path: &Path) -> Done {
        let id = self.tree.openable(&path.clone().into())?;
        self.tree.check_writes(id, false)?;
        self.tree.close(handle);
        self.tree.handles.insert(handle, id);
        Ok(())
    }

    fn tmpfile(&mut self, handle: u8, dir: &Path, mode: u16) -> Done {
        let dir = self.tree.find(dir)?;
        self.tree.entries(dir).ok_or(Fail::NotDirectory)?;
        self.tree.check_adds(dir)?;
        let new = Inode { links: 0, linkable: true, ..self.tree.heir(dir, mode, Body::Regular(Content::default())) };
        let id = self.tree.insert(new);
        self.tree.close(handle);
        self.tree.handles.insert(handle, id);
        Ok(())
    }
}
