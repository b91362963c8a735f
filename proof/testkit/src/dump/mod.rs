//! Snapshots: everything that can be seen of a file system, in one canonical form, from wherever it lives.

mod compare;
mod directory;
mod library;

pub use compare::{Strictness, describe_bytes};
pub use directory::of_directory;
pub use library::of_volume;

use crate::model::{Body, Content, Id, Inode, Model};
use crate::op::{Path, text};
use ondol_env::Timestamp;
use ondol_volume::FileType;
use std::collections::BTreeMap;

/// One name and the inode behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its type.
    pub kind: FileType,
    /// Permission bits (0o7777).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names; of a directory, 2 and one for each subdirectory.
    pub nlink: u32,
    /// Size and bytes of a regular file; empty for everything else.
    pub content: Content,
    /// What a symbolic link points to.
    pub target: Vec<u8>,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// Extended attributes with full names.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Last change of the contents; the model says `None` when it does not know.
    pub mtime: Option<Timestamp>,
    /// The flags of chattr that have letters in the grammar; `None` where nobody tells.
    pub flags: Option<u32>,
    /// The first path of this inode in sort order: equal for names of one inode and nothing else.
    pub group: String,
}

/// Everything below a root directory, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<Path, Entry>,
    /// Bytes in a block.
    block_size: Option<u64>,
}

impl Snapshot {
    /// All names with what they name, sorted; a directory comes before what it holds.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.entries.iter()
    }

    /// Bytes in a block, where that is known.
    pub fn block_size(&self) -> Option<u64> {
        self.block_size
    }

    /// What `path` names.
    pub fn get(&self, path: &Path) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Number of names, the root included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether not even a root was found.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the model shows.
    pub(crate) fn of_model(model: &Model) -> Self {
        let mut snapshot = Self { block_size: Some(model.block_size()), ..Self::default() };
        let mut groups = BTreeMap::new();
        let mut todo = vec![(Path::root(), model.id_of(&Path::root()).expect("the model has a root"))];
        while let Some((path, id)) = todo.pop() {
            snapshot.entries.insert(path.clone(), Entry::of_model(model, id));
            groups.insert(path.clone(), id);
            let entries = model.tree.entries(id).into_iter().flatten();
            todo.extend(entries.map(|(name, id)| (path.join(name), *id)));
        }
        snapshot.name_groups(&groups);
        snapshot
    }

    /// Sets every entry's group, from any key that is equal for names of one inode only.
    fn name_groups<K: Ord>(&mut self, keys: &BTreeMap<Path, K>) {
        let mut first: BTreeMap<&K, &Path> = BTreeMap::new();
        for (path, entry) in &mut self.entries {
            if let Some((path, key)) = keys.get_key_value(path) {
                entry.group = first.entry(key).or_insert(path).as_str().to_owned();
            }
        }
    }
}

/// A name as text: itself where it is UTF-8, escaped otherwise.
fn name_text(name: &[u8]) -> String {
    std::str::from_utf8(name).map_or_else(|_| text::escape(name), str::to_owned)
}

impl Entry {
    fn of_model(model: &Model, id: Id) -> Self {
        let inode = model.tree.inode(id);
        let subdirs =
            model.tree.entries(id).map(|entries| entries.values().filter(|e| model.tree.inode(**e).is_dir()).count());
        let (content, target, rdev) = match &inode.body {
            Body::Regular(content) => (content.clone(), Vec::new(), (0, 0)),
            Body::Symlink(target) => (Content::default(), target.clone(), (0, 0)),
            Body::Special(_, rdev) => (Content::default(), Vec::new(), *rdev),
            Body::Directory { .. } => (Content::default(), Vec::new(), (0, 0)),
        };
        Self {
            kind: inode.kind(),
            perm: inode.perm,
            uid: inode.uid,
            gid: inode.gid,
            nlink: subdirs.map_or(inode.links, |n| n as u32 + 2),
            content,
            target,
            rdev,
            xattrs: inode.xattrs.clone(),
            mtime: inode.mtime,
            flags: matches!(inode.body, Body::Regular(_) | Body::Directory { .. }).then_some(inode.flags),
            group: String::new(),
        }
    }

    /// The model's inode that looks like this, in directory `parent`.
    pub(crate) fn to_inode(&self, parent: Id) -> Inode {
        let body = match self.kind {
            FileType::Regular => Body::Regular(self.content.clone()),
            FileType::Directory => Body::Directory { entries: BTreeMap::new(), parent },
            FileType::Symlink => Body::Symlink(self.target.clone()),
            special => Body::Special(special, self.rdev),
        };
        let links = if self.kind == FileType::Directory { 1 } else { self.nlink };
        let (uid, gid, xattrs, flags) = (self.uid, self.gid, self.xattrs.clone(), self.flags.unwrap_or_default());
        Inode { uid, gid, links, xattrs, flags, ..Inode::new(self.perm, body) }
    }
}
