//! Files whose data goes on through the journal.

use crate::Ino;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::collections::HashSet;

/// Inodes whose data once went through the journal by their flag, since the volume was opened. It goes on doing so,
/// with the flag or without: an older image in the log must not come home over bytes that were written there since.
#[derive(Debug)]
pub(crate) struct OnceJournaled {
    any: AtomicBool,
    /// By inode number, so that operations on different files seldom meet.
    inodes: [Mutex<HashSet<Ino>>; SHARDS],
}

/// Sets of inodes, each with a lock of its own.
const SHARDS: usize = 64;

impl Default for OnceJournaled {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), inodes: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl OnceJournaled {
    fn of(&self, ino: Ino) -> &Mutex<HashSet<Ino>> {
        &self.inodes[ino as usize % SHARDS]
    }

    /// Remembers an inode.
    pub(crate) fn add(&self, ino: Ino) {
        self.of(ino).lock().insert(ino);
        self.any.store(true, SeqCst);
    }

    /// Forgets an inode that is freed: with its blocks, which the log revokes, all that it was remembered for is gone.
    pub(crate) fn forget(&self, ino: Ino) {
        if self.any.load(SeqCst) {
            self.of(ino).lock().remove(&ino);
        }
    }

    /// Whether it is remembered.
    pub(crate) fn contains(&self, ino: Ino) -> bool {
        self.any.load(SeqCst) && self.of(ino).lock().contains(&ino)
    }
}
