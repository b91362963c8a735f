//! The calls that change names: in the order of checks that the kernel has.

use super::{Body, Content, Id, Inode, Model, ROOT};
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
                self.handles.contains_key(handle).then(|| self.close(*handle)).ok_or(Fail::BadHandle)
            }
            _ => Err(Fail::Unsupported),
        }
    }

    fn make(&mut self, path: &Path, mode: u16, body: impl FnOnce(Id) -> Body) -> Done {
        if path.is_root() {
            return Err(Fail::Exists);
        }
        let (parent, name) = self.parent(path)?;
        if self.lookup(parent, name)?.is_some() {
            return Err(Fail::Exists);
        }
        self.check_adds(parent)?;
        let new = self.heir(parent, mode, body(parent));
        let id = self.insert(new);
        self.entries_mut(parent).insert(name.to_owned(), id);
        Ok(())
    }

    /// Keeps whatever `path` names as `handle`, also what cannot be opened.
    pub(crate) fn hold(&mut self, handle: u8, path: &Path) -> Done {
        let id = self.find(path)?;
        self.close(handle);
        self.handles.insert(handle, id);
        Ok(())
    }

    /// Gives what is held another name.
    pub(crate) fn link_held(&mut self, handle: u8, to: &Path) -> Done {
        let id = self.handles.get(&handle).copied().ok_or(Fail::BadHandle)?;
        self.link_inode(id, to)
    }

    /// Whether something is held.
    pub(crate) fn holds(&self, handle: u8) -> bool {
        self.handles.contains_key(&handle)
    }

    /// Lets go of what is held.
    pub(crate) fn let_go(&mut self, handle: u8) {
        self.close(handle);
    }

    fn link(&mut self, from: &File, to: &Path) -> Done {
        let id = self.file(from)?;
        self.link_inode(id, to)
    }

    fn link_inode(&mut self, id: Id, to: &Path) -> Done {
        if to.is_root() {
            return Err(Fail::Exists);
        }
        let (parent, name) = self.parent(to)?;
        if self.lookup(parent, name)?.is_some() {
            return Err(Fail::Exists);
        }
        self.check_adds(parent)?;
        self.check_moves(id)?;
        if self.inode(id).is_dir() {
            return Err(Fail::NotPermitted);
        }
        if self.inode(id).links == 0 && !self.inode(id).linkable {
            return Err(Fail::NotFound);
        }
        self.inode_mut(id).links += 1;
        self.entries_mut(parent).insert(name.to_owned(), id);
        Ok(())
    }

    fn unlink(&mut self, path: &Path) -> Done {
        if path.is_root() {
            return Err(Fail::IsDirectory);
        }
        let (parent, name) = self.parent(path)?;
        let id = self.lookup(parent, name)?.ok_or(Fail::NotFound)?;
        self.check_removes(parent, id)?;
        if self.inode(id).is_dir() {
            return Err(Fail::IsDirectory);
        }
        self.remove_name(parent, name);
        Ok(())
    }

    fn rmdir(&mut self, path: &Path) -> Done {
        let (parent, name) = self.parent(path)?;
        let id = self.lookup(parent, name)?.ok_or(Fail::NotFound)?;
        self.check_removes(parent, id)?;
        let entries = self.entries(id).ok_or(Fail::NotDirectory)?;
        if !entries.is_empty() {
            return Err(Fail::NotEmpty);
        }
        self.remove_name(parent, name);
        Ok(())
    }

    /// Takes a name away, and the inode with its last name and handle.
    fn remove_name(&mut self, parent: Id, name: &str) {
        let Some(id) = self.entries_mut(parent).remove(name) else { return };
        let inode = self.inode_mut(id);
        inode.links -= 1;
        inode.linkable &= inode.links > 0;
        self.drop_if_unused(id);
    }

    fn drop_if_unused(&mut self, id: Id) {
        if self.inode(id).links == 0 && !self.handles.values().any(|held| *held == id) {
            self.inodes.remove(&id);
        }
    }

    fn rename(&mut self, from: &Path, to: &Path, how: Rename) -> Done {
        let (old_dir, old_name) = self.parent(from)?;
        let (new_dir, new_name) = self.parent(to)?;
        let moved = self.lookup(old_dir, old_name)?.ok_or(Fail::NotFound)?;
        let target = self.lookup(new_dir, new_name)?;
        match (how, target) {
            (Rename::NoReplace | Rename::Whiteout { replace: false, .. }, Some(_)) => return Err(Fail::Exists),
            (Rename::Exchange, None) => return Err(Fail::NotFound),
            _ => {}
        }
        if self.is_inside(new_dir, moved) {
            return Err(Fail::Invalid);
        }
        if target.is_some_and(|target| self.is_inside(old_dir, target)) {
            return Err(if how == Rename::Exchange { Fail::Invalid } else { Fail::NotEmpty });
        }
        if target == Some(moved) {
            return Ok(());
        }
        self.check_removes(old_dir, moved)?;
        match target {
            Some(target) => self.check_removes(new_dir, target)?,
            None => self.check_adds(new_dir)?,
        }
        match target {
            Some(target) if how == Rename::Exchange => {
                self.entries_mut(old_dir).insert(old_name.to_owned(), target);
                self.set_parent(target, old_dir);
            }
            Some(target) => {
                self.check_replaces(moved, target)?;
                self.remove_name(new_dir, new_name);
                self.entries_mut(old_dir).remove(old_name);
            }
            None => {
                self.entries_mut(old_dir).remove(old_name);
            }
        }
        if let Rename::Whiteout { .. } = how {
            let whiteout = self.heir(old_dir, 0, Body::Special(FileType::CharDevice, (0, 0)));
            let id = self.insert(whiteout);
            self.entries_mut(old_dir).insert(old_name.to_owned(), id);
        }
        self.entries_mut(new_dir).insert(new_name.to_owned(), moved);
        self.set_parent(moved, new_dir);
        Ok(())
    }

    fn check_replaces(&self, moved: Id, target: Id) -> Done {
        match (self.inode(moved).is_dir(), self.entries(target)) {
            (true, None) => Err(Fail::NotDirectory),
            (false, Some(_)) => Err(Fail::IsDirectory),
            (true, Some(entries)) if !entries.is_empty() => Err(Fail::NotEmpty),
            _ => Ok(()),
        }
    }

    fn set_parent(&mut self, id: Id, new: Id) {
        let inode = self.inode_mut(id);
        if let Body::Directory { parent, .. } = &mut inode.body {
            *parent = new;
            // Its ".." is rewritten, which may or may not count as a change of its contents.
            inode.mtime = None;
        }
    }

    /// Whether directory `dir` is `top` or lies below it.
    fn is_inside(&self, dir: Id, top: Id) -> bool {
        let mut at = dir;
        loop {
            match &self.inode(at).body {
                _ if at == top => return true,
                Body::Directory { parent, .. } if at != ROOT => at = *parent,
                _ => return false,
            }
        }
    }

    fn open(&mut self, handle: u8, path: &Path) -> Done {
        let id = self.openable(&path.clone().into())?;
        self.check_writes(id, false)?;
        self.close(handle);
        self.handles.insert(handle, id);
        Ok(())
    }

    fn tmpfile(&mut self, handle: u8, dir: &Path, mode: u16) -> Done {
        let dir = self.find(dir)?;
        self.entries(dir).ok_or(Fail::NotDirectory)?;
        self.check_adds(dir)?;
        let new = Inode { links: 0, linkable: true, ..self.heir(dir, mode, Body::Regular(Content::default())) };
        let id = self.insert(new);
        self.close(handle);
        self.handles.insert(handle, id);
        Ok(())
    }

    pub(super) fn close(&mut self, handle: u8) {
        if let Some(id) = self.handles.remove(&handle) {
            self.drop_if_unused(id);
        }
    }
}
