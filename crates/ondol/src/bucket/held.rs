//! A volume in object storage that is open: what is given back when it ends.

use super::mark::Mark;
use super::{BucketInfo, DiskCacheInfo, LagInfo, LeaseInfo, RequestInfo, StoredInfo};
use crate::Result;
use crate::words::uuid_text;
use ondol_block::{BlockStats, BlockStore, Caps, Result as BlockResult};
use ondol_env::sync::Arc;
use ondol_object_home::{Home, Requests, Usage};
use std::io::IoSlice;
use std::time::Duration;

/// A store that does not list objects for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

fn stored(usage: &Usage) -> StoredInfo {
    let (all, data, log) = (usage.total(), usage.data.bytes, usage.log.bytes);
    StoredInfo {
        objects: all.objects,
        bytes: all.bytes,
        data_bytes: data,
        log_bytes: log,
        other_bytes: all.bytes - data - log,
    }
}

fn asked(requests: &Requests) -> RequestInfo {
    RequestInfo {
        seconds: requests.seconds,
        puts: requests.puts + requests.parts,
        gets: requests.gets,
        heads: requests.heads,
        lists: requests.lists,
        deletes: requests.deletes,
        copies: requests.copies,
        uploads: requests.uploads,
        up: requests.up,
        down: requests.down,
        repeated: requests.repeated,
        failed: requests.failed,
        throttled: requests.throttled,
        unanswered_seconds: requests.unanswered,
    }
}

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

    /// Says that everything is written, and gives the lease back. Nothing can be written afterwards. Done once is
    /// enough.
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
            lag: self.lag(),
            lease: self
                .home
                .lease()
                .map(|lease| LeaseInfo { length_seconds: lease.length.as_secs(), age_seconds: lease.age.as_secs() }),
            stored: None,
            requests: Some(asked(&self.home.requests())),
            disk_cache: self.home.disk_use().map(|disk| DiskCacheInfo {
                room: disk.room,
                bytes: disk.bytes,
                hits: disk.hits,
                misses: disk.misses,
            }),
        }
    }

    /// Adds what it takes in its bucket, for which the store lists its objects.
    pub(crate) fn weigh(&self, info: &mut BucketInfo) {
        match Usage::of(self.home.bucket(), Some(PATIENCE)) {
            Ok(usage) => info.stored = Some(stored(&usage)),
            Err(e) => tracing::warn!("{} is not listed: {e}", self.home.name()),
        }
    }

    /// What its user is to know when it is opened.
    pub(crate) fn warning(&self) -> Option<String> {
        self.home.warning()
    }

    /// Whether a machine that is lost takes what was acknowledged in the last moments.
    pub(crate) fn is_local(&self) -> bool {
        self.home.log().is_some()
    }

    fn lag(&self) -> Option<LagInfo> {
        let ((most_bytes, most), lag) = (self.home.lag_bounds()?, self.home.lag()?);
        Some(LagInfo {
            log: uuid_text(&self.home.log()?),
            bytes: lag.bytes,
            transactions: lag.batches,
            seconds: lag.oldest.as_secs(),
            most_bytes,
            most_seconds: most.as_secs(),
        })
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
