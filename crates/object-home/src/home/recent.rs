//! Chunks of which parts were written lately, as they are in the database: the next such write reads nothing. With
//! chunks larger than blocks, each batch writes parts of the same few.

use bytes::Bytes;
use std::collections::HashMap;

/// Bytes for them.
const ROOM: usize = 16 << 20;

/// What one takes beside its value.
const BESIDE: usize = 64;

/// Two generations, as in the cache of the database. A chunk without a key has no value.
#[derive(Default)]
pub(super) struct Recent {
    young: HashMap<u64, Option<Bytes>>,
    old: HashMap<u64, Option<Bytes>>,
    /// Bytes of the young one.
    bytes: usize,
}

impl Recent {
    /// The value of a chunk, if it is here.
    pub(super) fn get(&mut self, number: u64) -> Option<Option<Bytes>> {
        if let Some(value) = self.young.get(&number) {
            return Some(value.clone());
        }
        let value = self.old.remove(&number)?;
        self.keep(number, value.clone());
        Some(value)
    }

    /// Keeps a chunk.
    pub(super) fn keep(&mut self, number: u64, value: Option<Bytes>) {
        let size = |value: &Option<Bytes>| BESIDE + value.as_ref().map_or(0, Bytes::len);
        self.old.remove(&number);
        self.bytes += size(&value);
        if let Some(before) = self.young.insert(number, value) {
            self.bytes -= size(&before);
        }
        if self.bytes > ROOM / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
    }

    /// A chunk has changed: what is kept of it is the new one.
    pub(super) fn change(&mut self, number: u64, value: Option<&Bytes>) {
        if self.young.contains_key(&number) || self.old.contains_key(&number) {
            self.keep(number, value.cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept_as_it_is_now_and_no_more_than_there_is_room_for() {
        let value = |n: u8| Some(Bytes::from(vec![n; 64 << 10]));
        let mut recent = Recent::default();
        recent.change(1, value(1).as_ref());
        assert_eq!(recent.get(1), None);
        recent.keep(1, value(1));
        recent.change(1, value(2).as_ref());
        assert_eq!(recent.get(1), Some(value(2)));
        recent.change(1, None);
        assert_eq!(recent.get(1), Some(None));
        recent.change(1, value(3).as_ref());
        for number in 2..1000 {
            recent.keep(number, value(0));
            assert_eq!(recent.get(1), Some(value(3)), "{number}");
            assert!(recent.young.len() + recent.old.len() <= ROOM / (64 << 10));
        }
        assert_eq!(recent.get(2), None);
    }
}
