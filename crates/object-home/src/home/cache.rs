//! Indexes, filters and blocks of the database's objects, in memory and bounded. Without it each read of a chunk would take three requests.

use async_trait::async_trait;
use ondol_env::sync::Mutex;
use slatedb::Error;
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache};
use std::collections::HashMap;

/// Two generations: what is used moves to the young one, and the old one is dropped whole when the young one has half of the room.
#[derive(Default)]
pub(super) struct Cache {
    room: usize,
    inner: Mutex<Generations>,
}

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
        Self { room, inner: Mutex::default() }
    }

    fn get(&self, key: &CachedKey) -> Option<CachedEntry> {
        let mut inner = self.inner.lock();
        if let Some(entry) = inner.young.get(key) {
            return Some(entry.clone());
        }
        let entry = inner.old.remove(key)?;
        inner.put(key.clone(), entry.clone(), self.room);
        Some(entry)
    }
}

impl Generations {
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
        Ok(self.get(key))
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
        let mut inner = self.inner.lock();
        inner.old.remove(key);
        if let Some(entry) = inner.young.remove(key) {
            inner.bytes -= entry.size() + BESIDE;
        }
    }

    fn entry_count(&self) -> u64 {
        let inner = self.inner.lock();
        (inner.young.len() + inner.old.len()) as u64
    }
}
