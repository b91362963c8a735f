//! Finding files after a restart: by path, by handle, by inode.

use crate::handle::Handle;
use crate::look::Identity;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a file is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Open, and under this path if it has one that is known.
    Here(File, Option<PathBuf>),
    /// Its file system says that it is no more.
    Gone,
    /// It is not at its path, and this user may not open handles: the file system lies here.
    Hidden(String, PathBuf),
    /// Nobody knows.
    Unknown(String),
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// To be synced. For writing it could not be run as a program meanwhile.
    Sync,
    /// To be written to.
    Write,
}

/// Opens what lies at a path, if it is the file.
pub(super) fn at_path(identity: &Identity, path: &Path, purpose: For) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(purpose == For::Write).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = Identity::of(file.as_fd(), identity.path.clone());
    Ok(Some(file).filter(|_| found.as_ref() == Some(identity)))
}

/// Looks for a file under another name in its directory: for those who may not open handles.
fn renamed(identity: &Identity, purpose: For) -> Option<(File, PathBuf)> {
    use std::os::unix::fs::DirEntryExt;
    let entries = std::fs::read_dir(identity.path.parent()?).ok()?.flatten();
    let mut paths = entries.filter(|entry| entry.ino() == identity.ino).map(|entry| entry.path());
    paths.find_map(|path| at_path(identity, &path, purpose).ok().flatten().map(|file| (file, path)))
}

/// Finds a file by its path, if that leads to it, else by its handle, else by its inode in its directory.
pub(crate) fn find(identity: &Identity, purpose: For) -> Place {
    let by_path = at_path(identity, &identity.path, purpose);
    let refused = by_path.as_ref().err().map(io::Error::to_string);
    if let Ok(Some(file)) = by_path {
        return Place::Here(file, Some(identity.path.clone()));
    }
    let why = |what: &str| Place::Unknown(format!("{what}; it lay at {}", identity.path.display()));
    let mut mounts = mounts();
    mounts.retain(|mount| rustix::fs::statvfs(&mount.point).is_ok_and(|fs| fs.f_fsid == identity.fsid));
    // All of it rather than a part.
    let whole = mounts.iter().find(|mount| mount.root == Path::new("/")).or(mounts.first());
    let Some(Mount { point, .. }) = whole else { return why("its file system is not mounted") };
    let opened = File::open(point).and_then(|mount| identity.handle.open(mount.as_fd(), purpose == For::Write));
    match opened {
        Ok(file) if Handle::of(file.as_fd()).is_ok_and(|handle| handle == identity.handle) => {
            let path = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).ok();
            Place::Here(file, path)
        }
        Ok(_) => Place::Gone,
        Err(e) if e.raw_os_error() == Some(Errno::STALE.raw_os_error()) => Place::Gone,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            if let Some((file, path)) = renamed(identity, purpose) {
                return Place::Here(file, Some(path));
            }
            let there =
                refused.map_or("another file is at its path".into(), |why| format!("it is not at its path ({why})"));
            let what =
                format!("{there}, and only root may look for it elsewhere; it lay at {}", identity.path.display());
            Place::Hidden(what, point.clone())
        }
        Err(e) => why(&e.to_string()),
    }
}

/// A directory on the file's file system, as near to it as there is one.
pub(crate) fn beside_it(identity: &Identity) -> Option<File> {
    let on_it = |dir: &&Path| rustix::fs::statvfs(*dir).is_ok_and(|fs| fs.f_fsid == identity.fsid);
    identity.path.ancestors().skip(1).filter(on_it).find_map(|dir| File::open(dir).ok())
}

/// What is mounted.
#[derive(Debug)]
pub(super) struct Mount {
    /// Which directory of its file system: `/`, but for a bind mount.
    pub(super) root: PathBuf,
    /// Where.
    pub(super) point: PathBuf,
}

/// All mounts, by mountinfo's escapes.
pub(super) fn mounts() -> Vec<Mount> {
    use std::os::unix::ffi::OsStringExt;
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let unescape = |word: &[u8]| {
        let (mut out, mut rest) = (Vec::new(), word);
        while let Some((first, behind)) = rest.split_first() {
            let octal = rest.get(1..4).filter(|_| *first == b'\\').and_then(|d| std::str::from_utf8(d).ok());
            match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(byte) => (out, rest) = ([out, vec![byte]].concat(), rest.get(4..).unwrap_or_default()),
                None => (out, rest) = ([out, vec![*first]].concat(), behind),
            }
        }
        PathBuf::from(OsString::from_vec(out))
    };
    let mount = |line: &[u8]| {
        let mut words = line.split(|b| *b == b' ').skip(3).map(unescape);
        Some(Mount { root: words.next()?, point: words.next()? })
    };
    text.split(|b| *b == b'\n').filter_map(mount).collect()
}
