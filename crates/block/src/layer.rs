//! A layer as a block store: the medium after the power is back.

use crate::batches::Batches;
use crate::{BlockStats, BlockStore, Caps, DeviceClass, Result, check_range};
use ondol_env::sync::RwLock;
use ondol_power::Layer;
use std::io::IoSlice;

/// A store that begins with the contents of a layer and leaves that as it is. It counts nothing: it is read millions of
/// times.
#[derive(Debug)]
pub struct LayerStore {
    layer: RwLock<Layer>,
    size: u64,
    batches: Batches,
}

impl LayerStore {
    /// A store that begins with `layer`.
    pub fn new(layer: Layer) -> Self {
        Self { size: layer.len() as u64, layer: RwLock::new(layer), batches: Batches::default() }
    }

    /// Takes batches of at most `most` bytes from now on.
    #[must_use]
    pub fn with_batches(self, most: u64) -> Self {
        Self { batches: Batches::of(most), ..self }
    }

    /// What it holds now.
    pub fn layer(&self) -> Layer {
        self.layer.read().clone()
    }

    fn start(&self, op: &'static str, offset: u64, len: usize) -> Result<usize> {
        check_range(op, self.name(), offset, len as u64, self.size)
    }
}

impl BlockStore for LayerStore {
    fn name(&self) -> &str {
        "crash state"
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
        let at = self.start("read", offset, buf.len())?;
        self.layer.read().read(at, buf);
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = bufs.iter().map(|b| b.len()).sum();
        let mut at = self.start("write", offset, len)?;
        let mut layer = self.layer.write();
        for buf in bufs {
            layer.write(at, buf);
            at += buf.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        let at = self.start("discard", offset, len as usize)?;
        self.layer.write().zero(at, len as usize);
        Ok(true)
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        let _bytes = self.batches.check(self, writes, discards)?;
        let mut layer = self.layer.write();
        writes.iter().for_each(|(offset, bytes)| layer.write(*offset as usize, bytes));
        discards.iter().for_each(|(offset, len)| layer.zero(*offset as usize, *len as usize));
        Ok(self.batches.number())
    }

    fn settle(&self, number: u64) -> Result<()> {
        self.batches.settle(self.name(), number)
    }

    fn stats(&self) -> BlockStats {
        BlockStats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_reads_what_was_written_and_leaves_the_layer() {
        let layer = Layer::new(vec![7; 8192]);
        let store = LayerStore::new(layer.clone());
        store.write(4000, &[1; 200]).unwrap();
        let mut buf = [0; 4];
        store.read(4198, &mut buf).unwrap();
        assert_eq!((buf, layer.to_bytes()[4000]), ([1, 1, 7, 7], 7));
        assert!(store.read(8190, &mut buf).is_err());
        assert!(store.discard(4199, 3000).unwrap());
        store.read(4197, &mut buf).unwrap();
        assert_eq!((buf, layer.to_bytes()[7000]), ([1, 1, 0, 0], 7));
    }
}
