//! Connectivity and link counts.

use super::Checker;
use super::report::Where;
use crate::Ino;
use ondol_format::inode::{FileType, LINK_MAX};

/// How far a directory's way to the root is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unknown,
    /// Being followed now.
    Open,
    Known,
}

/// The pass over link counts and ways to the root, when all names are known.
pub(super) struct LinkPass<'c, 'a> {
    pub(super) checker: &'c mut Checker<'a>,
}

impl LinkPass<'_, '_> {
    pub(super) fn check_links(&mut self) {
        self.check_connected();
        self.check_counts();
    }

    /// Every directory has one name, its ".." says where, and following them leads to the root.
    fn check_connected(&mut self) {
        if !self.checker.dir_index.contains_key(&crate::ROOT) {
            self.checker.problem("directory", Where::inode(crate::ROOT), "there is no root directory");
        }
        let mut ways = vec![Way::Unknown; self.checker.dirs.len()];
        for at in 0..self.checker.dirs.len() {
            let (ino, parent, dotdot) =
                (self.checker.dirs[at].ino, self.checker.dirs[at].parent, self.checker.dirs[at].dotdot);
            let want = if ino == crate::ROOT { crate::ROOT } else { parent };
            if want == 0 {
                self.checker.problem("directory", Where::inode(ino), "no directory has an entry for it");
            } else if dotdot != want && dotdot != 0 {
                let text = format!("its '..' is inode {dotdot}, not {want}");
                self.checker.problem("directory", Where::inode(ino), text);
            }
            self.follow(at, &mut ways);
        }
    }

    /// Follows parents until something known; a way that meets itself is a cycle off the tree.
    fn follow(&mut self, from: usize, ways: &mut [Way]) {
        let mut path = Vec::new();
        let mut next = Some(from);
        while let Some(at) = next {
            match ways[at] {
                Way::Known => break,
                Way::Open => {
                    let ino = self.checker.dirs[at].ino;
                    self.checker.problem("directory", Where::inode(ino), "it lies in itself, and not below the root");
                    break;
                }
                Way::Unknown => {}
            }
            ways[at] = Way::Open;
            path.push(at);
            let dir = &self.checker.dirs[at];
            let top = dir.ino == crate::ROOT || dir.parent == 0;
            next = if top { None } else { self.checker.dir_index.get(&dir.parent).copied() };
        }
        path.into_iter().for_each(|at| ways[at] = Way::Known);
    }

    fn check_counts(&mut self) {
        let mut wrong: Vec<(Ino, u16, u32)> = Vec::new();
        for (ino, entry) in self.checker.found.iter() {
            let is_value = self.checker.values.holds(ino) && entry.names == 0;
            if self.checker.is_nameless(ino) || is_value || (entry.links == 0 && entry.names == 0) {
                continue;
            }
            let dir = entry.file_type == Some(FileType::Directory);
            // A directory that once had too many subdirectories to count stays at 1.
            let uncounted = dir && entry.links == 1 && self.checker.has_dir_nlink();
            let right = u32::from(entry.links) == entry.names
                || (uncounted && (entry.indexed || entry.names > u32::from(LINK_MAX)));
            if !right || entry.names == 0 {
                wrong.push((ino, entry.links, entry.names));
            }
        }
        for (ino, links, names) in wrong {
            let text = match names {
                0 => format!("it has no name, but {links} links"),
                names => format!("it has {links} links, but {names} names"),
            };
            self.checker.problem("inode", Where::inode(ino), text);
        }
    }
}
