//! Transactions: changes of several files as one.

use crate::recording::Recording;
use crate::{Error, Result, Volume};
use ondol_volume::{Rename, SetXattr, Step, Trail, TransactionError};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What [`Volume::transaction`] is going to do. Its methods are those of `std::fs`, but they only note what is to be
/// done, with a copy of the data; whether it can be done is found out when all of it is noted.
///
/// A path means what it means when its step's turn comes: files that earlier steps have made are there, those that they
/// have removed are not. `..` goes back by one name. Symbolic links are not followed: where a path needs that, the
/// transaction is refused.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    steps: Vec<Step>,
    /// The path that each step is about.
    paths: Vec<PathBuf>,
}

impl Volume {
    /// Makes several changes as one. `record` notes them; when it returns, they are made, in the order in which they
    /// were noted: all of them, or, when one cannot be made, none. If `record` fails, nothing is done.
    ///
    /// `record` must not call the volume, nor files of it, to read or to change: that would not be part of the
    /// transaction, and is refused. What the changes depend on is read before.
    ///
    /// Nobody ever sees a part of a transaction: not other threads, for which it takes effect in one instant, and not
    /// whoever opens the volume after a crash. Like every operation it is seen at once and durable with the next
    /// [`Volume::sync`]. After a crash with `data=ordered` or `data=writeback`, bytes written over stored ones
    /// ([`Transaction::write_at`]) may be there without the rest; everything else, [`Transaction::write`] included,
    /// keeps to all or nothing in every data mode.
    ///
    /// ```
    /// # use ondol::{FormatOptions, Volume};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// volume.write("/accounts", b"ann 10, bob 5")?;
    /// volume.transaction(|tx| {
    ///     tx.create_dir("/log").write("/log/1", b"ann gives bob 3").write("/accounts", b"ann 7, bob 8");
    ///     Ok(())
    /// })?;
    /// assert_eq!(volume.read("/log/1")?, b"ann gives bob 3");
    ///
    /// // The second step is impossible, so the first is not done either.
    /// let refused = volume.transaction(|tx| {
    ///     tx.remove_file("/accounts").remove_dir("/log");
    ///     Ok(())
    /// });
    /// assert!(refused.is_err());
    /// assert_eq!(volume.read("/accounts")?, b"ann 7, bob 8");
    /// # volume.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `record` returns; [`Error::Recording`] from calls of the volume within it; or what the step that cannot be
    /// made would return alone, with its path; or E2BIG when the journal cannot take all of it as one operation: about
    /// a quarter of the journal, with `data=journal` file data included. Nothing has changed then.
    pub fn transaction<T>(&self, record: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.usable()?;
        let mut tx = Transaction::default();
        let recording = Recording::of(&self.doors);
        let value = record(&mut tx)?;
        drop(recording);
        self.act(|inodes| inodes.apply(&tx.steps, self.caller)).map_err(|e| tx.explain(e))?;
        Ok(value)
    }
}

impl Transaction {
    /// Makes an empty file with mode 0o644. Fails if the name exists.
    pub fn create(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.step(path.as_ref(), |at| Step::Create { at, perm: FILE, keep: false })
    }

    /// Makes `content` all that a file holds; makes the file, with mode 0o644, if there is none. What it held before is
    /// replaced as a whole, after a crash too.
    pub fn write(&mut self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &mut Self {
        let path = path.as_ref();
        self.step(path, |at| Step::Create { at, perm: FILE, keep: true });
        self.step(path, |at| Step::SetLen { at, size: 0 });
        self.write_at(path, content, 0)
    }

    /// Writes `data` into a file that exists, at byte `offset`.
    pub fn write_at(&mut self, path: impl AsRef<Path>, data: impl AsRef<[u8]>, offset: u64) -> &mut Self {
        self.step(path.as_ref(), |at| Step::WriteAt { at, offset, bytes: data.as_ref().to_vec() })
    }

    /// Writes `data` behind the end of a file that exists.
    pub fn append(&mut self, path: impl AsRef<Path>, data: impl AsRef<[u8]>) -> &mut Self {
        self.step(path.as_ref(), |at| Step::Append { at, bytes: data.as_ref().to_vec() })
    }

    /// Truncates a file or extends it with zeros.
    pub fn set_len(&mut self, path: impl AsRef<Path>, size: u64) -> &mut Self {
        self.step(path.as_ref(), |at| Step::SetLen { at, size })
    }

    /// Makes an empty directory with mode 0o755.
    pub fn create_dir(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.step(path.as_ref(), |at| Step::CreateDir { at, perm: DIRECTORY })
    }

    /// Makes a symbolic link at `link` that says `target`.
    pub fn symlink(&mut self, target: impl AsRef<OsStr>, link: impl AsRef<Path>) -> &mut Self {
        self.step(link.as_ref(), |at| Step::Symlink { at, target: target.as_ref().as_bytes().to_vec() })
    }

    /// Gives the file at `original` a further name.
    pub fn hard_link(&mut self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> &mut Self {
        let original = trail(original.as_ref());
        self.step(link.as_ref(), |at| Step::HardLink { original, at })
    }

    /// Moves `from` to `to`, replacing what is there.
    pub fn rename(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> &mut Self {
        self.rename_with(from, to, Rename::Replace)
    }

    /// As [`Transaction::rename`], with the flags of renameat2(2).
    pub fn rename_with(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>, how: Rename) -> &mut Self {
        let to = trail(to.as_ref());
        self.step(from.as_ref(), |from| Step::Rename { from, to, how })
    }

    /// Removes a name that is not a directory. A file that is open lives on until it is closed.
    pub fn remove_file(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.step(path.as_ref(), |at| Step::RemoveFile { at })
    }

    /// Removes an empty directory.
    pub fn remove_dir(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.step(path.as_ref(), |at| Step::RemoveDir { at })
    }

    /// Changes the permission bits (0o7777).
    pub fn set_permissions(&mut self, path: impl AsRef<Path>, perm: u16) -> &mut Self {
        self.step(path.as_ref(), |at| Step::SetPermissions { at, perm })
    }

    /// Sets an extended attribute, such as `user.origin`.
    pub fn set_xattr(
        &mut self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
        how: SetXattr,
    ) -> &mut Self {
        let (name, value) = (name.as_ref().as_bytes().to_vec(), value.as_ref().to_vec());
        self.step(path.as_ref(), |at| Step::SetXattr { at, name, value, how })
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&mut self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> &mut Self {
        self.step(path.as_ref(), |at| Step::RemoveXattr { at, name: name.as_ref().as_bytes().to_vec() })
    }

    fn step(&mut self, path: &Path, step: impl FnOnce(Trail) -> Step) -> &mut Self {
        self.steps.push(step(trail(path)));
        self.paths.push(path.to_owned());
        self
    }

    /// The error with the path of the step that failed.
    fn explain(&self, e: TransactionError) -> Error {
        match e.step.and_then(|step| self.paths.get(step)) {
            Some(path) => Error::Path { path: path.clone(), source: e.error },
            None => Error::Volume(e.error),
        }
    }
}

/// Permission bits of new files, and of new directories.
const FILE: u16 = 0o644;
const DIRECTORY: u16 = 0o755;

/// The names on a path. Without symbolic links, ".." undoes the name before it.
fn trail(path: &Path) -> Trail {
    let mut names = Trail::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.as_bytes().to_vec()),
            Component::ParentDir => drop(names.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_names_from_the_root() {
        let names = |path: &str| trail(Path::new(path)).concat();
        assert_eq!(names("/a/./b//c/"), b"abc");
        assert_eq!(names("a/../b/../../c"), b"c");
        assert_eq!(names("/.."), b"");
    }
}
