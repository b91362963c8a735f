//! Contents that lie in the inode.

use super::dir::{DirectoryPass, Leaf, Names};
use super::report::Where;
use super::{Checker, Dir};
use crate::inline::{self, IN_BLOCK};
use crate::{Error, Ino, Result};
use ondol_format::dirent::DirBlock;
use ondol_format::inode::FileType;
use ondol_format::{Inode, Place};

impl DirectoryPass<'_, '_> {
    /// The entries of a directory in its inode: a number instead of "." and "..", then two lists.
    pub(super) fn check_inline_dir(&mut self, at: usize, stored: &[u8]) -> Result<()> {
        let ino = self.checker.dirs[at].ino;
        let place = Where::inode(ino);
        let parent = stored.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        self.checker.dirs[at].dotdot = parent;
        self.checker.found.add_name(ino);
        self.checker.found.add_name(parent);
        let mut names = Names::new();
        let (first, second) = stored.split_at(IN_BLOCK.min(stored.len()));
        for list in [first.get(4..).unwrap_or_default(), second] {
            match DirBlock::new(list, false, Place::NONE) {
                Ok(view) => self.check_entries(at, place, &view, Leaf::Linear, &mut names),
                Err(e) => self.checker.broken(place, &e),
            }
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// Checks an inode that has its contents itself.
    pub(super) fn check_inline(&mut self, ino: Ino, inode: &Inode) {
        let place = Where::inode(ino);
        let stored = match inline::stored(ino, inode) {
            Ok(stored) => stored,
            Err(Error::Corrupt(c)) => return self.problem("inline data", place, c.what),
            Err(e) => return self.problem("inline data", place, e.to_string()),
        };
        let text = |what: &str| format!("a {what} of {} bytes, of which {} are stored", inode.size, stored.len());
        match inode.file_type() {
            Some(FileType::Directory) => {
                self.report.directories += 1;
                if inode.size != stored.len() as u64 {
                    self.problem("inline data", place, text("directory"));
                } else if inode.links > 0 {
                    self.add_inline_dir(ino, inode, stored);
                }
            }
            Some(FileType::Regular | FileType::Symlink) if inode.size > stored.len() as u64 => {
                self.problem("inline data", place, text("file"));
            }
            Some(FileType::Symlink) => {
                let target = &stored[..inode.size as usize];
                if target.is_empty() || target.contains(&0) {
                    self.problem("inline data", place, "a symlink whose target is empty or has a zero byte");
                }
            }
            Some(FileType::Regular) => {}
            _ => self.problem("inline data", place, "an inode of a type that has no contents"),
        }
    }

    fn add_inline_dir(&mut self, ino: Ino, inode: &Inode, stored: Vec<u8>) {
        self.dir_index.insert(ino, self.dirs.len());
        let (generation, runs) = (inode.generation, Vec::new());
        let inline = Some(stored);
        self.dirs.push(Dir { ino, generation, indexed: false, runs, blocks: 0, inline, dotdot: 0, parent: 0 });
    }
}
