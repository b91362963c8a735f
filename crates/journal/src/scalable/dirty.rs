//! Blocks that have records in the log and are not home: held here, they are never evicted, so that what is live is always in memory.

use crate::cache::Buf;
use crate::{Extent, NumberHash};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};
use std::collections::HashMap;

const SHARDS: usize = 64;

type Held = HashMap<u64, Arc<Buf>, NumberHash>;

/// See the module documentation. A buffer's lock comes before those in here.
#[derive(Debug)]
pub(super) struct Dirty {
    shards: [Shard; SHARDS],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    held: Mutex<Held>,
    count: AtomicU64,
}

impl Default for Dirty {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Shard::default()) }
    }
}

impl Dirty {
    fn shard(&self, block: u64) -> &Shard {
        // Other bits than those of the cache's shards.
        &self.shards[(block / 8 % SHARDS as u64) as usize]
    }

    /// The block has a record. Takes the place of a buffer of the same block that was freed.
    pub(super) fn add(&self, buf: &Arc<Buf>) {
        let shard = self.shard(buf.block);
        if shard.held.lock().insert(buf.block, buf.clone()).is_none() {
            shard.count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn get(&self, block: u64) -> Option<Arc<Buf>> {
        self.shard(block).held.lock().get(&block).cloned()
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
        if held.get(&buf.block).is_some_and(|now| Arc::ptr_eq(now, buf)) {
            held.remove(&buf.block);
            shard.count.fetch_sub(1, Relaxed);
        }
    }

    /// Blocks that are held.
    pub(super) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.count.load(Relaxed)).sum()
    }
}
