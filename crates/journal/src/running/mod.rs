//! The running transaction: the buffers that closed handles have changed and the blocks that they have freed.

mod early;
mod new_data;
mod runs;
mod seal;
#[cfg(test)]
mod tests;

pub(crate) use early::BYTES as BYTES_KNOWN;
pub(crate) use new_data::{Named, NewData};
pub(crate) use runs::Runs;
pub(crate) use seal::{BlockImages, seal};

use crate::Block;
use crate::cache::Buf;
use crate::names::{Extent, Kind, Tid};
use crate::{Ranges, Result, WriteSet};
use early::Early;
use ondol_env::Env;
use ondol_env::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use ondol_env::sync::{Arc, Mutex, RwLock};

const SHARDS: usize = 8;

/// Dead blocks that the lists may hold in any case.
const FEW: u64 = 128;

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
    /// Its new data that may be written home and that nobody has taken for that yet. Its blocks are not in the lists.
    new_runs: Runs<Arc<Buf>>,
    /// Its new data that is home, and has left it.
    pub(crate) early: Early,
    /// Blocks that have joined, without those that have left again, and what all have been promised.
    held: AtomicU64,
    promised: AtomicU64,
    /// Blocks that have left transactions again, because they were freed before anybody had written them.
    dead: AtomicU64,
    /// Blocks that have left and may still be in the lists.
    buried: AtomicU64,
    /// When the first handle was closed into it, in monotonic nanoseconds; 0 while it is empty.
    started: AtomicU64,
    /// The same of the transaction that is being committed; 0 where none is.
    committing: AtomicU64,
    /// Buffers of transactions that failed.
    failed: Mutex<Vec<Arc<Buf>>>,
}

/// What came of a handle that was closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The transaction that it is in.
    pub(crate) tid: Tid,
    /// What the blocks that are new in it keep of the handle's promise.
    pub(crate) joined: u32,
    /// What others had kept of theirs for blocks that it has freed.
    pub(crate) given_back: u32,
}

/// One block of a transaction that no handle can join any more.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) buf: Arc<Buf>,
    pub(crate) kind: Kind,
    pub(crate) image: Block,
    pub(crate) dirty: Ranges,
    /// Data in a block that the transaction has allocated, or other data that does not go into the log.
    pub(crate) newborn: bool,
}

/// A transaction after the switch.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) tid: Tid,
    pub(crate) blocks: Vec<Frozen>,
    pub(crate) freed: Vec<(Extent, Kind)>,
    /// Its new data that is home, by rising block number, with the log's sums.
    pub(crate) early: Vec<(u64, u32)>,
    /// Promises that its blocks had taken.
    pub(crate) promised: u64,
}

impl Running {
    pub(crate) fn new(first: Tid) -> Self {
        Self {
            tid: RwLock::new(first),
            shards: Default::default(),
            new_runs: Runs::default(),
            early: Early::default(),
            held: AtomicU64::new(0),
            promised: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            buried: AtomicU64::new(0),
            started: AtomicU64::new(0),
            committing: AtomicU64::new(0),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn tid(&self) -> Tid {
        *self.tid.read()
    }

    /// Its blocks that nobody has written home, about.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Blocks of new data that can be written home.
    pub(crate) fn waiting(&self) -> u64 {
        self.new_runs.blocks()
    }

    /// Takes the oldest runs of new data, of about `most` blocks, and has `write` write what their blocks hold now, by
    /// rising number. What still holds that afterwards is home and leaves the transaction, which keeps `sum` of it. No
    /// switch may come in between. Returns how many were written, or `None` when there are no runs.
    pub(crate) fn stage_runs(
        &self,
        most: usize,
        sum: impl Fn(&[u8]) -> Option<u32>,
        write: impl FnOnce(&[(u64, Block)]) -> Result<()>,
    ) -> Result<Option<u64>> {
        let tid = self.tid();
        let mut bufs = self.new_runs.take_bufs(most);
        if bufs.is_empty() {
            return Ok(None);
        }
        bufs.sort_unstable_by_key(|buf| buf.block);
        let here = |buf: &Arc<Buf>| {
            let state = buf.state.lock();
            let wanted = state.running == Some(tid) && state.newborn && !state.freed;
            state.image().filter(|_| wanted).map(|image| (buf.block, image))
        };
        let images: Vec<_> = bufs.iter().filter_map(here).collect();
        if let Err(e) = write(&images) {
            self.keep(bufs);
            return Err(e);
        }
        let mut written = images.iter().peekable();
        let stays = |buf: &Arc<Buf>| {
            let image = written.next_if(|(block, _)| *block == buf.block).map(|(_, image)| image);
            let sum = image.and_then(|image| sum(image));
            let mut state = buf.state.lock();
            if state.freed {
                return false;
            }
            let same = image.is_some_and(|image| state.image().is_some_and(|now| now.is(image)));
            if state.running != Some(tid) {
                return false;
            }
            if !same {
                return true;
            }
            // Under the buffer's lock: who changes it from now on finds it said to be home.
            sum.into_iter().for_each(|sum| self.early.add(buf.block, sum));
            state.leaves();
            self.held.fetch_sub(1, Relaxed);
            false
        };
        bufs.retain(stays);
        if let Some(first) = bufs.first() {
            let shard = first.block as usize % SHARDS;
            self.shards[shard].lock().bufs.append(&mut bufs);
        }
        Ok(Some(images.len() as u64))
    }

    /// Keeps the buffers of a transaction that failed: what was written to them can be read as long as the engine is
    /// there.
    pub(crate) fn keep(&self, bufs: impl IntoIterator<Item = Arc<Buf>>) {
        self.failed.lock().extend(bufs);
    }

    /// Takes blocks that are freed out of what the transaction `tid` has to write; `lost` more are home. Returns what
    /// comes back of their promises. The caller keeps the switch away.
    fn bury(&self, freed: &[Arc<Buf>], lost: u32, tid: Tid, given_back: impl FnOnce(u32) -> u32) -> u32 {
        let (mut others, mut newborn) = (0, 0);
        for buf in freed {
            let mut state = buf.state.lock();
            if state.running != Some(tid) {
                continue;
            }
            *(if state.newborn || state.over { &mut newborn } else { &mut others }) += 1;
            let queued = std::mem::take(&mut state.queued);
            self.new_runs.lose(u64::from(queued));
            // A list, a run or a writer has it, and `freed`. Of a damaged volume an operation on another file may have
            // it, too, and still reads it.
            if state.kind == Kind::DATA && Arc::strong_count(buf) <= 2 {
                state.dies();
            }
        }
        let dead = u64::from(others + newborn);
        if dead + u64::from(lost) == 0 {
            return 0;
        }
        self.held.fetch_sub(dead, Relaxed);
        self.dead.fetch_add(dead, Relaxed);
        let back = others + given_back(newborn + lost);
        self.promised.fetch_sub(u64::from(back), Relaxed);
        if self.buried.fetch_add(dead, Relaxed) + dead > self.held.load(Relaxed).max(FEW) {
            self.sweep();
        }
        back
    }

    /// Takes the dead out of the lists, so that these never hold many more than live: a transaction may outlive any
    /// number of blocks.
    fn sweep(&self) {
        self.buried.store(0, Relaxed);
        let lives = |buf: &Arc<Buf>| {
            let state = buf.state.lock();
            !state.freed
        };
        self.shards.iter().for_each(|shard| shard.lock().bufs.retain(lives));
        self.new_runs.sweep();
    }

    /// Blocks that were freed before anybody had written them, so far.
    pub(crate) fn dead(&self) -> u64 {
        self.dead.load(Relaxed)
    }

    /// What they keep of their handles' promises.
    pub(crate) fn promised(&self) -> u64 {
        self.promised.load(Relaxed)
    }

    /// When it began, in monotonic nanoseconds, or `None` while it is empty.
    pub(crate) fn started(&self) -> Option<u64> {
        Some(self.started.load(SeqCst)).filter(|&s| s != 0)
    }

    /// When the oldest transaction began that is not durable, in monotonic nanoseconds.
    pub(crate) fn oldest(&self) -> Option<u64> {
        // In this order a switch between the two is no moment in which nothing waits.
        let started = self.started();
        Some(self.committing.load(SeqCst)).filter(|&s| s != 0).or(started)
    }

    /// The transaction of the last switch is durable.
    pub(crate) fn committed(&self) {
        self.committing.store(0, SeqCst);
    }

    /// Applies a write set to the live blocks, and `forget`s the live blocks that it frees. New data keeps of the
    /// handle's promise what `new_data` says that it costs. What the handle frees does not join, and what the
    /// transaction had of that leaves it.
    pub(crate) fn publish(
        &self,
        set: WriteSet<'_>,
        block_size: usize,
        env: &dyn Env,
        forget: impl FnOnce(&[(Extent, Kind)]) -> Vec<Arc<Buf>>,
        new_data: NewData,
    ) -> Published {
        let WriteSet { arena, blocks, freed } = set;
        let tid = self.tid.read();
        if blocks.is_empty() && freed.is_empty() {
            return Published { tid: *tid, joined: 0, given_back: 0 };
        }
        // Not before: the transaction that ends at a switch until then still needs what its handles wrote to these
        // blocks.
        let gone = forget(&freed);
        let lost = self.early.lose(&freed);
        let given_back = self.bury(&gone, lost, *tid, |blocks| new_data.given_back(blocks, block_size));
        let home_shard = blocks.first().map_or(0, |s| s.buf.block as usize % SHARDS);
        let mut new = Vec::with_capacity(blocks.len());
        let (mut newborn, mut over) = (Vec::new(), Vec::new());
        let mut logged = 0;
        for staged in blocks {
            let mut state = staged.buf.state.lock();
            if state.freed {
                continue;
            }
            state.apply(staged.kind, staged.base, staged.changes.as_slice(), &arena, block_size);
            state.newborn |= staged.newborn;
            if state.running == Some(*tid) {
                // Somebody journals what was to go home alone.
                logged += u32::from(state.over && !staged.over);
                state.over &= staged.over;
                continue;
            }
            let block = staged.buf.block;
            // What the transaction has at home already is new data still, which its commit has to write again.
            let was_home = !staged.newborn && staged.kind == Kind::DATA && self.early.take(block);
            state.newborn |= was_home;
            (state.running, state.over) = (Some(*tid), staged.over);
            drop(state);
            let list = if staged.newborn { &mut newborn } else { &mut new };
            if staged.over { &mut over } else { list }.push(staged.buf);
        }
        let home = (newborn.len() + over.len()) as u32;
        let joined = new.len() as u32 + logged + new_data.cost(home, block_size);
        // A commit that is under way may still write what was there before, so these must wait for their own.
        new.append(&mut over);
        self.promised.fetch_add(u64::from(joined), Relaxed);
        self.held.fetch_add((new.len() + newborn.len()) as u64, Relaxed);
        if let Some(least) = new_data.stages_from(block_size) {
            newborn = self.new_runs.add_long(newborn, least);
        }
        new.append(&mut newborn);
        if self.started.load(Relaxed) == 0 {
            self.started.store(env.monotonic_ns().max(1), Relaxed);
        }
        let mut shard = self.shards[home_shard].lock();
        shard.bufs.append(&mut new);
        shard.freed.extend(freed);
        Published { tid: *tid, joined, given_back }
    }

    /// Closes the transaction to further handles and starts the next; `None` when nothing has been published.
    pub(crate) fn switch(&self) -> Option<Switched> {
        let mut tid = self.tid.write();
        if self.started.load(Relaxed) == 0 {
            return None;
        }
        let (mut bufs, mut freed) = (self.new_runs.take_bufs(usize::MAX), Vec::new());
        for shard in &self.shards {
            let mut shard = shard.lock();
            bufs.append(&mut shard.bufs);
            freed.append(&mut shard.freed);
        }
        let blocks = bufs.into_iter().filter_map(freeze).collect();
        let done = *tid;
        *tid = done.next();
        self.held.store(0, Relaxed);
        self.buried.store(0, Relaxed);
        let promised = self.promised.swap(0, Relaxed);
        self.committing.store(self.started.load(Relaxed), SeqCst);
        self.started.store(0, SeqCst);
        Some(Switched { tid: done, blocks, freed, early: self.early.switch(), promised })
    }
}

fn freeze(buf: Arc<Buf>) -> Option<Frozen> {
    let mut state = buf.state.lock();
    state.running = None;
    let dirty = std::mem::take(&mut state.dirty);
    let newborn = std::mem::take(&mut state.newborn) | std::mem::take(&mut state.over);
    state.queued = false;
    if state.freed {
        return None;
    }
    let (kind, image) = (state.kind, state.image()?);
    drop(state);
    Some(Frozen { buf, kind, image, dirty, newborn })
}
