//! Which slot holds what, and which one is given away next.

use std::collections::HashMap;

/// A part of an object: the hash of its name, and its number.
pub(super) type Key = (u64, u32);

/// A slot is given away when the hand comes round and nobody has used it since the hand was there last.
#[derive(Debug)]
pub(super) struct Index {
    places: HashMap<Key, u32>,
    slots: Vec<State>,
    hand: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    key: Option<Key>,
    is_used: bool,
    /// Somebody writes it.
    is_busy: bool,
}

impl Index {
    pub(super) fn new(slots: u32) -> Self {
        Self { places: HashMap::new(), slots: vec![State::default(); slots as usize], hand: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Where a part is. It was used.
    pub(super) fn find(&mut self, key: Key) -> Option<u32> {
        let slot = *self.places.get(&key)?;
        self.slots[slot as usize].is_used = true;
        Some(slot)
    }

    pub(super) fn holds(&self, key: Key) -> bool {
        self.places.contains_key(&key)
    }

    /// A slot to write to, which holds nothing until it is given back.
    pub(super) fn take(&mut self) -> Option<u32> {
        for _ in 0..self.slots.len() * 2 {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            let state = &mut self.slots[at];
            if state.is_busy {
                continue;
            }
            if std::mem::take(&mut state.is_used) {
                continue;
            }
            let before = std::mem::replace(state, State { is_busy: true, ..State::default() });
            if let Some(key) = before.key {
                self.places.remove(&key);
            }
            return Some(at as u32);
        }
        None
    }

    /// A slot that was taken holds this now, or nothing.
    pub(super) fn give(&mut self, slot: u32, key: Option<Key>) {
        // Two may have read the same part: the later one counts.
        if let Some(before) = key.and_then(|key| self.places.insert(key, slot)) {
            self.slots[before as usize].key = None;
        }
        self.slots[slot as usize] = State { key, ..State::default() };
    }

    /// A slot does not hold this part, or not rightly.
    pub(super) fn forget(&mut self, key: Key, slot: u32) {
        if self.places.get(&key) == Some(&slot) {
            self.places.remove(&key);
            self.slots[slot as usize].key = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_longer() {
        let mut index = Index::new(3);
        for n in 0..3 {
            let slot = index.take().unwrap();
            index.give(slot, Some((n, 0)));
        }
        assert_eq!(index.find((0, 0)), Some(0));
        let slot = index.take().unwrap();
        assert!(index.holds((0, 0)) && !index.holds((1, 0)));
        index.give(slot, Some((9, 0)));
        assert_eq!((index.len(), index.find((9, 0))), (3, Some(1)));
    }

    #[test]
    fn a_slot_that_is_written_is_given_to_nobody_and_holds_nothing() {
        let mut index = Index::new(2);
        let (one, two) = (index.take().unwrap(), index.take().unwrap());
        assert!(one != two && index.take().is_none());
        index.give(one, None);
        assert_eq!((index.len(), index.take()), (0, Some(one)));
        index.give(one, Some((1, 1)));
        index.give(two, Some((1, 1)));
        assert_eq!((index.len(), index.find((1, 1))), (1, Some(two)));
        index.forget((1, 1), one);
        assert!(index.holds((1, 1)));
        index.forget((1, 1), two);
        assert_eq!(index.len(), 0);
        // Both are free again.
        assert!(index.take().is_some() && index.take().is_some());
    }
}
