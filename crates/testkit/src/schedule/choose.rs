//! Which task goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// How tasks are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any of them at every point, each as likely.
    Random,
    /// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the task with the highest of random priorities
    /// runs, and falls below all others at `depth - 1` random ones of the first `steps` points. A defect that needs `depth`
    /// ordered events is found with a probability that does not fall with the number of other events.
    Priorities {
        /// How many events in order a defect may need; at least 1.
        depth: u32,
        /// About as many points as a run has: [`super::Stats::steps`] of another run of the same tasks.
        steps: u32,
    },
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Priorities { depth, steps } => write!(f, "pct-{depth}-{steps}"),
        }
    }
}

impl FromStr for Policy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "random" {
            return Ok(Self::Random);
        }
        let (depth, steps) = text.strip_prefix("pct-").and_then(|rest| rest.split_once('-')).ok_or(())?;
        Ok(Self::Priorities { depth: depth.parse().map_err(drop)?, steps: steps.parse().map_err(drop)? })
    }
}

/// Random numbers from a seed: splitmix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// A task that ran so long without giving way may be waiting for another one in a way of its own.
const LONG_TURN: u32 = 100_000;

/// Makes the choices of one run.
#[derive(Debug)]
pub(super) struct Choice {
    random: Random,
    priorities: Option<Priorities>,
}

#[derive(Debug)]
struct Priorities {
    of: BTreeMap<usize, u64>,
    /// Below this are those that have fallen; the last to fall is the lowest.
    floor: u64,
    changes: BTreeSet<u64>,
    points: u64,
    turn: u32,
}

impl Choice {
    pub(super) fn new(policy: Policy, seed: u64) -> Self {
        let mut random = Random(seed);
        let priorities = match policy {
            Policy::Random => None,
            Policy::Priorities { depth, steps } => Some(Priorities {
                of: BTreeMap::new(),
                floor: 1 << 32,
                changes: (1..depth).map(|_| random.below(steps.into())).collect(),
                points: 0,
                turn: 0,
            }),
        };
        Self { random, priorities }
    }

    /// One of `ready`, which is not empty; `gave_way` if the current task cannot go on at once.
    pub(super) fn next(&mut self, ready: &[usize], current: Option<usize>, gave_way: bool) -> usize {
        let current = current.filter(|task| ready.contains(task));
        match (&mut self.priorities, ready) {
            (_, [only]) => *only,
            (Some(priorities), _) => priorities.next(&mut self.random, ready, current, gave_way),
            (None, _) => {
                let others: Vec<usize> =
                    ready.iter().copied().filter(|task| !gave_way || Some(*task) != current).collect();
                others[self.random.below(others.len() as u64) as usize]
            }
        }
    }
}

impl Priorities {
    fn next(&mut self, random: &mut Random, ready: &[usize], current: Option<usize>, gave_way: bool) -> usize {
        for task in ready {
            self.of.entry(*task).or_insert_with(|| random.next() | 1 << 63);
        }
        let falls = self.changes.contains(&self.points) || gave_way || self.turn >= LONG_TURN;
        if let Some(current) = current.filter(|_| falls) {
            self.floor -= 1;
            self.of.insert(current, self.floor);
        }
        self.points += 1;
        let next = ready.iter().copied().max_by_key(|task| (self.of[task], *task)).expect("some task is ready");
        self.turn = if Some(next) == current { self.turn + 1 } else { 0 };
        next
    }
}
