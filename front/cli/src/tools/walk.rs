//! Walking through a directory tree of an image, which may be deeper than any stack, and damaged.

use super::open::Opened;
use ondol::{Attr, FileType, Ino, inodes};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

/// A name in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// From where the walk began.
    pub(crate) path: PathBuf,
    /// The directory that it is in.
    pub(crate) parent: Ino,
    pub(crate) attr: Attr,
    /// Directories above it, up to where the walk began.
    pub(crate) depth: usize,
}

impl Found {
    /// Whether it is a directory.
    pub(crate) fn is_dir(&self) -> bool {
        self.attr.file_type == FileType::Directory
    }
}

/// What a walk meets.
pub(crate) enum Event {
    /// A name; a directory before what is in it.
    Enter(Found),
    /// A directory behind what is in it.
    Leave(Found),
    /// What could not be read, in words.
    Failed(String),
}

/// A directory that was gone into.
struct Level {
    parent: Ino,
    attr: Attr,
    /// The names in it that were not met yet.
    names: IntoIter<OsString>,
    /// How long the path of the directory above it is.
    above: usize,
}

/// A walk, in the order of names.
pub(crate) struct Walk<'v> {
    opened: &'v Opened,
    first: Option<Found>,
    /// The directory that was met last, whose entries come next.
    ahead: Option<Found>,
    /// Where the last level is. That of each would be as long as the tree is deep.
    path: PathBuf,
    levels: Vec<Level>,
    /// Directories that were gone into: damage may lead there twice, or round and round.
    seen: HashSet<Ino>,
}

impl<'v> Walk<'v> {
    /// From a path on, which is in directory `parent`.
    pub(crate) fn new(opened: &'v Opened, path: &Path, (attr, parent): (Attr, Ino)) -> Self {
        let first = Some(Found { path: path.to_owned(), parent, attr, depth: 0 });
        Self { opened, first, ahead: None, path: path.to_owned(), levels: Vec::new(), seen: HashSet::new() }
    }

    /// Does not go into the directory that was met last.
    pub(crate) fn pass_by(&mut self) {
        self.ahead = None;
    }

    fn met(&mut self, found: Found) -> Event {
        self.ahead = found.is_dir().then(|| found.clone());
        Event::Enter(found)
    }

    /// Goes into a directory; what is wrong with it.
    fn go_into(&mut self, dir: Found) -> Option<String> {
        let Found { path, parent, attr, .. } = dir;
        let (names, failed) = if self.seen.insert(attr.ino) {
            let (names, failed) = list(self.opened.inodes(), attr.ino);
            (names, failed.map(|e| self.opened.said_of(&path, e)))
        } else {
            let what = "this directory has a second name, which is damage: `ondol check -n` says more";
            (Vec::new(), Some(format!("{}: {what}", self.opened.shown(&path))))
        };
        let above = std::mem::replace(&mut self.path, path).as_os_str().len();
        self.levels.push(Level { parent, attr, names: names.into_iter(), above });
        failed
    }

    /// Goes back to the directory above.
    fn leave(&mut self) -> Option<Event> {
        let Level { parent, attr, above, .. } = self.levels.pop()?;
        let path = self.path.clone();
        cut(&mut self.path, above);
        Some(Event::Leave(Found { path, parent, attr, depth: self.levels.len() }))
    }
}

impl Iterator for Walk<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(self.met(first));
        }
        if let Some(dir) = self.ahead.take()
            && let Some(what) = self.go_into(dir)
        {
            return Some(Event::Failed(what));
        }
        let dir = self.levels.last_mut()?;
        let Some(name) = dir.names.next() else { return self.leave() };
        let (path, parent, depth) = (self.path.join(&name), dir.attr.ino, self.levels.len());
        Some(match self.opened.inodes().lookup(parent, name.as_bytes()) {
            Ok(attr) => self.met(Found { path, parent, attr, depth }),
            Err(e) => Event::Failed(self.opened.said_of(&path, e)),
        })
    }
}

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
