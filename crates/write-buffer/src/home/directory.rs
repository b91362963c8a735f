//! A directory as a home: an identity is a relative path inside it.
//!
//! That is identity enough for the exclusive way: while the buffer stands before the directory, nobody else renames,
//! removes or changes its files. After a restart the same path is the same file.

use super::{Home, HomeFile, Identity};
use ondol_env::sync::{Arc, Mutex};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

/// Files of one directory and of those below it. Directories are not made.
///
/// No symbolic link below it is followed: whoever may write to a directory there is not to have others' files changed.
#[derive(Debug)]
pub struct DirectoryHome {
    root: File,
    /// Directories that a file was removed from since they were last synced.
    touched: Mutex<BTreeSet<PathBuf>>,
}

#[derive(Debug)]
struct Opened {
    file: File,
    /// The directory with its name, until that was synced.
    parent: Mutex<Option<File>>,
}

impl DirectoryHome {
    /// The directory `root`.
    ///
    /// # Errors
    /// It is no directory, or cannot be reached.
    pub fn new(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = File::from(rustix::fs::openat(CWD, root, flags, Mode::empty())?);
        Ok(Self { root, touched: Mutex::default() })
    }

    /// The directory of a file, and the file's name there. What leads out of the directory is refused, since
    /// identities also come from a pool; and so is what has a shorter form: a file would have two identities.
    fn split(identity: &Identity) -> io::Result<(&Path, &OsStr)> {
        let path = Path::new(OsStr::from_bytes(identity.bytes()));
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let shortest: PathBuf = path.components().collect();
        let is_one = plain && shortest.as_os_str() == path.as_os_str() && !identity.bytes().contains(&0);
        match path.parent().zip(path.file_name()).filter(|_| is_one) {
            Some(parts) => Ok(parts),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a relative path inside of the directory")),
        }
    }

    fn directory(&self, path: &Path) -> io::Result<File> {
        if path.as_os_str().is_empty() {
            return self.root.try_clone();
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?.into())
    }
}

impl Home for DirectoryHome {
    fn open(&self, identity: &Identity, make: bool) -> io::Result<Option<Arc<dyn HomeFile>>> {
        let (parent, name) = Self::split(identity)?;
        let parent = match self.directory(parent) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
            found => found?,
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = if make { flags | OFlags::CREATE } else { flags };
        let file = match rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) if !make => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Some(Arc::new(Opened { file, parent: Mutex::new(Some(parent)) })))
    }

    fn remove(&self, identity: &Identity) -> io::Result<()> {
        let (parent, name) = Self::split(identity)?;
        let removed = self.directory(parent).and_then(|dir| Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?));
        match removed {
            // It may have been removed, not durably, before a crash.
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        self.touched.lock().insert(parent.to_owned());
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let touched: Vec<PathBuf> = self.touched.lock().iter().cloned().collect();
        for parent in touched {
            // Taken out first: what is removed meanwhile puts it in again.
            self.touched.lock().remove(&parent);
            // Of a directory that was removed itself, the one above knows.
            let mut above = parent.ancestors().map(|dir| self.directory(dir).and_then(|dir| dir.sync_all()));
            let is_gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
            if let Some(Err(e)) = above.find(|synced| !synced.as_ref().is_err_and(is_gone)) {
                self.touched.lock().insert(parent);
                return Err(e);
            }
        }
        Ok(())
    }
}

impl HomeFile for Opened {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        buf[done..].fill(0);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let mut parent = self.parent.lock();
        if let Some(directory) = &*parent {
            directory.sync_all()?;
            *parent = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Identity {
        Identity::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn files_are_found_by_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let home = DirectoryHome::new(dir.path()).unwrap();
        assert!(home.open(&id("sub/a"), false).unwrap().is_none());
        let file = home.open(&id("sub/a"), true).unwrap().unwrap();
        file.write_at(3, b"warm").unwrap();
        file.sync().unwrap();
        let mut buf = [9; 9];
        file.read_at(2, &mut buf).unwrap();
        assert_eq!((&buf, file.len().unwrap(), file.is_empty().unwrap()), (b"\0warm\0\0\0\0", 7, false));
        file.set_len(4).unwrap();
        assert_eq!(std::fs::read(dir.path().join("sub/a")).unwrap(), b"\0\0\0w");
        home.remove(&id("sub/a")).unwrap();
        home.remove(&id("sub/a")).unwrap();
        home.sync_names().unwrap();
        assert!(home.open(&id("sub/a"), false).unwrap().is_none());
        home.remove(&id("sub/a")).unwrap();
        std::fs::remove_dir(dir.path().join("sub")).unwrap();
        home.remove(&id("sub/b")).unwrap();
        home.sync_names().unwrap();
    }

    #[test]
    fn nothing_outside_of_the_directory_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(&outside, "theirs").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let home = DirectoryHome::new(&inside).unwrap();
        std::os::unix::fs::symlink(dir.path(), inside.join("up")).unwrap();
        let names = [
            "../out",
            "/etc/passwd",
            ".",
            "a/../../out",
            "link",
            "nul\0l",
            "up/out",
            "up/new",
            "./a",
            "a/",
            "d//a",
            "d/./a",
        ];
        for name in names {
            assert!(home.open(&id(name), true).is_err(), "{name}");
        }
        for name in ["../out", "up/out"] {
            assert!(home.remove(&id(name)).is_err(), "{name}");
        }
        std::fs::create_dir(inside.join("sub")).unwrap();
        assert!(home.open(&id("sub"), false).is_err(), "a directory");
        assert_eq!(std::fs::read(&outside).unwrap(), b"theirs");
        assert!(DirectoryHome::new(&outside).is_err());
    }
}
