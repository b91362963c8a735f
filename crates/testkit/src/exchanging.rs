//! A store whose blocks can be exchanged, over any other: by copies. What is exchanged together is not one event, so whoever cuts the power takes a page table.

use ondol_block::{BlockStats, BlockStore, Caps, Result, Swaps};
use ondol_env::sync::Arc;
use ondol_volume::Image;
use std::io::IoSlice;

/// Blocks that one exchange can have: few, so that checkpoints are split.
const PAIRS: u64 = 40;

/// A store over an image that exchanges blocks of the volume's size.
pub(crate) struct Exchanging {
    inner: Arc<dyn BlockStore>,
    block: u32,
}

impl Exchanging {
    /// Over a store that holds an image.
    pub(crate) fn new(inner: Arc<dyn BlockStore>) -> Self {
        let block = Image::open(inner.clone()).expect("an image").superblock().block_size();
        Self { inner, block }
    }
}

impl BlockStore for Exchanging {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        Caps { swap: Some(Swaps { block: self.block, pairs: PAIRS, bytes: 1024 }), ..self.inner.caps() }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buf)
    }

    fn with(&self, offset: u64, len: usize, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.inner.with(offset, len, f)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.inner.write_vectored(offset, bufs)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        self.inner.discard(offset, len)
    }

    fn exchange(&self, pairs: &[(u64, u64)], offset: u64, bytes: &[u8]) -> Result<()> {
        assert!(pairs.len() as u64 <= PAIRS, "{} pairs at once", pairs.len());
        let size = u64::from(self.block);
        let (mut one, mut other) = (vec![0; size as usize], vec![0; size as usize]);
        for (a, b) in pairs {
            self.inner.read(a * size, &mut one)?;
            self.inner.read(b * size, &mut other)?;
            self.inner.write(a * size, &other)?;
            self.inner.write(b * size, &one)?;
        }
        self.inner.write(offset, bytes)?;
        self.inner.flush()
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}
