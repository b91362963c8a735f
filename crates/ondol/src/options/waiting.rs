//! How much may wait to be written.

use super::{JournalEngine, Options};
use crate::memory::Shares;
use ondol_block::{BlockStore, DeviceClass};

/// Bytes that wait for a batch, unless told otherwise: nothing measures there how fast they go up.
const BATCH: u64 = 32 << 20;

impl Options {
    /// The class of the device below an image on `store`.
    pub(crate) fn device_of(&self, store: &dyn BlockStore) -> DeviceClass {
        self.journal.device.unwrap_or(store.caps().device)
    }

    /// Bytes that may wait however fast they are written.
    pub(crate) fn dirty(&self) -> u64 {
        let quarter = Shares::of(self.image.cache_bytes).most_dirty;
        let own = if self.journal.engine == Some(JournalEngine::Batch) { quarter.min(BATCH) } else { quarter };
        self.journal.dirty_bytes.unwrap_or(own)
    }

    /// Lets up to `bytes` bytes wait to be written, instead of a quarter of the cache; less where the device writes
    /// less in a tenth of a second, and at most 32 MiB. The option `dirty=` takes 64 KiB or more.
    #[must_use]
    pub fn with_dirty(mut self, bytes: u64) -> Self {
        self.journal.dirty_bytes = Some(bytes);
        self
    }

    /// Lets `bytes` bytes of new data wait for their commit before they are written home, instead of as many as the
    /// device writes in a stated time. For tests.
    #[must_use]
    pub fn with_kept(mut self, bytes: u64) -> Self {
        self.journal.kept_bytes = Some(bytes);
        self
    }

    /// Says of which class the device below the image is, instead of what the system says (`device=`).
    #[must_use]
    pub fn with_device(mut self, device: DeviceClass) -> Self {
        self.journal.device = Some(device);
        self
    }
}
