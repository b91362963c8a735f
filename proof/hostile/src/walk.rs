//! Everything that can be read of a volume, within bounds that no honest small image reaches.

use crate::guard::Guard;
use ondol_volume::{Error, FileType, Ino, ROOT, Seek, Volume};
use std::collections::{BTreeSet, VecDeque};

/// Inodes that are looked at.
const INODES: usize = 200;
/// Entries that are read of one directory.
const ENTRIES: usize = 400;
/// Names that are looked up in one directory.
const LOOKUPS: usize = 24;
/// Parts of a file that are looked for.
const PARTS: usize = 40;

/// A volume and what its calls may read.
pub(crate) struct Walk<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) guard: &'a Guard,
}

impl Walk<'_> {
    /// Walks from the root, and looks at some inodes that nothing may name.
    pub(crate) fn all(&self) {
        self.tree();
        for ino in [0, 1, 3, 5, 7, 8, 9, 10, 11, u32::MAX] {
            self.inode(ino);
        }
    }

    /// Walks from the root.
    pub(crate) fn tree(&self) {
        let _ = self.volume.statfs();
        let mut seen = BTreeSet::from([ROOT]);
        let mut todo = VecDeque::from([ROOT]);
        while let Some(ino) = todo.pop_front() {
            for found in self.inode(ino) {
                if seen.len() < INODES && seen.insert(found) {
                    todo.push_back(found);
                }
            }
        }
    }

    /// Reads all of one inode. The inodes that it names.
    pub(crate) fn inode(&self, ino: Ino) -> Vec<Ino> {
        self.guard.begin("getattr");
        let attr = self.volume.getattr(ino);
        self.xattrs(ino);
        match attr.as_ref().map(|a| a.file_type) {
            Ok(FileType::Directory) => self.directory(ino),
            Ok(FileType::Symlink) => {
                self.guard.begin("readlink");
                let _ = self.volume.names().readlink(ino);
                Vec::new()
            }
            Ok(_) => {
                self.contents(ino, attr.map_or(0, |a| a.size));
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    fn xattrs(&self, ino: Ino) {
        self.guard.begin("listxattr");
        let mut names = self.volume.xattrs().listxattr(ino).unwrap_or_default();
        names.truncate(LOOKUPS);
        names.push(b"system.posix_acl_access".to_vec());
        names.push(b"system.posix_acl_default".to_vec());
        names.push(b"user.none".to_vec());
        for name in names {
            self.guard.begin("getxattr");
            let _ = self.volume.xattrs().getxattr(ino, &name);
        }
    }

    fn directory(&self, ino: Ino) -> Vec<Ino> {
        let (mut names, mut inos): (Vec<Vec<u8>>, Vec<Ino>) = (Vec::new(), Vec::new());
        let (mut cookie, mut total) = (0, 0usize);
        loop {
            let before = total;
            self.guard.begin("readdir");
            let result = self.volume.names().readdir(ino, cookie, &mut |entry| {
                assert!(entry.next >= cookie, "a listing that goes back");
                cookie = entry.next;
                total += 1;
                if names.len() < LOOKUPS {
                    names.push(entry.name.to_vec());
                }
                if entry.name != b"." && entry.name != b".." {
                    inos.push(entry.ino);
                }
                total % 100 != 0
            });
            if result.is_err() || total == before || !total.is_multiple_of(100) || total >= ENTRIES {
                break;
            }
        }
        for name in names.iter().map(Vec::as_slice).chain([&b"no such name"[..], b"..", b"."]) {
            self.guard.begin("lookup");
            let _ = self.volume.names().lookup(ino, name);
        }
        inos
    }

    fn contents(&self, ino: Ino, size: u64) {
        let mut buf = [0; 5000];
        for at in [0, size / 2, size.saturating_sub(100), size, u64::MAX - 100] {
            self.guard.begin("read");
            let _ = self.volume.files().read(ino, at, &mut buf);
            self.guard.begin("view");
            let _ = self.volume.files().view(ino, at, buf.len() as u64);
        }
        self.guard.begin("listing extents");
        let _ = self.volume.files().extents(ino, 0, u64::MAX);
        let mut at = 0;
        for _ in 0..PARTS {
            self.guard.begin("seek");
            let data = match self.volume.files().seek(ino, at, Seek::Data) {
                Ok(data) => data,
                Err(Error::PastEnd) => break,
                Err(_) => return,
            };
            assert!(data >= at, "data before the place from which it was looked for");
            self.guard.begin("read");
            let _ = self.volume.files().read(ino, data, &mut buf);
            self.guard.begin("seek");
            match self.volume.files().seek(ino, data, Seek::Hole) {
                Ok(hole) => {
                    assert!(hole > data, "a hole where there is data");
                    at = hole;
                }
                Err(_) => return,
            }
        }
    }
}
