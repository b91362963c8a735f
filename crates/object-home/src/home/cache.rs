//! Indexes, filters and blocks of the database's objects, in memory and bounded. Without it each read of a chunk would
//! take three requests.

use async_trait::async_trait;
use ondol_env::sync::Mutex;
use slatedb::Error;
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache, SplitCache};
use std::collections::HashMap;
use std::sync::Arc;

/// A cache of `room` bytes: half for blocks of data, and half apart from them, so that no stream of blocks drives them
/// out, for indexes and filters.
pub(super) fn cache(room: usize) -> Arc<dyn DbCache> {
    let half = || Some(Arc::new(Cache { room: room / 2, entries: Mutex::default() }) as Arc<dyn DbCache>);
    Arc::new(SplitCache::new().with_block_cache(half()).with_meta_cache(half()).build())
}

struct Cache {
    room: usize,
    entries: Mutex<Generations>,
}

/// What is used moves to the young one, and the old one is dropped whole when the young one has half of the room.
#[derive(Default)]
struct Generations {
    young: HashMap<CachedKey, CachedEntry>,
    old: HashMap<CachedKey, CachedEntry>,
    /// Bytes of the young one.
    bytes: usize,
}

/// What an entry takes beside its own bytes.
const BESIDE: usize = 128;

impl Generations {
    fn get(&mut self, key: &CachedKey, room: usize) -> Option<CachedEntry> {
        if let Some(entry) = self.young.get(key) {
            return Some(entry.clone());
        }
        let entry = self.old.remove(key)?;
        self.put(key.clone(), entry.clone(), room);
        Some(entry)
    }

    fn remove(&mut self, key: &CachedKey) {
        self.old.remove(key);
        if let Some(entry) = self.young.remove(key) {
            self.bytes -= entry.size() + BESIDE;
        }
    }

    fn put(&mut self, key: CachedKey, entry: CachedEntry, room: usize) {
        let size = |entry: &CachedEntry| entry.size() + BESIDE;
        self.old.remove(&key);
        self.bytes += size(&entry);
        if let Some(before) = self.young.insert(key, entry) {
            self.bytes -= size(&before);
        }
        if self.bytes > room / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
    }
}

impl Cache {
    fn get(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.entries.lock().get(key, self.room))
    }
}

#[async_trait]
impl DbCache for Cache {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        self.get(key)
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        self.get(key)
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        self.get(key)
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        self.get(key)
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.entries.lock().put(key, value, self.room);
    }

    async fn remove(&self, key: &CachedKey) {
        self.entries.lock().remove(key);
    }

    fn entry_count(&self) -> u64 {
        let entries = self.entries.lock();
        (entries.young.len() + entries.old.len()) as u64
    }
}
