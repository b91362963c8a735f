//! Pages that are lent as slices: nobody stores to one as long as it is pinned.
//!
//! A store to a pinned page is refused, and a page that is being stored to is not pinned (`pinnable.rs`). So a slice
//! never lies over bytes that change, whatever callers do. The argument: `docs/design/direct.md`.
#![expect(unsafe_code, reason = "lends stored bytes")]

use crate::{Nvm, NvmError, PAGE, Result};
use ondol_env::sync::Arc;
use std::ops::{Deref, Range};

/// Pages of a medium, side by side, that nobody stores to as long as this is there: a slice of the stored bytes. It
/// holds the medium, and its lock.
#[derive(Debug)]
pub struct Pinned {
    nvm: Arc<Nvm>,
    bytes: Range<u64>,
}

impl Pinned {
    /// Where the first byte lies in the medium.
    pub fn place(&self) -> u64 {
        self.bytes.start
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (at, len) = (self.bytes.start as usize, (self.bytes.end - self.bytes.start) as usize);
        // SAFETY: the bytes lie in the mapping (`Nvm::pin` has looked), which lives as long as `nvm`; every bit pattern
        // is a byte. Nobody changes them while the slice lives: each store of this process to these pages goes through
        // `Pinnable::store`, which finds the pins that `self` holds and refuses, and those before have ended, visibly,
        // since `Pinnable::pin` found none. Other processes have no right to store: the medium is locked, and
        // `Pinnable` is not made for one that is shared.
        unsafe { std::slice::from_raw_parts(self.nvm.mapped.words().as_ptr().byte_add(at).cast(), len) }
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.nvm.pinnable.iter().for_each(|pages| pages.unpin(&self.bytes));
    }
}

impl Nvm {
    /// Pins whole pages, `len` bytes from `offset` on: nobody stores to them until what is returned is dropped, and
    /// stores are refused ([`NvmError::Pinned`]). `None` where pages cannot be pinned: outside of the area `page-data`
    /// of a pool, in a medium that others store to, while somebody stores there, or with some 30,000 pins of a page.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`; `Poisoned` where some of it is lost.
    pub fn pin(self: &Arc<Self>, offset: u64, len: u64) -> Result<Option<Pinned>> {
        let bytes = self.mapped.check("pin", offset, len)?;
        if !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(NvmError::Misaligned { name: self.name().into(), offset });
        }
        let Some(pages) = &self.pinnable else { return Ok(None) };
        if len == 0 || !pages.pin(&bytes) {
            return Ok(None);
        }
        let pinned = Pinned { nvm: self.clone(), bytes: bytes.clone() };
        // Behind the pin, since nobody stores to what is lost, and so heals it, any more.
        self.mapped.require_whole(bytes)?;
        Ok(Some(pinned))
    }

    /// Whether pages can be pinned at all: a pool has an area of them, and nobody else stores to the medium.
    pub fn can_pin(&self) -> bool {
        self.pinnable.is_some() && !self.is_read_only()
    }

    /// Whether some page that has one of these bytes is pinned.
    pub fn is_pinned(&self, offset: u64, len: u64) -> bool {
        self.pinnable.as_ref().is_some_and(|pages| pages.has_pinned(&(offset..offset.saturating_add(len))))
    }
}
