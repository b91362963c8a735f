//! Open files.

mod ranges;

use crate::mounted::{Hold, Mounted};
use crate::path::{Follow, at, resolve, resolve_parent};
use crate::{Error, Open, Result, Volume};
use ondol_env::sync::{Arc, Mutex};
use ondol_volume::{Attr, Caller, Error as VolumeError, FileType, Ino, SetAttr, Volume as Inodes};
use std::fmt;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How a file is opened: as `std::fs::OpenOptions`, on a volume.
///
/// ```
/// # use ondol::{FormatOptions, OpenOptions, Volume};
/// # use std::io::Write;
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
/// let volume = Volume::open(&image)?;
/// let mut log = OpenOptions::new().append(true).create(true).open(&volume, "/log")?;
/// writeln!(log, "begun")?;
/// log.sync_all()?;
/// # drop(log);
/// # volume.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u16,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing is allowed yet.
    pub fn new() -> Self {
        let (read, write, append, truncate, create, create_new) = (false, false, false, false, false, false);
        Self { read, write, append, truncate, create, create_new, mode: 0o644 }
    }

    /// For reading.
    pub fn read(&mut self, yes: bool) -> &mut Self {
        self.read = yes;
        self
    }

    /// For writing.
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.write = yes;
        self
    }

    /// For writing at the end, wherever that is when the write takes effect.
    pub fn append(&mut self, yes: bool) -> &mut Self {
        self.append = yes;
        self
    }

    /// Empty the file.
    pub fn truncate(&mut self, yes: bool) -> &mut Self {
        self.truncate = yes;
        self
    }

    /// Create the file if it is missing.
    pub fn create(&mut self, yes: bool) -> &mut Self {
        self.create = yes;
        self
    }

    /// Create the file; fail if it exists.
    pub fn create_new(&mut self, yes: bool) -> &mut Self {
        self.create_new = yes;
        self
    }

    /// Permission bits of a file that is created (0o644 unless set).
    pub fn mode(&mut self, mode: u16) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As open(2). `EINVAL` when it is opened neither to read, write nor append; to create or truncate without writing;
    /// or to append and truncate.
    pub fn open(&self, volume: &Volume, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        at(path, self.check())?;
        let inodes = volume.usable()?;
        let attr = match self.find_or_create(volume, path)? {
            attr if attr.file_type == FileType::Directory && (self.write || self.append) => {
                return at(path, Err(VolumeError::IsDirectory(attr.ino)));
            }
            attr => {
                let write = self.write || self.append;
                at(path, inodes.inode_ops().check_open(attr.ino, write, self.append, self.truncate))?;
                at(path, inodes.inode_ops().open(attr.ino))?
            }
        };
        let file = self.opened(volume, attr.ino, path);
        if self.truncate && attr.size > 0 {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Makes and opens a file without a name (O_TMPFILE). It is deleted when it is dropped, unless [`File::link`] has
    /// named it; from directory `dir` it inherits what a file there would.
    ///
    /// # Errors
    /// As open(2).
    pub fn open_unnamed(&self, volume: &Volume, dir: impl AsRef<Path>) -> Result<File> {
        let path = dir.as_ref();
        let inodes = volume.usable()?;
        let parent = resolve(inodes, path, Follow::Yes)?;
        let attr = at(path, inodes.names().tmpfile(parent.ino, self.mode, volume.caller))?;
        Ok(self.opened(volume, attr.ino, path))
    }

    /// Opens a file once more that somebody has open, by its inode number ([`File::ino`]): whether it may be written to
    /// anywhere was asked then. It is not made, nor made empty.
    ///
    /// # Errors
    /// `ENOENT` when it is gone, and for inodes that are the file system's own.
    pub fn reopen(&self, volume: &Volume, ino: Ino) -> Result<File> {
        let path = PathBuf::from(format!("inode {ino}"));
        at(&path, volume.usable()?.by_number(ino))?;
        at(&path, volume.usable()?.inode_ops().open(ino))?;
        Ok(self.opened(volume, ino, &path))
    }

    fn opened(&self, volume: &Volume, ino: Ino, path: &Path) -> File {
        let path: Arc<Path> = path.into();
        File {
            volume: Arc::new(volume.doors.hold(Open::File(path.clone()))),
            caller: volume.caller,
            ino,
            path,
            readable: self.read,
            writable: self.write || self.append,
            append: self.append,
            position: Arc::new(Mutex::new(0)),
        }
    }

    /// What std::fs refuses, too.
    fn check(&self) -> std::result::Result<(), VolumeError> {
        let what = match (self.write, self.append) {
            (_, true) if self.truncate => "a file cannot be opened to append and to be truncated",
            (false, false) if self.truncate || self.create || self.create_new => {
                "a file is created or truncated only if it is opened to write or append"
            }
            (false, false) if !self.read => "a file is opened to read, write or append: none of these is set",
            _ => return Ok(()),
        };
        Err(VolumeError::Invalid(what))
    }

    fn find_or_create(&self, volume: &Volume, path: &Path) -> Result<Attr> {
        let inodes = volume.usable()?;
        let create = || {
            let (parent, name) = resolve_parent(inodes, path)?;
            at(path, inodes.names().create(parent, name, self.mode, volume.caller))
        };
        if self.create_new {
            return create();
        }
        loop {
            match resolve(inodes, path, Follow::Yes) {
                Err(Error::Path { source: VolumeError::NotFound, .. }) if self.create => match create() {
                    // Somebody else created it in between.
                    Err(Error::Path { source: VolumeError::Exists, .. })
                        if resolve(inodes, path, Follow::Yes).is_ok() => {}
                    other => return other,
                },
                other => return other,
            }
        }
    }
}

/// An open file. It stays readable and writable when its last name is removed, until it is dropped.
///
/// It does not borrow its volume. It may go to another thread, or live beside the volume in a struct, and the volume
/// stays mounted until it is dropped ([`Volume::close`]). As with `std::fs::File`, dropping it makes nothing durable:
/// [`File::sync_all`] does.
///
/// ```
/// # use ondol::{File, FormatOptions, Volume};
/// # use std::io::Write;
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
/// struct Store {
///     volume: Volume,
///     log: File,
/// }
///
/// let volume = Volume::open(&image)?;
/// let store = Store { log: volume.create("/log")?, volume };
/// let mut log = store.log.try_clone()?;
/// let writer = std::thread::spawn(move || log.write_all(b"from a thread"));
/// writer.join().unwrap()?;
/// drop(store.log);
/// assert_eq!(store.volume.read("/log")?, b"from a thread");
/// store.volume.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct File {
    /// Clones share it; so do views and maps.
    volume: Arc<Hold>,
    /// For whom it was opened.
    caller: Caller,
    ino: Ino,
    path: Arc<Path>,
    readable: bool,
    writable: bool,
    append: bool,
    /// In bytes. Clones share it, and so a read or write through it has it locked.
    position: Arc<Mutex<u64>>,
}

impl File {
    pub(crate) fn volume(&self) -> &Mounted {
        &self.volume
    }

    /// What keeps the volume mounted, for what lends bytes of the file.
    pub(crate) fn hold(&self) -> Arc<Hold> {
        self.volume.clone()
    }

    /// Does something that may need space.
    pub(crate) fn act<T>(&self, work: impl FnOnce(&Inodes) -> T) -> T {
        self.volume.act(self.caller, work)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same file, opened once more in the same way, from its beginning.
    ///
    /// # Errors
    /// As open(2).
    pub(crate) fn again(&self) -> Result<Self> {
        let volume = self.volume.another(Open::File(self.path.clone()));
        self.opened_again(Arc::new(volume), Arc::default())
    }

    fn opened_again(&self, volume: Arc<Hold>, position: Arc<Mutex<u64>>) -> Result<Self> {
        at(&self.path, self.volume.usable()?.inode_ops().open(self.ino))?;
        let Self { caller, ino, ref path, readable, writable, append, .. } = *self;
        Ok(Self { volume, caller, ino, path: path.clone(), readable, writable, append, position })
    }

    /// The same file, opened once more in the same way. Both read and write at one position, as with dup(2).
    ///
    /// # Errors
    /// As open(2).
    pub fn try_clone(&self) -> Result<Self> {
        self.opened_again(self.volume.clone(), self.position.clone())
    }
}

impl File {
    /// Its inode number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Reads at `offset`; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// As pread(2).
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.check_readable()?;
        at(&self.path, self.volume.usable()?.files().read(self.ino, offset, buf))
    }

    /// Writes all of `data` at `offset`. One atomic operation up to the volume's atomic size.
    ///
    /// # Errors
    /// As pwrite(2).
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let n = self.write_at(&data[done..], offset + done as u64)?;
            if n == 0 {
                return at(&self.path, Err(VolumeError::NoSpace("blocks")));
            }
            done += n;
        }
        Ok(())
    }

    /// Writes at `offset`; fewer bytes than given only when space ran out after some were written.
    ///
    /// # Errors
    /// As pwrite(2).
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        self.check_writable()?;
        at(&self.path, self.act(|inodes| inodes.files().write(self.ino, offset, data)))
    }

    /// Truncates the file or extends it with zeros.
    ///
    /// # Errors
    /// As ftruncate(2).
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.check_writable()?;
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        at(&self.path, self.volume.usable()?.inode_ops().setattr(self.ino, &set)).map(|_| ())
    }

    /// Gives the file another name, or its first if it was opened without one.
    ///
    /// # Errors
    /// As linkat(2) with AT_EMPTY_PATH.
    pub fn link(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (parent, name) = resolve_parent(self.volume.usable()?, path)?;
        at(path, self.act(|inodes| inodes.names().link(self.ino, parent, name))).map(|_| ())
    }

    /// Makes every earlier operation of the volume durable, this file's included.
    ///
    /// # Errors
    /// As fsync(2): after an error nothing may be taken as durable that was not so before.
    pub fn sync_all(&self) -> Result<()> {
        at(&self.path, self.volume.usable()?.fsync(self.ino, false))
    }

    /// As [`File::sync_all`].
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        at(&self.path, self.volume.usable()?.fsync(self.ino, true))
    }

    pub(crate) fn check_readable(&self) -> Result<()> {
        self.volume.usable()?;
        if self.readable {
            return Ok(());
        }
        at(&self.path, Err(VolumeError::Invalid("the file is not open for reading")))
    }

    /// Refuses what stores anywhere in the file.
    pub(crate) fn check_storable(&self) -> Result<()> {
        self.check_readable()?;
        self.check_writable()?;
        match self.append {
            true => at(&self.path, Err(VolumeError::NotPermitted("the file is open for appending"))),
            false => Ok(()),
        }
    }

    fn check_writable(&self) -> Result<()> {
        self.volume.usable()?;
        if self.writable {
            return Ok(());
        }
        at(&self.path, Err(VolumeError::Invalid("the file is not open for writing")))
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let mut position = self.position.lock();
        let n = self.read_at(buf, *position)?;
        *position += n as u64;
        Ok(n)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let mut position = self.position.lock();
        if self.append {
            self.check_writable()?;
            let begun = at(&self.path, self.act(|inodes| inodes.files().append(self.ino, data)))?;
            *position = begun + data.len() as u64;
            return Ok(data.len());
        }
        let n = self.write_at(data, *position)?;
        *position += n as u64;
        Ok(n)
    }

    /// Nothing is buffered here.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let mut position = self.position.lock();
        let base = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::Current(d) => position.checked_add_signed(d),
            SeekFrom::End(d) => self.metadata()?.len().checked_add_signed(d),
        };
        let before_start =
            || std::io::Error::new(std::io::ErrorKind::InvalidInput, "a seek before the start of the file");
        *position = base.ok_or_else(before_start)?;
        Ok(*position)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        (&*self).flush()
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        (&*self).seek(to)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, readable, writable, .. } = self;
        f.debug_struct("File").field("path", path).field("read", readable).field("write", writable).finish()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Err(e) = self.volume.inodes().inode_ops().release(self.ino) {
            tracing::error!("{}: closing: {e}", self.path.display());
        }
    }
}
