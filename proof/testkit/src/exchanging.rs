//! A store whose blocks can be exchanged, over any other: by copies. What is exchanged together is not one event, so
//! whoever cuts the power takes a page table.

use crate::over::passed_on;
use ondol_block::{BlockStore, Caps, Result, Swaps};
use ondol_env::sync::Arc;
use ondol_volume::Image;

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
    passed_on!();

    fn caps(&self) -> Caps {
        Caps { swap: Some(Swaps { block: self.block, pairs: PAIRS, bytes: 1024 }), batch: None, ..self.inner.caps() }
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
}
