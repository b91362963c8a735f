//! What one thread of the load makes: its calls, and the directory that they lead to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A call that changes the directory of a thread; paths are relative to it.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// An empty file that was not there.
    Create(String),
    /// Bytes anywhere in a file.
    Write(String, u64, Arc<[u8]>),
    /// Bytes at its end, which is at this offset, through a descriptor that appends.
    Append(String, u64, Arc<[u8]>),
    /// A new size.
    Truncate(String, u64),
    /// A new name for a file or directory; a file that had it is gone.
    Rename(String, String),
    /// A file that is gone.
    Unlink(String),
    /// A directory that was not there.
    Mkdir(String),
    /// An empty directory that is gone.
    Rmdir(String),
}

/// A file of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    /// Number of the file, which it keeps when it is renamed.
    pub(super) id: u64,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// A directory and all below it: `None` is a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<String, Option<Contents>>,
    next: u64,
}

impl Call {
    /// Makes the call below `dir`.
    pub(super) fn run(&self, dir: &Path) -> io::Result<()> {
        match self {
            Self::Create(path) => File::create_new(dir.join(path)).map(drop),
            Self::Write(path, offset, bytes) => {
                File::options().write(true).open(dir.join(path))?.write_all_at(bytes, *offset)
            }
            Self::Append(path, _, bytes) => {
                let mut file = File::options().append(true).open(dir.join(path))?;
                io::Write::write_all(&mut file, bytes)
            }
            Self::Truncate(path, len) => File::options().write(true).open(dir.join(path))?.set_len(*len),
            Self::Rename(from, to) => fs::rename(dir.join(from), dir.join(to)),
            Self::Unlink(path) => fs::remove_file(dir.join(path)),
            Self::Mkdir(path) => fs::create_dir(dir.join(path)),
            Self::Rmdir(path) => fs::remove_dir(dir.join(path)),
        }
    }
}

/// Bytes of a page of the kernel's.
const PAGE: u64 = 4096;

impl Call {
    /// The requests that the server may receive for it. Of a write that begins within a page that is not in its cache
    /// the kernel sends the bytes up to the end of that page, then the others (`fuse_fill_write_pages`).
    pub(super) fn requests(&self) -> Vec<Self> {
        let (Self::Write(path, offset, bytes) | Self::Append(path, offset, bytes)) = self else {
            return vec![self.clone()];
        };
        let head = offset.next_multiple_of(PAGE) - offset;
        if head == 0 || head >= bytes.len() as u64 {
            return vec![self.clone()];
        }
        let (first, rest) = bytes.split_at(head as usize);
        let part = |offset, bytes: &[u8]| Self::Write(path.clone(), offset, bytes.into());
        vec![part(*offset, first), part(offset + head, rest)]
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Write(path, offset, bytes) => write!(f, "write {path} {offset}+{}", bytes.len()),
            Self::Append(path, offset, bytes) => write!(f, "append {path} {offset}+{}", bytes.len()),
            Self::Truncate(path, len) => write!(f, "truncate {path} {len}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
        }
    }
}

impl Tree {
    /// What is below `dir` now.
    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_below(dir, "")?;
        Ok(tree)
    }

    fn read_below(&mut self, dir: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let path = format!("{prefix}{}", name.to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.read_below(&entry.path(), &format!("{path}/"))?;
                self.nodes.insert(path, None);
            } else {
                let bytes = fs::read(entry.path())?;
                self.add(path, bytes);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) {
        self.next += 1;
        self.nodes.insert(path, Some(Contents { id: self.next, bytes: Arc::new(bytes) }));
    }

    /// The state after a call that succeeded.
    pub(super) fn apply(&mut self, call: &Call) {
        match call {
            Call::Create(path) => self.add(path.clone(), Vec::new()),
            Call::Write(path, offset, new) | Call::Append(path, offset, new) => {
                self.change(path, |bytes| put(bytes, *offset as usize, new));
            }
            Call::Truncate(path, len) => self.change(path, |bytes| bytes.resize(*len as usize, 0)),
            Call::Rename(from, to) => self.rename(from, to),
            Call::Mkdir(path) => drop(self.nodes.insert(path.clone(), None)),
            Call::Unlink(path) | Call::Rmdir(path) => drop(self.nodes.remove(path)),
        }
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(Some(contents)) = self.nodes.get_mut(path) {
            change(Arc::make_mut(&mut contents.bytes));
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        let below = format!("{from}/");
        let moved: Vec<String> =
            self.nodes.keys().filter(|path| *path == from || path.starts_with(&below)).cloned().collect();
        for path in moved {
            if let (Some(node), Some(rest)) = (self.nodes.remove(&path), path.strip_prefix(from)) {
                self.nodes.insert(format!("{to}{rest}"), node);
            }
        }
    }

    /// The file at `path`.
    pub(super) fn file(&self, path: &str) -> Option<&Contents> {
        self.nodes.get(path).and_then(Option::as_ref)
    }

    /// The file with this number.
    pub(super) fn by_id(&self, id: u64) -> Option<&Contents> {
        self.nodes.values().flatten().find(|contents| contents.id == id)
    }

    /// Paths of all files, or of all directories.
    pub(super) fn paths(&self, files: bool) -> Vec<&str> {
        self.nodes.iter().filter(|(_, node)| node.is_some() == files).map(|(path, _)| path.as_str()).collect()
    }

    /// A directory that holds nothing.
    pub(super) fn is_empty_dir(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.nodes.keys().any(|other| other.starts_with(&below))
    }

    /// Names, types and sizes are the same.
    pub(super) fn same_shape(&self, other: &Self) -> bool {
        let len = |node: &Option<Contents>| node.as_ref().map(|contents| contents.bytes.len());
        let mut pairs = self.nodes.iter().zip(&other.nodes);
        self.nodes.len() == other.nodes.len() && pairs.all(|(a, b)| a.0 == b.0 && len(a.1) == len(b.1))
    }

    /// The first places where `found` differs, in words.
    pub(super) fn differences(&self, found: &Self) -> Vec<String> {
        let paths: std::collections::BTreeSet<&String> = self.nodes.keys().chain(found.nodes.keys()).collect();
        paths.into_iter().filter_map(|path| difference(path, self.nodes.get(path), found.nodes.get(path))).collect()
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

fn difference(path: &str, wanted: Option<&Option<Contents>>, found: Option<&Option<Contents>>) -> Option<String> {
    match (wanted, found) {
        (None, Some(_)) => Some(format!("{path} is there and should not be")),
        (Some(_), None) => Some(format!("{path} is missing")),
        (Some(Some(a)), Some(Some(b))) if a.bytes.len() != b.bytes.len() => {
            Some(format!("{path} has {} bytes, not {}", b.bytes.len(), a.bytes.len()))
        }
        (Some(Some(a)), Some(Some(b))) => {
            let at = a.bytes.iter().zip(b.bytes.iter()).position(|(a, b)| a != b)?;
            Some(format!("{path} has other bytes from {at} on"))
        }
        (Some(None), Some(Some(_))) => Some(format!("{path} is a file, not a directory")),
        (Some(Some(_)), Some(None)) => Some(format!("{path} is a directory, not a file")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_does_what_a_file_system_does() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = |n: u8, len| Arc::from(vec![n; len]);
        let calls = [
            Call::Mkdir("d0".into()),
            Call::Create("d0/f1".into()),
            Call::Write("d0/f1".into(), 10, bytes(1, 100)),
            Call::Append("d0/f1".into(), 110, bytes(2, 50)),
            Call::Truncate("d0/f1".into(), 130),
            Call::Create("f2".into()),
            Call::Rename("d0".into(), "d3".into()),
            Call::Rename("d3/f1".into(), "f2".into()),
            Call::Truncate("f2".into(), 200),
            Call::Mkdir("d1".into()),
            Call::Rmdir("d3".into()),
            Call::Create("f4".into()),
            Call::Unlink("f4".into()),
        ];
        let mut model = Tree::default();
        for call in &calls {
            call.run(dir.path()).unwrap();
            model.apply(call);
            let found = Tree::read(dir.path()).unwrap();
            assert_eq!(model.differences(&found), [""; 0], "after {call}");
            assert!(model.same_shape(&found), "after {call}");
        }
        fs::write(dir.path().join("f2"), [9; 200]).unwrap();
        fs::remove_dir(dir.path().join("d1")).unwrap();
        let found = Tree::read(dir.path()).unwrap();
        assert_eq!(model.differences(&found), ["d1 is missing", "f2 has other bytes from 0 on"]);
    }
}
