//! What is there: inodes, the names that lead to them, and handles.

use super::{Body, Content, Id, Inode, NAME_MAX, ROOT};
use crate::Fail;
use crate::op::{File, Path};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inodes, names and handles. Copies are cheap: they share what does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(super) inodes: BTreeMap<Id, Arc<Inode>>,
    pub(super) handles: BTreeMap<u8, Id>,
    pub(super) next: u64,
}

impl Tree {
    /// Nothing but a root directory.
    pub(super) fn empty() -> Self {
        let root = Inode::new(0o755, Body::Directory { entries: BTreeMap::new(), parent: ROOT });
        Self { inodes: BTreeMap::from([(ROOT, Arc::new(root))]), handles: BTreeMap::new(), next: 1 }
    }

    /// The contents of a regular file that still exists, named or not.
    pub(crate) fn content(&self, id: Id) -> Option<&Content> {
        match &self.inodes.get(&id)?.body {
            Body::Regular(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn inode(&self, id: Id) -> &Inode {
        &self.inodes[&id]
    }

    pub(super) fn inode_mut(&mut self, id: Id) -> &mut Inode {
        Arc::make_mut(self.inodes.get_mut(&id).expect("an id is only used while its inode exists"))
    }

    pub(super) fn insert(&mut self, inode: Inode) -> Id {
        let id = Id(self.next);
        self.next += 1;
        self.inodes.insert(id, Arc::new(inode));
        id
    }

    /// The entries of a directory.
    pub(crate) fn entries(&self, id: Id) -> Option<&BTreeMap<String, Id>> {
        match &self.inode(id).body {
            Body::Directory { entries, .. } => Some(entries),
            _ => None,
        }
    }

    pub(super) fn entries_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        let inode = self.inode_mut(id);
        inode.mtime = None;
        match &mut inode.body {
            Body::Directory { entries, .. } => entries,
            _ => unreachable!("only directories are looked into"),
        }
    }

    /// One step of a walk.
    pub(super) fn lookup(&self, dir: Id, name: &str) -> Result<Option<Id>, Fail> {
        let entries = self.entries(dir).ok_or(Fail::NotDirectory)?;
        if name.len() > NAME_MAX {
            return Err(Fail::NameTooLong);
        }
        Ok(entries.get(name).copied())
    }

    pub(super) fn find(&self, path: &Path) -> Result<Id, Fail> {
        path.components().try_fold(ROOT, |dir, name| self.lookup(dir, name)?.ok_or(Fail::NotFound))
    }

    /// The directory that holds, or would hold, the last name of `path`.
    pub(super) fn parent<'p>(&self, path: &'p Path) -> Result<(Id, &'p str), Fail> {
        let (dir, name) = path.split().ok_or(Fail::Busy)?;
        let id = self.find(&dir)?;
        self.entries(id).ok_or(Fail::NotDirectory)?;
        Ok((id, name))
    }

    pub(super) fn file(&self, file: &File) -> Result<Id, Fail> {
        match file {
            File::Path(path) => self.find(path),
            File::Handle(handle) => self.handles.get(handle).copied().ok_or(Fail::BadHandle),
        }
    }

    /// A regular file or directory: what can be opened for reading without following links or waiting.
    pub(super) fn openable(&self, file: &File) -> Result<Id, Fail> {
        let id = self.file(file)?;
        match self.inode(id).body {
            Body::Regular(_) | Body::Directory { .. } => Ok(id),
            Body::Symlink(_) => Err(Fail::Symlink),
            Body::Special(..) => Err(Fail::Invalid),
        }
    }

    /// Takes a name away, and the inode with its last name and handle.
    pub(super) fn remove_name(&mut self, parent: Id, name: &str) {
        let Some(id) = self.entries_mut(parent).remove(name) else { return };
        let inode = self.inode_mut(id);
        inode.links -= 1;
        inode.linkable &= inode.links > 0;
        self.drop_if_unused(id);
    }

    pub(super) fn drop_if_unused(&mut self, id: Id) {
        if self.inode(id).links == 0 && !self.handles.values().any(|held| *held == id) {
            self.inodes.remove(&id);
        }
    }

    pub(super) fn check_replaces(&self, moved: Id, target: Id) -> Result<(), Fail> {
        match (self.inode(moved).is_dir(), self.entries(target)) {
            (true, None) => Err(Fail::NotDirectory),
            (false, Some(_)) => Err(Fail::IsDirectory),
            (true, Some(entries)) if !entries.is_empty() => Err(Fail::NotEmpty),
            _ => Ok(()),
        }
    }

    pub(super) fn set_parent(&mut self, id: Id, new: Id) {
        let inode = self.inode_mut(id);
        if let Body::Directory { parent, .. } = &mut inode.body {
            *parent = new;
            // Its ".." is rewritten, which may or may not count as a change of its contents.
            inode.mtime = None;
        }
    }

    /// Whether directory `dir` is `top` or lies below it.
    pub(super) fn is_inside(&self, dir: Id, top: Id) -> bool {
        let mut at = dir;
        loop {
            match &self.inode(at).body {
                _ if at == top => return true,
                Body::Directory { parent, .. } if at != ROOT => at = *parent,
                _ => return false,
            }
        }
    }

    pub(super) fn close(&mut self, handle: u8) {
        if let Some(id) = self.handles.remove(&handle) {
            self.drop_if_unused(id);
        }
    }

    /// A regular file; one that is not open yet is opened for writing.
    pub(super) fn opened_for_writing(&self, file: &File) -> Result<Id, Fail> {
        self.check_is_regular(file)?;
        let id = self.openable(file)?;
        if file.is_path() {
            self.check_writes(id, false)?;
        }
        Ok(id)
    }

    /// The contents of a regular file, about to be changed.
    pub(super) fn regular(&mut self, file: &File, append: bool) -> Result<&mut Content, Fail> {
        self.check_is_regular(file)?;
        let id = self.openable(file)?;
        // What is open already has been asked whether it is append-only.
        self.check_writes(id, append || !file.is_path())?;
        let inode = self.inode_mut(id);
        match &mut inode.body {
            Body::Regular(content) => {
                inode.mtime = None;
                Ok(content)
            }
            _ => Err(Fail::IsDirectory),
        }
    }
}
