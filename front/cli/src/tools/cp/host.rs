//! The files of this machine, and its standard input and output, as a side of copying.

use super::tree::{Attributes, Reader, Said, Side, Stat, Tree, Writer};
use ondol::machine::locks::shown;
use ondol::{Device, FileType, Timestamp};
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The files of this machine.
pub(crate) struct Host;

/// The bits that new files of this process do not get.
pub(super) fn umask() -> u16 {
    // It can only be read by setting it.
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    (mask.as_raw_mode() & 0o777) as u16
}

fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |e| format!("{}: {e}", shown(path))
}

fn at_raw(path: &Path) -> impl Fn(Errno) -> String {
    move |e| at(path)(e.into())
}

fn stat(found: &Metadata) -> Stat {
    let kind = found.file_type();
    let kind = match () {
        () if kind.is_dir() => FileType::Directory,
        () if kind.is_symlink() => FileType::Symlink,
        () if kind.is_block_device() => FileType::BlockDevice,
        () if kind.is_char_device() => FileType::CharDevice,
        () if kind.is_fifo() => FileType::Fifo,
        () if kind.is_socket() => FileType::Socket,
        () => FileType::Regular,
    };
    let time = |sec, nsec: i64| Timestamp { sec, nsec: u32::try_from(nsec).unwrap_or(0) };
    Stat {
        id: (found.dev(), found.ino()),
        kind,
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink(),
        uid: found.uid(),
        gid: found.gid(),
        rdev: Device { major: rustix::fs::major(found.rdev()), minor: rustix::fs::minor(found.rdev()) },
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
    }
}

/// What an attribute is not kept for: the file system has none of its kind, or the caller may not set it.
fn is_not_for_us(e: Errno) -> bool {
    matches!(e, Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS)
}

impl Tree for Host {
    fn side(&self) -> Side {
        Side::Host
    }

    fn shown(&self, path: &Path) -> String {
        shown(path)
    }

    fn stat(&self, path: &Path, follow: bool) -> Said<Option<Stat>> {
        match if follow { fs::metadata(path) } else { fs::symlink_metadata(path) } {
            Ok(found) => Ok(Some(stat(&found))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(at(path)(e)),
        }
    }

    fn list(&self, path: &Path) -> Said<Vec<OsString>> {
        let entries = fs::read_dir(path).map_err(at(path))?;
        let names: io::Result<Vec<OsString>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = names.map_err(at(path))?;
        names.sort_unstable();
        Ok(names)
    }

    fn read_link(&self, path: &Path) -> Said<PathBuf> {
        fs::read_link(path).map_err(at(path))
    }

    fn open(&self, path: &Path) -> Said<Box<dyn Reader + '_>> {
        let file = File::open(path).map_err(at(path))?;
        let is_regular = file.metadata().map_err(at(path))?.is_file();
        let name = shown(path);
        Ok(if is_regular { Box::new(Stored { file, name }) } else { Box::new(Stream { from: file, name }) })
    }

    fn create(&self, path: &Path, perm: u16, fresh: bool) -> Said<Box<dyn Writer + '_>> {
        let mut options = OpenOptions::new();
        options.write(true).mode(perm.into());
        if fresh {
            options.create_new(true)
        } else {
            options.create(true).truncate(true)
        };
        let file = options.open(path).map_err(at(path))?;
        let is_regular = file.metadata().map_err(at(path))?.is_file();
        let name = shown(path);
        Ok(if is_regular { Box::new(Stored { file, name }) } else { Box::new(Stream { from: file, name }) })
    }

    fn make_dir(&self, path: &Path, perm: u16) -> Said<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().mode(perm.into()).create(path).map_err(at(path))
    }

    fn symlink(&self, target: &Path, path: &Path) -> Said<()> {
        std::os::unix::fs::symlink(target, path).map_err(at(path))
    }

    fn hard_link(&self, original: &Path, path: &Path) -> Said<()> {
        fs::hard_link(original, path).map_err(at(path))
    }

    fn make_node(&self, path: &Path, stat: &Stat) -> Said<()> {
        use rustix::fs::FileType as Kind;
        let kind = match stat.kind {
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::CharDevice => Kind::CharacterDevice,
            FileType::Fifo => Kind::Fifo,
            _ => Kind::Socket,
        };
        let device = rustix::fs::makedev(stat.rdev.major, stat.rdev.minor);
        let perm = Mode::from_raw_mode((stat.perm & 0o777).into());
        rustix::fs::mknodat(CWD, path, kind, perm, device).map_err(at_raw(path))
    }

    fn remove(&self, path: &Path) -> Said<()> {
        fs::remove_file(path).map_err(at(path))
    }

    fn attributes(&self, path: &Path) -> Said<Attributes> {
        let names = match sized(|buffer| rustix::fs::llistxattr(path, buffer)) {
            Err(Errno::OPNOTSUPP) => Vec::new(),
            names => names.map_err(at_raw(path))?,
        };
        let mut found = Attributes::new();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(OsStr::from_bytes) {
            match sized(|buffer| rustix::fs::lgetxattr(path, name, buffer)) {
                Ok(value) => found.push((name.to_owned(), value)),
                // Removed meanwhile, or not for the caller to see.
                Err(e) if is_not_for_us(e) || e == Errno::NODATA => {}
                Err(e) => return Err(at_raw(path)(e)),
            }
        }
        Ok(found)
    }

    fn set_permissions(&self, path: &Path, perm: u16) -> Said<()> {
        fs::set_permissions(path, Permissions::from_mode(perm.into())).map_err(at(path))
    }

    fn dress(&self, path: &Path, stat: &Stat, attributes: &Attributes) -> Said<()> {
        let perm = match std::os::unix::fs::lchown(path, Some(stat.uid), Some(stat.gid)) {
            Ok(()) => stat.perm,
            // To give files away takes privilege, which nobody expects of an ordinary user. Setuid and setgid would be
            // another's then.
            Err(e) if e.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                let own = fs::symlink_metadata(path).map_err(at(path))?;
                let is_same = (own.uid(), own.gid()) == (stat.uid, stat.gid);
                if is_same { stat.perm } else { stat.perm & 0o1777 }
            }
            Err(e) => return Err(at(path)(e)),
        };
        for (name, value) in attributes {
            match rustix::fs::lsetxattr(path, &**name, value, XattrFlags::empty()) {
                Err(e) if !is_not_for_us(e) => {
                    return Err(format!("{}: attribute {}: {e}", shown(path), shown(Path::new(name))));
                }
                _ => {}
            }
        }
        if stat.kind != FileType::Symlink {
            self.set_permissions(path, perm)?;
        }
        let time = |time: Timestamp| Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() };
        let times = Timestamps { last_access: time(stat.atime), last_modification: time(stat.mtime) };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(at_raw(path))
    }
}

/// What a call writes into a buffer that is large enough.
fn sized(mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 64 << 10];
    let len = call(&mut buffer)?;
    buffer.truncate(len);
    Ok(buffer)
}

/// A regular file.
struct Stored {
    file: File,
    name: String,
}

impl Stored {
    fn said(&self, e: &io::Error) -> String {
        format!("{}: {e}", self.name)
    }
}

impl Reader for Stored {
    fn size(&self) -> Said<Option<u64>> {
        self.file.metadata().map(|found| Some(found.len())).map_err(|e| self.said(&e))
    }

    fn data_from(&self, from: u64) -> Said<Option<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        let start = match seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // Not every file system knows where holes are.
            Err(Errno::INVAL) => return Ok(self.size()?.filter(|size| *size > from).map(|size| from..size)),
            Err(e) => return Err(self.said(&e.into())),
        };
        let end = seek(&self.file, SeekFrom::Hole(start)).map_err(|e| self.said(&e.into()))?;
        Ok(Some(start..end))
    }

    fn read(&mut self, buffer: &mut [u8], from: u64) -> Said<usize> {
        self.file.read_at(buffer, from).map_err(|e| self.said(&e))
    }
}

impl Writer for Stored {
    fn is_stream(&self) -> bool {
        false
    }

    fn write(&mut self, bytes: &[u8], to: u64) -> Said<()> {
        self.file.write_all_at(bytes, to).map_err(|e| self.said(&e))
    }

    fn end(&mut self, size: u64) -> Said<()> {
        self.file.set_len(size).map_err(|e| self.said(&e))
    }
}

/// What is read or written from its beginning to its end: standard input or output, a pipe, a terminal.
pub(super) struct Stream<S> {
    pub(super) from: S,
    pub(super) name: String,
}

impl<S: Read> Reader for Stream<S> {
    fn size(&self) -> Said<Option<u64>> {
        Ok(None)
    }

    fn data_from(&self, from: u64) -> Said<Option<Range<u64>>> {
        Ok(Some(from..u64::MAX))
    }

    fn read(&mut self, buffer: &mut [u8], _from: u64) -> Said<usize> {
        loop {
            match self.from.read(buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => return done.map_err(|e| format!("{}: {e}", self.name)),
            }
        }
    }
}

impl<S: Write> Writer for Stream<S> {
    fn is_stream(&self) -> bool {
        true
    }

    fn write(&mut self, bytes: &[u8], _to: u64) -> Said<()> {
        self.from.write_all(bytes).map_err(|e| format!("{}: {e}", self.name))
    }

    fn end(&mut self, _size: u64) -> Said<()> {
        self.from.flush().map_err(|e| format!("{}: {e}", self.name))
    }
}
