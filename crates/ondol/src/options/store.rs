//! Options of volumes in object storage.

use super::Options;
use crate::bucket::{Durable, LogAt, LogTerms, Terms};
use crate::home::{pool_of, target_of};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a cache on the local disk, unless told otherwise.
const DISK_CACHE: u64 = 1 << 30;

impl Options {
    /// Adds what holds as long as a volume is open ([`Options::fixed`]).
    pub(super) fn fix_store(&self, text: &mut String) {
        *text += &self.durable.map_or_else(String::new, |durable| format!(",durable={}", durable.name()));
        let paths = [("redo", &self.redo), ("disk_cache", &self.disk_cache)];
        for (name, path) in paths {
            *text += &path.as_ref().map_or_else(String::new, |path| format!(",{name}={}", path.display()));
        }
        let store = [
            ("redo_size", self.redo_size),
            ("lag", self.lag),
            ("lag_seconds", self.lag_seconds),
            ("disk_cache_size", self.disk_cache_size),
            ("lease", self.lease),
            ("store_timeout", self.store_timeout),
            ("store_cache", self.store_cache),
        ];
        for (name, value) in store {
            *text += &value.map_or_else(String::new, |value| format!(",{name}={value}"));
        }
    }

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

    /// Has writes to a volume in object storage count as durable when they are in a log on this machine, in this file, which is made if it is not there. They are in the bucket some
    /// seconds later; those that are not when the machine is lost are lost. With [`Options::with_nvm`] and [`Durable::Local`], the log is in an NVM pool.
    #[must_use]
    pub fn with_redo(mut self, file: impl Into<PathBuf>) -> Self {
        (self.durable, self.redo) = (Some(Durable::Local), Some(file.into()));
        self
    }

    /// Says when writes to a volume in object storage count as durable.
    #[must_use]
    pub fn with_durable(mut self, durable: Durable) -> Self {
        self.durable = Some(durable);
        self
    }

    /// Gives up what is in a log on some machine, and not in object storage: it is lost, out of date, or damaged. Its UUID is in the error that says so.
    #[must_use]
    pub fn with_log_given_up(mut self, log: [u8; 16]) -> Self {
        self.give_up.push(log);
        self
    }

    /// Bounds how far the bucket may be behind the log on this machine: bytes, and seconds.
    #[must_use]
    pub fn with_lag(mut self, bytes: u64, seconds: u64) -> Self {
        (self.lag, self.lag_seconds) = (Some(bytes), Some(seconds));
        self
    }

    /// Keeps what is read of object storage on the local disk: at most `bytes` bytes in a directory, which is made if it is not there, and may be lost at any time.
    #[must_use]
    pub fn with_disk_cache(mut self, dir: impl Into<PathBuf>, bytes: u64) -> Self {
        (self.disk_cache, self.disk_cache_size) = (Some(dir.into()), Some(bytes));
        self
    }

    /// Those of a volume in object storage that is open: a pool is only where its log is.
    pub(crate) fn of_bucket(&self) -> Self {
        let mut options = self.clone();
        if let Some(pool) = options.nvm.take() {
            options.redo = Some(target_of(&pool));
        }
        options
    }

    /// How a volume in object storage is opened with these.
    pub(crate) fn terms(&self) -> Terms {
        let of_redo = |path: &PathBuf| pool_of(path).map_or(LogAt::File(path.clone()), |pool| LogAt::Pool(pool.into()));
        let at = self.redo.as_ref().map(of_redo).or_else(|| self.nvm.clone().map(LogAt::Pool));
        let log = at.filter(|_| self.durable == Some(Durable::Local)).map(|at| LogTerms {
            at,
            size: self.redo_size,
            lag: self.lag,
            lag_time: self.lag_seconds.map(Duration::from_secs),
        });
        let disk = self.disk_cache.clone().map(|dir| (dir, self.disk_cache_size.unwrap_or(DISK_CACHE)));
        Terms {
            take_over: self.take_over,
            lease: self.lease.map(Duration::from_secs),
            timeout: self.store_timeout.map(Duration::from_secs),
            cache: self.store_cache,
            log,
            give_up: self.give_up.clone(),
            disk,
            purpose: self.mounted_on.as_ref().map_or_else(String::new, |dir| format!("mounted on {}", dir.display())),
        }
    }
}
