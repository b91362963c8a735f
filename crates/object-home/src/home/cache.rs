//! Indexes, filters and blocks of the database's objects, in memory and bounded. Without it each read of a chunk would take three requests.

use async_trait::async_trait;
use ondol_env::sync::Mutex;
use slatedb::Error;
use slatedb::db_cache::{CacheFetch, CacheLoader, CachedEntry, CachedKey, DbCache};
use std::collections::HashMap;

/// Blocks of data, and apart from them, so that no stream of blocks drives them out, indexes and filters. Each has half of the room.
#[derive(Default)]
pub(super) struct Cache {
    room: usize,
    blocks: Mutex<Generations>,
    inner: Mutex<Generations>,
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

impl Cache {
    /// With room for so many bytes.
    pub(super) fn new(room: usize) -> Self {
        Self { room: room / 2, ..Self::default() }
    }

    fn get(&self, key: &CachedKey) -> Option<CachedEntry> {
        self.inner.lock().get(key, self.room)
    }
}

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

#[async_trait]
impl DbCache for Cache {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.blocks.lock().get(key, self.room))
    }

    async fn fetch_block(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, Error> {
        if let Some(entry) = self.get_block(&key).await? {
            return Ok(CacheFetch::hit(entry));
        }
        let entry = loader().await?;
        self.blocks.lock().put(key, entry.clone(), self.room);
        Ok(CacheFetch::miss(entry))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.get(key))
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.inner.lock().put(key, value, self.room);
    }

    async fn remove(&self, key: &CachedKey) {
        self.blocks.lock().remove(key);
        self.inner.lock().remove(key);
    }

    fn entry_count(&self) -> u64 {
        let count = |entries: &Mutex<Generations>| {
            let entries = entries.lock();
            entries.young.len() + entries.old.len()
        };
        (count(&self.blocks) + count(&self.inner)) as u64
    }
}
