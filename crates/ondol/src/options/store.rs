//! Options of volumes in object storage.

use super::{BucketOptions, Options};
use crate::bucket::{Durable, LogAt, LogTerms, Terms};
use crate::target::{pool_of, target_of};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a cache on the local disk, unless told otherwise.
const DISK_CACHE: u64 = 1 << 30;

impl BucketOptions {
    /// The words that say what holds as long as a volume is open, with their values.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let all = [
            ("durable", self.durable.map(|durable| durable.name().to_owned())),
            ("redo", path(&self.redo)),
            ("disk_cache", path(&self.disk_cache)),
            ("redo_size", number(self.redo_size)),
            ("lag", number(self.lag)),
            ("lag_seconds", number(self.lag_seconds)),
            ("disk_cache_size", number(self.disk_cache_size)),
            ("lease", number(self.lease)),
            ("store_timeout", number(self.timeout)),
            ("store_cache", number(self.cache)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The first of these options that was chosen, as it is written.
    pub(crate) fn any(&self) -> Option<String> {
        let alone = [(self.take_over, "take_over"), (!self.give_up.is_empty(), "give_up=")];
        let alone = alone.into_iter().find(|(is, _)| *is).map(|(_, word)| word.to_owned());
        alone.or_else(|| self.words().first().map(|(name, _)| format!("{name}=")))
    }
}

impl Options {
    /// Takes a volume in object storage from whoever has it open for writing: what was synced there is kept, what was
    /// not is lost, and nothing is written from there any more.
    #[must_use]
    pub fn with_take_over(mut self, take_over: bool) -> Self {
        self.bucket.take_over = take_over;
        self
    }

    /// Has others keep away from a volume in object storage until nothing was heard from here for `seconds` seconds.
    #[must_use]
    pub fn with_lease(mut self, seconds: u64) -> Self {
        self.bucket.lease = Some(seconds);
        self
    }

    /// Gives up, and writes nothing any more, when object storage has not answered for `seconds` seconds; 0 waits for
    /// ever.
    #[must_use]
    pub fn with_store_timeout(mut self, seconds: u64) -> Self {
        self.bucket.timeout = Some(seconds);
        self
    }

    /// Bounds the memory for what is read of the indexes and blocks of object storage, in bytes.
    #[must_use]
    pub fn with_store_cache(mut self, bytes: u64) -> Self {
        self.bucket.cache = Some(bytes);
        self
    }

    /// Has writes to a volume in object storage count as durable when they are in a log on this machine, in this file,
    /// which is made if it is not there. They are in the bucket some seconds later; those that are not when the machine
    /// is lost are lost. With [`Options::with_nvm`] and [`Durable::Local`], the log is in an NVM pool.
    #[must_use]
    pub fn with_redo(mut self, file: impl Into<PathBuf>) -> Self {
        (self.bucket.durable, self.bucket.redo) = (Some(Durable::Local), Some(file.into()));
        self
    }

    /// Says when writes to a volume in object storage count as durable.
    #[must_use]
    pub fn with_durable(mut self, durable: Durable) -> Self {
        self.bucket.durable = Some(durable);
        self
    }

    /// Gives up what is in a log on some machine, and not in object storage: it is lost, out of date, or damaged. Its
    /// UUID is in the error that says so.
    #[must_use]
    pub fn with_log_given_up(mut self, log: [u8; 16]) -> Self {
        self.bucket.give_up.push(log);
        self
    }

    /// Bounds how far the bucket may be behind the log on this machine: bytes, and seconds.
    #[must_use]
    pub fn with_lag(mut self, bytes: u64, seconds: u64) -> Self {
        (self.bucket.lag, self.bucket.lag_seconds) = (Some(bytes), Some(seconds));
        self
    }

    /// Keeps what is read of object storage on the local disk: at most `bytes` bytes in a directory, which is made if
    /// it is not there, and may be lost at any time.
    #[must_use]
    pub fn with_disk_cache(mut self, dir: impl Into<PathBuf>, bytes: u64) -> Self {
        (self.bucket.disk_cache, self.bucket.disk_cache_size) = (Some(dir.into()), Some(bytes));
        self
    }

    /// Those of a volume in object storage that is open: a pool is only where its log is.
    pub(crate) fn of_bucket(&self) -> Self {
        let mut options = self.clone();
        if let Some(pool) = options.pool.path.take() {
            options.bucket.redo = Some(target_of(&pool));
        }
        options
    }

    /// How a volume in object storage is opened with these.
    pub(crate) fn terms(&self) -> Terms {
        let of_redo = |path: &PathBuf| pool_of(path).map_or(LogAt::File(path.clone()), |pool| LogAt::Pool(pool.into()));
        let at = self.bucket.redo.as_ref().map(of_redo).or_else(|| self.pool.path.clone().map(LogAt::Pool));
        let log = at.filter(|_| self.bucket.durable == Some(Durable::Local)).map(|at| LogTerms {
            at,
            size: self.bucket.redo_size,
            lag: self.bucket.lag,
            lag_time: self.bucket.lag_seconds.map(Duration::from_secs),
        });
        let disk = self.bucket.disk_cache.clone().map(|dir| (dir, self.bucket.disk_cache_size.unwrap_or(DISK_CACHE)));
        Terms {
            take_over: self.bucket.take_over,
            lease: self.bucket.lease.map(Duration::from_secs),
            timeout: self.bucket.timeout.map(Duration::from_secs),
            cache: self.bucket.cache,
            log,
            give_up: self.bucket.give_up.clone(),
            disk,
            purpose: self
                .image
                .mounted_on
                .as_ref()
                .map_or_else(String::new, |dir| format!("mounted on {}", dir.display())),
        }
    }
}
