//! The reference: a file system in memory, written to be obviously right.
//!
//! It knows names, types, modes, owners, link counts, sizes, contents, extended attributes, ACLs and flags. Of blocks
//! it knows the size, which some calls ask for; it does not know space, ctime or atime; an mtime is known from the call
//! that set it until something may have changed it.

mod access;
mod content;
mod contents;
mod names;
mod touched;
mod transaction;
mod tree;

pub use content::Content;
pub(crate) use tree::Tree;

use crate::Outcome;
use crate::dump::Snapshot;
use crate::op::{File, Op, Path};
use ondol_env::Timestamp;
use ondol_volume::FileType;
use std::collections::BTreeMap;

/// The model's own name of an inode; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

/// How inodes are laid out, as far as it can be seen: in what `fallocate` does, and in times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Files are mapped by extents; without, ranges can only be punched out.
    pub extents: bool,
    /// Blocks of a cluster: ranges that files lose or gain are multiples of it.
    pub cluster: u64,
    /// Inodes have no room for parts of seconds, nor for more than 32 bits of whole ones.
    pub whole_seconds: bool,
}

impl Default for Mapping {
    fn default() -> Self {
        Self { extents: true, cluster: 1, whole_seconds: false }
    }
}

/// What an inode holds beside its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Regular(Content),
    Directory { entries: BTreeMap<String, Id>, parent: Id },
    Symlink(Vec<u8>),
    Special(FileType, (u32, u32)),
}

/// One inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) perm: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Names of anything but a directory.
    pub(crate) links: u32,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) mtime: Option<Timestamp>,
    /// The flags of chattr that have letters.
    pub(crate) flags: u32,
    /// It was made without a name and has had none yet.
    pub(crate) linkable: bool,
    pub(crate) body: Body,
}

/// A file system. Copies are cheap: they share what does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub(crate) tree: Tree,
    mapping: Mapping,
    /// Bytes in a block.
    block_size: u64,
}

/// Bytes in a block of a file system that says nothing of them.
const BLOCK_SIZE: u64 = 4096;

/// The root directory.
const ROOT: Id = Id(0);
/// The longest name of a directory entry, in bytes.
const NAME_MAX: usize = 255;

impl Model {
    /// A file system that holds nothing but its root directory.
    pub fn empty() -> Self {
        Self { tree: Tree::empty(), mapping: Mapping::default(), block_size: BLOCK_SIZE }
    }

    /// A file system that looks like `snapshot`, such as that of a fresh image.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut model = Self { block_size: snapshot.block_size().unwrap_or(BLOCK_SIZE), ..Self::empty() };
        let mut groups: BTreeMap<&str, Id> = BTreeMap::new();
        // Paths sort after the directory that holds them.
        for (path, entry) in snapshot.entries() {
            let place = path.split().and_then(|(dir, name)| Some((model.tree.find(&dir).ok()?, name.to_owned())));
            let id = match (groups.get(entry.group.as_str()), &place) {
                (Some(&id), _) => id,
                (None, None) => ROOT,
                (None, Some((parent, _))) => model.tree.insert(entry.to_inode(*parent)),
            };
            groups.insert(entry.group.as_str(), id);
            if id == ROOT {
                let root = model.tree.inode_mut(ROOT);
                let old = std::mem::replace(root, entry.to_inode(ROOT));
                root.body = old.body;
            }
            if let Some((parent, name)) = place {
                model.tree.entries_mut(parent).insert(name, id);
            }
        }
        model
    }

    /// With files that are mapped in this way.
    #[must_use]
    pub fn with_mapping(mut self, mapping: Mapping) -> Self {
        self.mapping = mapping;
        self
    }

    /// Whether its files are mapped by extents.
    pub fn has_extents(&self) -> bool {
        self.mapping.extents
    }

    /// Does one call.
    ///
    /// # Errors
    /// The class of failure; nothing has changed then.
    pub fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Write { .. }
            | Op::WriteBack { .. }
            | Op::Append { .. }
            | Op::Truncate { .. }
            | Op::Fallocate { .. } => self.change_bytes(op),
            Op::Copy { from, at, to, to_at, len } => self.copy(from, *at, to, *to_at, *len),
            Op::Exchange { file, at, other, other_at, len } => self.exchange([file, other], [*at, *other_at], *len),
            Op::MapCommit { file, fill, .. } => self.map_commit(file, &op.stores(), *fill),
            Op::SetXattr { .. } | Op::RemoveXattr { .. } => self.change_xattr(op).map(|()| 0),
            Op::Chmod { .. } | Op::Chown { .. } | Op::Utimens { .. } => self.change_attributes(op).map(|()| 0),
            Op::SetAcl { file, default, acl } => self.set_acl(file, *default, acl.as_ref()).map(|()| 0),
            Op::Chattr { file, flags } => self.chattr(file, *flags).map(|()| 0),
            Op::Read { file, at, len, .. } => self.read(file, *at, *len),
            Op::Fsync { file, .. } => self.tree.openable(file).map(|_| 0),
            Op::Sync | Op::Trim | Op::Scratch { .. } | Op::Idle { .. } | Op::BringHome | Op::Checkpoint => Ok(0),
            Op::Transaction(steps) => self.transaction(steps).map(|()| 0),
            Op::Remount => {
                self.drop_handles();
                Ok(0)
            }
            _ => self.change_names(op).map(|()| 0),
        }
    }

    /// Forgets all handles, and with them the inodes that have no name: what a crash or an unmount does.
    pub fn drop_handles(&mut self) {
        let held: Vec<u8> = self.tree.handles.keys().copied().collect();
        held.into_iter().for_each(|handle| self.tree.close(handle));
    }

    /// Whether handles alone keep an inode.
    pub fn holds_nameless(&self) -> bool {
        let mut dropped = self.clone();
        dropped.drop_handles();
        dropped.tree.inodes.len() < self.tree.inodes.len()
    }

    /// What everybody can see.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of_model(self)
    }

    /// What is made next gets this number, which no inode has, and those after it.
    pub(crate) fn count_from(&mut self, next: u64) {
        self.tree.next = next;
    }

    /// Bytes in a block.
    pub(crate) fn block_size(&self) -> u64 {
        self.block_size
    }

    /// The inode that is meant.
    pub fn id_of_file(&self, file: &File) -> Option<Id> {
        self.tree.file(file).ok()
    }

    /// The inode that `path` names.
    pub fn id_of(&self, path: &Path) -> Option<Id> {
        self.tree.find(path).ok()
    }

    /// The contents of a regular file that still exists, named or not.
    pub fn content(&self, id: Id) -> Option<&Content> {
        self.tree.content(id)
    }

    /// The size of a regular file, named or held.
    pub fn size(&self, file: &File) -> Option<u64> {
        self.tree.content(self.tree.file(file).ok()?).map(Content::len)
    }

    /// Replaces all bytes of a regular file.
    pub fn replace_content(&mut self, id: Id, content: Content) {
        let inode = self.tree.inode_mut(id);
        if let Body::Regular(old) = &mut inode.body {
            *old = content;
            inode.mtime = None;
        }
    }
}

impl Inode {
    pub(crate) fn new(perm: u16, body: Body) -> Self {
        let (xattrs, mtime, flags, linkable) = (BTreeMap::new(), None, 0, false);
        Self { perm, uid: 0, gid: 0, links: 1, xattrs, mtime, flags, linkable, body }
    }

    pub(crate) fn kind(&self) -> FileType {
        match self.body {
            Body::Regular(_) => FileType::Regular,
            Body::Directory { .. } => FileType::Directory,
            Body::Symlink(_) => FileType::Symlink,
            Body::Special(kind, _) => kind,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }
}
