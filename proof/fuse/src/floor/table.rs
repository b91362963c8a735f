//! What the kernel knows, by number, until it forgets it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// More parts than processors, so that requests seldom meet in one.
const PARTS: usize = 64;

/// The nodes that the kernel has been told of, and how often.
pub(super) struct Table<N> {
    parts: Box<[Part<N>]>,
}

/// On a line of its own.
#[repr(align(128))]
struct Part<N>(Mutex<HashMap<u64, Known<N>>>);

struct Known<N> {
    node: Arc<N>,
    told: u64,
}

impl<N> Table<N> {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Part(Mutex::new(HashMap::new()))).collect() }
    }

    fn part(&self, number: u64) -> Option<&Mutex<HashMap<u64, Known<N>>>> {
        self.parts.get((number % PARTS as u64) as usize).map(|part| &part.0)
    }

    /// The node with this number, if the kernel knows it.
    pub(super) fn get(&self, number: u64) -> Option<Arc<N>> {
        self.part(number)?.lock().get(&number).map(|known| Arc::clone(&known.node))
    }

    /// The kernel is told of a node once more. Hands back the one that it knows already, or else `node`.
    pub(super) fn tell(&self, number: u64, node: Arc<N>) -> Arc<N> {
        let Some(part) = self.part(number) else { return node };
        match part.lock().entry(number) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.told += 1;
                Arc::clone(&known.node)
            }
            Entry::Vacant(place) => Arc::clone(&place.insert(Known { node, told: 1 }).node),
        }
    }

    /// The kernel takes back so many times that it was told.
    pub(super) fn forget(&self, number: u64, times: u64) {
        let Some(part) = self.part(number) else { return };
        let mut part = part.lock();
        let Entry::Occupied(mut known) = part.entry(number) else { return };
        let told = known.get().told.saturating_sub(times);
        if told == 0 {
            let last = known.remove();
            drop(part);
            drop(last);
        } else {
            known.get_mut().told = told;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_until_it_is_forgotten_as_often_as_it_was_told() {
        let table = Table::new();
        let first = table.tell(7, Arc::new("first"));
        let again = table.tell(7, Arc::new("second"));
        assert!(Arc::ptr_eq(&first, &again), "one number, one node");
        table.forget(7, 1);
        assert!(table.get(7).is_some());
        table.forget(7, 1);
        assert!(table.get(7).is_none());
        table.forget(7, 1);
        assert_eq!(*table.tell(7, Arc::new("third")), "third");
        assert_eq!(*table.tell(7 + PARTS as u64, Arc::new("fourth")), "fourth");
    }
}
