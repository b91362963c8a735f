//! A cache on the local disk: SlateDB's own, of parts of data objects, which never change.
//!
//! It checks nothing and flushes nothing. The database's checksums of blocks, indexes and filters tell what is damaged;
//! it then asks again, and the part is fetched anew. What the cache knows of an object as a whole, its size, has no
//! checksum: each opening forgets it, and the first read of the object asks the store again.

use super::HomeError;
use rustix::fs::{FlockOperation, OFlags, flock};
use slatedb::cached_object_store_stats::{CACHE_BYTES, PART_ACCESS_COUNT, PART_HIT_COUNT};
use slatedb::config::ObjectStoreCacheOptions;
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};
use std::fs::{DirBuilder, File, OpenOptions, read_dir, remove_file};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is fetched and kept as one. Smaller parts would be as many more requests of a long read.
const PART: usize = 1 << 20;

/// No cache is smaller.
const LEAST: u64 = 4 * PART as u64;

/// Where in the directory parts are.
const PARTS: &str = "parts";

/// A cache on the local disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its directory. What is in it may be deleted at any time.
    pub dir: PathBuf,
    /// The most bytes that it has.
    pub bytes: u64,
}

/// What a cache has, and has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes that it has room for.
    pub room: u64,
    /// Bytes that it has.
    pub bytes: u64,
    /// Parts that were wanted and there.
    pub hits: u64,
    /// Parts that were wanted and not there.
    pub misses: u64,
}

/// A cache that nobody else has until this is dropped.
pub(super) struct Held {
    disk: Disk,
    /// Has the lock.
    _dir: File,
    pub(super) recorder: Arc<DefaultMetricsRecorder>,
}

impl Held {
    /// Opens the cache, and makes it if it is not there. None: none is wanted, or another process has it.
    pub(super) fn open(disk: Option<&Disk>, name: &str) -> std::result::Result<Option<Arc<Self>>, HomeError> {
        let Some(disk) = disk else { return Ok(None) };
        let fault = |why: String| HomeError::DiskCache { dir: disk.dir.display().to_string(), why };
        if disk.bytes < LEAST {
            return Err(fault(format!("a cache has at least {} MiB", LEAST >> 20)));
        }
        match locked(disk).map_err(|e| fault(e.to_string()))? {
            Some(dir) => Ok(Some(Arc::new(Self { disk: disk.clone(), _dir: dir, recorder: Arc::default() }))),
            None => {
                tracing::warn!("{} is in use by another process: {name} is read without it", disk.dir.display());
                Ok(None)
            }
        }
    }

    /// How the database caches there, or that it does not.
    pub(super) fn options(this: Option<&Self>) -> ObjectStoreCacheOptions {
        let disk = this.map(|held| &held.disk);
        ObjectStoreCacheOptions {
            root_folder: disk.map(|disk| disk.dir.join(PARTS)),
            max_cache_size_bytes: disk.map(|disk| disk.bytes as usize),
            part_size_bytes: PART,
            ..ObjectStoreCacheOptions::default()
        }
    }

    pub(super) fn counts(&self) -> DiskUse {
        let metrics = self.recorder.snapshot();
        let of = |name| match metrics.by_name(name).first().map(|metric| &metric.value) {
            Some(MetricValue::Counter(value)) => *value,
            Some(MetricValue::Gauge(value)) => (*value).max(0) as u64,
            _ => 0,
        };
        let hits = of(PART_HIT_COUNT);
        let misses = of(PART_ACCESS_COUNT).saturating_sub(hits);
        DiskUse { room: self.disk.bytes, bytes: of(CACHE_BYTES), hits, misses }
    }
}

fn locked(disk: &Disk) -> Result<Option<File>> {
    match DirBuilder::new().mode(0o700).create(&disk.dir) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&disk.dir)?;
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => forget_sizes(&disk.dir.join(PARTS)).map(|()| Some(dir)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Removes what the cache knows of objects below `dir` beside their parts.
fn forget_sizes(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget_sizes(&entry.path())?;
        } else if entry.file_name() == "_head" {
            remove_file(entry.path())?;
        }
    }
    Ok(())
}
