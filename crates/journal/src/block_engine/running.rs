//! The running transaction: the buffers that closed handles have changed and the blocks that they have freed.

use crate::cache::{Block, Buf};
use crate::contract::{Extent, Kind, Tid};
use crate::{Ranges, WriteSet};
use ondol_env::Env;
use ondol_env::plant::{self, Defect};
use ondol_env::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex, RwLock};

const SHARDS: usize = 8;

#[derive(Debug, Default)]
struct Shard {
    bufs: Vec<Arc<Buf>>,
    freed: Vec<(Extent, Kind)>,
}

/// The running transaction. Handles publish side by side; the switch to the next transaction excludes them all for as
/// long as it takes to clone one pointer per block.
pub(crate) struct Running {
    /// Its id; held shared by a publish, exclusively by the switch.
    tid: RwLock<Tid>,
    shards: [Mutex<Shard>; SHARDS],
    /// Blocks that have joined, and what they have been promised.
    held: AtomicU64,
    promised: AtomicU64,
    /// When the first handle was closed into it, in seconds; 0 while it is empty.
    started: AtomicI64,
}

/// One block of a transaction that no handle can join any more.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) buf: Arc<Buf>,
    pub(crate) kind: Kind,
    pub(crate) image: Block,
    pub(crate) dirty: Ranges,
    /// Data in a block that the transaction has allocated.
    pub(crate) newborn: bool,
}

/// A transaction after the switch.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) tid: Tid,
    pub(crate) blocks: Vec<Frozen>,
    pub(crate) freed: Vec<(Extent, Kind)>,
    /// Promises that its blocks had taken.
    pub(crate) promised: u64,
}

impl Running {
    pub(crate) fn new(first: Tid) -> Self {
        Self {
            tid: RwLock::new(first),
            shards: Default::default(),
            held: AtomicU64::new(0),
            promised: AtomicU64::new(0),
            started: AtomicI64::new(0),
        }
    }

    pub(crate) fn tid(&self) -> Tid {
        *self.tid.read()
    }

    /// Blocks that have joined.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// What they keep of their handles' promises.
    pub(crate) fn promised(&self) -> u64 {
        self.promised.load(Relaxed)
    }

    /// When it began, in seconds, or `None` while it is empty.
    pub(crate) fn started(&self) -> Option<i64> {
        Some(self.started.load(Relaxed)).filter(|&s| s != 0)
    }

    /// Applies a write set to the live blocks, and `forget`s the live blocks that it frees. Returns the transaction and what
    /// the blocks that are new in it keep of the handle's promise, which for new data is its `new_data_cost`.
    pub(crate) fn publish(
        &self,
        set: WriteSet,
        block_size: usize,
        env: &dyn Env,
        forget: impl FnOnce(&[(Extent, Kind)]),
        new_data_cost: impl FnOnce(u32) -> u32,
    ) -> (Tid, u32) {
        let WriteSet { arena, blocks, freed } = set;
        let tid = self.tid.read();
        if blocks.is_empty() && freed.is_empty() {
            return (*tid, 0);
        }
        // Not before: the transaction that ends at a switch until then still needs what its handles wrote to these blocks.
        forget(&freed);
        let home_shard = blocks.first().map_or(0, |s| s.buf.block as usize % SHARDS);
        let mut new = Vec::with_capacity(blocks.len());
        let mut newborn = 0;
        for staged in blocks {
            let mut state = staged.buf.state.lock();
            state.apply(staged.kind, staged.fresh, staged.changes.as_slice(), &arena, block_size);
            state.newborn |= staged.newborn;
            if state.running != Some(*tid) {
                state.running = Some(*tid);
                drop(state);
                newborn += u32::from(staged.newborn);
                new.push(staged.buf);
            }
        }
        let promised = new.len() as u32 - newborn + new_data_cost(newborn);
        self.promised.fetch_add(u64::from(promised), Relaxed);
        self.held.fetch_add(new.len() as u64, Relaxed);
        if self.started.load(Relaxed) == 0 {
            self.started.store(env.now().sec.max(1), Relaxed);
        }
        let mut shard = self.shards[home_shard].lock();
        shard.bufs.append(&mut new);
        shard.freed.extend(freed);
        (*tid, promised)
    }

    /// Closes the transaction to further handles and starts the next; `None` when nothing has been published.
    pub(crate) fn switch(&self) -> Option<Switched> {
        let mut tid = self.tid.write();
        let (mut bufs, mut freed) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            let mut shard = shard.lock();
            bufs.append(&mut shard.bufs);
            freed.append(&mut shard.freed);
        }
        if bufs.is_empty() && freed.is_empty() {
            return None;
        }
        let blocks = bufs.into_iter().filter_map(freeze).collect();
        let done = *tid;
        *tid = done.next();
        self.held.store(0, Relaxed);
        let promised = self.promised.swap(0, Relaxed);
        self.started.store(0, Relaxed);
        Some(Switched { tid: done, blocks, freed, promised })
    }
}

fn freeze(buf: Arc<Buf>) -> Option<Frozen> {
    let mut state = buf.state.lock();
    state.running = None;
    let dirty = std::mem::take(&mut state.dirty);
    let newborn = std::mem::take(&mut state.newborn);
    if state.freed && !plant::is(Defect::FreedImage) {
        return None;
    }
    let (kind, image) = (state.kind, state.image()?);
    drop(state);
    Some(Frozen { buf, kind, image, dirty, newborn })
}
