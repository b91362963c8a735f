//! The order in which a cache looks for something to evict: a queue beside the cache's map.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// The keys of a map, in the order of second chance. What has left the map leaves its place behind; so many places at
/// most that the queue is bounded by the map.
#[derive(Debug)]
pub struct Clock<K> {
    queue: VecDeque<K>,
    /// So many calls more do not look at anything.
    rest: usize,
}

impl<K> Default for Clock<K> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), rest: 0 }
    }
}

/// What becomes of a key that the hand of a [`Clock`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The map does not have it any more.
    Gone,
    /// It stays for another round: it has been used since the last.
    Stays,
    /// It stays because somebody holds it.
    Held,
    /// It is evicted.
    Evicted,
}

/// Places beyond twice the map's size that may be left behind before they are cleared away.
const SPARE: usize = 64;

/// Calls that a hand rests for at most: so much can a map outgrow its bound before it is looked at again.
const LONGEST_REST: usize = 8;

impl<K: Copy + Eq + Hash> Clock<K> {
    /// Adds a key that a map of `len` keys has just been given; `holds` says which it has.
    pub fn push(&mut self, key: K, len: usize, holds: impl Fn(&K) -> bool) {
        self.queue.push_back(key);
        if self.queue.len() > 2 * len + SPARE {
            let mut seen = HashSet::new();
            self.queue.retain(|key| holds(key) && seen.insert(*key));
        }
    }

    /// Lets the hand go over up to `most` keys, and up to two rounds, until `look` evicts one. False when it evicts
    /// none. If all it has looked at are held, it rests for as many calls, but 8 at most, so that a map full of what is
    /// held costs one look for each call. Where it goes past what has only been used, it must go on: so the map stays
    /// within its bound.
    pub fn evict(&mut self, most: usize, mut look: impl FnMut(K) -> Look) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        let (most, mut are_held) = (most.min(self.queue.len() * 2), true);
        for _ in 0..most {
            let Some(key) = self.queue.pop_front() else { return false };
            match look(key) {
                Look::Gone => {}
                Look::Stays => {
                    self.queue.push_back(key);
                    are_held = false;
                }
                Look::Held => self.queue.push_back(key),
                Look::Evicted => return true,
            }
        }
        self.rest = if are_held { most.min(LONGEST_REST) } else { 0 };
        false
    }

    /// Places, of keys that the map has and of those that it had.
    pub fn places(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_are_bounded_whatever_leaves_the_map() {
        let (mut clock, mut map) = (Clock::default(), HashSet::new());
        for key in 0..100_000u64 {
            let key = key % 50;
            if !map.remove(&key) {
                map.insert(key);
                clock.push(key, map.len(), |key| map.contains(key));
            }
            assert!(clock.places() <= 2 * 50 + SPARE + 1);
        }
        // Nobody is forgotten by the clearing.
        let mut found = HashSet::new();
        while clock.evict(usize::MAX, |key| if map.contains(&key) { Look::Evicted } else { Look::Gone }) {
            found.insert(found.len());
        }
        assert!(found.len() >= map.len());
    }

    #[test]
    fn what_stays_gets_another_round() {
        let mut clock = Clock::default();
        (0..3).for_each(|key| clock.push(key, 3, |_| true));
        let mut seen = Vec::new();
        let evicted = clock.evict(usize::MAX, |key| {
            seen.push(key);
            if seen.len() == 4 { Look::Evicted } else { Look::Stays }
        });
        assert!(evicted);
        assert_eq!(seen, [0, 1, 2, 0]);
        assert!(!clock.evict(1, |_| Look::Stays));
    }

    #[test]
    fn a_hand_that_found_all_held_rests() {
        let mut clock = Clock::default();
        (0..3).for_each(|key| clock.push(key, 3, |_| true));
        let mut looked = 0;
        let mut call = |most, look| {
            clock.evict(most, |_| {
                looked += 1;
                look
            })
        };
        assert!(!call(2, Look::Stays));
        assert!(!call(2, Look::Held));
        assert!(!call(2, Look::Evicted) && !call(2, Look::Evicted));
        assert!(call(2, Look::Evicted) && call(2, Look::Evicted));
        assert_eq!(looked, 6);
    }
}
