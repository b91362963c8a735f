//! Which empty objects of the log may be collected.
//!
//! To the database, an empty object of its log is a fence, and fences stay for ever: a writer that was away for long
//! stops at it. Those that were left out are as many as there is data, and are collected as objects of the log are,
//! when no manifest needs them. So they are known by their numbers; what is not known stays.

use super::number;
use ondol_env::sync::Mutex;
use slatedb::{GcFilter, ObjectMetadata};
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// So many ranges are known. The objects of older ones stay.
pub(super) const RANGES: usize = 1024;

/// Numbers of objects that were left out and may still be there.
#[derive(Debug, Default)]
pub(in crate::home) struct Empty {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// First and last number of ranges that neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    is_changed: bool,
}

impl Empty {
    pub(in crate::home) fn load(&self, ranges: &[(u64, u64)]) {
        self.known.lock().ranges.extend(ranges.iter().copied());
    }

    pub(super) fn add(&self, number: u64) {
        let mut known = self.known.lock();
        known.is_changed = true;
        let before = known.ranges.range(..=number).next_back().map(|(first, last)| (*first, *last));
        match before {
            Some((_, last)) if last >= number => {}
            Some((first, last)) if last + 1 == number => {
                known.ranges.insert(first, number);
            }
            _ => {
                known.ranges.insert(number, number);
            }
        }
        if known.ranges.len() > RANGES {
            known.ranges.pop_first();
        }
    }

    /// What is known, if that has changed since the last time.
    pub(in crate::home) fn changed(&self) -> Option<Vec<(u64, u64)>> {
        let mut known = self.known.lock();
        let is_changed = std::mem::take(&mut known.is_changed);
        is_changed.then(|| known.ranges.iter().map(|(first, last)| (*first, *last)).collect())
    }

    fn has(&self, number: u64) -> bool {
        let known = self.known.lock();
        known.ranges.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    /// Objects with these numbers are gone, or will never be collected.
    fn remove(&self, numbers: RangeInclusive<u64>) {
        let mut known = self.known.lock();
        let (from, to) = (*numbers.start(), *numbers.end());
        let over: Vec<(u64, u64)> =
            known.ranges.range(..=to).map(|(first, last)| (*first, *last)).filter(|(_, last)| *last >= from).collect();
        for (first, last) in over {
            known.is_changed = true;
            known.ranges.remove(&first);
            if first < from {
                known.ranges.insert(first, from - 1);
            }
            if last > to {
                known.ranges.insert(to + 1, last);
            }
        }
    }
}

/// An empty object of the log, by its number.
fn empty(object: &ObjectMetadata) -> Option<u64> {
    let is_log = object.location.parts().rev().nth(1).is_some_and(|dir| dir.as_ref() == "wal");
    (is_log && object.size == 0).then(|| number(&object.location))?
}

#[async_trait::async_trait]
impl GcFilter for Empty {
    async fn filter(&self, mut candidates: HashSet<ObjectMetadata>) -> HashSet<ObjectMetadata> {
        candidates.retain(|object| match empty(object) {
            Some(number) => {
                let is_known = self.has(number);
                self.remove(number..=number);
                is_known
            }
            None => true,
        });
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::path::Path;

    fn object(path: &str, size: u64) -> ObjectMetadata {
        let location = Path::from(path);
        ObjectMetadata { location, last_modified: Default::default(), size, e_tag: None, version: None }
    }

    #[test]
    fn ranges_grow_split_and_end() {
        let empty = Empty::default();
        assert_eq!(empty.changed(), None);
        for number in [4, 5, 6, 9, 5] {
            empty.add(number);
        }
        assert_eq!(empty.changed(), Some(vec![(4, 6), (9, 9)]));
        assert_eq!(empty.changed(), None);
        empty.remove(5..=5);
        assert_eq!(empty.changed(), Some(vec![(4, 4), (6, 6), (9, 9)]));
        empty.remove(0..=8);
        assert_eq!(empty.changed(), Some(vec![(9, 9)]));
        let loaded = Empty::default();
        loaded.load(&[(9, 12)]);
        assert!(loaded.has(9) && loaded.has(12) && !loaded.has(13) && !loaded.has(8));
        assert_eq!(loaded.changed(), None);
        for number in 0..RANGES as u64 + 5 {
            empty.add(100 + number * 2);
        }
        let ranges = empty.changed().unwrap();
        assert_eq!((ranges.len(), ranges[0]), (RANGES, (110, 110)));
    }

    #[test]
    fn fences_stay_and_what_was_left_out_goes() {
        let empty = Empty::default();
        empty.add(7);
        let all = [
            object("p/db/wal/00000000000000000006.sst", 0),
            object("p/db/wal/00000000000000000007.sst", 0),
            object("p/db/wal/00000000000000000008.sst", 300),
            object("p/db/wal/strange", 0),
            object("p/db/compacted/00000000000000000006.sst", 0),
        ];
        let kept = futures_executor(empty.filter(all.iter().cloned().collect()));
        let expected: HashSet<ObjectMetadata> = [1, 2, 3, 4].into_iter().map(|n: usize| all[n].clone()).collect();
        assert_eq!(kept, expected);
        assert_eq!(empty.changed(), Some(vec![]));
    }

    fn futures_executor<T>(work: impl Future<Output = T>) -> T {
        crate::Border::new(1).unwrap().drive(work)
    }
}
