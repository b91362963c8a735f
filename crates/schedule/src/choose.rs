//! Which task goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// How tasks are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any of them at every point, each as likely.
    Random,
    /// Any of them, each as likely, but only where one has done something that it has not told yet, as in
    /// [`Policy::Untold`].
    UntoldRandom,
    /// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the task with the highest of random
    /// priorities runs, and falls below all others at `depth - 1` random ones of the first `steps` points. A defect
    /// that needs `depth` ordered events is found with a probability that does not fall with the number of other
    /// events.
    Priorities {
        /// How many events in order a defect may need; at least 1.
        depth: u32,
        /// About as many points as a run has: [`super::Stats::steps`] of another run of the same tasks.
        steps: u32,
    },
    /// As [`Policy::Priorities`], but a task falls only where it has done something that it has not told yet
    /// (`ondol_env::sync::untold`): all others then do what they can before it tells. Such places are a few in a
    /// hundred, and a thread that lost its processor at another one is seldom noticed.
    Untold {
        /// How many events in order a defect may need; at least 1.
        depth: u32,
        /// About as many such places as a run has: [`super::Stats::untold`] of another run of the same tasks.
        places: u32,
    },
    /// One task after the other, but the one that comes to this point falls there, and, unless `then` is 0, the one
    /// that comes to the point so many behind it. With the seed of [`super::Schedule::in_turn`] the first is where
    /// that run had it.
    At {
        /// How many points are before it.
        point: u32,
        /// How many points behind it is the other one.
        then: u32,
    },
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::UntoldRandom => f.write_str("untold-random"),
            Self::Priorities { depth, steps } => write!(f, "pct-{depth}-{steps}"),
            Self::Untold { depth, places } => write!(f, "untold-{depth}-{places}"),
            Self::At { point, then } => write!(f, "at-{point}-{then}"),
        }
    }
}

impl FromStr for Policy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "random" => return Ok(Self::Random),
            "untold-random" => return Ok(Self::UntoldRandom),
            _ => {}
        }
        let numbers = |prefix| {
            let (one, other) = text.strip_prefix(prefix)?.split_once('-')?;
            Some((one.parse().ok()?, other.parse().ok()?))
        };
        let priorities = numbers("pct-").map(|(depth, steps)| Self::Priorities { depth, steps });
        let untold = || numbers("untold-").map(|(depth, places)| Self::Untold { depth, places });
        let at = || numbers("at-").map(|(point, then)| Self::At { point, then });
        priorities.or_else(untold).or_else(at).ok_or(())
    }
}

/// Random numbers from a seed: splitmix64.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Those of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The next one, below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// A task that ran so long without giving way may be waiting for another one in a way of its own.
const LONG_TURN: u32 = 100_000;

/// Makes the choices of one run.
#[derive(Debug)]
pub(super) struct Choice {
    random: Random,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// Any task at any point.
    Any,
    /// Any task where it has not told, after so many points of one turn.
    AnyUntold {
        turn: u32,
    },
    Priorities(Priorities),
}

#[derive(Debug)]
struct Priorities {
    of: BTreeMap<usize, u64>,
    /// Below this are those that have fallen; the last to fall is the lowest.
    floor: u64,
    changes: BTreeSet<u64>,
    /// Only such points count.
    of_untold: bool,
    points: u64,
    turn: u32,
}

/// Where the current task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At any point.
    Point,
    /// It has done something that it has not told yet.
    Untold,
    /// It cannot go on at once.
    GaveWay,
}

impl Choice {
    pub(super) fn new(policy: Policy, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut changes = |depth: u32, among: u32| (1..depth).map(|_| random.below(among.into())).collect();
        let (changes, of_untold) = match policy {
            Policy::Random => return Self { random, way: Way::Any },
            Policy::UntoldRandom => return Self { random, way: Way::AnyUntold { turn: 0 } },
            Policy::Priorities { depth, steps } => (changes(depth, steps), false),
            Policy::Untold { depth, places } => (changes(depth, places), true),
            Policy::At { point, then } => (BTreeSet::from([point, point.saturating_add(then)].map(u64::from)), false),
        };
        let priorities = Priorities { of: BTreeMap::new(), floor: 1 << 32, changes, of_untold, points: 0, turn: 0 };
        Self { random, way: Way::Priorities(priorities) }
    }

    /// How many points there were that count, with priorities.
    pub(super) fn points(&self) -> u64 {
        match &self.way {
            Way::Priorities(priorities) => priorities.points,
            Way::Any | Way::AnyUntold { .. } => 0,
        }
    }

    /// One of `ready`, which is not empty.
    pub(super) fn next(&mut self, ready: &[usize], current: Option<usize>, at: At) -> usize {
        let current = current.filter(|task| ready.contains(task));
        match (&mut self.way, ready) {
            (_, [only]) => return *only,
            (Way::Priorities(priorities), _) => return priorities.next(&mut self.random, ready, current, at),
            (Way::AnyUntold { turn }, _) => {
                *turn += 1;
                if let Some(current) = current.filter(|_| at == At::Point && *turn < LONG_TURN) {
                    return current;
                }
                *turn = 0;
            }
            (Way::Any, _) => {}
        }
        let others: Vec<usize> =
            ready.iter().copied().filter(|task| at != At::GaveWay || Some(*task) != current).collect();
        others[self.random.below(others.len() as u64) as usize]
    }
}

impl Priorities {
    fn next(&mut self, random: &mut Random, ready: &[usize], current: Option<usize>, at: At) -> usize {
        for task in ready {
            self.of.entry(*task).or_insert_with(|| random.next() | 1 << 63);
        }
        let counts = !self.of_untold || at == At::Untold;
        let is_change = counts && self.changes.contains(&self.points);
        let falls = is_change || at == At::GaveWay || self.turn >= LONG_TURN;
        if let Some(current) = current.filter(|_| falls) {
            self.floor -= 1;
            self.of.insert(current, self.floor);
        }
        self.points += u64::from(counts);
        let next = ready.iter().copied().max_by_key(|task| (self.of[task], *task)).expect("some task is ready");
        self.turn = if Some(next) == current { self.turn + 1 } else { 0 };
        next
    }
}
