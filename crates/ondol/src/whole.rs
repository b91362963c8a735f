//! Whole files by path: read, written, copied.

use crate::file::{File, OpenOptions};
use crate::path::{Follow, at, resolve};
use crate::{Error, FileType, Result, Volume};
use ondol_volume::Error as VolumeError;
use std::path::Path;

/// Bytes that are copied at once, at most.
const COPY: u64 = 1 << 30;

impl Volume {
    /// The whole content of a file.
    ///
    /// # Errors
    /// As open(2) and read(2); `FileTooBig` for what memory does not hold.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let attr = resolve(self.usable()?, path, Follow::Yes)?;
        let (mut bytes, size) = (Vec::new(), usize::try_from(attr.size).unwrap_or(usize::MAX));
        at(path, bytes.try_reserve_exact(size).map_err(|_| VolumeError::FileTooBig))?;
        bytes.resize(size, 0);
        let n = at(path, self.usable()?.files().read(attr.ino, 0, &mut bytes))?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// The whole content of a file, which is UTF-8 text.
    ///
    /// # Errors
    /// As [`Volume::read`]; [`Error::NotText`] for other bytes.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|e| Error::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() })
    }

    /// Creates a file or replaces its content. Not atomic beyond the atomic size: see [`Volume::transaction`] for
    /// replacing a file as a whole.
    ///
    /// # Errors
    /// As open(2) and write(2).
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let file = self.create(path)?;
        file.write_all_at(content.as_ref(), 0)
    }

    /// Copies content and permission bits of a regular file, as `std::fs::copy`: `to` is created, or its content
    /// replaced. Holes stay holes. Returns how many bytes were copied. A sequence of atomic operations; durable with
    /// the next [`Volume::sync`].
    ///
    /// ```
    /// # use ondol::{FormatOptions, Volume};
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// volume.write("/draft", "warm floor")?;
    /// assert_eq!(volume.copy("/draft", "/fair")?, 10);
    /// assert_eq!(volume.read_to_string("/fair")?, "warm floor");
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As open(2) and copy_file_range(2); `EINVAL` when `from` is no regular file, or both are one file. After another
    /// error `to` has a beginning of what is copied.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
        let (from_path, to_path) = (from.as_ref(), to.as_ref());
        let from = self.open_file(from_path)?;
        let metadata = from.metadata()?;
        if metadata.file_type() != FileType::Regular {
            return at(from_path, Err(VolumeError::Invalid("only regular files can be copied")));
        }
        let perm = metadata.permissions();
        let to = OpenOptions::new().write(true).create(true).mode(perm).open(self, to_path)?;
        if from.ino() == to.ino() {
            return at(to_path, Err(VolumeError::Invalid("a file cannot be copied onto itself")));
        }
        to.set_len(0)?;
        let copied = copy_all(&from, &to)?;
        to.set_permissions(perm)?;
        Ok(copied)
    }
}

fn copy_all(from: &File, to: &File) -> Result<u64> {
    let mut done = 0;
    loop {
        match from.copy_range(done, to, done, COPY)? {
            0 => return Ok(done),
            n => done += n,
        }
    }
}
