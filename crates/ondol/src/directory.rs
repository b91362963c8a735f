//! Directories: listed, made and removed.

use crate::metadata::Metadata;
use crate::mounted::Hold;
use crate::path::{Follow, at, resolve, resolve_parent};
use crate::{Error, FileType, Ino, Open, Result, Volume};
use ondol_env::sync::Arc;
use ondol_volume::Error as VolumeError;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries that are read at once.
const BATCH: usize = 256;

/// The entries of a directory, without `.` and `..`: an iterator, as `std::fs::ReadDir`.
///
/// It has the directory open. An entry that is there all the while comes exactly once, whatever else is made, removed or renamed
/// meanwhile. It ends after an error.
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
        let attr = self.dir.volume.usable()?.lookup(self.dir.ino, self.found.name.as_bytes());
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
        let listed = dir.volume.usable()?.readdir(dir.ino, cookie, &mut |entry| {
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
        if let Err(e) = self.volume.inodes().release(self.ino) {
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
        at(path, volume.usable()?.mkdir(parent, name, self.mode, volume.caller())).map(|_| ())
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
        at(path, self.usable()?.open(found.ino))?;
        let named: Arc<Path> = path.into();
        let volume = self.hold(Open::Directory(named.clone()));
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
        at(path, self.usable()?.rmdir(parent, name))
    }

    /// Removes a directory and everything below it, entry by entry. Symbolic links are removed and not followed, at `path`, too.
    ///
    /// # Errors
    /// As the removals it consists of; what was removed before an error stays removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if self.symlink_metadata(path)?.is_symlink() {
            return self.remove_file(path);
        }
        for entry in self.read_dir(path)? {
            let entry = entry?;
            if entry.file_type()? == FileType::Directory {
                self.remove_dir_all(entry.path())?;
            } else {
                self.remove_file(entry.path())?;
            }
        }
        self.remove_dir(path)
    }
}
