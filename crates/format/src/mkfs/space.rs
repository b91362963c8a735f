//! Which blocks of a volume being made are in use: ordered, merged ranges, few even on a huge volume.

use crate::superblock::Superblock;
use std::collections::BTreeMap;
use std::ops::Range;

/// The blocks in use, by their first block.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    used: BTreeMap<u64, u64>,
}

impl Space {
    /// Superblocks, descriptors and their reserve in all groups.
    pub(super) fn of_base_metadata(sb: &Superblock) -> Space {
        let mut space = Space::default();
        for g in 0..sb.groups() {
            space.take(sb.base_meta(g).all);
        }
        space
    }

    /// Marks free blocks as used.
    pub(super) fn take(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&from, &to)) = self.used.range(..start).next_back()
            && to == start
        {
            start = from;
        }
        if let Some(to) = self.used.remove(&end) {
            end = to;
        }
        self.used.insert(start, end);
    }

    /// The first free run in `within`: its blocks, cut at the end of `within`.
    fn free_run(&self, within: Range<u64>) -> Option<Range<u64>> {
        let mut start = within.start;
        if let Some((_, &to)) = self.used.range(..=start).next_back() {
            start = start.max(to);
        }
        while start < within.end {
            let next = self.used.range(start..).next();
            let end = next.map_or(within.end, |(&from, _)| from.min(within.end));
            if start < end {
                return Some(start..end);
            }
            start = next.map_or(within.end, |(_, &to)| to);
        }
        None
    }

    /// The first run of `len` free blocks in `within`: its first block.
    pub(super) fn find(&self, within: Range<u64>, len: u64) -> Option<u64> {
        let mut from = within.start;
        while let Some(run) = self.free_run(from..within.end) {
            if run.end - run.start >= len {
                return Some(run.start);
            }
            from = run.end;
        }
        None
    }

    /// Takes `len` blocks from `goal` on, in as few runs as lie there; wraps to `all.start`. None if too few are free.
    pub(super) fn allocate(&mut self, all: &Range<u64>, goal: u64, len: u64) -> Option<Vec<Range<u64>>> {
        let mut runs = Vec::new();
        let mut missing = len;
        for mut within in [goal.max(all.start)..all.end, all.start..goal.min(all.end)] {
            while missing > 0 {
                let Some(run) = self.free_run(within.clone()) else { break };
                let end = run.end.min(run.start + missing);
                self.take(run.start..end);
                runs.push(run.start..end);
                missing -= end - run.start;
                within.start = end;
            }
        }
        (missing == 0).then_some(runs)
    }

    /// The used ranges that touch `within`.
    pub(super) fn used_in(&self, within: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let end = within.end;
        let first = self.used.range(..=within.start).next_back().map_or(within.start, |(&from, _)| from);
        let start = within.start;
        self.used.range(first..end).map(|(&from, &to)| from..to).filter(move |range| range.end > start)
    }

    /// How many blocks of `within` are used.
    pub(super) fn count_in(&self, within: &Range<u64>) -> u64 {
        self.used_in(within).map(|range| range.end.min(within.end) - range.start.max(within.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_counts_and_merges() {
        let mut space = Space::default();
        space.take(10..20);
        space.take(30..40);
        space.take(20..25);
        assert_eq!(space.find(0..100, 10), Some(0));
        assert_eq!(space.find(5..100, 5), Some(5));
        assert_eq!(space.find(5..100, 6), Some(40));
        assert_eq!(space.find(12..40, 5), Some(25));
        assert_eq!(space.find(12..40, 6), None);
        assert_eq!(space.count_in(&(15..35)), 15);
        assert_eq!(space.allocate(&(0..50), 22, 20), Some(vec![25..30, 40..50, 0..5]));
        assert_eq!(space.allocate(&(0..50), 0, 6), None);
    }
}
