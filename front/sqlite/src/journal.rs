//! Rollback journals and super-journals. A transaction is made by the volume as one, so a crash needs no journal; SQLite reads its own again where it rolls back. They are kept in memory, and nobody
//! else ever finds one.

use crate::call::code;
use crate::codes::{IOERR_DELETE, IOERR_SHORT_READ, Result};
use crate::database::{self, Pending};
use crate::images::Image;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// A file in memory.
#[derive(Default)]
pub(crate) struct InMemory {
    bytes: Vec<u8>,
}

impl InMemory {
    /// # Errors
    /// `IOERR_SHORT_READ` where it ends before; zeros are in the rest then.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let n = buf.len().min(self.bytes.len() - from);
        buf[..n].copy_from_slice(&self.bytes[from..from + n]);
        buf[n..].fill(0);
        if n == buf.len() { Ok(()) } else { Err(IOERR_SHORT_READ) }
    }

    pub(crate) fn write(&mut self, data: &[u8], offset: u64) {
        let from = offset as usize;
        if self.bytes.len() < from + data.len() {
            self.bytes.resize(from + data.len(), 0);
        }
        self.bytes[from..from + data.len()].copy_from_slice(data);
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.bytes.truncate(size as usize);
        if size == 0 {
            // After a large transaction nothing is kept of it.
            self.bytes = Vec::new();
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// A commit of several databases: what each of them has pending, until the super-journal is deleted.
#[derive(Default)]
pub(crate) struct Super {
    pub(crate) file: Mutex<InMemory>,
    pub(crate) held: Mutex<Vec<Held>>,
}

/// What one database has pending in a commit of several.
pub(crate) struct Held {
    pub(crate) image: Weak<Image>,
    pub(crate) pending: Arc<Mutex<Pending>>,
}

impl Super {
    /// Makes what all databases have pending: those of one image as one, and durable.
    ///
    /// # Errors
    /// As [`ondol::inodes::Inodes::apply_batches`]. Nothing of that image has changed then.
    pub(crate) fn commit(&self) -> Result<()> {
        let mut held = std::mem::take(&mut *self.held.lock());
        while let Some(first) = held.first() {
            let image = first.image.clone();
            let (these, others): (Vec<_>, _) = held.into_iter().partition(|held| held.image.ptr_eq(&image));
            held = others;
            // Who has closed its database has given up.
            let Some(image) = image.upgrade() else { continue };
            let mut pending: Vec<_> = these.iter().map(|held| held.pending.lock()).collect();
            database::apply(&image, &mut pending, IOERR_DELETE)?;
            image.volume().sync().map_err(|e| code(&e, IOERR_DELETE))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_a_file() {
        let mut file = InMemory::default();
        file.write(&[1, 2, 3], 5);
        let mut buf = [9; 10];
        assert_eq!(file.read(&mut buf, 0), Err(IOERR_SHORT_READ));
        assert_eq!((buf, file.len()), ([0, 0, 0, 0, 0, 1, 2, 3, 0, 0], 8));
        file.truncate(7);
        file.truncate(20);
        assert_eq!((file.read(&mut buf[..2], 5), file.len()), (Ok(()), 7));
        assert_eq!(file.read(&mut buf, 1 << 40), Err(IOERR_SHORT_READ));
        file.truncate(0);
        assert_eq!(file.len(), 0);
    }
}
