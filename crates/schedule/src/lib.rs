//! Several tasks under a schedule that a seed decides: one seed is one interleaving.
//!
//! The tasks run on the calling thread, one at a time, each on a stack of its own (`shuttle`). Whatever they do through
//! [`ondol_env::sync`] is a point where another task may be chosen; between two such points nothing else runs. So what
//! runs is the code that ships, in the ordinary build, and a failure is found again by its seed.
//!
//! Any number of threads may each run a schedule at the same time. A schedule that is given up (a deadlock, a panic, no
//! end) leaks what its tasks had on their stacks: they hold locks, and nothing may run any more.

mod choose;
mod run;

pub use choose::{Policy, Random};
pub use run::{Stats, Task, Why};

use std::fmt;
use std::str::FromStr;

/// Which interleaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How tasks are chosen.
    pub policy: Policy,
    /// The seed of the choice.
    pub seed: u64,
    /// After so many choices there is no more hope of an end.
    pub limit: u64,
}

/// A schedule came to no good end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {schedule}: {why}")]
pub struct ScheduleError {
    /// The schedule, to be run again.
    pub schedule: Schedule,
    /// What happened.
    pub why: Why,
}

impl Schedule {
    /// The interleaving `seed` of `policy`.
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self { policy, seed, limit: 5_000_000 }
    }

    /// Interleavings for tasks of which a run had so many `steps` ([`Stats::steps`]), one for each number: with one to
    /// four changes of place somewhere in that length, and of any task at every point, in turn. A change of place that
    /// never comes, because it lies behind the end, would be none.
    pub fn fitted(steps: u64, number: u64) -> Self {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX).max(1);
        let policy = match number % 6 {
            0 => Policy::Priorities { depth: 3, steps },
            1 | 4 => Policy::Priorities { depth: 4, steps },
            2 => Policy::Priorities { depth: 5, steps },
            3 => Policy::Priorities { depth: 2, steps },
            _ => Policy::Random,
        };
        Self::new(policy, number)
    }

    /// Interleavings for tasks of which a run [in turn](Schedule::in_turn) was like `stats`, one for each number: as
    /// [`Schedule::fitted`]; where a task has something to tell, with one or two changes of place at such places
    /// alone, or with any task at each; and with a change of place somewhere in the program that is not more likely
    /// for being passed more often.
    pub fn fitted_to(stats: &Stats, number: u64) -> Self {
        let places = u32::try_from(stats.untold).unwrap_or(u32::MAX);
        match (number % 5, number / 5 % 2) {
            (4, more) if places > 0 => Self::new(Policy::Untold { depth: 2 + more as u32, places }, number),
            (3, _) if places > 0 => Self::new(Policy::UntoldRandom, number),
            (2, more) if !stats.sites.is_empty() => {
                let mut random = Random::new(number);
                let mut of = |n: usize| random.below(n as u64) as usize;
                let site = &stats.sites[of(stats.sites.len())];
                let (point, then) = (site[of(site.len())], if more == 0 { 0 } else { of(stats.steps as usize) as u32 });
                Self::new(Policy::At { point, then }, stats.seed)
            }
            _ => Self::fitted(stats.steps, number),
        }
    }

    /// The tasks one after the other, as far as they do not wait for each other: to see how long they are, and where
    /// they pass.
    pub fn in_turn(seed: u64) -> Self {
        Self::new(Policy::Priorities { depth: 1, steps: 1 }, seed)
    }

    /// Runs the tasks to their ends, in this interleaving.
    ///
    /// # Errors
    /// They wait for each other, one panicked, or they do not come to an end.
    pub fn run(self, tasks: Vec<Task>) -> Result<Stats, ScheduleError> {
        run::run(self, tasks).map_err(|why| ScheduleError { schedule: self, why })
    }
}

/// Runs `tasks` in the interleaving `seed` of `policy`.
///
/// # Errors
/// As [`Schedule::run`].
pub fn run(seed: u64, policy: Policy, tasks: Vec<Task>) -> Result<Stats, ScheduleError> {
    Schedule::new(policy, seed).run(tasks)
}

/// As in `random:7`, `pct-3-5000:7` or `untold-2-14:7`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.policy, self.seed)
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("no schedule (POLICY:SEED, as in random:7, pct-3-5000:7 or untold-2-14:7): {text}");
        let (policy, seed) = text.split_once(':').ok_or_else(bad)?;
        Ok(Self::new(policy.parse().map_err(|()| bad())?, seed.parse().map_err(|_| bad())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_they_are_written() {
        for text in ["random:0", "pct-3-5000:18446744073709551615", "untold-2-14:7", "untold-random:7", "at-812-0:7"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for text in ["", "random", "random:x", "pct-3:1", "pct-a-2:1", "untold-2:1", "untold-2-x:1", "at-2:1", "fair:1"]
        {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
