//! Two stores as one: a volume and the device of its journal.

use crate::{BlockStats, BlockStore, Caps, Result, check_range};
use ondol_env::counters::Counts;
use ondol_env::sync::Arc;
use std::io::IoSlice;

/// Two stores behind each other. A transfer lies in one of them; a flush covers both.
pub struct JoinedStore {
    first: Arc<dyn BlockStore>,
    second: Arc<dyn BlockStore>,
    /// Where the second begins.
    base: u64,
}

impl JoinedStore {
    /// `second` begins at the first multiple of `align` (a power of two) behind `first`.
    pub fn new(first: Arc<dyn BlockStore>, second: Arc<dyn BlockStore>, align: u64) -> Self {
        let base = first.size().next_multiple_of(align.max(1));
        Self { first, second, base }
    }

    /// Where the second store begins, in bytes.
    pub fn base(&self) -> u64 {
        self.base
    }

    fn part(&self, op: &'static str, offset: u64, len: u64) -> Result<(&dyn BlockStore, u64)> {
        let (store, at) = match offset.checked_sub(self.base) {
            Some(at) => (&*self.second, at),
            None => (&*self.first, offset),
        };
        check_range(op, store.name(), at, len, store.size())?;
        Ok((store, at))
    }
}

impl BlockStore for JoinedStore {
    fn name(&self) -> &str {
        self.first.name()
    }

    fn size(&self) -> u64 {
        self.base + self.second.size()
    }

    fn caps(&self) -> Caps {
        let (a, b) = (self.first.caps(), self.second.caps());
        Caps {
            atomic_unit: a.atomic_unit.min(b.atomic_unit),
            durable_flush: a.durable_flush && b.durable_flush,
            swap: None,
            batch: None,
            read_only: a.read_only || b.read_only,
            device: a.device.max(b.device),
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (store, at) = self.part("read", offset, buf.len() as u64)?;
        store.read(at, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len: usize = bufs.iter().map(|b| b.len()).sum();
        let (store, at) = self.part("write", offset, len as u64)?;
        store.write_vectored(at, bufs)
    }

    fn flush(&self) -> Result<()> {
        self.first.flush()?;
        self.second.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        let (store, at) = self.part("discard", offset, len)?;
        store.discard(at, len)
    }

    fn stats(&self) -> BlockStats {
        self.first.stats().plus(&self.second.stats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RamStore;

    #[test]
    fn each_byte_lies_in_one_of_them() {
        let (a, b) = (Arc::new(RamStore::new(1000)), Arc::new(RamStore::new(512)));
        let store = JoinedStore::new(a.clone(), b.clone(), 512);
        assert_eq!((store.base(), store.size()), (1024, 1536));
        store.write(990, &[1; 10]).unwrap();
        store.write(1024, &[2; 512]).unwrap();
        assert!(a.to_bytes().ends_with(&[1; 10]));
        assert_eq!(b.to_bytes(), [2; 512]);
        assert!(store.write(995, &[0; 10]).is_err(), "across the end");
        let mut buf = [0; 4];
        store.read(1532, &mut buf).unwrap();
        assert_eq!(buf, [2; 4]);
        assert!(store.read(1533, &mut buf).is_err());
    }
}
