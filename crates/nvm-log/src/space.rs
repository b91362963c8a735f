//! Space of the ring: what is promised or used. Each thread has a little in hand, so that a promise is no line of
//! memory that all meet.

use ondol_env::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use ondol_env::thread_number;

const SHARDS: u64 = 16;
/// Lines that a shard takes at once, at most.
const SHARE: u64 = 512;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

#[derive(Debug)]
pub(crate) struct Space {
    capacity: u64,
    /// Lines that are promised, used, or in the hand of a shard.
    gone: Padded,
    hands: [Padded; SHARDS as usize],
    share: u64,
}

impl Space {
    pub(crate) fn new(capacity: u64) -> Self {
        let share = (capacity / (4 * SHARDS)).min(SHARE);
        Self { capacity, gone: Padded::default(), hands: Default::default(), share }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Lines that are promised or used.
    pub(crate) fn used(&self) -> u64 {
        let in_hand: u64 = self.hands.iter().map(|hand| hand.0.load(Acquire)).sum();
        self.gone.0.load(Acquire).saturating_sub(in_hand)
    }

    fn hand(&self) -> &AtomicU64 {
        &self.hands[(u64::from(thread_number()) % SHARDS) as usize].0
    }

    /// Takes lines. False: there are not so many.
    pub(crate) fn take(&self, lines: u64) -> bool {
        let hand = self.hand();
        if hand.fetch_update(AcqRel, Acquire, |n| n.checked_sub(lines)).is_ok() {
            return true;
        }
        if self.grow(lines + self.share) {
            hand.fetch_add(self.share, AcqRel);
            return true;
        }
        if self.grow(lines) {
            return true;
        }
        for hand in &self.hands {
            self.shrink(hand.0.swap(0, AcqRel));
        }
        self.grow(lines)
    }

    /// Gives lines back.
    pub(crate) fn give(&self, lines: u64) {
        let hand = self.hand();
        if hand.fetch_add(lines, AcqRel) + lines > 2 * self.share {
            self.shrink(hand.swap(0, AcqRel));
        }
    }

    /// Lines of the ring are free again.
    pub(crate) fn free(&self, lines: u64) {
        self.shrink(lines);
    }

    fn grow(&self, lines: u64) -> bool {
        let more = |n: u64| n.checked_add(lines).filter(|n| *n <= self.capacity);
        self.gone.0.fetch_update(AcqRel, Acquire, more).is_ok()
    }

    fn shrink(&self, lines: u64) {
        if lines > 0 {
            self.gone.0.fetch_sub(lines, AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_can_be_taken_and_comes_back() {
        for capacity in [64, 1000, 1 << 20] {
            let space = Space::new(capacity);
            for lines in [1, 3, capacity / 3] {
                let mut taken = 0;
                while space.take(lines) {
                    taken += lines;
                }
                assert!(taken + lines > capacity && space.used() == taken, "{taken} of {capacity} by {lines}");
                (0..taken / lines).for_each(|_| space.give(lines));
                assert_eq!(space.used(), 0);
            }
            assert!(space.take(capacity) && !space.take(1));
            space.free(capacity);
            assert_eq!(space.used(), 0);
        }
    }

    /// What other threads have in hand is no loss.
    #[test]
    fn what_others_have_in_hand_is_found() {
        let space = ondol_env::sync::Arc::new(Space::new(4096));
        let takers: Vec<_> = (0..8)
            .map(|_| {
                let space = space.clone();
                ondol_env::sync::thread::spawn(move || {
                    assert!(space.take(1));
                    space.give(1);
                })
            })
            .collect();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(space.used(), 0);
        assert!(space.take(4096), "{space:?}");
    }
}
