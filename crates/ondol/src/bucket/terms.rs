//! How volumes in object storage are opened, as it was chosen.

use std::path::PathBuf;
use std::time::Duration;

/// How a volume in object storage is opened.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "object"), expect(dead_code, reason = "nobody opens any"))]
pub(crate) struct Terms {
    /// Take it from whoever writes to it.
    pub(crate) take_over: bool,
    pub(crate) lease: Option<Duration>,
    /// Zero: for ever.
    pub(crate) timeout: Option<Duration>,
    /// Bytes of memory for what is read of the store.
    pub(crate) cache: Option<u64>,
    /// What for, for others who want it.
    pub(crate) purpose: String,
    /// With `durable=local`, the log on this machine.
    pub(crate) log: Option<LogTerms>,
    /// Local logs of which it does not matter what they hold.
    pub(crate) give_up: Vec<[u8; 16]>,
    /// The directory of a cache on the local disk, and its size.
    pub(crate) disk: Option<(PathBuf, u64)>,
}

/// The log on this machine in which an fsync ends.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "object"), expect(dead_code, reason = "nobody opens any"))]
pub(crate) struct LogTerms {
    pub(crate) at: LogAt,
    /// Of a new one.
    pub(crate) size: Option<u64>,
    /// Bytes that may wait for the bucket, and for how long.
    pub(crate) lag: Option<u64>,
    pub(crate) lag_time: Option<Duration>,
}

/// Where that log is.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "object"), expect(dead_code, reason = "nobody opens any"))]
pub(crate) enum LogAt {
    File(PathBuf),
    Pool(PathBuf),
}

/// When a write to a volume in object storage counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durable {
    /// When it is in the bucket.
    #[default]
    Remote,
    /// When it is in a log on this machine: it is in the bucket some seconds later, and lost if the machine is lost
    /// before.
    Local,
}

impl Durable {
    /// Its name as in `durable=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Remote => "remote",
            Self::Local => "local",
        }
    }
}

impl Terms {
    /// What an image that nobody mounts is opened for.
    pub(crate) fn of(purpose: &str) -> Self {
        Self { purpose: purpose.to_owned(), ..Self::default() }
    }
}
