//! Options of volumes in object storage.

use super::Options;
use crate::bucket::Terms;
use std::time::Duration;

impl Options {
    /// Takes a volume in object storage from whoever has it open for writing: what was synced there is kept, what was not is lost, and nothing is written from there any more.
    #[must_use]
    pub fn with_take_over(mut self, take_over: bool) -> Self {
        self.take_over = take_over;
        self
    }

    /// Has others keep away from a volume in object storage until nothing was heard from here for `seconds` seconds.
    #[must_use]
    pub fn with_lease(mut self, seconds: u64) -> Self {
        self.lease = Some(seconds);
        self
    }

    /// Gives up, and writes nothing any more, when object storage has not answered for `seconds` seconds; 0 waits for ever.
    #[must_use]
    pub fn with_store_timeout(mut self, seconds: u64) -> Self {
        self.store_timeout = Some(seconds);
        self
    }

    /// Bounds the memory for what is read of the indexes and blocks of object storage, in bytes.
    #[must_use]
    pub fn with_store_cache(mut self, bytes: u64) -> Self {
        self.store_cache = Some(bytes);
        self
    }

    /// How a volume in object storage is opened with these.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            take_over: self.take_over,
            lease: self.lease.map(Duration::from_secs),
            timeout: self.store_timeout.map(Duration::from_secs),
            cache: self.store_cache,
            purpose: self.mounted_on.as_ref().map_or_else(String::new, |dir| format!("mounted on {}", dir.display())),
        }
    }
}
