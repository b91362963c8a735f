//! Inodes that somebody knows by number and may ask for without naming or opening them: a kernel, until it forgets them. Such an inode
//! outlives its last name, as an orphan.

use crate::{Ino, Result, StatFs, Volume};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::collections::HashMap;

const SHARDS: usize = 64;

/// Nanoseconds within which a kernel forgets an inode that nobody uses, once its last name is gone.
const SOON: u64 = 10_000_000;

/// How often each inode was handed out.
#[derive(Debug)]
pub(crate) struct Lookups {
    shards: Vec<Mutex<HashMap<Ino, Known>>>,
    /// Inodes without names that wait to be forgotten, or are being deleted since.
    held: AtomicU64,
    /// What those have of the volume, in units of 512 bytes.
    units: AtomicU64,
    /// When that last changed: monotonic nanoseconds.
    changed: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    times: u64,
    /// It lives on because of this, which counts as an opener.
    held: bool,
    /// What it has then, in units of 512 bytes.
    units: u64,
}

impl Default for Lookups {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, held: AtomicU64::new(0), units: AtomicU64::new(0), changed: AtomicU64::new(0) }
    }
}

impl Lookups {
    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Known>> {
        &self.shards[ino as usize % SHARDS]
    }

    /// Whether somebody knows the inode.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }

    /// Has an inode with so many `units` of 512 bytes, which loses its last name, live until it is forgotten, if anybody knows it: that counts as one
    /// of its `openers`, before it can be forgotten.
    pub(crate) fn hold(&self, ino: Ino, units: u64, now: u64, openers: &AtomicU32) {
        let mut shard = self.shard(ino).lock();
        let Some(known) = shard.get_mut(&ino).filter(|known| !known.held) else { return };
        (known.held, known.units) = (true, units);
        openers.fetch_add(1, SeqCst);
        self.held.fetch_add(1, SeqCst);
        self.units.fetch_add(units, SeqCst);
        self.changed.store(now, SeqCst);
    }

    /// An inode without names has another size.
    pub(crate) fn has(&self, ino: Ino, units: u64) {
        let mut shard = self.shard(ino).lock();
        let Some(known) = shard.get_mut(&ino).filter(|known| known.held) else { return };
        self.units.fetch_sub(known.units, SeqCst);
        self.units.fetch_add(units, SeqCst);
        known.units = units;
    }

    /// If the inode was held, and no longer is: what it has, in units of 512 bytes.
    fn forget(&self, ino: Ino, times: u64) -> Option<u64> {
        let mut shard = self.shard(ino).lock();
        let known = shard.get_mut(&ino)?;
        known.times = known.times.saturating_sub(times);
        if known.times > 0 {
            return None;
        }
        shard.remove(&ino).filter(|known| known.held).map(|known| known.units)
    }
}

impl Volume {
    /// Counts that the inode was handed out to somebody who keeps its number, and who says so when he no longer does: see
    /// [`Volume::forget`].
    pub fn looked_up(&self, ino: Ino) {
        // Nothing loses its name on a volume that is for reading only.
        if !self.options.read_only {
            self.lookups.shard(ino).lock().entry(ino).or_default().times += 1;
        }
    }

    /// Takes back so many of [`Volume::looked_up`]. The last deletes an inode that has neither names nor openers.
    ///
    /// # Errors
    /// As a deletion, which the next mount then finishes.
    pub fn forget(&self, ino: Ino, times: u64) -> Result<()> {
        let Some(units) = self.lookups.forget(ino, times) else { return Ok(()) };
        let released = match self.release(ino) {
            // The end of the mount came first.
            Err(_) if !self.orphans.contains(ino) => Ok(()),
            released => released,
        };
        self.lookups.held.fetch_sub(1, SeqCst);
        self.lookups.units.fetch_sub(units, SeqCst);
        self.lookups.changed.store(self.env.monotonic_ns(), SeqCst);
        released
    }

    /// Notes that an inode without names is no longer open: it may be about to be forgotten.
    pub(crate) fn may_be_forgotten(&self) {
        self.lookups.changed.store(self.env.monotonic_ns(), SeqCst);
    }

    /// Whether space is likely to come free that deleted files have.
    pub(crate) fn awaits_forgetting(&self) -> bool {
        let age = || self.env.monotonic_ns().saturating_sub(self.lookups.changed.load(SeqCst));
        self.lookups.held.load(SeqCst) > 0 && age() < SOON
    }

    /// As [`Volume::statfs`], where what was removed just now counts as free, for it is about to be forgotten. What somebody has
    /// open is counted so for a moment, too.
    pub fn statfs_forgetting(&self) -> StatFs {
        let now = self.statfs();
        if !self.awaits_forgetting() {
            return now;
        }
        // What is being deleted may be counted twice for a moment.
        let soon = self.lookups.units.load(SeqCst) / u64::from(now.block_size / 512);
        let free = (now.free + soon).min(now.blocks);
        let available = free.saturating_sub(self.shared.groups.reserved());
        let files_free = (now.files_free + self.lookups.held.load(SeqCst)).min(now.files);
        StatFs { free, available, files_free, ..now }
    }
}
