//! Which chunks an object of the database has, as runs: kept in the object beside its Bloom filter, so that a scan asks
//! no object that has nothing of its range.
//!
//! Without it each scan reads a block of every object whose first key lies before the range: the records of a volume
//! come behind all chunks, so every object reaches from its first chunk to the end. A segment of its own for the
//! records would be one more put an object.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version: 1 |
//! | 1 | 16 each | first chunk, and the one behind the last, little-endian; rising, without touching |
//!
//! A run may have chunks that are not there: there are at most [`MOST`] runs, and the narrowest gaps are closed. What
//! is not understood says that anything may be there.

use crate::ChunkFormat;
use bytes::{BufMut, Bytes};
use slatedb::{Filter, FilterBuilder, FilterPolicy, FilterQuery, FilterTarget, RowEntry};
use std::cmp::Ordering;
use std::ops::{Bound, Range};
use std::sync::Arc;

const NAME: &str = "ondol-runs";
const VERSION: u8 = 1;

/// At most so many runs are kept.
const MOST: usize = 128;
const RUN: usize = 16;

/// Keeps runs of chunks.
pub(super) struct Runs;

impl FilterPolicy for Runs {
    fn name(&self) -> &str {
        NAME
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(Found::default())
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(Has(decode(data)))
    }

    fn estimate_size(&self, keys: usize) -> usize {
        1 + RUN * keys.min(MOST)
    }

    fn supports_range_queries(&self) -> bool {
        true
    }

    fn supports_prefix_queries(&self) -> bool {
        false
    }
}

/// The chunks of an object that is being written, whose keys come in order.
#[derive(Default)]
struct Found(Vec<Range<u64>>);

impl FilterBuilder for Found {
    fn add_entry(&mut self, entry: &RowEntry) {
        // What is deleted is there, too: it hides what is older.
        let Some(number) = ChunkFormat::number(&entry.key) else { return };
        match self.0.last_mut() {
            Some(last) if number < last.end => {}
            Some(last) if number == last.end => last.end += 1,
            _ => self.0.push(number..number.saturating_add(1)),
        }
        if self.0.len() > 4 * MOST {
            self.0 = fewer(std::mem::take(&mut self.0));
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        Arc::new(Has(Some(fewer(std::mem::take(&mut self.0)))))
    }
}

/// Closes the narrowest gaps.
fn fewer(runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let Some(closed) = runs.len().checked_sub(MOST).filter(|closed| *closed > 0) else { return runs };
    let gap = |before: &Range<u64>, run: &Range<u64>| run.start - before.end;
    let mut gaps: Vec<u64> = runs.windows(2).map(|two| gap(&two[0], &two[1])).collect();
    let (narrower, &mut widest, _) = gaps.select_nth_unstable(closed - 1);
    // Of those that are as wide as the widest that is closed, some may stay.
    let mut as_wide = closed - narrower.iter().filter(|gap| **gap < widest).count();
    let mut kept: Vec<Range<u64>> = Vec::with_capacity(MOST);
    for run in runs {
        let Some(last) = kept.last_mut() else {
            kept.push(run);
            continue;
        };
        let is_closed = match gap(last, &run).cmp(&widest) {
            Ordering::Less => true,
            Ordering::Equal if as_wide > 0 => {
                as_wide -= 1;
                true
            }
            _ => false,
        };
        if is_closed {
            last.end = run.end;
        } else {
            kept.push(run);
        }
    }
    kept
}

/// The runs of an object; none: they are not known.
struct Has(Option<Vec<Range<u64>>>);

impl Has {
    fn any(&self, range: &Range<u64>) -> bool {
        let Some(runs) = &self.0 else { return true };
        let at = runs.partition_point(|run| run.end <= range.start);
        runs.get(at).is_some_and(|run| run.start < range.end)
    }
}

impl Filter for Has {
    fn might_match(&self, query: &FilterQuery) -> bool {
        asked(&query.target).is_none_or(|range| self.any(&range))
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        let Some(runs) = &self.0 else { return };
        writer.put_u8(VERSION);
        for run in runs {
            writer.put_u64_le(run.start);
            writer.put_u64_le(run.end);
        }
    }

    fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |runs| 1 + RUN * runs.len())
    }

    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(Self(self.0.clone()))
    }
}

/// The chunks that a query is about. None: it is about others, too.
fn asked(target: &FilterTarget) -> Option<Range<u64>> {
    let number = |key: &Bytes| ChunkFormat::number(key);
    match target {
        FilterTarget::Point(key) => {
            let number = number(key)?;
            Some(number..number.checked_add(1)?)
        }
        FilterTarget::Prefix(_) => None,
        FilterTarget::Range { lower, upper } => {
            let Bound::Included(lower) = lower else { return None };
            let lower = number(lower)?;
            let upper = match upper {
                Bound::Excluded(upper) => number(upper)?,
                Bound::Included(upper) => number(upper)?.checked_add(1)?,
                Bound::Unbounded => return None,
            };
            Some(lower..upper)
        }
    }
}

fn decode(data: &[u8]) -> Option<Vec<Range<u64>>> {
    let (&VERSION, data) = data.split_first()? else { return None };
    let (words, []) = data.as_chunks::<RUN>() else { return None };
    let word = |bytes: &[u8; RUN], at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
    let runs: Vec<Range<u64>> = words.iter().map(|bytes| word(bytes, 0)..word(bytes, 8)).collect();
    let is_rising = runs.iter().all(|run| run.start < run.end) && runs.windows(2).all(|two| two[0].end < two[1].start);
    is_rising.then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slatedb::ValueDeletable;

    fn entry(number: u64) -> RowEntry {
        let key = Bytes::copy_from_slice(&ChunkFormat::key(number));
        RowEntry { key, value: ValueDeletable::Tombstone, seq: 1, create_ts: None, expire_ts: None }
    }

    /// What is read back of an object with these chunks.
    fn has(numbers: impl IntoIterator<Item = u64>) -> (usize, Arc<dyn Filter>) {
        let mut found = Runs.builder();
        numbers.into_iter().for_each(|number| found.add_entry(&entry(number)));
        found.add_entry(&RowEntry { key: Bytes::from_static(b"t"), ..entry(0) });
        let (mut bytes, built) = (Vec::new(), found.build());
        built.encode(&mut bytes);
        assert_eq!(built.size(), bytes.len());
        ((bytes.len() - 1) / RUN, Runs.decode(&bytes))
    }

    fn range(filter: &dyn Filter, chunks: Range<u64>) -> bool {
        let key = |number| Bytes::copy_from_slice(&ChunkFormat::key(number));
        filter.might_match(&FilterQuery::range(Bound::Included(key(chunks.start)), Bound::Excluded(key(chunks.end))))
    }

    fn point(filter: &dyn Filter, key: &[u8]) -> bool {
        filter.might_match(&FilterQuery::point(Bytes::copy_from_slice(key)))
    }

    #[test]
    fn what_is_there_is_found_and_what_lies_between_is_not() {
        let (runs, filter) = has([5, 6, 7, 7, 20, 21]);
        assert_eq!(runs, 2);
        for (chunks, expected) in
            [(0..5, false), (0..6, true), (7..8, true), (8..20, false), (8..21, true), (22..99, false)]
        {
            assert_eq!(range(&*filter, chunks.clone()), expected, "{chunks:?}");
        }
        assert!(point(&*filter, &ChunkFormat::key(6)) && !point(&*filter, &ChunkFormat::key(9)));
        // Of other keys it knows nothing.
        assert!(point(&*filter, b"t") && point(&*filter, b""));
        let all = FilterQuery::range(Bound::Unbounded, Bound::Unbounded);
        assert!(filter.might_match(&all));
    }

    #[test]
    fn many_runs_become_few_and_hide_nothing() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for far in [2, 3, 1000, 1 << 20] {
            let mut at = 0;
            let numbers: Vec<u64> = (0..20_000)
                .map(|_| {
                    at += 1 + if next() % 4 == 0 { next() % far } else { 0 };
                    at
                })
                .collect();
            let (runs, filter) = has(numbers.iter().copied());
            assert!(runs <= MOST && runs > MOST / 2, "{runs}");
            assert!(numbers.iter().all(|number| range(&*filter, *number..number + 1)));
        }
        // The widest gap stays.
        let (_, filter) = has((0..1000).map(|n| n * 2).chain((0..1000).map(|n| (1 << 40) | (n * 2))));
        assert!(!range(&*filter, 4000..1 << 40));
    }

    #[test]
    fn what_is_not_understood_hides_nothing() {
        let mut bytes = Vec::new();
        has([1, 2, 9]).1.encode(&mut bytes);
        let broken: [&[u8]; 4] = [&[], &bytes[..bytes.len() - 1], &[2], &[VERSION, 1]];
        let swapped: Vec<u8> = [&bytes[..1], &bytes[17..], &bytes[1..17]].concat();
        for broken in broken.into_iter().chain([&swapped[..]]) {
            assert!(range(&*Runs.decode(broken), 100..200), "{broken:?}");
        }
        assert!(!range(&*Runs.decode(&bytes), 100..200));
    }
}
