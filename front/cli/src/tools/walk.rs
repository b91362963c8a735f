//! Walking through directory trees, which may be deeper than any stack.

use ondol::{FileType, Ino, ROOT, Volume, inodes};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The directory that was looked up last, and those above it. The next one is mostly near, however deep that is.
///
/// For trees of which no directory is moved or removed meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Way {
    path: Vec<u8>,
    /// How much of the path leads to a directory, and which that is.
    dirs: Vec<(usize, Ino)>,
}

impl Way {
    /// The directory that a path from the root leads to.
    ///
    /// # Errors
    /// As stat(2).
    pub(crate) fn to(&mut self, path: &Path, volume: &Volume) -> ondol::Result<Ino> {
        let bytes = path.as_os_str().as_bytes();
        let goes_over = |known: &[u8]| bytes.strip_prefix(known).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        while self.dirs.last().is_some_and(|(end, _)| !goes_over(&self.path[..*end])) {
            self.dirs.pop();
        }
        let (mut end, mut here) = self.dirs.last().copied().unwrap_or((0, ROOT));
        self.path.truncate(end);
        self.path.extend(&bytes[end..]);
        for name in bytes[end..].split(|byte| *byte == b'/') {
            end += name.len();
            if !name.is_empty() && name != b"." {
                let found = volume.inodes().names().lookup(here, name)?;
                here = match found.file_type {
                    FileType::Symlink => volume.metadata(OsStr::from_bytes(&bytes[..end]))?.ino(),
                    _ => found.ino,
                };
                self.dirs.push((end, here));
            }
            end += 1;
        }
        Ok(here)
    }
}

/// Makes a path as long as it was before something was added.
pub(crate) fn cut(path: &mut PathBuf, len: usize) {
    let mut bytes = std::mem::take(path).into_os_string().into_vec();
    bytes.truncate(len);
    *path = OsString::from_vec(bytes).into();
}

/// The names in a directory without `.` and `..`, in the order of their bytes, as far as they can be read, and why no
/// further.
pub(crate) fn list(inodes: &inodes::Inodes, dir: Ino) -> (Vec<OsString>, Option<inodes::Error>) {
    let mut names = Vec::new();
    let listed = inodes.names().readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push(OsStr::from_bytes(entry.name).to_owned());
        }
        true
    });
    names.sort_unstable();
    (names, listed.err())
}
