//! A small sorted set of byte ranges inside one block.

use std::ops::Range;

/// Disjoint, sorted, non-empty byte ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<u32>>);

impl Ranges {
    /// Adds `range`, merging with neighbours that touch it.
    pub fn add(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|r| r.end < range.start);
        let last = self.0.partition_point(|r| r.start <= range.end);
        if first == last {
            self.0.insert(first, range);
            return;
        }
        let merged = self.0[first].start.min(range.start)..self.0[last - 1].end.max(range.end);
        self.0.splice(first..last, [merged]);
    }

    /// Adds those of `others`, if there are any.
    pub(crate) fn add_all(&mut self, others: Option<&Self>) {
        others.iter().flat_map(|others| others.iter()).for_each(|range| self.add(range));
    }

    /// The ranges in rising order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0.iter().cloned()
    }

    /// Whether any range touches `range`.
    pub fn overlaps(&self, range: Range<u32>) -> bool {
        let at = self.0.partition_point(|r| r.end <= range.start);
        self.0.get(at).is_some_and(|r| r.start < range.end)
    }

    /// No range at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_merge_and_distant_ones_stay_apart() {
        let mut r = Ranges::default();
        for x in [10..20, 40..50, 20..25, 5..8, 7..11, 30..30] {
            r.add(x);
        }
        assert_eq!(r.iter().collect::<Vec<_>>(), vec![5..25, 40..50]);
        assert!(r.overlaps(24..26) && !r.overlaps(25..40) && r.overlaps(0..100));
        r.add(0..100);
        assert_eq!(r.iter().collect::<Vec<_>>(), vec![0..100]);
    }
}
