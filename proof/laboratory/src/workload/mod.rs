//! What is done before the power goes.

mod around;
mod calls;
mod collisions;
mod mount;
mod pages;
mod random;
mod scenarios;
mod scenes;
mod short;
mod vary;

pub use around::around;
pub use mount::Mount;
pub use random::{apart, evicted, few_blocks, handed_on, in_place, random, scarce, threads};
pub use scenes::{scenes, scenes_of};
pub use vary::Corpus;

use crate::image::Kind;
use calls::{BEFORE, CALLS, SYNCS};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_schedule::Schedule;
use ondol_testkit::op::{Op, text};
use scenarios::SCENARIOS;
pub(crate) use scenarios::full;
use short::SHORT;

/// Calls, and what comes before them.
#[derive(Clone, Debug)]
pub struct Workload {
    /// For messages.
    pub name: String,
    /// The volume.
    pub image: Kind,
    /// How it is mounted, beside engine and data mode.
    pub mount: Mount,
    /// Calls before the recording; durable when it begins.
    pub before: Vec<Op>,
    /// Unmount and mount again before the recording: it begins with an empty journal, without handles.
    pub remount: bool,
    /// Calls that are recorded, and crashed everywhere.
    pub calls: Vec<Op>,
    /// What others do at the same time.
    pub others: Option<Others>,
}

/// Further threads.
#[derive(Clone, Debug)]
pub struct Others {
    /// Each one's calls.
    pub calls: Vec<Vec<Op>>,
    /// In which interleavings.
    pub schedules: Schedules,
    /// With a task for background work: the seconds that go by at each of its turns.
    pub background: Option<u64>,
    /// So many calls are done before the others begin.
    pub lead: usize,
}

/// The interleavings of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedules {
    /// This one.
    One(Schedule),
    /// Many, fitted to its length, of which the best are crashed.
    Search {
        /// Where their numbers begin.
        seed: u64,
        /// How many.
        count: u32,
    },
}

impl Workload {
    /// Whether it has one thread, or a schedule with a number below this.
    pub(crate) fn is_early(&self, schedules: u64) -> bool {
        self.others.as_ref().is_none_or(|others| match others.schedules {
            Schedules::One(schedule) => schedule.seed < schedules,
            Schedules::Search { .. } => true,
        })
    }

    /// The same workload in one interleaving.
    #[must_use]
    pub fn under(&self, schedule: Option<Schedule>) -> Self {
        let mut one = self.clone();
        if let (Some(others), Some(schedule)) = (&mut one.others, schedule) {
            others.schedules = Schedules::One(schedule);
        }
        one
    }
}

fn parse(lines: &str) -> Vec<Op> {
    // Only texts of this program come here, all of which a test reads.
    text::parse(lines).unwrap_or_else(|e| panic!("{e}: {lines}"))
}

/// Every parameterised call alone, and scenarios that a single call does not make.
pub fn exhaustive_1() -> impl Iterator<Item = Workload> + Send {
    scenarios().chain(single())
}

/// What single calls do not show.
pub fn scenarios() -> impl Iterator<Item = Workload> + Send {
    SCENARIOS.iter().enumerate().map(|(i, (name, before, calls))| Workload {
        name: (*name).into(),
        image: Kind::USUAL[i % Kind::USUAL.len()],
        mount: Mount::Tight,
        before: parse(before),
        remount: i % 4 == 1 && !before.contains("open @"),
        calls: parse(calls),
        others: None,
    })
}

/// Short workloads, for tests of what fails: few of their calls are sequences of atomic steps.
pub fn short() -> impl Iterator<Item = Workload> + Send {
    SHORT.iter().enumerate().map(|(i, (name, before, calls))| Workload {
        name: (*name).into(),
        image: Kind::in_turn(i as u64),
        mount: Mount::in_turn(i as u64),
        before: parse(before),
        remount: false,
        calls: parse(calls),
        others: None,
    })
}

/// Every parameterised call alone, with each way to make it durable.
pub fn single() -> impl Iterator<Item = Workload> + Send {
    let all = CALLS.iter().flat_map(|call| SYNCS.iter().map(move |sync| [*call, *sync]));
    all.enumerate().map(|(i, lines)| sequence(i, &lines))
}

/// The same workloads in an order from a seed: wherever it ends, it has been everywhere.
pub fn scattered(workloads: impl Iterator<Item = Workload>, seed: u64) -> impl Iterator<Item = Workload> + Send {
    let mut workloads: Vec<Workload> = workloads.collect();
    let random = Fixed::new(Timestamp::default(), seed);
    for last in (1..workloads.len()).rev() {
        workloads.swap(last, random.random_u32() as usize % (last + 1));
    }
    workloads.into_iter()
}

/// Every pair of parameterised calls, and `sync`.
pub fn exhaustive_2() -> impl Iterator<Item = Workload> + Send {
    let pairs = CALLS.iter().enumerate().flat_map(|(i, first)| {
        CALLS.iter().enumerate().map(move |(j, second)| (i * CALLS.len() + j, [*first, *second]))
    });
    pairs.map(|(i, [first, second])| match i % 3 {
        0 => sequence(i, &[first, second, "sync"]),
        1 => sequence(i, &[first, "sync", second, "sync"]),
        _ => sequence(i, &[first, second, "sync", "idle 6"]),
    })
}

fn sequence(i: usize, lines: &[&str]) -> Workload {
    Workload {
        name: lines.join("; "),
        image: Kind::in_turn(i as u64),
        mount: Mount::in_turn(i as u64 / 5),
        before: parse(BEFORE),
        remount: false,
        calls: ondol_testkit::strategy::number_fills_from(parse(&lines.join("\n")), 10),
        others: None,
    }
}

/// The calls of a workload file.
///
/// # Errors
/// The first line that is no call.
pub fn from_text(name: &str, lines: &str, image: Kind) -> Result<Workload, text::ParseError> {
    // Some editors begin a file with a mark of its encoding.
    let calls = text::parse(lines.trim_start_matches('\u{feff}'))?;
    let (mount, before) = (Mount::Tight, Vec::new());
    Ok(Workload { name: name.into(), image, mount, before, remount: false, calls, others: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_testkit::model::Model;

    #[test]
    fn every_workload_can_be_read_and_single_calls_are_no_failures() {
        assert!(CALLS.len() >= 30);
        assert_eq!(exhaustive_2().count(), CALLS.len() * CALLS.len());
        for workload in exhaustive_1() {
            let mut model = Model::empty();
            for op in workload.before.iter().chain(&workload.calls) {
                let outcome = model.apply(op);
                // Scenarios may fill the volume, which the model cannot tell.
                assert!(outcome.is_ok(), "{}: {op}: {outcome:?}", workload.name);
            }
        }
    }
}
