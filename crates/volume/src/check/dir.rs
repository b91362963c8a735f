//! Directories: their blocks, entries and names.

use super::report::Where;
use super::{Checker, Dir, Pass};
use crate::{Ino, Result};
use ondol_format::dirent::{self, DirBlock, DirEntry};
use ondol_format::hash::DxHash;
use ondol_format::{Place, printable};
use std::collections::HashSet;

/// The hashes that an htree allows in a leaf.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) hash: DxHash,
    /// The least hash; its low bit says that names of this hash may begin in the leaf before.
    pub(super) from: u32,
    /// Where the next leaf begins; its low bit says that this hash may occur here too.
    pub(super) to: Option<u32>,
}

impl Bounds {
    fn contain(&self, major: u32) -> bool {
        let below = self.to.is_none_or(|to| major < to & !1 || (to & 1 == 1 && major == to & !1));
        major >= self.from & !1 && below
    }
}

/// What a block of entries is in its directory.
#[derive(Clone, Copy)]
pub(super) enum Leaf {
    /// Block 0 of one without an index: it begins with '.' and '..'.
    First,
    Linear,
    Hashed(Bounds),
}

/// The names met so far that a further one may repeat.
pub(super) type Names = HashSet<Vec<u8>>;

/// The pass over all directories: their blocks, indexes, entries and names.
pub(super) struct DirectoryPass<'c, 'a> {
    pub(super) checker: &'c mut Checker<'a>,
}

impl DirectoryPass<'_, '_> {
    pub(super) fn check_directories(&mut self) -> Result<()> {
        let total = self.checker.dirs.len();
        for at in 0..total {
            if at % 256 == 0 {
                self.checker.tell(Pass::Directories, at as u64, total as u64);
            }
            if self.checker.dirs[at].indexed {
                self.check_htree(at)?;
            } else {
                self.check_linear(at)?;
            }
        }
        Ok(())
    }

    fn check_linear(&mut self, at: usize) -> Result<()> {
        if let Some(stored) = self.checker.dirs[at].inline.take() {
            return self.check_inline_dir(at, &stored);
        }
        let mut names = Names::new();
        let runs = self.checker.dirs[at].runs.clone();
        for run in runs {
            for i in 0..run.len {
                let block = run.start + u64::from(i);
                let bytes = self.checker.read(block)?;
                let leaf = if run.logical == 0 && i == 0 { Leaf::First } else { Leaf::Linear };
                self.check_leaf(at, block, &bytes, leaf, &mut names);
            }
        }
        Ok(())
    }

    /// A block of entries.
    pub(super) fn check_leaf(&mut self, at: usize, block: u64, bytes: &[u8], leaf: Leaf, names: &mut Names) {
        let Dir { ino, generation, .. } = self.checker.dirs[at];
        let place = Where::inode(ino).in_block(block);
        if let Some(seed) = self.checker.sb.inode_seed(ino, generation)
            && let Err(e) = dirent::verify(bytes, seed, Place::NONE)
        {
            self.checker.broken(place, &e);
        }
        let view = match DirBlock::new(bytes, self.checker.has_csum(), Place::NONE) {
            Ok(view) => view,
            // Told already, with the checksum; the entries are as they would be without a tail.
            Err(_) => match DirBlock::new(bytes, false, Place::NONE) {
                Ok(view) => view,
                Err(_) => return,
            },
        };
        self.check_entries(at, place, &view, leaf, names);
    }

    /// The entries of one block or list.
    pub(super) fn check_entries(
        &mut self,
        at: usize,
        place: Where,
        view: &DirBlock<'_>,
        leaf: Leaf,
        names: &mut Names,
    ) {
        let (mut count, first) = (0, matches!(leaf, Leaf::First));
        for entry in view.entries() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => return self.checker.broken(place, &e),
            };
            if first && count < 2 {
                self.check_dot(at, place, &entry, count == 0, view);
            } else if entry.ino != 0 {
                self.check_entry(at, place, &entry, leaf, names);
            }
            count += 1;
        }
        if first && count < 2 {
            self.checker.problem("directory", place, "'.' or '..' is missing");
        }
    }

    /// The first two entries of a directory, in a view of its block 0.
    pub(super) fn check_dot(&mut self, at: usize, place: Where, entry: &DirEntry<'_>, dot: bool, view: &DirBlock<'_>) {
        let want: &[u8] = if dot { b"." } else { b".." };
        let own = self.checker.dirs[at].ino;
        if entry.name != want || entry.ino == 0 || (dot && entry.ino != own) {
            let (name, want) = (printable(entry.name), printable(want));
            let text = format!("'{name}' (inode {}) stands where '{want}' must be", entry.ino);
            self.checker.problem("directory", place, text);
            return;
        }
        if view.byte_behind(entry).is_some_and(|byte| byte != 0) {
            self.checker.problem("directory", place, "no zero behind '.' or '..'");
        }
        if !dot {
            self.checker.dirs[at].dotdot = entry.ino;
        }
        self.check_type(place, entry);
        self.checker.found.add_name(entry.ino);
    }

    fn check_entry(&mut self, at: usize, place: Where, entry: &DirEntry<'_>, leaf: Leaf, names: &mut Names) {
        let name = printable(entry.name);
        if !dirent::is_valid_name(entry.name) {
            self.checker.problem("directory entry", place, format!("'{name}' is no name"));
        }
        if let Leaf::Hashed(bounds) = leaf {
            let major = bounds.hash.hash(entry.name).major;
            if !bounds.contain(major) {
                self.checker.problem("htree", place, format!("'{name}' with hash {major:#x} is in the wrong leaf"));
            }
        }
        if !names.insert(entry.name.to_vec()) {
            self.checker.problem("directory entry", place, format!("'{name}' is there twice"));
        }
        let exists = entry.ino <= self.checker.sb.inodes_count() && entry.ino >= self.checker.sb.first_ino();
        if !exists || self.checker.is_nameless(entry.ino) {
            let what = if entry.ino == crate::ROOT { "the root" } else { "which no name may have" };
            self.checker.problem("directory entry", place, format!("'{name}' names inode {}, {what}", entry.ino));
            return;
        }
        if self.checker.found.get(entry.ino).is_none() {
            self.checker.problem(
                "directory entry",
                place,
                format!("'{name}' names inode {}, which is not in use", entry.ino),
            );
            return;
        }
        self.check_type(place, entry);
        self.checker.found.add_name(entry.ino);
        if let Some(&child) = self.checker.dir_index.get(&entry.ino) {
            self.adopt(child, self.checker.dirs[at].ino, place, &name);
        }
    }

    fn adopt(&mut self, child: usize, parent: Ino, place: Where, name: &str) {
        if self.checker.dirs[child].parent == 0 {
            self.checker.dirs[child].parent = parent;
            return;
        }
        let text = format!("'{name}' is a second name of directory {}", self.checker.dirs[child].ino);
        self.checker.problem("directory entry", place, text);
    }

    /// The type in an entry is that of its inode, or is not said.
    fn check_type(&mut self, place: Where, entry: &DirEntry<'_>) {
        let known = self.checker.found.get(entry.ino).and_then(|found| found.file_type);
        let want = known.map_or(0, |t| if self.checker.has_filetype() { t.dirent_code() } else { 0 });
        if entry.file_type != want && entry.file_type != 0 && known.is_some() {
            let name = printable(entry.name);
            let text = format!("'{name}' has type {}, its inode {} is of type {want}", entry.file_type, entry.ino);
            self.checker.problem("directory entry", place, text);
        }
    }
}
