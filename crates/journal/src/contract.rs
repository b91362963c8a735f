//! The contract between the volume and a journal engine.

use crate::common::Common;
use crate::piece::Sources;
use crate::{Block, Cache, EngineStats, Extent, JournalError, Kind, Piece, Placement, Result, Run, Tid, WriteSet};
use ondol_env::Step;
use ondol_env::sync::Arc;

/// One way to make closed handles durable in order. See the crate documentation for the crash guarantee.
pub trait Engine: Send + Sync {
    /// What all engines have in common.
    #[doc(hidden)]
    fn common(&self) -> &Common;

    /// What it is.
    fn about(&self) -> About;

    /// Promises journal space for `blocks` changed blocks. May wait for commits and checkpoints, and may do them on
    /// the calling thread; the caller must hold no lock that comes after "handle" in the lock order.
    ///
    /// # Errors
    /// `TooBig`, `Aborted`.
    fn reserve(&self, blocks: u32) -> Result<()>;

    /// Promises more space to a handle that is already open, without waiting; false when there is none.
    fn extend(&self, blocks: u32) -> bool;

    /// Gives back a promise.
    fn unreserve(&self, blocks: u32);

    /// Takes a closed write set into the running transaction in one step, and with it the promise of `reserved`
    /// blocks. Not durable yet: see [`Engine::wait_for`].
    fn publish(&self, set: WriteSet<'_>, reserved: u32) -> Tid;

    /// Decides where data of a run goes, and for how many of its blocks, from the first on: at least one. To be asked
    /// once for what is then done. Data that is [`Run::journaled`] goes into the log from now on, also where the engine
    /// was not set up for it: a block with such data must not be written in place before it is freed.
    fn place(&self, run: &Run) -> (Placement, u32);

    /// Writes new data in place, as `write_data` does, where [`Engine::place`] has said so. False: the engine could not
    /// write it there, and goes on all the same; the handle is to have it.
    ///
    /// # Errors
    /// The store's failure.
    fn write_new(&self, block: u64, bytes: &[u8]) -> Result<bool>;

    /// How much of its promise a handle needs for new data in `blocks` blocks ([`Before::New`](crate::Before::New)):
    /// less than as many where the engine can write them in place.
    fn new_data_cost(&self, blocks: u32) -> u32;

    /// The running transaction: what a handle closed by now is part of, at the latest.
    fn tid(&self) -> Tid;

    /// Returns when `tid` and everything before it are durable, and of the data written in place what had been written
    /// when `written()` was `written`. What is durable already costs neither commit nor flush.
    ///
    /// # Errors
    /// `Aborted` when they are not and never will be.
    fn wait_for(&self, tid: Tid, written: u64) -> Result<()>;

    /// Writes the oldest of what is committed home, as the background does when the log is crowded, and commits
    /// nothing. Durable when this returns. False: nothing that is committed is left, or none of it can go home yet.
    ///
    /// # Errors
    /// `Aborted`, or the store's failure.
    fn checkpoint(&self) -> Result<bool>;

    /// Commits everything closed so far, writes it home and leaves an empty journal: the medium is then a plain image.
    ///
    /// # Errors
    /// `Aborted`, or the store's failure.
    fn checkpoint_all(&self) -> Result<()>;

    /// The commit timer and the background checkpointer, to be stepped by the owner of the volume: in turn, or side by
    /// side.
    fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>>;

    /// The counters so far.
    fn stats(&self) -> EngineStats;
}

/// What an engine is.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name as in `journal=`.
    pub name: &'static str,
    /// The most blocks that one handle can be promised.
    pub max_blocks: u32,
    /// Its log has changed bytes, and not blocks. It asks [`crate::Client::derived`] when it seals: an operation stages
    /// no block of which nothing but derived values changes, and operations on different files do not meet there. It
    /// needs what is in place of each block that changes.
    pub logs_bytes: bool,
}

/// What all engines do alike.
impl dyn Engine + '_ {
    /// The engine's name as in `journal=`.
    pub fn name(&self) -> &'static str {
        self.about().name
    }

    /// The most blocks that one handle can be promised.
    pub fn max_blocks(&self) -> u32 {
        self.about().max_blocks
    }

    /// The live blocks.
    pub fn cache(&self) -> &Cache {
        &self.common().cache
    }

    /// The published content of `block`, read and checked as `kind` if it is not in memory.
    ///
    /// # Errors
    /// The store's failure, or corruption.
    pub fn read(&self, block: u64, kind: Kind) -> Result<Block> {
        Ok(self.cache().get(block, kind)?.snapshot())
    }

    /// Holds a block as zeros, so that it need not be read, unless it is in memory already: nothing counts that home or
    /// the log has in it, and nobody changes it during the call. Writes nothing. Does nothing where the engine needs
    /// what is in place.
    pub fn take_as_empty(&self, block: u64, kind: Kind) {
        if !self.about().logs_bytes {
            self.cache().take_as_empty(block, kind);
        }
    }

    /// Writes data at byte `offset` within `block`, at once and outside any transaction. It is readable when this
    /// returns, durable before any transaction is that is committed later, and with the next `wait`.
    ///
    /// # Errors
    /// The store's failure.
    pub fn write_data(&self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.common().write_data(block, offset, bytes)
    }

    /// Reads `buf.len()` bytes of data starting `offset` bytes into `block`; may span many consecutive blocks.
    ///
    /// # Errors
    /// The store's failure.
    pub fn read_data(&self, block: u64, offset: usize, buf: &mut [u8]) -> Result<()> {
        let common = self.common();
        crate::data::read(&common.cache, &*common.store, block, offset, buf)
    }

    /// Lends `len` bytes of data starting `offset` bytes into `block`, which may span many consecutive blocks, as
    /// pieces behind those that are there: the newest contents where they lie, and copies of what cannot be lent.
    /// `bounded`: as [`ondol_block::BlockStore::pin`].
    ///
    /// # Errors
    /// The store's failure.
    pub fn view_data(
        &self,
        block: u64,
        offset: usize,
        len: usize,
        bounded: bool,
        pieces: &mut Vec<Piece>,
    ) -> Result<()> {
        let common = self.common();
        let (cache, store, block_size) = (&common.cache, &*common.store, common.block_size);
        Sources { cache, store, block_size, bounded }.view(block, offset, len, pieces)
    }

    /// Lets the store have the room of `extent`, whose blocks are free in all that is durable, or in what has to come
    /// before; nobody may allocate them before this returns. False when the store keeps it.
    ///
    /// # Errors
    /// The store's failure.
    pub fn discard(&self, extent: Extent) -> Result<bool> {
        self.common().check_alive()?;
        self.common().discard(extent)
    }

    /// Returns when `tid` and everything before it, and all data written in place before the call, are durable.
    ///
    /// # Errors
    /// `Aborted` when they are not and never will be.
    pub fn wait(&self, tid: Tid) -> Result<()> {
        self.wait_for(tid, self.written())
    }

    /// How many writes of data in place have ended, failed ones included.
    pub fn written(&self) -> u64 {
        self.common().in_place.written()
    }

    /// Stops the engine for good: nothing is written any more, and no fsync succeeds.
    pub fn stop(&self, why: &str) {
        if !self.common().is_read_only {
            self.common().abort(&JournalError::Aborted(why.into()));
        }
    }

    /// Why the engine has stopped, if it has.
    pub fn aborted(&self) -> Option<String> {
        self.common().aborted.get().cloned()
    }

    /// Why nothing can be written home at present, if that is so and the engine goes on all the same: what is durable
    /// stays so, in its log.
    pub fn home_failure(&self) -> Option<String> {
        self.common().failing.last.lock().as_ref().map(|(why, _)| why.clone())
    }
}
