//! Blocks that have records in the log and are not home: held here, they are never evicted, so that what is live is
//! always in memory, or at home already.

use crate::cache::Buf;
use crate::{Extent, NumberHash};
use ondol_env::apart::{Apart, Striped, shard_of};
use ondol_env::sync::{Arc, Mutex};
use std::collections::HashMap;

const SHARDS: usize = 256;

/// What is kept of a block whose bytes are home, about: its buffer and its places in maps.
const LIGHT: u64 = 512;

type Held = HashMap<u64, Entry, NumberHash>;

#[derive(Debug)]
struct Entry {
    buf: Arc<Buf>,
    /// Home or a page has its bytes, so it has none.
    light: bool,
    /// The page of the home's store that its newest record names, where that has its bytes.
    page: Option<u32>,
}

/// See the module documentation. A buffer's lock comes before those in here.
#[derive(Debug)]
pub(super) struct Dirty {
    shards: Vec<Apart<Mutex<Held>>>,
    /// How many have come, and how many have gone: two counts that only grow, so that whoever finds them equal, the
    /// second one first, knows that there was none.
    added: Striped,
    removed: Striped,
    /// About how many have their bytes in memory.
    heavy: Striped,
}

impl Default for Dirty {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Apart::default()).collect();
        Self { shards, added: Striped::default(), removed: Striped::default(), heavy: Striped::default() }
    }
}

impl Dirty {
    fn shard(&self, block: u64) -> &Mutex<Held> {
        &self.shards[shard_of(block, SHARDS)]
    }

    /// The block has a record, and bytes in memory, or in `page`. Takes the place of a buffer of the same block that
    /// was freed.
    pub(super) fn add(&self, buf: &Arc<Buf>, page: Option<u32>) {
        let light = page.is_some();
        let old = self.shard(buf.block).lock().insert(buf.block, Entry { buf: buf.clone(), light, page });
        if old.is_none() {
            self.added.add(1);
        }
        let was_heavy = old.is_some_and(|old| !old.light);
        self.heavy.add(i64::from(!light) - i64::from(was_heavy));
    }

    /// Home has the block's bytes, or `page` if it is one, and the buffer has none any more.
    pub(super) fn lighten(&self, buf: &Arc<Buf>, page: Option<u32>) {
        let mut held = self.shard(buf.block).lock();
        if let Some(now) = held.get_mut(&buf.block).filter(|now| !now.light && Arc::ptr_eq(&now.buf, buf)) {
            (now.light, now.page) = (true, page);
            self.heavy.add(-1);
        }
    }

    /// Has `read` read the page that has the block's bytes, if one has: it stays that as long.
    pub(super) fn in_page<T>(&self, block: u64, read: impl FnOnce(u32) -> T) -> Option<T> {
        let held = self.shard(block).lock();
        held.get(&block)?.page.map(read)
    }

    /// The block of this buffer was freed: nobody reads its page any more.
    pub(super) fn leave_page(&self, buf: &Arc<Buf>) {
        let mut held = self.shard(buf.block).lock();
        held.get_mut(&buf.block).filter(|now| Arc::ptr_eq(&now.buf, buf)).into_iter().for_each(|now| now.page = None);
    }

    pub(super) fn get(&self, block: u64) -> Option<Arc<Buf>> {
        self.shard(block).lock().get(&block).map(|entry| entry.buf.clone())
    }

    pub(super) fn has(&self, block: u64) -> bool {
        self.shard(block).lock().contains_key(&block)
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
        let mut held = self.shard(buf.block).lock();
        if held.get(&buf.block).is_some_and(|now| Arc::ptr_eq(&now.buf, buf)) {
            let light = held.remove(&buf.block).is_some_and(|entry| entry.light);
            self.removed.add(1);
            self.heavy.add(if light { 0 } else { -1 });
        }
    }

    /// How many there are: not fewer than there were all the time.
    fn len(&self) -> u64 {
        let removed = self.removed.sum();
        (self.added.sum() - removed).max(0).cast_unsigned()
    }

    /// About how much memory they take, in bytes, with blocks of so many.
    pub(super) fn bytes(&self, block_size: usize) -> u64 {
        let heavy = self.heavy.sum().max(0).cast_unsigned();
        heavy * block_size as u64 + self.len().saturating_sub(heavy) * LIGHT
    }
}
