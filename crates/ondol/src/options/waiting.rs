//! How much may wait to be written.

use super::{JournalEngine, Options};
use crate::memory::Shares;
use ondol_journal::Drains;

/// Bytes that wait for a batch, unless told otherwise: nothing measures there how fast they go up.
const BATCH: u64 = 32 << 20;

impl Options {
    /// Bytes that may wait however fast they drain.
    pub(crate) fn dirty(&self) -> u64 {
        let quarter = Shares::of(self.cache_bytes).most_dirty;
        let own = if self.journal == Some(JournalEngine::Batch) { quarter.min(BATCH) } else { quarter };
        self.dirty_bytes.unwrap_or(own)
    }

    /// Lets up to `bytes` bytes wait to be written, instead of a quarter of the cache; less where the medium drains less in a tenth of a second, or in a second as long as
    /// no program syncs. The option `dirty=` takes 64 KiB or more.
    #[must_use]
    pub fn with_dirty(mut self, bytes: u64) -> Self {
        self.dirty_bytes = Some(bytes);
        self
    }

    /// Lets `bytes` bytes of new data wait for their commit before they are written home, instead of as many as the medium drains in a stated time. For tests.
    #[must_use]
    pub fn with_kept(mut self, bytes: u64) -> Self {
        self.kept_bytes = Some(bytes);
        self
    }

    /// Says how fast the medium drains what waits, which is not measured then, and of how little that may be: nanoseconds for a byte, and bytes. For tests.
    #[must_use]
    pub fn with_drains(mut self, byte_ns: u64, least: u64) -> Self {
        (self.drains, self.kept_bytes) = (Some(Drains { least, byte_ns }), None);
        self
    }
}
