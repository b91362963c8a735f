//! A store in plain memory, for tests and for volumes that live as long as the process.

use crate::batches::Batches;
use crate::{BlockStats, BlockStore, Caps, Counters, DeviceClass, Result, check_range};
use ondol_env::sync::RwLock;
use std::io::IoSlice;

/// Bytes in memory; `flush` counts and does nothing else.
#[derive(Debug)]
pub struct RamStore {
    bytes: RwLock<Vec<u8>>,
    size: u64,
    counters: Counters,
    batches: Batches,
}

impl RamStore {
    /// `size` zero bytes.
    pub fn new(size: usize) -> Self {
        Self::from_bytes(vec![0; size])
    }

    /// A store that begins with `bytes`.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let (size, bytes) = (bytes.len() as u64, RwLock::new(bytes));
        Self { size, bytes, counters: Counters::default(), batches: Batches::default() }
    }

    /// Takes batches of at most `most` bytes from now on.
    #[must_use]
    pub fn with_batches(self, most: u64) -> Self {
        Self { batches: Batches::of(most), ..self }
    }

    /// A copy of the whole content.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.read().clone()
    }

    fn range(&self, op: &'static str, offset: u64, len: usize) -> Result<std::ops::Range<usize>> {
        let start = check_range(op, self.name(), offset, len as u64, self.size)?;
        Ok(start..start + len)
    }
}

impl BlockStore for RamStore {
    fn name(&self) -> &str {
        "memory"
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn caps(&self) -> Caps {
        Caps {
            atomic_unit: 512,
            durable_flush: false,
            swap: None,
            batch: self.batches.most,
            read_only: false,
            device: DeviceClass::Memory,
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let range = self.range("read", offset, buf.len())?;
        self.counters.read(buf.len());
        buf.copy_from_slice(&self.bytes.read()[range]);
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = bufs.iter().map(|b| b.len()).sum();
        let mut at = self.range("write", offset, len)?.start;
        self.counters.write(len);
        let mut bytes = self.bytes.write();
        for buf in bufs {
            bytes[at..at + buf.len()].copy_from_slice(buf);
            at += buf.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.counters.flush();
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        let range = self.range("discard", offset, len as usize)?;
        self.counters.discard(len);
        self.bytes.write()[range].fill(0);
        Ok(true)
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        let len = self.batches.check(self, writes, discards)?;
        self.counters.write(len as usize);
        discards.iter().for_each(|(_, len)| self.counters.discard(*len));
        let mut all = self.bytes.write();
        for (offset, bytes) in writes {
            all[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        for (offset, len) in discards {
            all[*offset as usize..][..*len as usize].fill(0);
        }
        Ok(self.batches.number())
    }

    fn settle(&self, number: u64) -> Result<()> {
        self.counters.flush();
        self.batches.settle(self.name(), number)
    }

    fn stats(&self) -> BlockStats {
        self.counters.snapshot()
    }
}
