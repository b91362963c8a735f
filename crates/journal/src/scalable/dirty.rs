//! Blocks that have records in the log and are not home: held here, they are never evicted, so that what is live is always in memory, or at home already.

use crate::cache::Buf;
use crate::{Extent, NumberHash};
use ondol_env::apart::{Apart, shard_of};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};
use std::collections::HashMap;

const SHARDS: usize = 256;

#[derive(Debug)]
struct Held {
    buf: Arc<Buf>,
    /// Home has its bytes, so it has none.
    light: bool,
}

/// See the module documentation. A buffer's lock comes before those in here.
#[derive(Debug)]
pub(super) struct Dirty {
    shards: Vec<Apart<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    held: Mutex<HashMap<u64, Held, NumberHash>>,
    /// How many there are, and how many have their bytes in memory. Changed under the lock alone.
    count: AtomicU64,
    heavy: AtomicU64,
}

impl Shard {
    fn changes(&self, count: usize, heavier: i64) {
        self.count.store(count as u64, Relaxed);
        self.heavy.store(self.heavy.load(Relaxed).wrapping_add_signed(heavier), Relaxed);
    }
}

impl Default for Dirty {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Apart::default()).collect() }
    }
}

impl Dirty {
    fn shard(&self, block: u64) -> &Shard {
        &self.shards[shard_of(block, SHARDS)]
    }

    /// The block has a record, and bytes in memory. Takes the place of a buffer of the same block that was freed.
    pub(super) fn add(&self, buf: &Arc<Buf>) {
        let shard = self.shard(buf.block);
        let mut held = shard.held.lock();
        let old = held.insert(buf.block, Held { buf: buf.clone(), light: false });
        shard.changes(held.len(), i64::from(old.is_none_or(|old| old.light)));
    }

    /// Home has the block's bytes, and the buffer has none any more.
    pub(super) fn lighten(&self, buf: &Arc<Buf>) {
        let shard = self.shard(buf.block);
        let mut held = shard.held.lock();
        if let Some(now) = held.get_mut(&buf.block).filter(|now| !now.light && Arc::ptr_eq(&now.buf, buf)) {
            now.light = true;
            shard.changes(held.len(), -1);
        }
    }

    pub(super) fn get(&self, block: u64) -> Option<Arc<Buf>> {
        self.shard(block).held.lock().get(&block).map(|held| held.buf.clone())
    }

    pub(super) fn has(&self, block: u64) -> bool {
        self.shard(block).held.lock().contains_key(&block)
    }

    /// The buffers of `extents` that have records, which nobody has any more but the log.
    pub(super) fn inside(&self, extents: impl Iterator<Item = Extent>) -> Vec<Arc<Buf>> {
        if self.len() == 0 {
            return Vec::new();
        }
        extents
            .flat_map(|extent| extent.start..extent.start + u64::from(extent.len))
            .filter_map(|n| self.get(n))
            .collect()
    }

    /// The block has no record any more.
    pub(super) fn remove(&self, buf: &Arc<Buf>) {
        let shard = self.shard(buf.block);
        let mut held = shard.held.lock();
        if let Some(now) = held.get(&buf.block).filter(|now| Arc::ptr_eq(&now.buf, buf)) {
            let heavy = !now.light;
            held.remove(&buf.block);
            shard.changes(held.len(), -i64::from(heavy));
        }
    }

    /// Blocks that are held.
    fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.count.load(Relaxed)).sum()
    }

    /// Blocks whose bytes are held in memory.
    pub(super) fn heavy(&self) -> u64 {
        self.shards.iter().map(|shard| shard.heavy.load(Relaxed)).sum()
    }
}
