//! The count of free space, which every operation takes a promise from, and how threads keep from meeting in it.

use ondol_env::apart::{Apart, STRIPES, stripe};
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What a stripe of threads takes at once when it has nothing in hand, and half of what it may have.
const HANDFUL: u64 = 256;
/// Hands are filled only where so much stays: where space is short, all is in one number, and so exact.
const PLENTY: u64 = 4 * STRIPES as u64 * HANDFUL;

/// Free clusters that nobody has been promised: in one number, and some of them in the hands of threads.
#[derive(Debug)]
pub(super) struct Free {
    all: AtomicU64,
    hands: [Apart<AtomicU64>; STRIPES],
}

impl Free {
    pub(super) fn new(clusters: u64) -> Self {
        Self { all: AtomicU64::new(clusters), hands: Default::default() }
    }

    /// Takes `clusters`, if `keep` stay; false where they do not.
    pub(super) fn take(&self, clusters: u64, keep: u64) -> bool {
        let hand = &self.hands[stripe()];
        if clusters <= HANDFUL && self.is_plenty(keep) {
            if hand.fetch_update(SeqCst, SeqCst, |has| has.checked_sub(clusters)).is_ok() {
                return true;
            }
            if self.take_of_all(clusters + HANDFUL, keep) {
                hand.fetch_add(HANDFUL, SeqCst);
                return true;
            }
        }
        self.take_of_all(clusters, keep) || {
            self.empty_hands();
            self.take_of_all(clusters, keep)
        }
    }

    /// Gives clusters back.
    pub(super) fn give(&self, clusters: u64) {
        if clusters == 0 {
            return;
        }
        let hand = &self.hands[stripe()];
        let has_room = |has: u64| (has + clusters <= 2 * HANDFUL).then(|| has + clusters);
        if !self.is_plenty(0) || hand.fetch_update(SeqCst, SeqCst, has_room).is_err() {
            self.all.fetch_add(clusters, SeqCst);
        }
    }

    /// How many there are.
    pub(super) fn sum(&self) -> u64 {
        self.all.load(SeqCst) + self.hands.iter().map(|hand| hand.load(SeqCst)).sum::<u64>()
    }

    fn is_plenty(&self, keep: u64) -> bool {
        self.all.load(SeqCst) >= keep + PLENTY
    }

    fn take_of_all(&self, clusters: u64, keep: u64) -> bool {
        let take = |free: u64| free.checked_sub(clusters).filter(|&left| left >= keep);
        self.all.fetch_update(SeqCst, SeqCst, take).is_ok()
    }

    fn empty_hands(&self) {
        for hand in &self.hands {
            let has = hand.swap(0, SeqCst);
            if has > 0 {
                self.all.fetch_add(has, SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_given_adds_up_to_the_last_cluster() {
        let free = Free::new(PLENTY + 3 * HANDFUL);
        assert!(free.take(1, 0));
        assert_eq!(free.sum(), PLENTY + 3 * HANDFUL - 1);
        assert!(free.hands.iter().any(|hand| hand.load(SeqCst) > 0), "nothing in hand");
        // All of it can be had, what is in hands included, and not one more.
        assert!(!free.take(PLENTY + 3 * HANDFUL, 0));
        assert!(free.take(PLENTY + 3 * HANDFUL - 1 - 8, 8));
        assert!(!free.take(1, 8));
        assert_eq!(free.sum(), 8);
        assert!(free.take(8, 0));
        assert!(!free.take(1, 0));
        free.give(5);
        assert_eq!(free.sum(), 5);
    }
}
