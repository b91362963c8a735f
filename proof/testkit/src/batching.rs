//! A store that takes batches, over any other. A batch is not one event there, so whoever cuts the power takes a store
//! that records it as one.

use crate::over::passed_on;
use ondol_block::{BlockStore, Caps, Result};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use ondol_journal::batch;
use ondol_volume::Image;

/// The most blocks of a batch: few enough to be filled.
pub(crate) const MOST: u64 = 512;

/// A store whose batches are writes and discards one after the other.
pub(crate) struct Batching {
    inner: Arc<dyn BlockStore>,
    most: u64,
    submitted: AtomicU64,
}

impl Batching {
    /// Over a store that holds an image. A batch has room for a quarter of the image's journal, as a transaction of
    /// engines that have a log: what tests try to be too much for these is too much for it.
    pub(crate) fn new(inner: Arc<dyn BlockStore>) -> Self {
        let image = Image::open(inner.clone()).expect("an image");
        let journal: u64 = image.journal_map().map_or(0, |runs| runs.iter().map(|(_, len)| *len).sum());
        let most = (journal / 4).clamp(batch::LEAST_BLOCKS, MOST);
        Self { inner, most: most * u64::from(image.superblock().block_size()), submitted: AtomicU64::new(0) }
    }
}

impl BlockStore for Batching {
    passed_on!();

    fn caps(&self) -> Caps {
        Caps { batch: Some(self.most), swap: None, ..self.inner.caps() }
    }

    /// A byte that is in it twice is a mistake of the caller.
    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        let written = writes.iter().map(|(offset, bytes)| (*offset, bytes.len() as u64));
        let mut ranges: Vec<(u64, u64)> = written.chain(discards.iter().copied()).collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} in one batch");
        }
        for (offset, bytes) in writes {
            self.inner.write(*offset, bytes)?;
        }
        for (offset, len) in discards {
            self.inner.discard(*offset, *len)?;
        }
        Ok(self.submitted.fetch_add(1, SeqCst) + 1)
    }

    fn settle(&self, number: u64) -> Result<()> {
        assert!(number <= self.submitted.load(SeqCst), "batch {number} was not submitted");
        self.inner.flush()
    }
}
