//! Workloads made of those that have reached something new, as fuzzers make inputs.
//!
//! What a run has shown is a set of features ([`crate::coverage::features`]): how often it executed each edge of the
//! control flow, by powers of two. A workload with a feature that nobody had is kept, and varied.

use super::random::{in_few_blocks, sequence};
use super::{Mount, Schedules, Workload};
use crate::image::Kind;
use ondol_env::sync::Mutex;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_schedule::Schedule;
use ondol_testkit::op::Op;
use ondol_testkit::strategy::number_fills_from;
use ondol_testkit::thresholds;
use std::collections::HashSet;
use std::sync::LazyLock;

/// What has reached something new so far.
#[derive(Debug, Default)]
pub struct Corpus {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    features: HashSet<u32>,
    kept: Vec<Workload>,
}

/// The most workloads that are kept; after that, new ones take the places of others.
const KEPT: usize = 2000;

/// The most calls of a varied workload, and before it.
const CALLS: usize = 40;
const BEFORE: usize = 400;

/// Bytes that a varied call changes at most.
const LONGEST: u64 = 400_000;

impl Corpus {
    /// Keeps a workload whose run has shown something new. Whether it has.
    pub fn learn(&self, workload: &Workload, features: &[u32]) -> bool {
        let mut inner = self.inner.lock();
        let before = inner.features.len();
        inner.features.extend(features);
        let new = inner.features.len() > before;
        if new {
            let at = inner.features.len() % KEPT;
            match inner.kept.len() < KEPT {
                true => inner.kept.push(workload.clone()),
                false => inner.kept[at] = workload.clone(),
            }
        }
        new
    }

    /// How many are kept, and how many features they have shown.
    pub fn size(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.kept.len(), inner.features.len())
    }

    /// Variation `n` of what is kept by then.
    pub fn variation(&self, seed: u64, n: u64) -> Workload {
        let random = Random(Fixed::new(Timestamp::default(), seed.rotate_left(24) ^ n));
        let new = sequence(seed, n);
        let (workload, other) = {
            let inner = self.inner.lock();
            let len = inner.kept.len();
            // The younger, the likelier: what they have shown is less known.
            let at = random.below(len).max(random.below(len));
            (inner.kept.get(at).cloned(), inner.kept.get(random.below(len)).cloned())
        };
        let mut workload = workload.unwrap_or_else(|| super::sequence(n as usize, &["sync"]));
        for _ in 0..=random.below(4) {
            random.vary(&mut workload, &new, other.as_ref());
        }
        workload.name = format!("varied {seed}/{n}");
        if workload.others.is_none() {
            workload.calls.truncate(CALLS);
            workload.before.truncate(BEFORE);
            workload.before = number_fills_from(workload.before, 1);
            workload.calls = number_fills_from(workload.calls, FIRST_FILL);
        }
        workload
    }
}

/// Numbers of fills that are recorded.
const FIRST_FILL: u32 = 5000;

/// Choices from a seed.
struct Random(Fixed);

impl Random {
    fn below(&self, n: usize) -> usize {
        self.0.random_u32() as usize % n.max(1)
    }

    fn of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// One change. What several threads do stays as it is: not every call is for them.
    fn vary(&self, workload: &mut Workload, new: &[Op], other: Option<&Workload>) {
        match self.below(12) {
            0 => workload.image = *self.of(&Kind::ALL).unwrap_or(&Kind::Small),
            1 => workload.mount = *self.of(&Mount::ALL).unwrap_or(&Mount::Tight),
            _ if workload.others.is_some() => {
                let Some(others) = &mut workload.others else { return };
                let other = u64::from(self.0.random_u32());
                match &mut others.schedules {
                    Schedules::One(schedule) => *schedule = Schedule::new(schedule.policy, other),
                    Schedules::Search { seed, .. } => *seed = other,
                }
            }
            2 => workload.remount ^= true,
            3 => {
                let from = self.below(workload.before.len());
                let moved = workload.before.split_off(from.max(workload.before.len().saturating_sub(8)));
                workload.calls.splice(0..0, moved);
            }
            4 => {
                if let Some(other) = other.filter(|other| other.others.is_none()) {
                    let from = self.below(other.calls.len());
                    workload.calls.extend_from_slice(&other.calls[from..]);
                }
            }
            5 => self.resize(&mut workload.calls),
            6 => self.resize(&mut workload.before),
            7 => self.change(&mut workload.before, new),
            _ => self.change(&mut workload.calls, new),
        }
    }

    fn change(&self, ops: &mut Vec<Op>, new: &[Op]) {
        let at = self.below(ops.len() + 1);
        match self.below(9) {
            0 if at < ops.len() => drop(ops.remove(at)),
            1 if at < ops.len() => ops.insert(at, ops[at].clone()),
            2 if at < ops.len() => {
                let with = self.below(ops.len());
                ops.swap(at, with);
            }
            3 => ops.insert(at, Op::Sync),
            4 => ops.insert(at, Op::Idle { seconds: 6 }),
            5 => ops.insert(at, Op::BringHome),
            6 => ops.insert(at, Op::Scratch { pages: 1 << self.below(10) }),
            7 => drop(ops.splice(at..at, in_few_blocks(u64::from(self.0.random_u32())))),
            _ => ops.extend(self.of(new).cloned()),
        }
    }

    /// Another length or place for one call: one at which the code begins to do something else.
    fn resize(&self, ops: &mut [Op]) {
        static SIZES: LazyLock<(Vec<u64>, Vec<u64>)> =
            LazyLock::new(|| (thresholds::bytes(LONGEST), thresholds::values(LONGEST)));
        let (sizes, values) = &*SIZES;
        let size = self.of(sizes).copied().unwrap_or(1);
        let at = self.below(ops.len());
        match ops.get_mut(at) {
            Some(Op::Write { at, .. } | Op::WriteBack { at, .. } | Op::MapCommit { at, .. } | Op::Read { at, .. })
                if self.below(2) == 0 =>
            {
                *at = size
            }
            Some(
                Op::Write { len, .. }
                | Op::WriteBack { len, .. }
                | Op::MapCommit { len, .. }
                | Op::Append { len, .. }
                | Op::Fallocate { len, .. },
            ) => *len = size,
            Some(Op::Truncate { size: to, .. }) => *to = size,
            Some(Op::SetXattr { len, .. }) => *len = self.of(values).copied().unwrap_or(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_nothing_new_is_not_kept_and_equal_seeds_vary_alike() {
        let corpus = Corpus::default();
        let workload = super::super::single().next().unwrap();
        assert!(corpus.learn(&workload, &[1, 2]) && !corpus.learn(&workload, &[2]));
        assert!(corpus.learn(&workload, &[2, 3]));
        assert_eq!(corpus.size(), (2, 3));
        let some =
            |seed| (0..50).map(|n| corpus.variation(seed, n)).map(|w| (w.image, w.before, w.calls)).collect::<Vec<_>>();
        assert!(some(1) == some(1) && some(1) != some(2));
        assert!(some(1).iter().all(|(_, before, calls)| before.len() <= BEFORE && calls.len() <= CALLS));
        assert!(some(1).iter().filter(|(_, _, calls)| *calls != workload.calls).count() > 25);
    }
}
