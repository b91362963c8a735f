//! Background work as objects that are stepped: their owner gives them threads ([`crate::Background`]), or calls them.

use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// What one step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing to do now.
    Idle,
    /// Something was done; another step may find more.
    Worked,
}

/// What whoever steps a step waits at. Rings are counted, so that several can wait at one bell and none misses a ring.
#[derive(Debug, Default)]
pub struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// There may be something to do.
    pub fn ring(&self) {
        *self.rings.lock() += 1;
        self.rung.notify_all();
    }

    /// How often it has rung: to be asked before looking for work.
    pub fn rings(&self) -> u64 {
        *self.rings.lock()
    }

    /// Waits until it has rung again since it had rung `seen` times, or for `most`.
    pub fn wait(&self, seen: u64, most: Duration) {
        let mut rings = self.rings.lock();
        if *rings == seen {
            self.rung.wait_for(&mut rings, most);
        }
    }
}

/// A committer, checkpointer or flusher: `step` does one bounded piece of its work on the calling thread.
///
/// The crash laboratory calls steps from a schedule it controls.
pub trait Step: Send + Sync {
    /// The type of a failure of the work itself.
    type Error;

    /// What it does, in one word: its thread is called so.
    fn name(&self) -> &'static str;

    /// Rung when there may be something to do before the owner would look again.
    fn bell(&self) -> &Bell;

    /// Does one piece of work.
    ///
    /// # Errors
    /// The failure of the work; the owner of the step decides what it means for the volume.
    fn step(&self) -> Result<Progress, Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use crate::sync::thread;

    #[test]
    fn no_ring_is_missed_by_anybody() {
        let bell = Arc::new(Bell::default());
        let seen = bell.rings();
        bell.ring();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let bell = bell.clone();
                thread::spawn(move || {
                    // It has rung since, and they wait for the next one.
                    bell.wait(seen, Duration::MAX);
                    bell.wait(seen + 1, Duration::MAX);
                })
            })
            .collect();
        bell.ring();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        bell.wait(bell.rings(), Duration::ZERO);
        assert_eq!(bell.rings(), 2);
    }
}
