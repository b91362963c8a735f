//! Walking through directory trees, which may be deeper than any stack.

use ondol::{Ino, inodes};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Makes a path as long as it was before something was added.
pub(crate) fn cut(path: &mut PathBuf, len: usize) {
    let mut bytes = std::mem::take(path).into_os_string().into_vec();
    bytes.truncate(len);
    *path = OsString::from_vec(bytes).into();
}

/// The names in a directory without `.` and `..`, in the order of their bytes, as far as they can be read, and why no further.
pub(crate) fn list(inodes: &inodes::Inodes, dir: Ino) -> (Vec<OsString>, Option<inodes::Error>) {
    let mut names = Vec::new();
    let listed = inodes.readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push(OsStr::from_bytes(entry.name).to_owned());
        }
        true
    });
    names.sort_unstable();
    (names, listed.err())
}
