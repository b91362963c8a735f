//! The live blocks: what every reader sees, whichever engine makes them durable.
//!
//! A reader's snapshot, a committing image and a checkpoint image are the same bytes ([`Block`]), and a writer copies
//! only when one of them is still held. A [`Buf`] that anybody but the cache holds (an open handle, the running or the
//! committing transaction) is never evicted.

use crate::Block;
use crate::change::{Base, Change};
use crate::clock::{Clock, Look};
use crate::in_place::IN_PLACE;
use crate::index::Index;
use crate::logged::Logged;
use crate::{Client, Extent, Ground, Kind, NumberHash, Patches, Ranges, Result, Tid};
use ondol_block::{BlockStore, Pinned};
use ondol_env::apart::{Apart, shard_of};
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex, MutexGuard};
use std::collections::HashMap;

/// Where the cache finds a block that it does not hold.
pub(crate) trait Home: Send + Sync {
    /// The newest committed content that has not reached home yet, if there is one.
    fn committed(&self, block: u64) -> Option<Block>;
    /// How many blocks from this one on have no such content, as far as one look tells.
    fn home_from(&self, block: u64) -> u64;
    /// Reads the block from home.
    fn read_home(&self, block: u64, bytes: &mut [u8]) -> Result<()>;
    /// Reads bytes of a block that lie neither in memory nor where the store has the block. False: they do not.
    fn read_elsewhere(&self, _block: u64, _offset: usize, _into: &mut [u8]) -> Result<bool> {
        Ok(false)
    }
    /// Lends the page that has a block which lies neither in memory nor where the store has it. `None`: there is none;
    /// `Some(None)`: it cannot be lent now.
    fn pin_elsewhere(&self, _block: u64, _bounded: bool) -> Result<Option<Option<Pinned>>> {
        Ok(None)
    }
}

/// Home alone, where nothing that is committed lies anywhere else unless it is live.
pub(crate) struct AtHome {
    store: Arc<dyn BlockStore>,
    block_size: usize,
}

impl AtHome {
    pub(crate) fn of(ground: &Ground) -> Self {
        Self { store: ground.store.clone(), block_size: ground.block_size }
    }
}

impl Home for AtHome {
    fn committed(&self, _block: u64) -> Option<Block> {
        None
    }

    fn home_from(&self, _block: u64) -> u64 {
        u64::MAX
    }

    fn read_home(&self, block: u64, bytes: &mut [u8]) -> Result<()> {
        Ok(self.store.read(block * self.block_size as u64, bytes)?)
    }
}

/// One live block.
#[derive(Debug)]
pub(crate) struct Buf {
    pub(crate) block: u64,
    referenced: AtomicBool,
    pub(crate) state: Mutex<BufState>,
}

/// What a [`Buf`] holds, under its lock.
#[derive(Debug)]
pub(crate) struct BufState {
    pub(crate) kind: Kind,
    /// `None` until the block is first read or built.
    data: Option<Block>,
    /// The running transaction that holds this block.
    pub(crate) running: Option<Tid>,
    /// Bytes changed since the last seal.
    pub(crate) dirty: Ranges,
    /// The running transaction has allocated this block of data: no committed state reaches what it held.
    pub(crate) newborn: bool,
    /// The running transaction has other data in it, which goes home with its commit and not into the log.
    pub(crate) over: bool,
    /// In engines that log records: home has been given these very bytes since the block was allocated, or a page that
    /// a record names has them. The buffer need not have them then.
    pub(crate) home: bool,
    /// It is in a run of new data that nobody has begun to write home.
    pub(crate) queued: bool,
    /// The block was freed: it is neither journaled nor written home any more.
    pub(crate) freed: bool,
    /// Home holds nothing of it.
    pub(crate) built: bool,
    /// What an engine that logs records keeps with it.
    pub(crate) logged: Logged,
}

impl Buf {
    fn new(block: u64, kind: Kind) -> Self {
        let state = BufState {
            kind,
            data: None,
            running: None,
            dirty: Ranges::default(),
            newborn: false,
            over: false,
            home: false,
            queued: false,
            freed: false,
            built: false,
            logged: Logged::default(),
        };
        Self { block, referenced: AtomicBool::new(true), state: Mutex::new(state) }
    }

    /// Copies some of the bytes; false when there are not so many.
    pub(crate) fn copy(&self, offset: usize, into: &mut [u8]) -> bool {
        let state = self.state.lock();
        let bytes = state.data.as_deref().and_then(|data| data.get(offset..)?.get(..into.len()));
        bytes.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }

    /// The bytes now.
    pub(crate) fn snapshot(&self) -> Block {
        // Unread buffers are only handed out to be filled by `publish`; until then they read as nothing.
        self.state.lock().data.clone().unwrap_or_default()
    }
}

impl BufState {
    /// The bytes, to be shared.
    pub(crate) fn image(&self) -> Option<Block> {
        self.data.clone()
    }

    /// Applies a handle's changes to `base`.
    pub(crate) fn apply(&mut self, kind: Kind, base: Base<'_>, changes: &[Change], arena: &[u8], block_size: usize) {
        self.kind = kind;
        self.home &= matches!(base, Base::Live) && changes.is_empty();
        let new = match base {
            Base::Whole(bytes) => Some(bytes),
            Base::Lent(bytes) => Some(bytes.into()),
            Base::Live if self.data.is_some() => None,
            Base::Live | Base::Zeros => Some(Block::zeros(block_size)),
        };
        if new.is_some() {
            self.dirty.add(0..block_size as u32);
            self.data = new;
        }
        if let (Some(data), false) = (&mut self.data, changes.is_empty()) {
            let bytes = data.make_mut();
            for c in changes {
                c.apply(arena, bytes, &mut self.dirty);
            }
        }
    }

    /// Gives up the bytes of data that was freed before anybody could commit it: nobody reads them any more.
    pub(crate) fn dies(&mut self) {
        (self.data, self.dirty) = (None, Ranges::default());
    }

    /// Home has all that it holds, and no transaction has to write it.
    pub(crate) fn leaves(&mut self) {
        (self.running, self.newborn, self.dirty) = (None, false, Ranges::default());
    }

    /// All that it holds lies in a page, which the engine knows.
    pub(crate) fn lies_in_page(&mut self, kind: Kind, block_size: usize) {
        self.dirty.add(0..block_size as u32);
        (self.kind, self.data, self.home) = (kind, None, true);
    }

    /// Puts derived values into `image`, which was taken from this block, and into the live bytes, which may be the
    /// same or newer.
    pub(crate) fn take_seal(&mut self, image: &mut Block, patches: &Patches) {
        self.home = false;
        match &mut self.data {
            Some(live) if live.is(image) => {
                // Given up for a moment, so that the live bytes may be held by nobody else and need no copy.
                *image = Block::default();
                patches.apply(live.make_mut());
                *image = live.clone();
            }
            live => {
                patches.apply(image.make_mut());
                if let Some(live) = live {
                    patches.apply(live.make_mut());
                }
            }
        }
    }
}

/// Shards, where there is room for so many blocks in each of them; fewer otherwise.
const SHARDS: usize = 1024;
const ROOMY: usize = 16;

/// A shard of which nobody gets a buffer. Its lock comes before those of buffers.
pub(crate) struct Closed<'c>(MutexGuard<'c, Shard>);

impl Closed<'_> {
    /// Whether only the cache and so many `others` have the buffer.
    pub(crate) fn is_sole(&self, buf: &Arc<Buf>, others: usize) -> bool {
        let is_here = self.0.map.get(&buf.block).is_some_and(|here| Arc::ptr_eq(here, buf));
        is_here && Arc::strong_count(buf) == 1 + others
    }
}

#[derive(Default)]
struct Shard {
    map: HashMap<u64, Arc<Buf>, NumberHash>,
    clock: Clock<u64>,
    /// Look-ups for the bytes of a block.
    looked_up: u64,
}

ondol_env::counters! {
    /// Counters of the cache.
    pub struct CacheStats, "cache_";
    hits: Counter, Number, "Blocks that were in the cache when they were looked up.";
    misses: Counter, Number, "Blocks that were not in the cache and had to be read.";
    blocks: Gauge, Blocks, "Blocks in the cache.";
}

/// The cache of live blocks, bounded by a number of blocks.
pub struct Cache {
    shards: Vec<Apart<Mutex<Shard>>>,
    block_size: usize,
    per_shard: usize,
    /// Of the blocks in the shards' maps.
    index: Index,
    home: Arc<dyn Home>,
    client: Arc<dyn Client>,
    misses: AtomicU64,
}

impl Cache {
    /// Blocks that every cache has room for.
    pub(crate) const LEAST: usize = ROOMY;

    /// A cache of at most `bytes` bytes (more only while transactions hold more).
    pub(crate) fn new(block_size: usize, bytes: usize, home: Arc<dyn Home>, client: Arc<dyn Client>) -> Self {
        let blocks = (bytes / block_size).max(Self::LEAST);
        let count = (blocks / ROOMY).clamp(1, SHARDS).next_power_of_two();
        let (shards, per_shard) = ((0..count).map(|_| Apart::default()).collect(), blocks / count);
        Self { shards, block_size, per_shard, index: Index::default(), home, client, misses: AtomicU64::new(0) }
    }

    /// Bytes in a block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// The counters so far.
    pub fn stats(&self) -> CacheStats {
        let (mut blocks, mut looked_up) = (0, 0);
        for shard in &self.shards {
            let shard = shard.lock();
            blocks += shard.map.len() as u64;
            looked_up += shard.looked_up;
        }
        let misses = self.misses.load(Relaxed);
        CacheStats { hits: looked_up.saturating_sub(misses), misses, blocks }
    }

    /// The live block, read and checked if it is not in memory.
    pub(crate) fn get(&self, block: u64, kind: Kind) -> Result<Arc<Buf>> {
        let buf = self.find(block, kind, 1);
        let mut state = buf.state.lock();
        if state.data.is_none() {
            self.misses.fetch_add(1, Relaxed);
            let (bytes, built) = self.load(block, kind)?;
            (state.data, state.kind, state.built) = (Some(bytes), kind, built);
        }
        drop(state);
        Ok(buf)
    }

    /// The live block without its content, for a handle that will build it.
    pub(crate) fn get_unread(&self, block: u64, kind: Kind) -> Arc<Buf> {
        self.find(block, kind, 0)
    }

    /// The live block, as it is in memory, `counted` times.
    fn find(&self, block: u64, kind: Kind, counted: u64) -> Arc<Buf> {
        let mut shard = self.shard(block).lock();
        shard.looked_up += counted;
        if let Some(buf) = shard.map.get(&block) {
            buf.referenced.store(true, Relaxed);
            return buf.clone();
        }
        let buf = Arc::new(Buf::new(block, kind));
        self.insert(&mut shard, buf.clone());
        buf
    }

    fn insert(&self, shard: &mut Shard, buf: Arc<Buf>) {
        while shard.map.len() >= self.per_shard && self.evict_one(shard) {}
        let Shard { map, clock, .. } = shard;
        let block = buf.block;
        // Counted before it can be found and after it cannot be.
        self.index.add(block);
        map.insert(block, buf);
        clock.push(block, map.len(), |block| map.contains_key(block));
    }

    /// Removes one block that nobody but the cache holds. False when there is none among the next few.
    fn evict_one(&self, shard: &mut Shard) -> bool {
        let Shard { map, clock, .. } = shard;
        clock.evict(LOOKS, |block| {
            let Some(buf) = map.get(&block) else { return Look::Gone };
            if Arc::strong_count(buf) > 1 {
                return Look::Held;
            }
            if buf.referenced.swap(false, Relaxed) {
                return Look::Stays;
            }
            map.remove(&block);
            self.index.remove(block);
            Look::Evicted
        })
    }

    /// How many blocks from this one on are nowhere but home, as far as one look tells, for whoever has the lock of their
    /// owner.
    pub(crate) fn home_from(&self, block: u64) -> u64 {
        self.index.home_from(block).min(self.home.home_from(block))
    }

    /// A data block that is newer than its home: live in memory, or committed and not checkpointed.
    pub(crate) fn peek_data(&self, block: u64) -> Option<Block> {
        let buf = self.shard(block).lock().map.get(&block).cloned();
        buf.and_then(|b| b.state.lock().image()).or_else(|| self.home.committed(block))
    }

    /// As [`Home::read_elsewhere`].
    pub(crate) fn read_elsewhere(&self, block: u64, offset: usize, into: &mut [u8]) -> Result<bool> {
        self.home.read_elsewhere(block, offset, into)
    }

    /// As [`Home::pin_elsewhere`].
    pub(crate) fn pin_elsewhere(&self, block: u64, bounded: bool) -> Result<Option<Option<Pinned>>> {
        self.home.pin_elsewhere(block, bounded)
    }

    /// Whether the running or the committing transaction, or an open handle, has the block.
    pub(crate) fn is_running(&self, block: u64) -> bool {
        let in_map = || self.shard(block).lock().map.get(&block).is_some_and(|buf| Arc::strong_count(buf) > 1);
        self.index.home_from(block) == 0 && in_map()
    }

    /// Has nobody get a buffer of the block's shard until the answer is dropped.
    pub(crate) fn close(&self, block: u64) -> Closed<'_> {
        Closed(self.shard(block).lock())
    }

    /// Gives up the bytes of a block that home has durably, or whose place is known otherwise, if they are still
    /// `image`, no record builds on what was there before and nobody may be about to change them: `others` hold the
    /// buffer beside the cache. Then calls `done`, under the buffer's lock.
    pub(crate) fn let_go(&self, block: u64, image: &Block, others: usize, done: impl FnOnce(&Arc<Buf>)) -> bool {
        // Whoever wants the buffer comes by here.
        let shard = self.shard(block).lock();
        let Some(buf) = shard.map.get(&block).filter(|buf| Arc::strong_count(buf) == 1 + others) else { return false };
        let mut state = buf.state.lock();
        if state.freed || !state.data.as_ref().is_some_and(|data| data.is(image)) {
            return false;
        }
        if state.logged.needs_base() {
            return false;
        }
        (state.data, state.home) = (None, true);
        done(buf);
        true
    }

    /// Blocks that nobody but the cache has follow what was written at home, from byte `offset` of `block` on: blocks
    /// of data that a short write meets, or a long one in part, take the bytes; the others are forgotten, and all are
    /// if the write failed (not `written`).
    pub(crate) fn follow(&self, block: u64, offset: usize, bytes: &[u8], written: bool) {
        let (mut block, mut skip) = (block + (offset / self.block_size) as u64, offset % self.block_size);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min(self.block_size - skip));
            let stays = written && (bytes.len() < IN_PLACE || part.len() < self.block_size);
            let mut shard = self.shard(block).lock();
            if let Some(buf) = shard.map.get(&block).filter(|buf| Arc::strong_count(buf) == 1) {
                let mut state = buf.state.lock();
                // What passes for metadata is verified when it is read.
                if !stays || state.kind != Kind::DATA {
                    drop(state);
                    self.remove(&mut shard, block);
                } else if let Some(data) = &mut state.data {
                    data.make_mut()[skip..skip + part.len()].copy_from_slice(part);
                }
            }
            (block, skip, rest) = (block + 1, 0, behind);
        }
    }

    /// As [`crate::Engine::take_as_empty`].
    pub(crate) fn take_as_empty(&self, block: u64, kind: Kind) {
        let mut shard = self.shard(block).lock();
        if shard.map.contains_key(&block) {
            return;
        }
        let buf = Buf::new(block, kind);
        buf.state.lock().data = Some(Block::zeros(self.block_size));
        self.insert(&mut shard, Arc::new(buf));
    }

    /// Forgets a freed block, and says what it was; transactions that hold it will skip it.
    pub(crate) fn forget(&self, block: u64) -> Option<Arc<Buf>> {
        let removed = self.remove(&mut self.shard(block).lock(), block)?;
        removed.state.lock().freed = true;
        Some(removed)
    }

    /// As [`Cache::forget`], of all blocks of `extents` that are there.
    pub(crate) fn forget_all(&self, extents: impl Iterator<Item = Extent>) -> Vec<Arc<Buf>> {
        let mut forgotten = Vec::new();
        for Extent { start, len } in extents {
            let (mut block, end) = (start, start + u64::from(len));
            while block < end {
                let absent = self.index.home_from(block);
                if absent == 0 {
                    forgotten.extend(self.forget(block));
                }
                block += absent.max(1);
            }
        }
        forgotten
    }

    /// Gives up a block whose bytes are home and not here, if nobody but the cache and so many `others` has it.
    pub(crate) fn leave(&self, buf: &Arc<Buf>, others: usize) {
        let mut shard = self.shard(buf.block).lock();
        let is_here = shard.map.get(&buf.block).is_some_and(|here| Arc::ptr_eq(here, buf));
        if is_here && Arc::strong_count(buf) == 1 + others && buf.state.lock().data.is_none() {
            self.remove(&mut shard, buf.block);
        }
    }

    fn remove(&self, shard: &mut Shard, block: u64) -> Option<Arc<Buf>> {
        let removed = shard.map.remove(&block)?;
        self.index.remove(block);
        Some(removed)
    }

    /// Its bytes, and whether they were built because home holds none.
    fn load(&self, block: u64, kind: Kind) -> Result<(Block, bool)> {
        if let Some(image) = self.home.committed(block) {
            return Ok((image, false));
        }
        let mut bytes = vec![0; self.block_size];
        let built = kind != Kind::DATA && self.client.build(kind, &mut bytes);
        if !built {
            self.home.read_home(block, &mut bytes)?;
        }
        if kind != Kind::DATA && !built {
            self.client.verify(block, kind, &bytes)?;
        }
        Ok((bytes.into(), built))
    }

    fn shard(&self, block: u64) -> &Mutex<Shard> {
        &self.shards[shard_of(block, self.shards.len())]
    }
}

/// The most blocks that are looked at to find one to remove: while transactions hold most of them, a whole round finds
/// none.
const LOOKS: usize = 8;

#[cfg(test)]
mod tests;
