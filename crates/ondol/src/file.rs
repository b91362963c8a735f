//! Open files.

mod ranges;

use crate::path::{Follow, at, resolve, resolve_parent};
use crate::{Error, Result, Volume};
use ondol_volume::{Attr, Error as VolumeError, FileType, Ino, SetAttr};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How a file is opened: as `std::fs::OpenOptions`.
#[derive(Clone)]
pub struct OpenOptions<'v> {
    volume: &'v Volume,
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u16,
}

impl<'v> OpenOptions<'v> {
    pub(crate) fn new(volume: &'v Volume) -> Self {
        let (read, write, append, truncate, create, create_new) = (false, false, false, false, false, false);
        Self { volume, read, write, append, truncate, create, create_new, mode: 0o644 }
    }

    /// For reading.
    #[must_use]
    pub fn read(mut self, yes: bool) -> Self {
        self.read = yes;
        self
    }

    /// For writing.
    #[must_use]
    pub fn write(mut self, yes: bool) -> Self {
        self.write = yes;
        self
    }

    /// For writing at the end, wherever that is when the write takes effect.
    #[must_use]
    pub fn append(mut self, yes: bool) -> Self {
        self.append = yes;
        self
    }

    /// Empty the file.
    #[must_use]
    pub fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// Create the file if it is missing.
    #[must_use]
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Create the file; fail if it exists.
    #[must_use]
    pub fn create_new(mut self, yes: bool) -> Self {
        self.create_new = yes;
        self
    }

    /// Permission bits of a file that is created (0o644 unless set).
    #[must_use]
    pub fn mode(mut self, mode: u16) -> Self {
        self.mode = mode;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File<'v>> {
        let path = path.as_ref();
        let inodes = self.volume.inodes();
        let attr = match self.find_or_create(path)? {
            attr if attr.file_type == FileType::Directory && (self.write || self.append) => {
                return at(path, Err(VolumeError::IsDirectory(attr.ino)));
            }
            attr => {
                let write = self.write || self.append;
                at(path, inodes.check_open(attr.ino, write, self.append, self.truncate))?;
                at(path, inodes.open(attr.ino))?
            }
        };
        let file = self.opened(attr.ino, path);
        if self.truncate && attr.size > 0 {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Makes and opens a file without a name (O_TMPFILE). It is deleted when it is dropped, unless [`File::link`] has named it;
    /// from directory `dir` it inherits what a file there would.
    ///
    /// # Errors
    /// As open(2).
    pub fn open_unnamed(&self, dir: impl AsRef<Path>) -> Result<File<'v>> {
        let path = dir.as_ref();
        let inodes = self.volume.inodes();
        let parent = resolve(inodes, path, Follow::Yes)?;
        let attr = at(path, inodes.tmpfile(parent.ino, self.mode, self.volume.caller()))?;
        Ok(self.opened(attr.ino, path))
    }

    /// Opens a file once more that somebody has open, by its inode number ([`File::ino`]): whether it may be written to anywhere was asked then. It is not made, nor made empty.
    ///
    /// # Errors
    /// `ENOENT` when it is gone, and for inodes that are the file system's own.
    pub fn reopen(&self, ino: Ino) -> Result<File<'v>> {
        let path = PathBuf::from(format!("inode {ino}"));
        at(&path, self.volume.inodes().by_number(ino))?;
        at(&path, self.volume.inodes().open(ino))?;
        Ok(self.opened(ino, &path))
    }

    fn opened(&self, ino: Ino, path: &Path) -> File<'v> {
        File {
            volume: self.volume,
            ino,
            path: path.to_owned(),
            readable: self.read,
            writable: self.write || self.append,
            append: self.append,
            position: 0,
        }
    }

    fn find_or_create(&self, path: &Path) -> Result<Attr> {
        let inodes = self.volume.inodes();
        let create = || {
            let (parent, name) = resolve_parent(inodes, path)?;
            at(path, inodes.create(parent, name, self.mode, self.volume.caller()))
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
/// As with `std::fs::File`, dropping it makes nothing durable: [`File::sync_all`] does.
pub struct File<'v> {
    volume: &'v Volume,
    ino: Ino,
    path: PathBuf,
    readable: bool,
    writable: bool,
    append: bool,
    position: u64,
}

impl<'v> File<'v> {
    pub(crate) fn volume(&self) -> &'v Volume {
        self.volume
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same file, opened once more in the same way, from its beginning.
    ///
    /// # Errors
    /// As open(2).
    pub(crate) fn again(&self) -> Result<Self> {
        at(&self.path, self.volume.inodes().open(self.ino))?;
        Ok(Self { path: self.path.clone(), position: 0, ..*self })
    }
}

impl File<'_> {
    /// Its inode number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// What fstat(2) tells.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn metadata(&self) -> Result<Attr> {
        at(&self.path, self.volume.inodes().getattr(self.ino))
    }

    /// Reads at `offset`; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// As pread(2).
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.check_readable()?;
        at(&self.path, self.volume.inodes().read(self.ino, offset, buf))
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
        at(&self.path, self.volume.act(|inodes| inodes.write(self.ino, offset, data)))
    }

    /// Truncates the file or extends it with zeros.
    ///
    /// # Errors
    /// As ftruncate(2).
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.check_writable()?;
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        at(&self.path, self.volume.inodes().setattr(self.ino, &set)).map(|_| ())
    }

    /// Gives the file another name, or its first if it was opened without one.
    ///
    /// # Errors
    /// As linkat(2) with AT_EMPTY_PATH.
    pub fn link(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (parent, name) = resolve_parent(self.volume.inodes(), path)?;
        at(path, self.volume.act(|inodes| inodes.link(self.ino, parent, name))).map(|_| ())
    }

    /// Makes every earlier operation of the volume durable, this file's included.
    ///
    /// # Errors
    /// As fsync(2): after an error nothing may be taken as durable that was not so before.
    pub fn sync_all(&self) -> Result<()> {
        at(&self.path, self.volume.inodes().fsync(self.ino, false))
    }

    /// As [`File::sync_all`].
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        at(&self.path, self.volume.inodes().fsync(self.ino, true))
    }

    pub(crate) fn check_readable(&self) -> Result<()> {
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
        if self.writable {
            return Ok(());
        }
        at(&self.path, Err(VolumeError::Invalid("the file is not open for writing")))
    }
}

impl Read for File<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let offset = self.position;
        let n = self.read_at(buf, offset)?;
        self.position += n as u64;
        Ok(n)
    }
}

impl Write for File<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let offset = self.position;
        if self.append {
            self.check_writable()?;
            let begun = at(&self.path, self.volume.act(|inodes| inodes.append(self.ino, data)))?;
            self.position = begun + data.len() as u64;
            return Ok(data.len());
        }
        let n = self.write_at(data, offset)?;
        self.position += n as u64;
        Ok(n)
    }

    /// Nothing is buffered here.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for File<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let base = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::Current(d) => self.position.checked_add_signed(d),
            SeekFrom::End(d) => self.metadata()?.size.checked_add_signed(d),
        };
        let before_start =
            || std::io::Error::new(std::io::ErrorKind::InvalidInput, "a seek before the start of the file");
        self.position = base.ok_or_else(before_start)?;
        Ok(self.position)
    }
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.volume.inodes().release(self.ino) {
            tracing::error!("{}: closing: {e}", self.path.display());
        }
    }
}
