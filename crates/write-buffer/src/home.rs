//! Where the bytes of files live for good, behind a small trait.

mod directory;

pub use directory::DirectoryHome;

use crate::{BufferError, Result};
use ondol_env::sync::Arc;
use std::fmt;
use std::io;

/// What a home finds a file by, also after a restart: 1 to 432 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Arc<[u8]>);

impl Identity {
    /// Bytes that one may have.
    pub const MAX: usize = 432;

    /// An identity of these bytes.
    ///
    /// # Errors
    /// `Identity`: none, or too many.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        match bytes.len() {
            1..=Self::MAX => Ok(Self(bytes.into())),
            len => Err(BufferError::Identity(len)),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Files by identity. While a buffer stands before them, nobody else changes them.
pub trait Home: Send + Sync {
    /// Opens a file; makes it if it is not there and `make` is set. `None`: it is not there.
    ///
    /// # Errors
    /// The operating system's.
    fn open(&self, identity: &Identity, make: bool) -> io::Result<Option<Arc<dyn HomeFile>>>;

    /// Removes a file. That there is none is no error. Durable with [`Home::sync_names`].
    ///
    /// # Errors
    /// The operating system's.
    fn remove(&self, identity: &Identity) -> io::Result<()>;

    /// Makes every [`Home::remove`] that has returned durable.
    ///
    /// # Errors
    /// The operating system's; which of them are durable is not known then.
    fn sync_names(&self) -> io::Result<()>;
}

/// One file of a home. The buffer never writes, or cuts, overlapping parts of a file at once.
pub trait HomeFile: Send + Sync {
    /// Bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` from byte `offset`; with zeros behind the end.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes`; the file grows if need be, with zeros in between. Nothing is durable before a
    /// [`HomeFile::sync`] that begins later succeeds.
    ///
    /// # Errors
    /// The operating system's; any part may be written then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or makes it longer with zeros.
    ///
    /// # Errors
    /// The operating system's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes contents and length durable, and that the file is found by its identity.
    ///
    /// # Errors
    /// The operating system's; nothing is known then of what was not durable before.
    fn sync(&self) -> io::Result<()>;
}
