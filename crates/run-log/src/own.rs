//! Who a process is, as an owner of locks, and its lanes: one until it is full, then more, as long as others find some,
//! too.

use crate::client::Client;
use crate::error::{Result, RunLogError};
use crate::{Log, LogOptions};
use ondol_env::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Lanes that a process has at most.
const MOST: usize = 32;
/// Of how many lanes one is left to others by whoever has one already.
const LEFT: u32 = 4;
const NONE: u32 = u32::MAX;
/// Whoever it is has not been asked yet.
const NOBODY: u64 = 0;

/// Which lanes a process has.
#[derive(Debug)]
pub(crate) struct Own {
    lanes: [AtomicU32; MOST],
    /// The one that is written to.
    current: AtomicUsize,
}

impl Own {
    pub(crate) fn new() -> Self {
        Self { lanes: [const { AtomicU32::new(NONE) }; MOST], current: AtomicUsize::new(0) }
    }

    /// After fork(2): they are the parent's.
    pub(crate) fn forget(&self) {
        self.lanes.iter().for_each(|lane| lane.store(NONE, Relaxed));
        self.current.store(0, Relaxed);
    }

    /// From the current one on.
    fn each(&self) -> impl Iterator<Item = (usize, u32)> {
        let current = self.current.load(Relaxed);
        let places = (0..MOST).map(move |n| (current + n) % MOST);
        places.filter_map(|n| self.lanes.get(n).map(|lane| (n, lane.load(Relaxed)))).filter(|(_, lane)| *lane != NONE)
    }

    fn take(&self, new: u32) {
        let empty = |lane: &AtomicU32| lane.compare_exchange(NONE, new, Relaxed, Relaxed).is_ok();
        // Where all are taken by threads that claim at once, one lane stays without use.
        if let Some(place) = self.lanes.iter().position(empty) {
            self.current.store(place, Relaxed);
        }
    }
}

impl Client {
    /// fork(2) has made this process, and no other thread is in it yet: it is another owner than its parent.
    pub fn forked(&self, process: u32) {
        self.process.store(process, Relaxed);
        self.me.store(NOBODY, Relaxed);
        self.lanes.forget();
    }

    /// `process`, which calls, and its token.
    ///
    /// # Errors
    /// `Stranger`: a child of vfork(2) or clone(2) has the memory of another process, and one in another PID namespace
    /// a number that means something else. The medium's failure.
    pub(crate) fn me(&self, process: u32) -> Result<u64> {
        let before = self.me.load(Relaxed);
        if self.fixed || before >> 32 == u64::from(process) {
            return Ok(before);
        }
        let foreign = || LogOptions::namespace_here() != self.log.machine().namespace;
        if before != NOBODY || self.process.load(Relaxed) != process || foreign() {
            return Err(RunLogError::Stranger { pool: self.log.nvm.name().into() });
        }
        let me = own(&self.log, process)?;
        match self.me.compare_exchange(before, me, Relaxed, Relaxed) {
            Ok(_) => Ok(me),
            // Another thread was first: both are the same owner.
            Err(theirs) => Ok(theirs),
        }
    }

    /// A lane of this process (`me`) with room for `span` bytes; one is claimed if there is none.
    pub(crate) fn lane(&self, me: u64, span: u64) -> Result<Option<u32>> {
        let mut first = true;
        for freed in [false, true] {
            for (place, index) in self.lanes.each() {
                first = false;
                let lane = self.log.lane(index);
                if freed {
                    // What was synced for real since the drain has last been here.
                    lane.advance()?;
                }
                if lane.has_room(span)? {
                    self.lanes.current.store(place, Relaxed);
                    return Ok(Some(index));
                }
            }
        }
        let left = if first { 0 } else { self.log.header.lanes / LEFT };
        let mut unclaimed = Vec::new();
        for lane in self.log.lanes() {
            if lane.is_free(me)? {
                unclaimed.push(lane);
            }
        }
        if unclaimed.len() <= left as usize {
            return Ok(None);
        }
        for lane in unclaimed {
            // It may be full of what somebody who is gone has left.
            if lane.has_room(span)? && lane.claim(me)? {
                self.lanes.take(lane.index);
                return Ok(Some(lane.index));
            }
        }
        Ok(None)
    }
}

/// Process and token.
pub(crate) fn own(log: &Log, process: u32) -> Result<u64> {
    Ok(u64::from(process) << 32 | log.token()?)
}
