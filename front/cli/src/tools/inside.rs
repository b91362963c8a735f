//! The files of an image as a side of copying.

use super::cp::tree::{Attributes, Reader, Said, Side, Stat, Tree, Writer};
use super::open::Opened;
use super::walk::list;
use ondol::{Attr, Caller, Error, File, FileType, Ino, OpenOptions, Seek, SetAttr, SetTime, SetXattr, printable};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The files of an image.
pub(crate) struct Inside<'v> {
    opened: &'v Opened,
    /// To whom new files belong.
    caller: Caller,
}

impl<'v> Inside<'v> {
    pub(crate) fn new(opened: &'v Opened) -> Self {
        Self { opened, caller: opened.caller() }
    }

    fn at<T>(&self, path: &Path, done: ondol::Result<T>) -> Said<T> {
        done.map_err(|e| self.opened.said(path, &e))
    }

    fn by_number<T>(&self, path: &Path, done: Result<T, ondol::inodes::Error>) -> Said<T> {
        done.map_err(|e| self.opened.said_of(path, e))
    }

    /// The inode that the path itself names.
    fn named(&self, path: &Path) -> Said<Ino> {
        self.at(path, self.opened.volume.symlink_metadata(path)).map(|found| found.ino())
    }

    /// Gives an inode what is set.
    fn set(&self, path: &Path, set: &SetAttr) -> Said<()> {
        let ino = self.named(path)?;
        self.by_number(path, self.opened.inodes().setattr(ino, set)).map(drop)
    }
}

fn stat(attr: &Attr) -> Stat {
    Stat {
        id: (0, attr.ino.into()),
        kind: attr.file_type,
        perm: attr.perm,
        nlink: attr.nlink.into(),
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        atime: attr.atime,
        mtime: attr.mtime,
    }
}

impl Tree for Inside<'_> {
    fn side(&self) -> Side {
        Side::Image
    }

    fn shown(&self, path: &Path) -> String {
        self.opened.shown(path)
    }

    fn stat(&self, path: &Path, follow: bool) -> Said<Option<Stat>> {
        let volume = &self.opened.volume;
        match if follow { volume.metadata(path) } else { volume.symlink_metadata(path) } {
            Ok(found) => self.by_number(path, self.opened.inodes().getattr(found.ino())).map(|attr| Some(stat(&attr))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => self.at(path, Err(e)),
        }
    }

    fn list(&self, path: &Path) -> Said<Vec<OsString>> {
        let dir = self.named(path)?;
        match list(self.opened.inodes(), dir) {
            (names, None) => Ok(names),
            (_, Some(e)) => self.by_number(path, Err(e)),
        }
    }

    fn read_link(&self, path: &Path) -> Said<PathBuf> {
        self.at(path, self.opened.volume.read_link(path))
    }

    fn open(&self, path: &Path) -> Said<Box<dyn Reader + '_>> {
        let file = self.at(path, self.opened.volume.open_file(path))?;
        Ok(Box::new(Stored { opened: self.opened, path: path.to_owned(), file }))
    }

    fn create(&self, path: &Path, perm: u16, fresh: bool) -> Said<Box<dyn Writer + '_>> {
        let mut options = OpenOptions::new();
        options.write(true).mode(perm);
        if fresh {
            options.create_new(true)
        } else {
            options.create(true).truncate(true)
        };
        let file = self.at(path, options.open(&self.opened.volume, path))?;
        let found = self.at(path, file.metadata())?;
        if !found.is_file() {
            return self.at(path, Err(refusal("it is no regular file, and what it stands for is not here")));
        }
        Ok(Box::new(Stored { opened: self.opened, path: path.to_owned(), file }))
    }

    fn make_dir(&self, path: &Path, perm: u16) -> Said<()> {
        self.at(path, self.opened.volume.create_dir(path))?;
        self.set_permissions(path, perm)
    }

    fn symlink(&self, target: &Path, path: &Path) -> Said<()> {
        self.at(path, self.opened.volume.symlink(target, path))
    }

    fn hard_link(&self, original: &Path, path: &Path) -> Said<()> {
        self.at(path, self.opened.volume.hard_link(original, path))
    }

    fn make_node(&self, path: &Path, stat: &Stat) -> Said<()> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let dir = self.at(parent, self.opened.volume.metadata(parent))?.ino();
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let mode = stat.kind.mode_bits() | (stat.perm & 0o777);
        let made = self.opened.inodes().mknod(dir, name, mode, stat.rdev, self.caller);
        self.by_number(path, made).map(drop)
    }

    fn remove(&self, path: &Path) -> Said<()> {
        self.at(path, self.opened.volume.remove_file(path))
    }

    fn attributes(&self, path: &Path) -> Said<Attributes> {
        let (ino, inodes) = (self.named(path)?, self.opened.inodes());
        let names = self.by_number(path, inodes.listxattr(ino))?;
        let value = |name: Vec<u8>| {
            let value = self.by_number(path, inodes.getxattr(ino, &name))?;
            Ok((OsString::from_vec(name), value))
        };
        names.into_iter().map(value).collect()
    }

    fn set_permissions(&self, path: &Path, perm: u16) -> Said<()> {
        self.set(path, &SetAttr { perm: Some(perm), ..SetAttr::default() })
    }

    fn dress(&self, path: &Path, stat: &Stat, attributes: &Attributes) -> Said<()> {
        let (ino, inodes) = (self.named(path)?, self.opened.inodes());
        let set = |set: SetAttr| self.by_number(path, inodes.setattr(ino, &set));
        set(SetAttr { uid: Some(stat.uid), gid: Some(stat.gid), ..SetAttr::default() })?;
        for (name, value) in attributes {
            let wrong = |e| format!("{}: attribute {}: {e}", self.opened.shown(path), printable(name.as_bytes()));
            inodes.setxattr(ino, name.as_bytes(), value, SetXattr::Any).map_err(wrong)?;
        }
        let (atime, mtime) = (Some(SetTime::To(stat.atime)), Some(SetTime::To(stat.mtime)));
        // Those of a symbolic link count for nothing, and are not changed elsewhere either.
        let perm = (stat.kind != FileType::Symlink).then_some(stat.perm);
        set(SetAttr { perm, atime, mtime, ..SetAttr::default() }).map(drop)
    }
}

fn refusal(what: &'static str) -> Error {
    ondol::inodes::Error::Invalid(what).into()
}

/// A file in the image.
struct Stored<'v> {
    opened: &'v Opened,
    path: PathBuf,
    file: File,
}

impl Stored<'_> {
    fn at<T>(&self, done: ondol::Result<T>) -> Said<T> {
        done.map_err(|e| self.opened.said(&self.path, &e))
    }

    fn size(&self) -> Said<u64> {
        self.at(self.file.metadata()).map(|found| found.len())
    }
}

impl Reader for Stored<'_> {
    fn size(&self) -> Said<Option<u64>> {
        self.size().map(Some)
    }

    fn data_from(&self, from: u64) -> Said<Option<Range<u64>>> {
        let size = self.size()?;
        if from >= size {
            return Ok(None);
        }
        let start = match self.file.find(Seek::Data, from) {
            Err(e) if e.errno() == rustix::io::Errno::NXIO.raw_os_error() => return Ok(None),
            found => self.at(found)?,
        };
        let end = self.at(self.file.find(Seek::Hole, start))?;
        Ok(Some(start..end.min(size)))
    }

    fn read(&mut self, buffer: &mut [u8], from: u64) -> Said<usize> {
        self.at(self.file.read_at(buffer, from))
    }
}

impl Writer for Stored<'_> {
    fn is_stream(&self) -> bool {
        false
    }

    fn write(&mut self, bytes: &[u8], to: u64) -> Said<()> {
        self.at(self.file.write_all_at(bytes, to))
    }

    fn end(&mut self, size: u64) -> Said<()> {
        self.at(self.file.set_len(size))
    }
}
