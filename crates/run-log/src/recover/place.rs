//! Finding files after a restart: by path, by handle (which needs root), by inode. Nobody is asked who may not answer,
//! and no path leads elsewhere: only mounts of the kernel's own file systems are asked which file system they show, and
//! from their roots everything is opened through no link and no other mount, for its name only at first.
//!
//! A file is *gone* only if it is in no directory that this user may enter, all of the file system is mounted, and no
//! directory hides what is below it. Then its records are dropped; otherwise they stay.

use crate::look::{FileKind, Identity};
use crate::recover::home::{Lookup, Mounted, path_of};
use ondol_medium::mountinfo::{self, Entry};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where a file is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Open, and under this path if it has one that is known.
    Here(File, Option<PathBuf>),
    /// Its file system says that it is no more.
    Gone,
    /// It is not at its path, and this user may not open handles.
    Hidden(String),
    /// Nobody knows.
    Unknown(String),
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// To be synced. For writing it could not be run as a program meanwhile.
    Sync,
    /// For its name only: [`to_write`] opens it then.
    Name,
}

/// File systems that are asked: of the kernel's own those that wait for nobody. `ondol run` serves the first, its tests
/// run on others.
const ASKED: [&str; 4] = ["ext4", "btrfs", "tmpfs", "xfs"];

/// A mounted file system, or a part of it.
#[derive(Debug)]
pub struct Tree {
    /// `f_fsid` of statfs(2).
    pub fsid: u64,
    /// Which directory of its file system: `/`, but for a bind mount.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Open for its name only.
    pub dir: File,
}

/// What is mounted of some file systems, as it was when this was made. Others are not kept open: nobody could unmount
/// them.
#[derive(Debug)]
pub(crate) struct Trees<'h> {
    pub(super) home: &'h dyn Lookup,
    trees: Vec<Tree>,
}

const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
pub(super) const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens the root of a mount, for its name only. None that is hidden, nor one below what a server shows: that might
/// never answer.
fn reach(table: &[Entry], entry: &Entry) -> Option<File> {
    let lies_on = |entry: &Entry| table.iter().find(|on| on.id == entry.parent && on.id != entry.id);
    // Of mounts on each other the last is the one that a path leads to.
    let mut on = lies_on(entry);
    while let Some(below) = on.filter(|on| on.point == entry.point) {
        on = lies_on(below);
    }
    let name_only = NAME_ONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match on {
        Some(on) if on.is_fuse() || on.fs_type.starts_with("nfs") => return None,
        Some(on) => {
            let path = entry.point.strip_prefix(&on.point).ok()?;
            let above = Mounted.open_below(&reach(table, on)?, path.parent()?, NAME_ONLY).ok()?;
            rustix::fs::openat(above, path.file_name()?, name_only, Mode::empty())
        }
        None => rustix::fs::openat(CWD, &entry.point, name_only, Mode::empty()),
    };
    let opened = File::from(opened.ok()?);
    (mountinfo::mount_of(&opened).ok()? == entry.id).then_some(opened)
}

/// What is mounted of some file systems.
pub(super) fn mounted(may_be: impl Fn(&Entry) -> bool, is_wanted: impl Fn(u64) -> bool) -> Vec<Tree> {
    let table = mountinfo::read().unwrap_or_default();
    let asked = table.iter().filter(|entry| ASKED.contains(&&*entry.fs_type) && may_be(entry));
    let tree = |entry: &Entry| {
        let dir = reach(&table, entry)?;
        let fsid = rustix::fs::fstatvfs(&dir).ok()?.f_fsid;
        is_wanted(fsid).then(|| Tree { fsid, root: entry.root.clone(), point: entry.point.clone(), dir })
    };
    asked.filter_map(tree).collect()
}

impl<'h> Trees<'h> {
    /// Those of the device with this number.
    pub(crate) fn on(dev: u64) -> Self {
        Self { home: &Mounted, trees: mounted(|entry| entry.device_number() == Some(dev), |_| true) }
    }

    /// Those of file systems that are known by their `f_fsid`, whatever their devices are by now.
    pub(super) fn known_as(home: &'h dyn Lookup, fsids: &BTreeSet<u64>) -> Self {
        Self { home, trees: home.trees(fsids) }
    }

    /// Those of a file system.
    pub(super) fn of(&self, fsid: u64) -> impl Iterator<Item = &Tree> {
        self.trees.iter().filter(move |tree| tree.fsid == fsid)
    }

    /// All of a file system rather than a part.
    pub(super) fn whole(&self, fsid: u64) -> Option<&Tree> {
        self.of(fsid).find(|tree| tree.root == Path::new("/")).or_else(|| self.of(fsid).next())
    }

    /// A path below each tree of its file system that it may lead through.
    pub(super) fn below<'t>(&'t self, fsid: u64, path: &'t Path) -> impl Iterator<Item = (&'t Tree, &'t Path)> {
        self.of(fsid).filter_map(move |tree| Some((tree, path.strip_prefix(&tree.point).ok()?)))
    }

    /// Finds a file by its path, if that leads to it, else by its handle, else by its inode in its directory.
    pub(crate) fn find(&self, identity: &Identity, purpose: For) -> Place {
        let mut refused = None;
        for (tree, path) in self.below(identity.fsid, &identity.path) {
            match self.file(tree, path, identity, purpose) {
                Ok(Some(Ok(file))) => return Place::Here(file, Some(identity.path.clone())),
                // Nor by another name.
                Ok(Some(Err(e))) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Place::Unknown(format!("{}: {e}", identity.path.display()));
                }
                Ok(None) => {}
                Ok(Some(Err(e))) | Err(e) => refused = Some(e),
            }
        }
        let why = |what: &str| Place::Unknown(format!("{what}; it lay at {}", identity.path.display()));
        let Some(whole) = self.whole(identity.fsid) else { return why("its file system is not mounted") };
        let mount = self.at(whole, Path::new(""), LISTED);
        let found = mount.and_then(|mount| self.home.open_handle(&mount, &identity.handle));
        match found {
            Ok(found) if self.is_it(&found, identity) => match self.open(&found, purpose) {
                Ok(file) => {
                    let path = std::fs::read_link(path_of(&file)).ok();
                    Place::Here(file, path)
                }
                Err(e) => why(&e.to_string()),
            },
            Ok(_) => Place::Gone,
            Err(e) if e.raw_os_error() == Some(Errno::STALE.raw_os_error()) => Place::Gone,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                if let Some((file, path)) = self.renamed(identity, purpose) {
                    return Place::Here(file, Some(path));
                }
                let there = refused
                    .map_or("another file is at its path".into(), |why| format!("it is not at its path ({why})"));
                let lay = identity.path.display();
                Place::Hidden(format!("{there}, and only root may look for it elsewhere; it lay at {lay}"))
            }
            Err(e) => why(&e.to_string()),
        }
    }

    /// Looks for a file under another name in its directory: for those who may not open handles.
    fn renamed(&self, identity: &Identity, purpose: For) -> Option<(File, PathBuf)> {
        self.below(identity.fsid, &identity.path).find_map(|(tree, path)| {
            let dir = path.parent()?;
            let entries = self.home.list(&self.at(tree, dir, LISTED).ok()?).ok()?;
            entries.iter().filter(|entry| entry.ino == identity.ino).find_map(|entry| {
                let path = dir.join(OsStr::from_bytes(&entry.name));
                let file = self.file(tree, &path, identity, purpose).ok()??.ok()?;
                Some((file, tree.point.join(path)))
            })
        })
    }

    /// The directory in which a file lies, if it has this path.
    pub(super) fn directory(&self, identity: &Identity, path: &Path) -> Option<File> {
        let name = path.file_name()?.as_bytes();
        self.below(identity.fsid, path).find_map(|(tree, path)| {
            let dir = self.at(tree, path.parent()?, LISTED).ok()?;
            self.home.handle_at(&dir, name).is_ok_and(|handle| handle == identity.handle).then_some(dir)
        })
    }

    /// A directory on the file's file system, and on this device, as near to it as there is one.
    pub(crate) fn beside(&self, identity: &Identity, dev: u64) -> Option<File> {
        let on_it = |(tree, _): &(&Tree, &Path)| rustix::fs::fstat(&tree.dir).is_ok_and(|stat| stat.st_dev == dev);
        let mut trees = self.below(identity.fsid, &identity.path).filter(on_it);
        trees.find_map(|(tree, path)| path.ancestors().skip(1).find_map(|dir| self.at(tree, dir, LISTED).ok()))
    }

    /// Opens what lies at a path below a tree.
    pub(super) fn at(&self, tree: &Tree, path: &Path, flags: OFlags) -> io::Result<File> {
        self.home.open_below(&tree.dir, path, flags)
    }

    /// Opens what lies at a path below a tree, if it is the file.
    pub(super) fn file(
        &self,
        tree: &Tree,
        path: &Path,
        identity: &Identity,
        purpose: For,
    ) -> io::Result<Option<io::Result<File>>> {
        let found = self.at(tree, path, OFlags::PATH)?;
        Ok(self.is_it(&found, identity).then(|| self.open(&found, purpose)))
    }

    /// What is open, for its name only, on the file's file system is the file, or directory.
    fn is_it(&self, found: &File, identity: &Identity) -> bool {
        identity.kind != FileKind::Other
            && self.home.look(found).is_ok_and(|look| look.kind == identity.kind)
            && self.home.handle(found).is_ok_and(|handle| handle == identity.handle)
    }

    /// Opens a file or directory that is open for its name only.
    fn open(&self, found: &File, purpose: For) -> io::Result<File> {
        match purpose {
            For::Name => found.try_clone(),
            For::Sync => self.home.reopen(found, false),
        }
    }
}

/// Opens a file to be written to that is open for its name only. Who owns a file brings its bytes home also if its mode
/// says that nobody writes to it any more.
pub(super) fn to_write(home: &dyn Lookup, found: &File) -> io::Result<File> {
    let path = path_of(found);
    let refused = match home.reopen(found, true) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => e,
        opened => return opened,
    };
    let mode = found.metadata()?.mode() & 0o7777;
    // No bits of this kind are taken away and given again.
    if mode & 0o6000 != 0 || std::fs::set_permissions(&path, Permissions::from_mode(mode | 0o600)).is_err() {
        return Err(refused);
    }
    let opened = home.reopen(found, true);
    std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
    opened
}
