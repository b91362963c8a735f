//! Looking for files all over their file system: for those who may not open handles.

use crate::handle::Handle;
use crate::look::Identity;
use crate::recover::place::{For, Place, at_path, find, mounts};
use rustix::fs::{Access, CWD};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Finds files, by walks through their file systems if nothing else helps; once for all of them.
#[derive(Debug)]
pub(super) struct Elsewhere {
    wanted: BTreeSet<u64>,
    walks: BTreeMap<PathBuf, Walk>,
}

/// What a walk has found.
#[derive(Debug)]
struct Walk {
    /// Paths of the wanted inodes.
    paths: BTreeMap<u64, Vec<PathBuf>>,
    /// It has seen every directory that this user could have moved a file into.
    complete: bool,
}

impl Elsewhere {
    /// For files with these inodes.
    pub(super) fn new(wanted: impl Iterator<Item = u64>) -> Self {
        Self { wanted: wanted.collect(), walks: BTreeMap::new() }
    }

    /// As [`find`].
    pub(super) fn find(&mut self, identity: &Identity, purpose: For) -> Place {
        let (why, point) = match find(identity, purpose) {
            Place::Hidden(why, point) => (why, point),
            place => return place,
        };
        let wanted = &self.wanted;
        let walk = self.walks.entry(point).or_insert_with_key(|point| Walk::through(point, wanted));
        let is_it = |path: &&PathBuf| {
            let name = CString::new(path.as_os_str().as_bytes());
            name.is_ok_and(|name| Handle::at(CWD, &name).is_ok_and(|handle| handle == identity.handle))
        };
        match walk.paths.get(&identity.ino).into_iter().flatten().find(is_it) {
            Some(path) => match at_path(identity, path, purpose) {
                Ok(Some(file)) => Place::Here(file, Some(path.clone())),
                Ok(None) => Place::Unknown(why),
                Err(e) => Place::Unknown(format!("{}: {e}", path.display())),
            },
            None if walk.complete && !is_shut(&identity.path) => Place::Gone,
            None => Place::Unknown(why),
        }
    }
}

/// This user may not enter a directory on the way to a path: what lies there cannot be told.
fn is_shut(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}

impl Walk {
    /// Walks through what is mounted at `point`.
    fn through(point: &Path, wanted: &BTreeSet<u64>) -> Self {
        // Of a part of the file system (a bind mount) the rest is not to be seen.
        let complete = mounts().iter().any(|mount| mount.point == point && mount.root == Path::new("/"));
        let mut walk = Self { paths: BTreeMap::new(), complete };
        let Ok(device) = point.metadata().map(|meta| meta.dev()) else { return Self { complete: false, ..walk } };
        let mut dirs = vec![point.to_owned()];
        while let Some(dir) = dirs.pop() {
            match walk.look(&dir, device, wanted) {
                Ok(below) => dirs.extend(below),
                // What this user may not enter, it has moved nothing into. One that it may enter and not list hides what is below.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    walk.complete &= dir != point && rustix::fs::access(&dir, Access::EXEC_OK).is_err();
                }
                // Removed meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(_) => walk.complete = false,
            }
        }
        walk
    }

    /// Looks through one directory; answers those in it on the same device.
    fn look(&mut self, dir: &Path, device: u64, wanted: &BTreeSet<u64>) -> io::Result<Vec<PathBuf>> {
        let mut below = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if wanted.contains(&entry.ino()) {
                self.paths.entry(entry.ino()).or_default().push(entry.path());
            }
            if entry.file_type()?.is_dir() && entry.metadata()?.dev() == device {
                below.push(entry.path());
            }
        }
        Ok(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not a whole file system, or no mount, was not looked through.
    #[test]
    fn a_part_of_a_file_system_says_nothing_of_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        std::fs::write(dir.path().join("below/file"), b"").unwrap();
        let ino = dir.path().join("below/file").metadata().unwrap().ino();
        let walk = Walk::through(dir.path(), &BTreeSet::from([ino]));
        assert_eq!(walk.paths[&ino], [dir.path().join("below/file")]);
        assert!(!walk.complete);
        assert!(mounts().iter().any(|mount| mount.point == Path::new("/")));
    }
}
