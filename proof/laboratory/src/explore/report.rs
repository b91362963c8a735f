//! What an exploration found.

use super::kind;
use crate::coverage::Tally;
use crate::rot::Flip;
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
    /// Edges that were executed, and crashed around.
    pub coverage: Tally,
    /// Nanoseconds that programs of others took.
    pub waited: u64,
    /// States that the kernel replayed itself.
    pub by_kernel: u64,
    /// Recovered volumes that were used, and crashed again.
    pub used: u64,
    /// Distinct states of that.
    pub used_states: u64,
    /// What recovery read of what might be lost, at places where that was varied.
    pub read: u64,
    /// States of which a bit of the log was changed.
    pub flipped: u64,
    /// What the run has shown that can be new.
    pub features: Vec<u32>,
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
        self.coverage.add(&other.coverage);
        self.waited += other.waited;
        self.by_kernel += other.by_kernel;
        self.used += other.used;
        self.used_states += other.used_states;
        self.read += other.read;
        self.flipped += other.flipped;
        for violation in other.violations {
            match self.violations.iter_mut().find(|known| known.kind() == violation.kind()) {
                Some(known) => known.times += violation.times,
                None => self.violations.push(violation),
            }
        }
    }
}

/// A crash, and crashes of the recoveries after it: cases joined by `/`. Then what else was done with the state: see
/// [`Then`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CasePath(pub Vec<Case>, pub Option<Then>);

/// What was done with a crash state besides recovering it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    /// It was recovered and used.
    Used(After),
    /// A bit of its log changed: `/^` and the bit.
    Flipped(Flip),
    /// What of its losses is there in part is compared with each whole of it: `/~` and its number.
    Half(usize),
}

/// A volume was recovered and used: `/@` and the seed of that, and `/` and a case if it was crashed then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct After {
    /// Which calls.
    pub seed: u64,
    /// The crash; without it, the calls themselves went wrong.
    pub case: Option<Case>,
}

impl fmt::Display for CasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, case) in self.0.iter().enumerate() {
            write!(f, "{}{case}", if i == 0 { "" } else { "/" })?;
        }
        match &self.1 {
            None => Ok(()),
            Some(Then::Used(After { seed, case: None })) => write!(f, "/@{seed}"),
            Some(Then::Used(After { seed, case: Some(case) })) => write!(f, "/@{seed}/{case}"),
            Some(Then::Flipped(flip)) => write!(f, "/^{flip}"),
            Some(Then::Half(at)) => write!(f, "/~{at}"),
        }
    }
}

impl std::str::FromStr for CasePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cases = |text: &str| text.split('/').map(str::parse).collect::<Result<Vec<Case>, _>>();
        if let Some((crashed, flip)) = text.split_once("/^") {
            return Ok(Self(cases(crashed)?, Some(Then::Flipped(flip.parse()?))));
        }
        if let Some((crashed, at)) = text.split_once("/~") {
            let at = at.parse().map_err(|_| format!("no number of a part: {at}"))?;
            return Ok(Self(cases(crashed)?, Some(Then::Half(at))));
        }
        let Some((crashed, after)) = text.split_once("/@") else { return Ok(Self(cases(text)?, None)) };
        let (seed, case) = after.split_once('/').map_or((after, None), |(seed, case)| (seed, Some(case)));
        let seed = seed.parse().map_err(|_| format!("no seed of calls after a recovery: {seed}"))?;
        Ok(Self(cases(crashed)?, Some(Then::Used(After { seed, case: case.map(str::parse).transpose()? }))))
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
    /// Of a volume in object storage: where the state is kept, and how to look at it. Nobody can build it again.
    pub state: Option<String>,
    /// What happened, from the first call to the last recovery, a line an event.
    pub events: String,
    /// How often the like of it was seen.
    pub times: u64,
}

impl Violation {
    /// What it is, whatever the calls: equal for violations that are told once.
    pub fn kind(&self) -> String {
        kind::of(&self.what)
    }

    /// The same, but for what differs: equal for violations that may be one mistake.
    pub(crate) fn class(&self) -> String {
        let crashed =
            if self.path.0.is_empty() && self.state.is_none() { "without any crash" } else { "after a crash" };
        format!("{crashed}: {}", kind::of(&self.what).lines().next().unwrap_or_default())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, run, state, events, times: _ } = self;
        if let Some(state) = state {
            writeln!(f, "a state of the store breaks the contract: {what}\n{}{events}{}", run.text, state.trim_end())?;
            write!(f, "to try these calls again, which may do otherwise:\n  ondol crash {}", run.arguments)
        } else if path.0.is_empty() {
            write!(f, "without any crash: {what}\n{}to see it again:\n  ondol crash {}", run.text, run.arguments)
        } else {
            write!(f, "crash state {path} breaks the contract: {what}\n{}", run.text)?;
            writeln!(f, "{events}to see it again:")?;
            write!(f, "  ondol crash {} --case '{path}'", run.arguments)
        }
    }
}
