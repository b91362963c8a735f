//! The files of an image as a side of copying.

use super::cp::tree::{Attributes, Reader, Said, Side, Stat, Tree, Writer};
use super::open::Opened;
use super::walk::{Way, list};
use ondol::{Attr, Caller, File, FileType, Ino, OpenOptions, Seek, SetAttr, SetTime, SetXattr, inodes, printable};
use std::cell::RefCell;
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
    way: RefCell<Way>,
    /// To files that get a further name, which are elsewhere.
    originals: RefCell<Way>,
}

impl<'v> Inside<'v> {
    pub(crate) fn new(opened: &'v Opened) -> Self {
        Self { opened, caller: opened.caller(), way: RefCell::default(), originals: RefCell::default() }
    }

    fn at<T>(&self, path: &Path, done: ondol::Result<T>) -> Said<T> {
        done.map_err(|e| self.opened.said(path, &e))
    }

    fn by_number<T>(&self, path: &Path, done: Result<T, inodes::Error>) -> Said<T> {
        done.map_err(|e| self.opened.said_of(path, e))
    }

    /// The directory that a path names an entry of, and the entry.
    fn entry<'p>(&self, way: &RefCell<Way>, path: &'p Path) -> ondol::Result<(Ino, &'p [u8])> {
        let name = path.file_name().ok_or(inodes::Error::Invalid("the path names no entry of a directory"))?;
        let above = path.parent().unwrap_or(Path::new("/"));
        Ok((way.borrow_mut().to(above, &self.opened.volume)?, name.as_bytes()))
    }

    /// What the path itself names, or where `follow` says so what a symbolic link there leads to.
    fn find(&self, path: &Path, follow: bool) -> ondol::Result<Attr> {
        let (volume, inodes) = (&self.opened.volume, self.opened.inodes());
        let found = match path.file_name() {
            Some(_) => {
                let (dir, name) = self.entry(&self.way, path)?;
                inodes.names().lookup(dir, name)?
            }
            None => inodes.getattr(volume.metadata(path)?.ino())?,
        };
        let is_followed = follow && found.file_type == FileType::Symlink;
        Ok(if is_followed { inodes.getattr(volume.metadata(path)?.ino())? } else { found })
    }

    /// The inode that the path itself names.
    fn named(&self, path: &Path) -> Said<Ino> {
        self.at(path, self.find(path, false)).map(|found| found.ino)
    }

    /// Does something to an entry of a directory.
    fn with<T>(&self, path: &Path, work: impl FnOnce(Ino, &[u8]) -> Result<T, inodes::Error>) -> Said<T> {
        let (dir, name) = self.at(path, self.entry(&self.way, path))?;
        self.by_number(path, work(dir, name))
    }

    /// Opens a file for [`Stored`].
    fn stored(&self, path: &Path, ino: Ino, options: &OpenOptions) -> Said<Stored<'_>> {
        let file = self.at(path, options.reopen(&self.opened.volume, ino))?;
        Ok(Stored { opened: self.opened, path: path.to_owned(), file })
    }

    /// Gives an inode what is set.
    fn set(&self, path: &Path, set: &SetAttr) -> Said<()> {
        let ino = self.named(path)?;
        self.by_number(path, self.opened.inodes().inode_ops().setattr(ino, set)).map(drop)
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
        match self.find(path, follow) {
            Ok(attr) => Ok(Some(stat(&attr))),
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
        let target = self.opened.inodes().names().readlink(self.named(path)?);
        self.by_number(path, target).map(|target| OsString::from_vec(target).into())
    }

    fn open(&self, path: &Path) -> Said<Box<dyn Reader + '_>> {
        let found = self.at(path, self.find(path, true))?;
        Ok(Box::new(self.stored(path, found.ino, OpenOptions::new().read(true))?))
    }

    fn create(&self, path: &Path, perm: u16, fresh: bool) -> Said<Box<dyn Writer + '_>> {
        let inodes = self.opened.inodes();
        let found = match self.find(path, true) {
            Ok(found) if !fresh => {
                if found.file_type != FileType::Regular {
                    let what = "it is no regular file, and what it stands for is not here";
                    return self.by_number(path, Err(inodes::Error::Invalid(what)));
                }
                self.by_number(path, inodes.inode_ops().check_open(found.ino, true, false, true))?;
                found
            }
            Err(e) if e.kind() != ErrorKind::NotFound => return self.at(path, Err(e)),
            _ => self.with(path, |dir, name| inodes.names().create(dir, name, perm, self.caller))?,
        };
        let stored = self.stored(path, found.ino, OpenOptions::new().write(true))?;
        if found.size > 0 {
            stored.at(stored.file.set_len(0))?;
        }
        Ok(Box::new(stored))
    }

    fn make_dir(&self, path: &Path, perm: u16) -> Said<()> {
        self.with(path, |dir, name| self.opened.inodes().names().mkdir(dir, name, perm, self.caller))?;
        self.set_permissions(path, perm)
    }

    fn symlink(&self, target: &Path, path: &Path) -> Said<()> {
        let target = target.as_os_str().as_bytes();
        self.with(path, |dir, name| self.opened.inodes().names().symlink(dir, name, target, self.caller)).map(drop)
    }

    fn hard_link(&self, original: &Path, path: &Path) -> Said<()> {
        let (dir, name) = self.at(original, self.entry(&self.originals, original))?;
        let original = self.by_number(original, self.opened.inodes().names().lookup(dir, name))?.ino;
        self.with(path, |dir, name| self.opened.inodes().names().link(original, dir, name)).map(drop)
    }

    fn make_node(&self, path: &Path, stat: &Stat) -> Said<()> {
        let mode = stat.kind.mode_bits() | (stat.perm & 0o777);
        self.with(path, |dir, name| self.opened.inodes().names().mknod(dir, name, mode, stat.rdev, self.caller))
            .map(drop)
    }

    fn remove(&self, path: &Path) -> Said<()> {
        self.with(path, |dir, name| self.opened.inodes().names().unlink(dir, name))
    }

    fn attributes(&self, path: &Path) -> Said<Attributes> {
        let (ino, inodes) = (self.named(path)?, self.opened.inodes());
        let names = self.by_number(path, inodes.xattrs().listxattr(ino))?;
        let value = |name: Vec<u8>| {
            let value = self.by_number(path, inodes.xattrs().getxattr(ino, &name))?;
            Ok((OsString::from_vec(name), value))
        };
        names.into_iter().map(value).collect()
    }

    fn set_permissions(&self, path: &Path, perm: u16) -> Said<()> {
        self.set(path, &SetAttr { perm: Some(perm), ..SetAttr::default() })
    }

    fn dress(&self, path: &Path, stat: &Stat, attributes: &Attributes) -> Said<()> {
        let (ino, inodes) = (self.named(path)?, self.opened.inodes());
        let set = |set: SetAttr| self.by_number(path, inodes.inode_ops().setattr(ino, &set));
        set(SetAttr { uid: Some(stat.uid), gid: Some(stat.gid), ..SetAttr::default() })?;
        for (name, value) in attributes {
            let wrong = |e| format!("{}: attribute {}: {e}", self.opened.shown(path), printable(name.as_bytes()));
            inodes.xattrs().setxattr(ino, name.as_bytes(), value, SetXattr::Any).map_err(wrong)?;
        }
        let (atime, mtime) = (Some(SetTime::To(stat.atime)), Some(SetTime::To(stat.mtime)));
        // Those of a symbolic link count for nothing, and are not changed elsewhere either.
        let perm = (stat.kind != FileType::Symlink).then_some(stat.perm);
        set(SetAttr { perm, atime, mtime, ..SetAttr::default() }).map(drop)
    }
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
