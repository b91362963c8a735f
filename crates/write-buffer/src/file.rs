//! One file behind the buffer: what everybody shares of it.

use crate::format::{Header, Owner, SHARDS, shard_of};
use crate::home::{HomeFile, Identity};
use crate::tree::{Life, Tree};
use crate::whole::Whole;
use crate::{BufferError, HomeError, Result};
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

    /// An operation goes on only while the file is there.
    pub(crate) fn check(&self, life: Life) -> Result<()> {
        match life {
            Life::Open => Ok(()),
            Life::Removed | Life::Released => Err(BufferError::Removed(self.identity.clone())),
        }
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
