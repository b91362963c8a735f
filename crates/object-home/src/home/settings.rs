//! How the database of a volume is set.
//!
//! - No timer flushes: requests are made when we ask. The manifest is polled every 30 s, since a poll only finds a
//!   fence early; each second would be 8 million requests in a month of an idle mount.
//! - The database has no limit of retries: a put of its log that fails for good closes it, and with it goes what was in
//!   memory. The bound is ours, above it (`Opening::timeout`).

use super::local::Local;
use super::open::Opening;
use super::runs::Runs;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
    ObjectStoreCacheOptions, Settings,
};
use slatedb::{BloomFilterPolicy, FilterPolicy};
use std::sync::Arc;
use std::time::Duration;

/// Objects with so many keys have filters.
const FILTERED: u32 = 16;

/// So many objects may wait for a compaction: more than the fastest writer makes while the compactor does not look.
const OBJECTS: usize = 256;

/// Requests are made when we ask for them, idle volumes ask seldom, and fences stay for ever.
pub(super) fn settings(opening: &Opening, disk: ObjectStoreCacheOptions) -> Settings {
    let (object, poll) = (opening.object, Duration::from_secs(10));
    // What waits for the bucket is counted twice, as the database's log and as its memtable.
    let lag = opening.local.as_ref().map_or(0, Local::bound) as usize;
    let worker = CompactionWorkerOptions {
        max_concurrent_compactions: 2,
        compactions_poll_interval: poll,
        min_filter_keys: FILTERED,
        ..CompactionWorkerOptions::default()
    };
    let compactor = CompactorOptions {
        poll_interval: poll,
        max_concurrent_compactions: 2,
        worker: Some(worker),
        ..CompactorOptions::default()
    };
    Settings {
        flush_interval: None,
        min_filter_keys: FILTERED,
        manifest_poll_interval: Duration::from_secs(30),
        l0_sst_size_bytes: object,
        max_unflushed_bytes: object * 4 + lag * 2,
        // As many as are written between two polls of the compactor.
        l0_max_ssts: OBJECTS,
        l0_max_ssts_per_key: OBJECTS,
        compactor_options: Some(compactor),
        object_store_cache_options: disk,
        // With a filter, by its own builder.
        garbage_collector_options: None,
        ..Settings::default()
    }
}

/// What is old goes, but for fences. `updates`: the store can update an object if it is unchanged.
pub(super) fn collector(updates: bool) -> GarbageCollectorOptions {
    let old = Some(GarbageCollectorDirectoryOptions {
        interval: Some(Duration::from_secs(600)),
        min_age: Duration::from_secs(3600),
        ..GarbageCollectorDirectoryOptions::default()
    });
    // Numbers of manifests may only be used again if a boundary forbids it, which such a store cannot keep.
    let numbered = old.filter(|_| updates);
    GarbageCollectorOptions {
        manifest_options: numbered,
        compactions_options: numbered,
        wal_options: old,
        wal_fence_options: old,
        compacted_options: old,
        boundary_files_enabled: updates,
        ..GarbageCollectorOptions::default()
    }
}

/// By chunk, and by range of chunks.
pub(super) fn filters() -> Vec<Arc<dyn FilterPolicy>> {
    vec![Arc::new(BloomFilterPolicy::new(10)), Arc::new(Runs)]
}
