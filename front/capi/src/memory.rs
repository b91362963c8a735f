//! Where C points to: strings, bytes to be read, and room to be written to.

use crate::call::{Failure, Result};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A string of C's; NULL where none is given.
#[repr(transparent)]
pub struct Text(*const c_char);

/// Bytes that C lends.
#[repr(transparent)]
pub struct Bytes(*const c_void);

/// Room that C lends.
#[repr(transparent)]
pub struct Room(*mut c_void);

impl Text {
    fn bytes(&self) -> Option<&[u8]> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: only C makes one of these, and the header asks it for a string that ends with a zero byte and is
        // valid for the call.
        Some(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// As bytes, which nobody else looks into.
    pub(crate) fn needed(&self, name: &str) -> Result<&OsStr> {
        let bytes = self.bytes().ok_or_else(|| Failure::invalid(format!("{name} is NULL")))?;
        Ok(OsStr::from_bytes(bytes))
    }

    pub(crate) fn path(&self, name: &str) -> Result<&Path> {
        self.needed(name).map(Path::new)
    }

    /// As words, if there are any.
    pub(crate) fn words(&self, name: &str) -> Result<Option<&str>> {
        let text = self.bytes().map(std::str::from_utf8).transpose();
        text.map_err(|_| Failure::invalid(format!("{name} is no UTF-8 text")))
    }
}

/// How long a slice may be.
fn checked(is_null: bool, len: usize) -> Result<usize> {
    match len {
        0 => Ok(0),
        _ if is_null => Err(Failure::new(libc::EFAULT, "the buffer is NULL")),
        _ if isize::try_from(len).is_err() => Err(Failure::invalid("the buffer is longer than memory can be")),
        _ => Ok(len),
    }
}

impl Bytes {
    /// All `len` of them.
    pub(crate) fn slice(&self, len: usize) -> Result<&[u8]> {
        match checked(self.0.is_null(), len)? {
            0 => Ok(&[]),
            // SAFETY: only C makes one of these, and the header asks it for that many bytes, valid for the call; not
            // NULL, and no longer than memory.
            len => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), len) }),
        }
    }
}

impl Room {
    /// For `len` bytes.
    pub(crate) fn slice(&mut self, len: usize) -> Result<&mut [u8]> {
        match checked(self.0.is_null(), len)? {
            0 => Ok(&mut []),
            // SAFETY: only C makes one of these, and the header asks it for room for that many bytes, for the call's
            // use alone; not NULL, and no longer than memory. Whatever C has left there are bytes.
            len => Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast(), len) }),
        }
    }
}
