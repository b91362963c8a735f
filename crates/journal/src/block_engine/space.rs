//! Journal space: promised before an operation changes anything, so that nothing fails afterwards.
//!
//! `outstanding` counts the blocks promised to open handles plus the blocks in the running transaction; it never
//! exceeds `allowance`, which is what the ring still has for the running transaction after everything that lies in the
//! log and the transaction being committed. Promising is one atomic add.

use super::LogFormat;
use super::commit::Why;
use crate::common::Waiters;
use crate::stats::EngineStats;
use crate::{JournalError, Result};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};

/// Ring blocks that are not to be had.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    used: u64,
    committing: u64,
    /// Images of the transaction that is being committed, and different blocks that have images in the log.
    images: u64,
    logged: u64,
}

/// One transaction, and so one handle, may have one in so many blocks of the ring.
pub const HANDLE_SHARE: u64 = 4;

/// The ring's ledger.
pub(crate) struct Space {
    ring: u64,
    max_tx: u64,
    max_handle: u32,
    /// The most different blocks that may have images in the log.
    most_logged: u64,
    /// Blocks that a transaction takes beside its images and their tags, at most.
    fixed: u64,
    /// Images that the first `n` blocks of free ring can carry: `n * num / den`.
    ratio: (u64, u64),
    outstanding: AtomicU64,
    allowance: AtomicU64,
    used: AtomicU64,
    /// What lies in the ring and what the transaction being committed will take of it at most.
    taken: Mutex<Taken>,
    waiters: Arc<Waiters>,
}

impl Space {
    pub(crate) fn new(log: &dyn LogFormat, waiters: Arc<Waiters>) -> Self {
        let ring = log.area().ring_blocks();
        let many = ring.max(64);
        let most_logged = ring * log.about().images_per_block;
        let fixed = log.cost(0, most_logged) + 2;
        let max_tx = ring / HANDLE_SHARE;
        let mut space = Self {
            ring,
            max_tx,
            most_logged,
            max_handle: 0,
            fixed,
            ratio: (many, log.cost(many, 0)),
            outstanding: AtomicU64::new(0),
            allowance: AtomicU64::new(0),
            used: AtomicU64::new(0),
            taken: Mutex::default(),
            waiters,
        };
        space.set_used(0, 0);
        // What an empty ring cannot carry would be waited for in vain.
        space.max_handle = u32::try_from(space.allowance.load(SeqCst)).unwrap_or(u32::MAX);
        space
    }

    /// The most that one handle can be promised.
    pub(crate) fn max_handle(&self) -> u32 {
        self.max_handle
    }

    /// Ring blocks between tail and head.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(SeqCst)
    }

    /// More than half of the ring lies between tail and head, or more than half of the blocks that may be in the log
    /// are.
    pub(crate) fn half_full(&self) -> bool {
        let taken = *self.taken.lock();
        taken.used * 2 > self.ring || taken.logged * 2 > self.most_logged
    }

    /// Sets how many ring blocks lie between tail and head, and how many different blocks have images there.
    pub(crate) fn set_used(&self, used: u64, logged: u64) {
        self.take(|taken| (taken.used, taken.logged) = (used, logged));
    }

    /// The transaction that was being committed lies in the ring, of which `used` blocks are in use now, with images of
    /// `logged` different blocks.
    pub(crate) fn completed(&self, used: u64, logged: u64) {
        self.take(|taken| *taken = Taken { used, logged, ..Taken::default() });
    }

    /// A transaction of at most `images` images is being committed.
    fn commits(&self, images: u64) {
        let committing = self.for_images(images.max(1)) + self.fixed;
        self.take(|taken| (taken.committing, taken.images) = (committing, images));
    }

    fn take(&self, change: impl FnOnce(&mut Taken)) {
        let mut taken = self.taken.lock();
        change(&mut taken);
        let all = taken.used + taken.committing;
        let free = self.ring.saturating_sub(all).saturating_sub(2 * self.fixed);
        let unlogged = self.most_logged.saturating_sub(taken.logged + taken.images);
        let images = (free * self.ratio.0 / self.ratio.1).min(unlogged);
        self.used.store(taken.used, SeqCst);
        self.allowance.store(images.min(self.max_tx), SeqCst);
        drop(taken);
        self.waiters.wake_all();
    }

    fn for_images(&self, images: u64) -> u64 {
        (images * self.ratio.1).div_ceil(self.ratio.0)
    }

    /// Promises `blocks` if the ledger has them now.
    pub(crate) fn try_promise(&self, blocks: u32) -> bool {
        let blocks = u64::from(blocks);
        if self.outstanding.fetch_add(blocks, SeqCst) + blocks <= self.allowance.load(SeqCst) {
            return true;
        }
        self.outstanding.fetch_sub(blocks, SeqCst);
        false
    }

    /// The transaction being assembled would outgrow its share if `blocks` more were promised.
    pub(crate) fn transaction_is_full(&self, blocks: u32) -> bool {
        self.outstanding.load(SeqCst) + u64::from(blocks) > self.max_tx
    }

    /// So much of the transaction's share is promised that it should be committed while the rest is used up: what comes
    /// meanwhile has room still, and nobody has to commit in the midst of an operation. A transaction never outgrows
    /// its share, so waiting for that would be in vain. Half of it must be what the running transaction itself was
    /// promised, `running`: committing does not help against promises to operations that are under way.
    pub(crate) fn transaction_is_filling(&self, running: u64) -> bool {
        self.outstanding.load(SeqCst) * 4 > self.max_tx * 3 && running * 2 > self.max_tx
    }

    /// Takes back a promise of a dropped handle.
    pub(crate) fn give_back(&self, blocks: u32) {
        self.outstanding.fetch_sub(u64::from(blocks), SeqCst);
        self.waiters.wake_if_waited();
    }

    /// A handle that was promised `reserved` closed and brought `joined` new blocks.
    pub(crate) fn joined(&self, reserved: u32, joined: u32) {
        self.outstanding.fetch_sub(u64::from(reserved - joined), SeqCst);
        self.waiters.wake_if_waited();
    }

    /// The switch took `joined` blocks out of the running transaction; they are being committed now. The allowance
    /// shrinks before their promises end: a promise in between must not find both as they were.
    pub(crate) fn switched(&self, joined: u64) {
        self.commits(joined);
        self.outstanding.fetch_sub(joined, SeqCst);
        self.waiters.wake_if_waited();
    }

    /// Whether the transaction that is being committed, whose blocks were promised `promised`, can have `more` images:
    /// there must be room for them, and nothing that is promised to others may be lost by it.
    pub(crate) fn takes_more(&self, promised: u64, more: u64) -> bool {
        let images = promised + more;
        let taken = *self.taken.lock();
        let has_room =
            taken.used + self.for_images(images) + self.fixed <= self.ring && taken.logged + images <= self.most_logged;
        if !has_room {
            return false;
        }
        self.commits(images);
        // Who was promised something before saw the larger allowance, and is counted here.
        let fits = self.outstanding.load(SeqCst) <= self.allowance.load(SeqCst);
        if !fits {
            self.commits(promised);
        }
        fits
    }
}

impl super::BlockCore {
    /// Promises `blocks`, doing commits and checkpoints on this thread where the background has not kept up.
    pub(crate) fn reserve(&self, blocks: u32) -> Result<()> {
        if blocks > self.space.max_handle() {
            return Err(JournalError::TooBig { need: blocks, max: self.space.max_handle() });
        }
        self.stage_some()?;
        if self.is_behind().is_none() && !self.too_many_wait() && self.space.try_promise(blocks) {
            return Ok(());
        }
        let began = self.env.monotonic_ns();
        let result = self.reserve_slowly(blocks);
        self.stats.lock().stall_ns += self.env.monotonic_ns() - began;
        result
    }

    /// Bytes of blocks that no commit has made durable.
    fn uncommitted(&self) -> u64 {
        self.in_memory() + self.running.early.all() * self.block_size as u64
    }

    /// Those of them that no cache can do without.
    fn in_memory(&self) -> u64 {
        (self.running.held() + self.committing_blocks.load(Relaxed)) * self.block_size as u64
    }

    /// What waits now: for a commit, for a flush, for its way home.
    pub(super) fn measure(&self, stats: &mut EngineStats) {
        stats.uncommitted_bytes = self.uncommitted();
        stats.uncommitted_ns = self.running.oldest().map_or(0, |started| self.since(started));
        stats.unflushed_bytes = self.in_place.not_durable();
        stats.not_home_bytes = self.waiting_bytes.load(Relaxed);
    }

    /// New data takes memory, if not the ring: nobody runs away from the committer, and blocks that are not committed
    /// leave room for others.
    fn is_behind(&self) -> Option<Why> {
        let fills = || (self.in_memory() >= self.config.cache_bytes as u64).then_some(Why::Kept);
        self.holds_too_much(self.running.held(), 2).or_else(fills)
    }

    fn reserve_slowly(&self, blocks: u32) -> Result<()> {
        loop {
            self.check_alive()?;
            if self.too_many_wait() {
                self.bound_pending()?;
            } else if let Some(why) = self.is_behind() {
                if !self.stage_one()? {
                    self.close_running(why)?;
                }
            } else if self.space.try_promise(blocks) {
                return Ok(());
            } else if self.running.promised() > 0 && self.space.transaction_is_full(blocks) {
                self.close_running(Why::Promises)?;
            } else if self.space.used() > 0 {
                if self.checkpoint_some()? {
                    self.stats.lock().foreground_checkpoints += 1;
                } else {
                    self.waiters.wait_for_change();
                }
            } else if self.running.promised() > 0 {
                self.close_running(Why::Promises)?;
            } else {
                self.waiters.wait_for_change();
            }
        }
    }

    /// Commits the running transaction, or waits a little for who is committing: with the next switch another one
    /// begins.
    fn close_running(&self, why: Why) -> Result<()> {
        let Some(mut committed) = self.commit_lock.try_lock() else {
            self.waiters.wait_for_change();
            return Ok(());
        };
        self.stats.lock().foreground_commits += 1;
        self.commit(&mut committed, why)?;
        drop(committed);
        self.bound_pending()
    }
}
