//! A write buffer in NVM in front of the files of a directory, on any file system: papers/2, in process.
//!
//! A write is durable when the call returns, without a system call if the pool lies in NVM; the file gets it later.
//! `docs/write-buffer.md` has the promise and the format.
//!
//! ```
//! # fn main() -> ondol::Result<()> {
//! # let place = tempfile::tempdir().unwrap();
//! # let (pool, dir) = (place.path().join("log.pool"), place.path());
//! let (buffer, _) = ondol::buffer::WriteBuffer::open(&pool, 16 << 20, dir, false)?;
//! let log = buffer.open_file(&ondol::buffer::name("log")?, true)?;
//! log.write_at(log.size(), b"warm floor\n")?;
//! buffer.settle()?;
//! assert_eq!(std::fs::read(dir.join("log")).unwrap(), b"warm floor\n");
//! # Ok(())
//! # }
//! ```

use crate::background;
use crate::machine::pools;
use crate::{Error, Result};
use ondol_env::sync::Arc;
use ondol_env::{Background, System};
use ondol_medium::{NvmOptions, Pool, Whose};
use ondol_write_buffer::{DirectoryHome, HomeError, OnDamage, Options};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use ondol_write_buffer::{Buffer, BufferError, BufferStats, Damage, File, Identity, Report};

/// An open write buffer, with the threads that bring what it holds to the files. Dropping it leaves the rest in the
/// pool, for the next [`WriteBuffer::open`]; [`Buffer::settle`] brings everything to the files first.
#[derive(Debug)]
pub struct WriteBuffer {
    // The threads end before what they step.
    _background: Background<BufferError>,
    buffer: Buffer,
}

impl Deref for WriteBuffer {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl WriteBuffer {
    /// Opens the buffer in the pool at `pool` for the files below `dir`; makes a pool of `size` bytes if there is none.
    /// What an earlier use has left in the pool is written to the files first, with this process's rights. With
    /// `force`, damaged writes are given up.
    ///
    /// A pool belongs to one directory: the caller names the same one each time, and nobody else changes its files
    /// meanwhile.
    ///
    /// # Errors
    /// The pool is in use, damaged, too small, or another user's; `dir` is no directory; a file cannot be written.
    pub fn open(pool: impl AsRef<Path>, size: u64, dir: impl AsRef<Path>, force: bool) -> Result<(Self, Report)> {
        let dir = dir.as_ref();
        // Before a pool is made.
        let home = DirectoryHome::new(dir).map_err(|e| of_dir(dir, e))?;
        // It says which bytes go into which files, and holds what private files hold.
        let mine = NvmOptions { whose: Whose::Mine, ..NvmOptions::default() };
        let on_damage = if force { OnDamage::GoOn } else { OnDamage::Refuse };
        let options = Options { on_damage, ..Options::default() };
        let allot = |pool: &mut Pool| Ok(options.shape.allot(pool)?);
        let pool = pools::open_or_make(pool.as_ref(), size, &mine, &allot)?;
        let (buffer, report) = Buffer::open(&pool, Arc::new(home), Arc::new(System), &options)?;
        Ok((Self { _background: background::start(buffer.steps()), buffer }, report))
    }
}

fn of_dir(dir: &Path, e: std::io::Error) -> Error {
    match name(dir) {
        Ok(file) => BufferError::from(HomeError { what: "use", file, source: Arc::new(e) }).into(),
        Err(too_long) => too_long,
    }
}

/// The name of a file: its path, relative to the directory.
///
/// # Errors
/// It has no bytes, or more than 432.
pub fn name(path: impl AsRef<Path>) -> Result<Identity> {
    Ok(Identity::new(path.as_ref().as_os_str().as_bytes())?)
}
