//! Looking for files all over their file system: for those who may not open handles.

use crate::look::Identity;
use crate::recover::home::Home;
use crate::recover::place::{For, LISTED, Place, Tree, Trees};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Finds files, by walks through their file systems if nothing else helps; once for all of them.
#[derive(Debug)]
pub(super) struct Elsewhere<'h> {
    home: &'h dyn Home,
    trees: Trees<'h>,
    wanted: BTreeSet<u64>,
    walks: BTreeMap<u64, Walk>,
}

/// What a walk has found.
#[derive(Debug)]
struct Walk {
    /// Paths of the wanted inodes, below the tree.
    paths: BTreeMap<u64, Vec<PathBuf>>,
    /// It has seen every directory that this user could have moved a file into.
    complete: bool,
}

impl<'h> Elsewhere<'h> {
    /// For files by their file system (`f_fsid`) and inode.
    pub(super) fn new(home: &'h dyn Home, files: impl Iterator<Item = (u64, u64)>) -> Self {
        let (fsids, wanted) = files.unzip();
        Self { home, trees: Trees::known_as(home, &fsids), wanted, walks: BTreeMap::new() }
    }

    /// As [`Trees::find`].
    pub(super) fn find(&mut self, identity: &Identity, purpose: For) -> Place {
        let why = match self.trees.find(identity, purpose) {
            Place::Hidden(why) => why,
            place => return place,
        };
        let shut = self.is_shut(identity);
        let Some((trees, tree, walk)) = self.walk(identity.fsid) else { return Place::Unknown(why) };
        match walk.path(trees, tree, identity) {
            Ok(Some(path)) => match trees.file(tree, path, identity, purpose) {
                Ok(Some(Ok(file))) => Place::Here(file, Some(tree.point.join(path))),
                Ok(None) => Place::Unknown(why),
                Ok(Some(Err(e))) | Err(e) => Place::Unknown(format!("{}: {e}", tree.point.join(path).display())),
            },
            Ok(None) if walk.complete && !shut => Place::Gone,
            Ok(None) => Place::Unknown(why),
            Err(e) => Place::Unknown(format!("{why}; what may be it: {e}")),
        }
    }

    /// The directory in which a file lies that was found, under this path if one is known; and its path there.
    pub(super) fn directory(&mut self, identity: &Identity, path: Option<PathBuf>) -> io::Result<(File, PathBuf)> {
        for path in path.into_iter().chain([identity.path.clone()]) {
            if let Some(dir) = self.trees.directory(identity, &path) {
                return Ok((dir, path));
            }
        }
        let walked = self.walk(identity.fsid);
        let walked =
            walked.and_then(|(trees, tree, walk)| Some(tree.point.join(walk.path(trees, tree, identity).ok()??)));
        let found = walked.and_then(|path| Some((self.trees.directory(identity, &path)?, path)));
        found.ok_or_else(|| io::Error::other("nobody knows in which directory it lies"))
    }

    /// Whose files they are.
    pub(super) fn home(&self) -> &'h dyn Home {
        self.home
    }

    fn walk(&mut self, fsid: u64) -> Option<(&Trees<'h>, &Tree, &Walk)> {
        let (trees, wanted) = (&self.trees, &self.wanted);
        let tree = trees.whole(fsid)?;
        Some((trees, tree, self.walks.entry(fsid).or_insert_with(|| Walk::through(trees, tree, wanted))))
    }

    /// This user may not enter a directory on the way to the file's path: what lies there cannot be told.
    fn is_shut(&self, identity: &Identity) -> bool {
        let mut ways = self.trees.below(identity.fsid, &identity.path);
        ways.any(|(tree, path)| is_refused(&self.trees.at(tree, path, OFlags::PATH)))
    }
}

fn is_refused<T>(tried: &io::Result<T>) -> bool {
    tried.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}

impl Walk {
    /// Walks through a tree.
    fn through(trees: &Trees<'_>, tree: &Tree, wanted: &BTreeSet<u64>) -> Self {
        // Of a part of the file system (a bind mount) the rest is not to be seen.
        let mut walk = Self { paths: BTreeMap::new(), complete: tree.root == Path::new("/") };
        let mut dirs = vec![PathBuf::new()];
        while let Some(dir) = dirs.pop() {
            let looked = walk.look(trees, tree, &dir, wanted);
            match looked.as_ref().map_err(Errno::from_io_error) {
                Ok(_) => dirs.extend(looked.into_iter().flatten()),
                // What this user may not enter, it has moved nothing into. One that it may enter and not list hides
                // what is below.
                Err(_) if is_refused(&looked) => {
                    walk.complete &=
                        !dir.as_os_str().is_empty() && is_refused(&trees.at(tree, &dir.join("."), OFlags::PATH));
                }
                Err(e) => walk.complete &= is_not_there(e),
            }
        }
        walk
    }

    /// Looks through one directory; answers what may be directories in it.
    fn look(&mut self, trees: &Trees<'_>, tree: &Tree, dir: &Path, wanted: &BTreeSet<u64>) -> io::Result<Vec<PathBuf>> {
        let mut below = Vec::new();
        for entry in trees.home.list(&trees.at(tree, dir, LISTED)?)? {
            let path = dir.join(OsStr::from_bytes(&entry.name));
            if wanted.contains(&entry.ino) {
                self.paths.entry(entry.ino).or_default().push(path.clone());
            }
            if entry.may_be_dir {
                below.push(path);
            }
        }
        Ok(below)
    }

    /// A path at which the file is. What cannot be opened may be the file.
    fn path(&self, trees: &Trees<'_>, tree: &Tree, identity: &Identity) -> io::Result<Option<&Path>> {
        for path in self.paths.get(&identity.ino).into_iter().flatten() {
            match trees.at(tree, path, OFlags::PATH).and_then(|found| trees.home.handle(&found)) {
                Ok(handle) if handle == identity.handle => return Ok(Some(path)),
                Err(e) if !is_not_there(Errno::from_io_error(&e)) => return Err(e),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(None)
    }
}

/// It was removed meanwhile, or another file system is mounted on it, or it is no directory.
fn is_not_there(e: Option<Errno>) -> bool {
    matches!(e, Some(Errno::NOENT | Errno::XDEV | Errno::NOTDIR | Errno::LOOP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recover::home::Mounted;
    use std::os::unix::fs::MetadataExt;

    /// What is not a whole file system was not looked through.
    #[test]
    fn a_part_of_a_file_system_says_nothing_of_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        std::fs::write(dir.path().join("below/file"), b"").unwrap();
        let ino = dir.path().join("below/file").metadata().unwrap().ino();
        let [root, point] = ["/part", dir.path().to_str().unwrap()].map(PathBuf::from);
        let part = Tree { fsid: 1, root, point, dir: File::open(dir.path()).unwrap() };
        let trees = Trees::known_as(&Mounted, &BTreeSet::new());
        let walk = Walk::through(&trees, &part, &BTreeSet::from([ino]));
        assert_eq!(walk.paths[&ino], [Path::new("below/file")]);
        assert!(!walk.complete);
        let whole = Tree { root: "/".into(), ..part };
        assert!(Walk::through(&trees, &whole, &BTreeSet::new()).complete);
    }
}
