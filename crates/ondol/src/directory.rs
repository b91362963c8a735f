//! Directories: listed, made and removed.

use crate::metadata::Metadata;
use crate::mounted::Hold;
use crate::path::{Follow, at, resolve, resolve_parent};
use crate::{Error, FileType, Ino, Open, Result, Volume};
use ondol_env::sync::Arc;
use ondol_journal::Corrupt;
use ondol_volume::{Error as VolumeError, Volume as Inodes};
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries that are read at once.
const BATCH: usize = 256;

/// The entries of a directory, without `.` and `..`: an iterator, as `std::fs::ReadDir`.
///
/// It has the directory open. An entry that is there all the while comes exactly once, whatever else is made, removed
/// or renamed meanwhile. It ends after an error.
pub struct ReadDir {
    dir: Arc<OpenDir>,
    read: VecDeque<Found>,
    /// Where reading goes on; `None`: all is read.
    cookie: Option<u64>,
}

/// A directory that is open as long as its listing or an entry of it is there.
struct OpenDir {
    volume: Hold,
    ino: Ino,
    path: Arc<Path>,
}

struct Found {
    name: OsString,
    ino: Ino,
    file_type: Option<FileType>,
}

/// One entry of a directory: as `std::fs::DirEntry`.
pub struct DirEntry {
    dir: Arc<OpenDir>,
    found: Found,
}

impl DirEntry {
    /// Its name.
    pub fn file_name(&self) -> OsString {
        self.found.name.clone()
    }

    /// Its path: that by which the directory was listed, and its name.
    pub fn path(&self) -> PathBuf {
        self.dir.path.join(&self.found.name)
    }

    /// The inode that it names.
    pub fn ino(&self) -> Ino {
        self.found.ino
    }

    /// Its type; of a symbolic link that, and not its target's.
    ///
    /// # Errors
    /// As [`DirEntry::metadata`], on images that keep no types in their directories; none on others.
    pub fn file_type(&self) -> Result<FileType> {
        match self.found.file_type {
            Some(known) => Ok(known),
            None => self.metadata().map(|metadata| metadata.file_type()),
        }
    }

    /// What lstat(2) tells of it.
    ///
    /// # Errors
    /// As lstat(2): `ENOENT` when it was removed since.
    pub fn metadata(&self) -> Result<Metadata> {
        let attr = self.dir.volume.usable()?.names().lookup(self.dir.ino, self.found.name.as_bytes());
        at(&self.path(), attr).map(Metadata::new)
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty()
            && let Some(cookie) = self.cookie.take()
            && let Err(e) = self.read_on(cookie)
        {
            return Some(Err(e));
        }
        self.read.pop_front().map(|found| Ok(DirEntry { dir: Arc::clone(&self.dir), found }))
    }
}

impl ReadDir {
    fn read_on(&mut self, mut cookie: u64) -> Result<()> {
        let Self { dir, read, cookie: rest } = self;
        let listed = dir.volume.usable()?.names().readdir(dir.ino, cookie, &mut |entry| {
            if read.len() == BATCH {
                *rest = Some(cookie);
                return false;
            }
            cookie = entry.next;
            if entry.name != b"." && entry.name != b".." {
                let name = OsStr::from_bytes(entry.name).to_owned();
                read.push_back(Found { name, ino: entry.ino, file_type: entry.file_type });
            }
            true
        });
        at(&dir.path, listed)
    }
}

impl Drop for OpenDir {
    fn drop(&mut self) {
        if let Err(e) = self.volume.inodes().inode_ops().release(self.ino) {
            tracing::error!("{}: closing: {e}", self.path.display());
        }
    }
}

/// How a directory is made: as `std::fs::DirBuilder`, on a volume.
#[derive(Clone, Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: u16,
}

impl Default for DirBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl DirBuilder {
    /// One directory with mode 0o755.
    pub fn new() -> Self {
        Self { recursive: false, mode: 0o755 }
    }

    /// With all that are missing above it. A directory that is there already is no error then.
    pub fn recursive(&mut self, yes: bool) -> &mut Self {
        self.recursive = yes;
        self
    }

    /// Permission bits of what is made.
    pub fn mode(&mut self, mode: u16) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn create(&self, volume: &Volume, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if self.recursive { self.all(volume, path) } else { self.one(volume, path) }
    }

    fn one(&self, volume: &Volume, path: &Path) -> Result<()> {
        let (parent, name) = resolve_parent(volume.usable()?, path)?;
        at(path, volume.usable()?.names().mkdir(parent, name, self.mode, volume.caller)).map(|_| ())
    }

    fn all(&self, volume: &Volume, path: &Path) -> Result<()> {
        let mut here = PathBuf::from("/");
        for part in path.components() {
            here.push(part);
            match volume.metadata(&here) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return at(&here, Err(VolumeError::Exists)),
                Err(Error::Path { source: VolumeError::NotFound, .. }) => match self.one(volume, &here) {
                    // Somebody else created it in between.
                    Err(Error::Path { source: VolumeError::Exists, .. }) if volume.metadata(&here)?.is_dir() => {}
                    made => made?,
                },
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Volume {
    /// Creates a directory with mode 0o755.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        DirBuilder::new().create(self, path)
    }

    /// Creates a directory and all that are missing above it.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        DirBuilder::new().recursive(true).create(self, path)
    }

    /// The entries of a directory, without `.` and `..`, in no particular order.
    ///
    /// ```
    /// # use ondol::{FormatOptions, Volume};
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// volume.create_dir_all("/mail/new")?;
    /// volume.write("/mail/new/1", b"hello")?;
    /// for entry in volume.read_dir("/mail/new")? {
    ///     let entry = entry?;
    ///     println!("{}: {} bytes", entry.path().display(), entry.metadata()?.len());
    /// }
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As opendir(3); the iterator's items have those of readdir(3).
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let path = path.as_ref();
        let found = resolve(self.usable()?, path, Follow::Yes)?;
        if found.file_type != FileType::Directory {
            return at(path, Err(VolumeError::NotDirectory(found.ino)));
        }
        at(path, self.usable()?.inode_ops().open(found.ino))?;
        let named: Arc<Path> = path.into();
        let volume = self.doors.hold(Open::Directory(named.clone()));
        let dir = Arc::new(OpenDir { volume, ino: found.ino, path: named });
        Ok(ReadDir { dir, read: VecDeque::new(), cookie: Some(0) })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As rmdir(2).
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (parent, name) = resolve_parent(self.usable()?, path)?;
        at(path, self.usable()?.names().rmdir(parent, name))
    }

    /// Removes a directory and everything below it, entry by entry, however deep that is. Symbolic links are removed
    /// and not followed, at `path`, too.
    ///
    /// # Errors
    /// As the removals it consists of; `EUCLEAN` where a directory lies below itself. What was removed before an error
    /// stays removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let inodes = self.usable()?;
        let (parent, name) = resolve_parent(inodes, path)?;
        let found = at(path, inodes.names().lookup(parent, name))?;
        match found.file_type {
            FileType::Directory => {
                Removal { inodes, path, parent, levels: Vec::new(), above: HashSet::new() }.all(name)
            }
            FileType::Symlink => at(path, inodes.names().unlink(parent, name)),
            _ => at(path, Err(VolumeError::NotDirectory(found.ino))),
        }
    }
}

/// A tree that is being removed, by the numbers of its directories: paths would be as long as it is deep.
struct Removal<'v> {
    inodes: &'v Inodes,
    path: &'v Path,
    /// The directory that the tree is in.
    parent: Ino,
    /// The directories on the way down, from the tree's own on.
    levels: Vec<Level<'v>>,
    /// Their numbers.
    above: HashSet<Ino>,
}

/// A directory of the way down, open as long as this is there: its number is nobody else's then.
struct Level<'v> {
    inodes: &'v Inodes,
    ino: Ino,
    name: Vec<u8>,
    /// Where reading goes on.
    cookie: u64,
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.inodes.inode_ops().release(self.ino) {
            tracing::warn!("directory {}: {e}", self.ino);
        }
    }
}

impl Removal<'_> {
    fn all(mut self, name: &[u8]) -> Result<()> {
        self.go_into(name.to_vec()).map_err(|e| self.failed(&[], e))?;
        while let Some(level) = self.levels.last_mut() {
            match level.empty() {
                Ok(Some(name)) => self.go_into(name.clone()).map_err(|e| self.failed(&name, e))?,
                Ok(None) => self.leave()?,
                Err((name, e)) => return Err(self.failed(&name, e)),
            }
        }
        Ok(())
    }

    /// The directory that the last level is in, or the tree, if there is none.
    fn inside(&self) -> Ino {
        self.levels.last().map_or(self.parent, |level| level.ino)
    }

    fn go_into(&mut self, name: Vec<u8>) -> std::result::Result<(), VolumeError> {
        let inodes = self.inodes;
        let ino = inodes.names().lookup(self.inside(), &name)?.ino;
        if self.above.contains(&ino) {
            let (structure, what) = (format!("directory {ino}"), "it lies below itself".into());
            return Err(VolumeError::Corrupt(Corrupt { structure, block: 0, what }));
        }
        inodes.inode_ops().open(ino)?;
        let level = Level { inodes, ino, name, cookie: 0 };
        if inodes.names().lookup(self.inside(), &level.name)?.ino != ino {
            return Err(VolumeError::NotFound);
        }
        self.above.insert(ino);
        self.levels.push(level);
        Ok(())
    }

    /// Removes the last level, which is empty.
    fn leave(&mut self) -> Result<()> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        self.above.remove(&level.ino);
        let removed = self.inodes.names().rmdir(self.inside(), &level.name);
        removed.map_err(|e| self.failed(if self.levels.is_empty() { &[] } else { &level.name }, e))
    }

    /// An error of what has this name in the last level.
    fn failed(&self, name: &[u8], source: VolumeError) -> Error {
        let below = self.levels.iter().skip(1).map(|level| level.name.as_slice()).chain([name]);
        let mut path = self.path.to_owned();
        path.extend(below.filter(|name| !name.is_empty()).map(OsStr::from_bytes));
        Error::Path { path, source }
    }
}

impl Level<'_> {
    /// Removes what is no directory, up to the next directory, whose name is returned. Else what failed.
    fn empty(&mut self) -> std::result::Result<Option<Vec<u8>>, (Vec<u8>, VolumeError)> {
        loop {
            let mut read = Vec::new();
            let listed = self.inodes.names().readdir(self.ino, self.cookie, &mut |entry| {
                if read.len() == BATCH {
                    return false;
                }
                if !matches!(entry.name, b"." | b"..") {
                    read.push((entry.name.to_vec(), entry.next));
                }
                true
            });
            listed.map_err(|e| (Vec::new(), e))?;
            if read.is_empty() {
                return Ok(None);
            }
            for (name, next) in read {
                self.cookie = next;
                let found = self.inodes.names().lookup(self.ino, &name);
                let gone = match found {
                    Ok(found) if found.file_type == FileType::Directory => return Ok(Some(name)),
                    Ok(_) => self.inodes.names().unlink(self.ino, &name),
                    Err(e) => Err(e),
                };
                gone.map_err(|e| (name, e))?;
            }
        }
    }
}
