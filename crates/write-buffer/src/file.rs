//! One file behind the buffer: what everybody shares of it, and the handle that callers have.

use crate::format::{Header, Owner, SHARDS, shard_of};
use crate::home::{HomeFile, Identity};
use crate::shared::Core;
use crate::tree::{Life, Tree};
use crate::whole::Whole;
use crate::{HomeError, Result};
use ondol_env::apart::Apart;
use ondol_env::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, RwLock, RwLockWriteGuard};
use std::fmt;

/// A file that has a slot.
pub(crate) struct FileState {
    pub(crate) identity: Identity,
    pub(crate) owner: Owner,
    pub(crate) home: Arc<dyn HomeFile>,
    /// One sync at a time: only one of several is told that the home has failed.
    pub(crate) syncing: Mutex<()>,
    /// Shared for writes to the home; exclusive for its length and its removal.
    pub(crate) order: RwLock<()>,
    shards: [Apart<RwLock<Tree>>; SHARDS],
    stripe: u64,
    pub(crate) whole: Mutex<Whole>,
    /// Sequence of the last operation. Counted up by those who hold the shards that the operation changes.
    pub(crate) last: AtomicU64,
    /// Handles of callers.
    pub(crate) handles: AtomicU32,
    /// A failure in the background that no `fsync` has reported yet.
    pub(crate) failed: Mutex<Option<HomeError>>,
    /// How often the home has failed in the background.
    pub(crate) failures: AtomicU64,
}

impl fmt::Debug for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileState")
            .field("identity", &self.identity)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl FileState {
    pub(crate) fn new(
        identity: Identity,
        owner: Owner,
        home: Arc<dyn HomeFile>,
        home_len: u64,
        header: &Header,
    ) -> Self {
        Self {
            identity,
            owner,
            home,
            syncing: Mutex::new(()),
            order: RwLock::new(()),
            shards: std::array::from_fn(|_| Apart(RwLock::new(Tree::new(header.block_size.into())))),
            stripe: header.stripe(),
            whole: Mutex::new(Whole::new(home_len)),
            last: AtomicU64::new(0),
            handles: AtomicU32::new(0),
            failed: Mutex::new(None),
            failures: AtomicU64::new(0),
        }
    }

    /// The shard that has the block.
    pub(crate) fn shard(&self, lbn: u64) -> &RwLock<Tree> {
        &self.shards[shard_of(lbn, self.stripe)]
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &RwLock<Tree>> {
        self.shards.iter().map(|shard| &shard.0)
    }

    /// All shards, in their order.
    pub(crate) fn lock_all(&self) -> Vec<RwLockWriteGuard<'_, Tree>> {
        self.shards().map(RwLock::write).collect()
    }

    /// Whether it takes operations.
    pub(crate) fn life(&self) -> Life {
        self.shard(0).read().life
    }

    /// Nothing of the file is needed from NVM any more.
    pub(crate) fn is_clean(&self) -> bool {
        self.shards().all(|shard| shard.read().is_clean()) && self.whole.lock().is_clean()
    }

    /// Up to which sequence everything is written home.
    pub(crate) fn sync_point(&self) -> u64 {
        // First: who has counted has locked his shards, which are then seen as he left them.
        let last = self.last.load(SeqCst).min(crate::format::SEQUENCE_LIMIT - 1);
        let of_shards = self.shards().filter_map(|shard| shard.read().unflushed()).min();
        let of_length = self.whole.lock().length.unflushed();
        let first = of_shards.into_iter().chain(of_length).min();
        first.map_or(last, |first| last.min(first - 1))
    }

    /// For spreading files over queues.
    pub(crate) fn number(&self) -> u64 {
        self.owner.slot.into()
    }

    /// The home has failed in the background: the next `fsync` says so.
    pub(crate) fn note(&self, what: &'static str, source: std::io::Error) -> HomeError {
        let error = HomeError::new(what, &self.identity, source);
        *self.failed.lock() = Some(error.clone());
        self.failures.fetch_add(1, SeqCst);
        error
    }
}

/// An open file of a [`crate::Buffer`]. Every write is durable when it returns. Several threads may use it at once.
pub struct File {
    core: Arc<Core>,
    state: Arc<FileState>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.state.handles.fetch_sub(1, SeqCst);
    }
}

impl Clone for File {
    fn clone(&self) -> Self {
        Self::new(self.core.clone(), self.state.clone())
    }
}

impl File {
    pub(crate) fn new(core: Arc<Core>, state: Arc<FileState>) -> Self {
        state.handles.fetch_add(1, SeqCst);
        Self { core, state }
    }

    pub(crate) fn state(&self) -> &Arc<FileState> {
        &self.state
    }

    /// What the home finds it by.
    pub fn identity(&self) -> &Identity {
        &self.state.identity
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.state.whole.lock().size
    }

    /// Writes `data` at byte `offset`; the file grows if need be. It is durable when this returns. May wait for blocks,
    /// in turn with other writers.
    ///
    /// After a crash before that, each piece of it (by block of the buffer) is there whole or not at all.
    ///
    /// # Errors
    /// `Range`, `Removed`; `Full` when the home fails and nothing can be emptied; the NVM's failure. Parts may be
    /// written then.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.core.write(&self.state, offset, data)
    }

    /// Reads up to `buf.len()` bytes at `offset`; returns how many there were before the file's end.
    ///
    /// # Errors
    /// `Removed`, or the home's or the NVM's failure.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.core.read(&self.state, offset, buf)
    }

    /// Cuts the file to `len` bytes, or makes it longer with zeros. Durable when this returns.
    ///
    /// # Errors
    /// As for [`File::write_at`].
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.core.set_len(&self.state, len)
    }

    /// Everything that was written is durable without it. Reports, once, that the home has failed in the background
    /// since the last call: the bytes are still in NVM, and are tried again.
    ///
    /// # Errors
    /// `Home`.
    pub fn fsync(&self) -> Result<()> {
        self.state.failed.lock().take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Brings everything of the file home, durably.
    ///
    /// # Errors
    /// The home's or the NVM's failure.
    pub fn settle(&self) -> Result<()> {
        self.core.settle(std::slice::from_ref(&self.state))
    }
}
