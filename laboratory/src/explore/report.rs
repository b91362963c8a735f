//! What an exploration found.

use crate::subject::Description;
use ondol_power::Case;
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
    /// States that break the contract.
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
        self.violations.extend(other.violations);
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
    /// Which state.
    pub path: CasePath,
    /// The run it is a state of.
    pub run: Description,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, run } = self;
        write!(f, "crash state {path} breaks the contract: {what}\n{}to see it again:\n", run.text)?;
        write!(f, "  ondol crash {} --case '{path}'", run.arguments)
    }
}
