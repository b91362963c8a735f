//! A volume in object storage that is open: what is given back when it ends.

use super::BucketInfo;
use super::mark::Mark;
use crate::Result;
use crate::info::uuid_text;
use ondol_block::{BlockStats, BlockStore, Caps, Result as BlockResult};
use ondol_env::sync::Arc;
use ondol_object_home::Home;
use std::io::IoSlice;

/// See the module documentation. Dropping it closes it, and logs an error where [`Held::close`] would return it.
pub(crate) struct Held {
    home: Home,
    mark: Mark,
}

impl Held {
    pub(super) fn new(home: Home, mark: Mark) -> Self {
        Self { home, mark }
    }

    pub(crate) fn store(self: Arc<Self>) -> Arc<dyn BlockStore> {
        self
    }

    /// Says that everything is written, and gives the lease back. Nothing can be written afterwards. Done once is enough.
    ///
    /// # Errors
    /// What was not durable may be lost; or the lease stays until it runs out.
    pub(crate) fn close(&self) -> Result<()> {
        self.home.close()?;
        self.mark.close();
        Ok(())
    }

    /// Makes a snapshot of what was written before.
    pub(crate) fn snapshot(&self, name: &str) -> Result<()> {
        Ok(self.home.snapshot(name)?)
    }

    /// Describes the home.
    pub(crate) fn info(&self) -> BucketInfo {
        BucketInfo {
            uuid: uuid_text(&self.home.uuid()),
            epoch: self.home.epoch(),
            chunk_bytes: self.home.chunk().bytes() as u64,
            size: self.home.size(),
            closed: self.home.was_closed(),
            snapshots: None,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            tracing::warn!("{} was not closed: {e}", self.home.name());
        }
    }
}

impl BlockStore for Held {
    fn name(&self) -> &str {
        self.home.name()
    }

    fn size(&self) -> u64 {
        self.home.size()
    }

    fn caps(&self) -> Caps {
        self.home.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> BlockResult<()> {
        self.home.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> BlockResult<()> {
        self.home.write_vectored(offset, bufs)
    }

    fn flush(&self) -> BlockResult<()> {
        self.home.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> BlockResult<bool> {
        self.home.discard(offset, len)
    }

    fn lengthen(&self, size: u64) -> BlockResult<()> {
        self.home.lengthen(size)
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> BlockResult<u64> {
        self.home.submit(writes, discards)
    }

    fn settle(&self, number: u64) -> BlockResult<()> {
        self.home.settle(number)
    }

    fn stats(&self) -> BlockStats {
        self.home.stats()
    }
}
