//! Since when the oldest operation waits that is not durable. An operation pays a load for it, and who begins after a
//! commit a look at the clock.

use ondol_env::Env;
// Nothing but a timer goes by these, so they are no places at which schedules part.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Times are monotonic nanoseconds; 0 stands for none. What is recorded while a commit gathers, or while the committer
/// sees nothing, may be left without a time: then the next record, or the committer's next look, begins a new one.
#[derive(Debug, Default)]
pub(super) struct WaitingSince {
    /// Of the first record that no commit has taken.
    first: AtomicU64,
    /// The same of the last commit, which covers what lies below `end`.
    committing: AtomicU64,
    end: AtomicU64,
}

impl WaitingSince {
    /// Before a record is complete: no commit covers it yet.
    pub(super) fn begin(&self, env: &dyn Env) {
        if self.first.load(Relaxed) == 0 {
            self.first.store(env.monotonic_ns().max(1), Relaxed);
        }
    }

    /// A commit covers what is complete below `end`, and is not durable yet. One at a time.
    pub(super) fn commit(&self, end: u64) {
        self.committing.store(self.first.swap(0, Relaxed), Relaxed);
        self.end.store(end, Release);
    }

    /// Nothing waits. A time that was begun for nobody would be taken for the next record's.
    pub(super) fn nothing(&self) {
        self.first.store(0, Relaxed);
    }

    /// When the oldest began, where what lies below `durable` is.
    pub(super) fn oldest(&self, durable: u64) -> Option<u64> {
        let is_under_way = durable <= self.end.load(Acquire);
        let committing = if is_under_way { self.committing.load(Relaxed) } else { 0 };
        [committing, self.first.load(Relaxed)].into_iter().find(|since| *since != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_env::{Fixed, Timestamp};

    #[test]
    fn the_oldest_is_what_a_commit_has_under_way() {
        let (since, env) = (WaitingSince::default(), Fixed::new(Timestamp::default(), 5));
        assert_eq!(since.oldest(1), None);
        let begin = || {
            env.advance(1000);
            since.begin(&env);
            env.monotonic_ns()
        };
        let first = begin();
        begin();
        assert_eq!(since.oldest(1), Some(first));
        since.commit(7);
        let next = begin();
        assert_eq!(since.oldest(1), Some(first));
        assert_eq!(since.oldest(8), Some(next));
        since.commit(9);
        assert_eq!(since.oldest(8), Some(next));
        assert_eq!(since.oldest(10), None);
        // The committer looked when all was durable already.
        begin();
        since.nothing();
        assert_eq!(since.oldest(10), None);
        let later = begin();
        assert_eq!(since.oldest(10), Some(later));
    }
}
