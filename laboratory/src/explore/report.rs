//! What an exploration found.

use super::kind;
use crate::reach::Tally;
use crate::subject::Description;
use ondol_power::{Case, Event};
use std::fmt;

/// Figures of an exploration; they add up over runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// States built.
    pub states: u64,
    /// Fingerprints of the states, without those of recoveries that were crashed.
    pub seen: Vec<u128>,
    /// States among them that differ from all others of their run; each was recovered.
    pub distinct: u64,
    /// Distinct states among those that lie in a crashed recovery.
    pub nested: u64,
    /// Different results of recovery; each was checked, read and compared.
    pub judged: u64,
    /// Events after which power was cut.
    pub crash_points: u64,
    /// Cuts among them of which all states were built, torn ones left out.
    pub exhausted: u64,
    /// States that programs of others judged too.
    pub second_opinions: u64,
    /// Places that were passed, and crashed around.
    pub reach: Tally,
    /// States that break the contract, one of each kind.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Takes in the figures of another run.
    pub fn add(&mut self, other: Self) {
        self.states += other.states;
        self.distinct += other.distinct;
        self.nested += other.nested;
        self.judged += other.judged;
        self.crash_points += other.crash_points;
        self.exhausted += other.exhausted;
        self.second_opinions += other.second_opinions;
        self.reach.add(&other.reach);
        for violation in other.violations {
            match self.violations.iter_mut().find(|known| known.kind() == violation.kind()) {
                Some(known) => known.times += violation.times,
                None => self.violations.push(violation),
            }
        }
    }
}

/// A crash, and crashes of the recoveries after it: cases joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CasePath(pub Vec<Case>);

impl fmt::Display for CasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, case) in self.0.iter().enumerate() {
            write!(f, "{}{case}", if i == 0 { "" } else { "/" })?;
        }
        Ok(())
    }
}

impl std::str::FromStr for CasePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split('/').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// A state that breaks the contract.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How it is broken.
    pub what: String,
    /// Which state; an empty path where the calls went wrong without any crash.
    pub path: CasePath,
    /// The run it is a state of.
    pub run: Description,
    /// The last events before the first cut, a line each.
    pub events: String,
    /// How often the like of it was seen.
    pub times: u64,
}

impl Violation {
    /// What it is, whatever the calls: equal for violations that are told once.
    pub fn kind(&self) -> String {
        kind::of(&self.what)
    }
}

/// Events that a violation shows.
const SHOWN: usize = 40;

/// The last of `events`, a line each.
pub(super) fn told(events: &[Event]) -> String {
    let from = events.len().saturating_sub(SHOWN);
    events[from..].iter().map(|event| format!("  {}\n", line(event))).collect()
}

fn line(event: &Event) -> String {
    match event {
        Event::Write { medium, offset, bytes } => format!("medium {medium}: {} bytes at {offset} written", bytes.len()),
        Event::Discard { medium, offset, len } => format!("medium {medium}: {len} bytes at {offset} discarded"),
        Event::Flush { medium } => format!("medium {medium}: flushed"),
        Event::Store { medium, thread, offset, bytes } => {
            format!("medium {medium}: {} bytes at {offset} stored by thread {thread}", bytes.len())
        }
        Event::WriteBack { medium, thread, offset, len } => {
            format!("medium {medium}: thread {thread} writes back {len} bytes at {offset}")
        }
        Event::Fence { thread } => format!("thread {thread}: fence"),
        Event::Mark(id) => {
            let (thread, call) = (id >> 32, (*id as u32) >> 1);
            format!("thread {thread}, call {call}: {}", if id & 1 == 0 { "begins" } else { "has returned" })
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, run, events, times: _ } = self;
        if path.0.is_empty() {
            write!(f, "without any crash: {what}\n{}to see it again:\n  ondol crash {}", run.text, run.arguments)
        } else {
            write!(f, "crash state {path} breaks the contract: {what}\n{}", run.text)?;
            write!(f, "events before the crash:\n{events}to see it again:\n")?;
            write!(f, "  ondol crash {} --case '{path}'", run.arguments)
        }
    }
}
