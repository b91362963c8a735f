//! Paths inside a volume: resolved by bytes, symbolic links followed as open(2) does.

use crate::{Error, Result};
use ondol_volume::{Attr, Error as VolumeError, FileType, Ino, ROOT, Volume as Inodes};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Symbolic links that one look-up follows at most, as in Linux.
const MAX_LINKS: u32 = 40;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The link's target is meant.
    Yes,
    /// The link itself is meant.
    No,
}

/// Attaches the path to an error.
pub(crate) fn at<T>(path: &Path, result: std::result::Result<T, VolumeError>) -> Result<T> {
    result.map_err(|source| Error::Path { path: path.to_owned(), source })
}

/// The inode that `path` names. A relative path starts at the root.
pub(crate) fn resolve(inodes: &Inodes, path: &Path, follow: Follow) -> Result<Attr> {
    at(path, walk(inodes, path, follow, &mut 0))
}

/// The directory that holds the last component of `path`, and that component.
pub(crate) fn resolve_parent<'p>(inodes: &Inodes, path: &'p Path) -> Result<(Ino, &'p [u8])> {
    let Some(name) = path.file_name() else {
        return at(path, Err(VolumeError::Invalid("the path names no entry of a directory")));
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let dir = at(path, walk(inodes, parent, Follow::Yes, &mut 0))?;
    Ok((dir.ino, name.as_bytes()))
}

fn walk(inodes: &Inodes, path: &Path, follow: Follow, links: &mut u32) -> std::result::Result<Attr, VolumeError> {
    walk_from(inodes, ROOT, path, follow, links)
}

fn walk_from(
    inodes: &Inodes,
    start: Ino,
    path: &Path,
    follow: Follow,
    links: &mut u32,
) -> std::result::Result<Attr, VolumeError> {
    let bytes = path.as_os_str().as_bytes();
    let start = if bytes.first() == Some(&b'/') { ROOT } else { start };
    let mut here = inodes.getattr(start)?;
    let mut parts = bytes.split(|&b| b == b'/').filter(|p| !p.is_empty() && *p != b".").peekable();
    while let Some(name) = parts.next() {
        let last = parts.peek().is_none();
        let dir = here.ino;
        here = inodes.names().lookup(dir, name)?;
        if here.file_type == FileType::Symlink && (!last || follow == Follow::Yes) {
            *links += 1;
            if *links > MAX_LINKS {
                return Err(VolumeError::Invalid("too many levels of symbolic links"));
            }
            let target = PathBuf::from(OsStr::from_bytes(&inodes.names().readlink(here.ino)?));
            here = walk_from(inodes, dir, &target, Follow::Yes, links)?;
        }
    }
    Ok(here)
}
