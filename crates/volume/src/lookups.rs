//! Inodes that somebody knows by number and may ask for without naming or opening them: a kernel, until it forgets
//! them. Such an inode outlives its last name, as an orphan.

use crate::Ino;
use crate::node::shrink;
use crate::pages::{Holes, Pages};
use ondol_env::Env;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::collections::HashMap;

const SHARDS: usize = 64;

/// Nanoseconds within which a kernel forgets an inode that nobody uses, once its last name is gone.
const SOON: u64 = 10_000_000;

/// How often each inode was handed out.
#[derive(Debug)]
pub(crate) struct Lookups {
    shards: Vec<Mutex<Shard>>,
    /// Inodes without names that wait to be forgotten, or are being deleted since.
    held: AtomicU64,
    /// What those have of the volume, in units of 512 bytes.
    units: AtomicU64,
    /// Those of them that are being deleted: each has a number, so many were begun in all.
    begun: AtomicU64,
    /// So many of them have ended.
    ended: AtomicU64,
    /// When that last changed: monotonic nanoseconds.
    changed: AtomicU64,
    /// Some of them have, or had, holes in pages.
    has_holes: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    known: HashMap<Ino, Known>,
    /// Forgotten, and not deleted yet.
    dying: HashMap<Ino, Dying>,
}

#[derive(Debug, Default)]
struct Known {
    times: u64,
    /// It lives on because of this, which counts as an opener.
    held: bool,
    /// What it has then, in units of 512 bytes.
    units: u64,
    /// What whoever knows it has of its contents.
    pages: Pages,
}

#[derive(Debug)]
struct Dying {
    /// Which deletion it is: inode numbers come again.
    number: u64,
    /// What is left of it, in units of 512 bytes.
    units: u64,
}

impl Default for Lookups {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let zero = || AtomicU64::new(0);
        let has_holes = AtomicBool::new(false);
        Self { shards, held: zero(), units: zero(), begun: zero(), ended: zero(), changed: zero(), has_holes }
    }
}

impl Lookups {
    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        &self.shards[ino as usize % SHARDS]
    }

    /// Counts that the inode was handed out to somebody who keeps its number.
    pub(crate) fn count(&self, ino: Ino) {
        self.shard(ino).lock().known.entry(ino).or_default().times += 1;
    }

    /// Whether somebody knows the inode.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).lock().known.contains_key(&ino)
    }

    /// What `f` makes of the pages of an inode, if anybody knows it.
    pub(crate) fn with_pages<T>(&self, ino: Ino, f: impl FnOnce(&mut Pages) -> T) -> Option<T> {
        self.shard(ino).lock().known.get_mut(&ino).map(|known| f(&mut known.pages))
    }

    /// Notes that the cache was given holes of an inode, if anybody knows it.
    pub(crate) fn note_holes(&self, ino: Ino, new: Holes) {
        if !new.is_empty() {
            self.has_holes.store(true, Relaxed);
            self.with_pages(ino, |pages| pages.add_holes(new));
        }
    }

    /// The holes of an inode that the cache was given.
    pub(crate) fn holes_given(&self, ino: Ino) -> Option<Holes> {
        if !self.has_holes.load(Relaxed) {
            return None;
        }
        self.with_pages(ino, |pages| pages.holes())?
    }

    /// How many inodes somebody knows.
    pub(crate) fn known(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().known.len()).sum()
    }

    /// Has an inode with so many `units` of 512 bytes, which loses its last name, live until it is forgotten, if
    /// anybody knows it: that counts as one of its `openers`, before it can be forgotten.
    pub(crate) fn hold(&self, ino: Ino, units: u64, now: u64, openers: &AtomicU32) {
        let mut shard = self.shard(ino).lock();
        let Some(known) = shard.known.get_mut(&ino).filter(|known| !known.held) else { return };
        (known.held, known.units) = (true, units);
        openers.fetch_add(1, SeqCst);
        self.held.fetch_add(1, SeqCst);
        self.units.fetch_add(units, SeqCst);
        self.changed.store(now, SeqCst);
    }

    /// An inode without names has another size.
    pub(crate) fn has(&self, ino: Ino, units: u64) {
        let mut shard = self.shard(ino).lock();
        let Shard { known, dying } = &mut *shard;
        let had = match known.get_mut(&ino).filter(|known| known.held) {
            Some(known) => &mut known.units,
            None => match dying.get_mut(&ino) {
                Some(dying) => &mut dying.units,
                None => return,
            },
        };
        // At once: who reads sees one or the other. It wraps around where there is less.
        self.units.fetch_add(units.wrapping_sub(*had), SeqCst);
        *had = units;
    }

    /// If the inode was held, and no longer is: it counts as being deleted, and this is the number of that.
    pub(crate) fn forget(&self, ino: Ino, times: u64) -> Option<u64> {
        let mut shard = self.shard(ino).lock();
        let known = shard.known.get_mut(&ino)?;
        known.times = known.times.saturating_sub(times);
        if known.times > 0 {
            return None;
        }
        let known = shard.known.remove(&ino);
        shrink(&mut shard.known);
        let units = known.filter(|known| known.held)?.units;
        let number = self.begun.fetch_add(1, SeqCst);
        if let Some(other) = shard.dying.insert(ino, Dying { number, units }) {
            self.end(&other);
        }
        Some(number)
    }

    /// The inode is deleted.
    pub(crate) fn deleted(&self, ino: Ino) {
        if let Some(dying) = self.shard(ino).lock().dying.remove(&ino) {
            self.end(&dying);
        }
    }

    /// The deletion of that `number` is over, if it is not yet: somebody has the inode open, or it failed.
    pub(crate) fn left(&self, ino: Ino, number: u64) {
        let mut shard = self.shard(ino).lock();
        if shard.dying.get(&ino).is_some_and(|dying| dying.number == number)
            && let Some(dying) = shard.dying.remove(&ino)
        {
            self.end(&dying);
        }
    }

    /// Notes that an inode without names may be about to be forgotten, or has just been.
    pub(crate) fn changed(&self, now: u64) {
        self.changed.store(now, SeqCst);
    }

    /// Whether space is likely to come free that deleted files have.
    pub(crate) fn awaits_forgetting(&self, env: &dyn Env) -> bool {
        let age = || env.monotonic_ns().saturating_sub(self.changed.load(SeqCst));
        let deleting = || self.ended.load(SeqCst) != self.begun.load(SeqCst);
        self.held.load(SeqCst) > 0 && (deleting() || age() < SOON)
    }

    /// How many deletions were begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(SeqCst)
    }

    /// How many inodes without names wait to be forgotten or are being deleted, and the units that they have.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        (self.held.load(SeqCst), self.units.load(SeqCst))
    }

    fn end(&self, dying: &Dying) {
        self.held.fetch_sub(1, SeqCst);
        self.units.fetch_sub(dying.units, SeqCst);
        self.ended.fetch_add(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(lookups: &Lookups, ino: Ino, units: u64) {
        lookups.shard(ino).lock().known.entry(ino).or_default().times += 1;
        lookups.hold(ino, units, 0, &AtomicU32::new(1));
    }

    fn counted(lookups: &Lookups) -> (u64, u64, u64) {
        let deleting = lookups.begun.load(SeqCst) - lookups.ended.load(SeqCst);
        (lookups.held.load(SeqCst), lookups.units.load(SeqCst), deleting)
    }

    #[test]
    fn steps_of_a_deletion_leave_less() {
        let lookups = Lookups::default();
        known(&lookups, 20, 100);
        known(&lookups, 21, 8);
        assert_eq!(counted(&lookups), (2, 108, 0));
        let number = lookups.forget(20, 1).expect("it was held");
        assert_eq!(counted(&lookups), (2, 108, 1));
        lookups.has(20, 60);
        assert_eq!(counted(&lookups), (2, 68, 1));
        lookups.has(20, 0);
        lookups.deleted(20);
        assert_eq!(counted(&lookups), (1, 8, 0));
        lookups.left(20, number);
        assert_eq!(counted(&lookups), (1, 8, 0), "counted once");
    }

    #[test]
    fn a_number_that_comes_again_is_another_inode() {
        let lookups = Lookups::default();
        known(&lookups, 20, 100);
        let first = lookups.forget(20, 1).expect("it was held");
        lookups.deleted(20);
        known(&lookups, 20, 16);
        let second = lookups.forget(20, 1).expect("it was held");
        lookups.left(20, first);
        assert_eq!(counted(&lookups), (1, 16, 1), "the first was over");
        // It is open, or its deletion fails.
        lookups.left(20, second);
        assert_eq!(counted(&lookups), (0, 0, 0));
    }
}
