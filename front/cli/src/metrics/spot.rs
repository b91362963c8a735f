//! A name in a directory. The directory stays open: a path means something else in another mount namespace, or once
//! something is mounted.

use ondol::machine::nobody_writes;
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A file, whatever its names.
type Identity = (u64, u64);

/// A name for what this process puts there.
#[derive(Debug)]
pub(crate) struct Spot {
    dir: OwnedFd,
    name: OsString,
    path: PathBuf,
    /// What this process has put there. Whatever else is found there is somebody else's.
    own: Option<Identity>,
}

fn own_name(kind: &str) -> OsString {
    format!(".ondol-{}{kind}", std::process::id()).into()
}

impl Spot {
    /// # Errors
    /// Those of open(2) of the directory; a path on what will be mounted on `point` is no use.
    pub(super) fn open(path: &Path, point: Option<&Path>) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        if let Some(point) = point.and_then(|point| point.canonicalize().ok())
            && parent.canonicalize()?.starts_with(&point)
        {
            return Err(io::Error::other(format!("it lies below the mount point, {}", point.display())));
        }
        Ok(Self { dir, name, path: path.to_owned(), own: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn look(&self, name: &OsStr) -> io::Result<Identity> {
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_dev, found.st_ino))
    }

    /// Removes what is beside it, from a process that has ended.
    fn clear(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    /// A path by which something can be made beside it, which nobody takes for the thing itself.
    ///
    /// # Errors
    /// Something is there, and cannot be removed.
    pub(super) fn beside(&self) -> io::Result<PathBuf> {
        let name = own_name("");
        self.clear(&name)?;
        Ok(Path::new(&format!("/proc/self/fd/{}", self.dir.as_raw_fd())).join(name))
    }

    /// Makes a file beside it, which is locked as long as it is open.
    ///
    /// # Errors
    /// Those of open(2).
    pub(super) fn create(&self) -> io::Result<File> {
        let name = own_name("");
        // A new one: what somebody has laid there, as a link, is not written to.
        self.clear(&name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.dir, &name, flags, Mode::from_raw_mode(0o666))?;
        // Where there are no locks, nobody finds one either.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(file.into())
    }

    /// Puts what was made beside it in the place of what this process has put there; of anything else as well.
    ///
    /// # Errors
    /// Those of rename(2).
    pub(super) fn replace(&mut self) -> io::Result<()> {
        let name = own_name("");
        let own = self.look(&name)?;
        renameat(&self.dir, &name, &self.dir, &self.name)?;
        self.own = Some(own);
        Ok(())
    }

    /// Puts what was made beside it there, where nothing is.
    ///
    /// # Errors
    /// Those of link(2).
    pub(super) fn put(&mut self) -> io::Result<()> {
        let name = own_name("");
        let own = self.look(&name)?;
        linkat(&self.dir, &name, &self.dir, &self.name, AtFlags::empty())?;
        self.own = Some(own);
        self.clear(&name)
    }

    /// Removes what was made beside it.
    pub(super) fn discard(&self) {
        // What went wrong before is the thing to tell.
        let _ = self.clear(&own_name(""));
    }

    /// Puts the file made beside it there, unless a living process has one there.
    ///
    /// # Errors
    /// `EADDRINUSE` when one has; those of open(2) and rename(2).
    pub(super) fn claim(&mut self) -> io::Result<()> {
        loop {
            match self.put() {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let found = match openat(&self.dir, &self.name, flags, Mode::empty()) {
                Err(Errno::NOENT) => continue,
                Err(Errno::LOOP) => return self.replace(),
                other => other?,
            };
            let found = File::from(found);
            let is_locked = flock(&found, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            // A lock of somebody who can only read it says nothing: a mount that lives has it open for writing.
            if is_locked && !nobody_writes(&found) {
                return Err(Errno::ADDRINUSE.into());
            }
            let stat = rustix::fs::fstat(&found)?;
            // Who holds the lock of what is there may replace it.
            if self.look(&self.name).is_ok_and(|there| there == (stat.st_dev, stat.st_ino)) {
                return self.replace();
            }
        }
    }

    /// Removes what is there, if `is_dead` says so of the path by which it is to be had.
    ///
    /// # Errors
    /// `EADDRINUSE` when it is something else.
    pub(super) fn bury(&self, is_dead: impl FnOnce(&Path) -> bool) -> io::Result<()> {
        let dead = self.look(&self.name)?;
        let path = Path::new(&format!("/proc/self/fd/{}", self.dir.as_raw_fd())).join(&self.name);
        if !is_dead(&path) {
            return Err(Errno::ADDRINUSE.into());
        }
        // It may be another one by now, which then goes back.
        let aside = own_name("-dead");
        self.clear(&aside)?;
        renameat(&self.dir, &self.name, &self.dir, &aside)?;
        if self.look(&aside)? == dead {
            return self.clear(&aside);
        }
        let (from, to) = (self.dir.as_fd(), self.dir.as_fd());
        rustix::fs::renameat_with(from, &aside, to, &self.name, RenameFlags::NOREPLACE)?;
        Err(Errno::ADDRINUSE.into())
    }
}

impl Drop for Spot {
    /// A mount that has ended must not go on looking alive.
    fn drop(&mut self) {
        let Some(own) = self.own else { return };
        match self.look(&self.name) {
            Ok(found) if found == own => {
                if let Err(e) = self.clear(&self.name) {
                    tracing::warn!("{}: {e}", self.path.display());
                }
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => tracing::warn!("{}: {e}", self.path.display()),
            _ => {}
        }
    }
}

/// For how long a mount's beginning and its end wait for the file system that such a file lies on: it may hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Does what may hang, and goes on without it when it does.
pub(super) fn briefly(what: &str, work: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    let work = move || {
        work();
        // Nobody listens any more where it took long.
        let _ = tell.send(());
    };
    let begun = std::thread::Builder::new().name("ondol-farewell".into()).spawn(work);
    if begun.is_err() || told.recv_timeout(PATIENCE).is_err() {
        tracing::warn!("metrics {what}: they are left, since their file system does not answer");
    }
}

/// Whether a path is one that a socket can have.
pub(super) fn is_short(path: &Path) -> bool {
    path.as_os_str().as_bytes().len() < 108
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_was_put_there_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.prom");
        let put = || {
            let mut spot = Spot::open(&path, None).unwrap();
            let file = spot.create().unwrap();
            spot.claim().map(|()| (spot, file))
        };
        let living = put().unwrap();
        assert_eq!(put().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists(), "who was refused has removed nothing");
        drop(living);
        assert!(!path.exists());
        // A dead one is replaced, whoever reads it, and what has replaced it stays.
        fs::write(&path, "dead").unwrap();
        let reader = File::open(&path).unwrap();
        if nobody_writes(&reader) {
            reader.lock().unwrap();
        }
        let living = put().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of somebody else").unwrap();
        drop(living);
        assert_eq!(fs::read(&path).unwrap(), b"of somebody else");
    }

    #[test]
    fn a_path_below_the_mount_point_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = Spot::open(&dir.path().join("x.prom"), Some(dir.path())).unwrap_err().to_string();
        assert!(said.contains("below the mount point"), "{said}");
        Spot::open(&dir.path().join("x.prom"), Some(&dir.path().join("absent"))).unwrap();
    }
}
