//! Building the states of a run, skipping those that were seen, judging the others.

use super::case::{apply, units_of};
use super::judge::{Judge, Judged};
use super::{Case, Keep, Layer, Run};
use crate::image::ToolError;
use crate::op::text;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_power::Event;
use std::collections::HashMap;
use std::fmt;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// With at most so many unflushed writes, all their subsets are built.
    pub subsets_of: u32,
    /// Random states for each event with more unflushed writes.
    pub samples: u32,
    /// States with a torn newest write for each event.
    pub torn: u32,
    /// Every so many distinct states e2fsck judges too; 0 for never.
    pub fsck_every: u64,
    /// Stop after so many violations.
    pub violations: usize,
    /// Seed of the samples.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { subsets_of: 8, samples: 12, torn: 12, fsck_every: 50, violations: 1, seed: 1 }
    }
}

/// What an exploration found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// States built.
    pub states: u64,
    /// States among them that differ from all others.
    pub distinct: u64,
    /// Events after which power was cut.
    pub crash_points: u64,
    /// States that e2fsck judged too.
    pub fsck: u64,
    /// States that break the contract.
    pub violations: Vec<Violation>,
}

/// A state that breaks the contract.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How it is broken.
    pub what: String,
    /// Which state.
    pub case: Case,
    /// Everything else that is needed to build it again, as text.
    pub context: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash state {} breaks the contract: {}\n{}", self.case, self.what, self.context)
    }
}

/// Explores a run.
///
/// # Errors
/// e2fsck cannot be run.
pub fn explore(run: &Run, limits: &Limits) -> Result<Report, ToolError> {
    let random = Fixed::new(Timestamp::default(), limits.seed);
    let judge = Judge::new(run);
    let mut explorer =
        Explorer { run, limits, random, judge, seen: HashMap::new(), report: Report::default(), done: false };
    explorer.explore()?;
    Ok(explorer.report)
}

/// Judges one state, with e2fsck too. `None` if nothing is wrong with it.
///
/// # Errors
/// The case does not fit the run; e2fsck cannot be run.
pub fn replay(run: &Run, case: &Case) -> Result<Option<Violation>, String> {
    let layer = case.build(&run.base, &run.events)?;
    let allowed = run.allowed(case.events);
    let mut judge = Judge::new(run);
    let ours = judge.ours(&layer, allowed);
    let what = match ours {
        Err(what) => Some(what),
        Ok(_) => judge.e2fsck(&layer, allowed).map_err(|e| e.to_string())?.err(),
    };
    Ok(what.map(|what| violation(run, case.clone(), what)))
}

fn violation(run: &Run, case: Case, what: String) -> Violation {
    let setup = &run.setup;
    let events: Vec<String> = run.events.iter().take(case.events).map(describe).collect();
    let context = format!(
        "data mode {:?}, seed {}, {}\nsetup:\n{}recorded calls:\n{}events up to the cut:\n{}\n",
        setup.data(),
        setup.seed,
        if setup.remount { "remounted before the recording" } else { "synced before the recording" },
        text::print(&setup.ops),
        text::print(&run.ops),
        events.join("\n"),
    );
    Violation { what, case, context }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Write { offset, bytes, .. } => format!("  write {} bytes at {offset}", bytes.len()),
        Event::Flush { .. } => "  flush".into(),
        Event::Store { .. } | Event::WriteBack { .. } | Event::Fence { .. } => "  NVM".into(),
        Event::Mark(id) if id % 2 == 0 => format!("  call {} begins", id / 2),
        Event::Mark(id) => format!("  call {} has returned", id / 2),
    }
}

struct Explorer<'a> {
    run: &'a Run,
    limits: &'a Limits,
    random: Fixed,
    judge: Judge<'a>,
    /// Distinct states, with the numbers of calls that they may be the state of.
    seen: HashMap<u128, Judged>,
    report: Report,
    done: bool,
}

/// Where power is cut: how many events happened, what is durable, and which writes are not.
struct Cut<'e> {
    events: usize,
    durable: &'e Layer,
    pending: &'e [(u64, &'e [u8])],
    allowed: (usize, usize),
}

impl Explorer<'_> {
    fn explore(&mut self) -> Result<(), ToolError> {
        let run = self.run;
        let mut durable = run.base.clone();
        let mut pending: Vec<(u64, &[u8])> = Vec::new();
        let mut least = 0;
        self.cut(&Cut { events: 0, durable: &durable, pending: &[], allowed: run.allowed(0) }, Newest::Any)?;
        for (i, event) in run.events.iter().enumerate() {
            let newest = match event {
                Event::Write { offset, bytes, .. } => {
                    pending.push((*offset, bytes));
                    Newest::Kept
                }
                Event::Flush { .. } => {
                    pending.drain(..).for_each(|(offset, bytes)| apply(&mut durable, offset, bytes, &Keep::All));
                    durable.fingerprint();
                    Newest::Any
                }
                // A call that has made things durable leaves fewer states that may be found.
                Event::Mark(_) if run.allowed(i + 1).0 > least => {
                    least = run.allowed(i + 1).0;
                    Newest::Any
                }
                Event::Mark(_) | Event::Store { .. } | Event::WriteBack { .. } | Event::Fence { .. } => continue,
            };
            let allowed = run.allowed(i + 1);
            let cut = Cut { events: i + 1, durable: &durable, pending: &pending, allowed };
            self.cut(&cut, newest)?;
            if matches!(run.events.get(i + 1), None | Some(Event::Flush { .. })) {
                self.extremes(&cut)?;
            }
            if self.done {
                break;
            }
        }
        Ok(())
    }

    /// The states of one cut. Without its newest write a state belongs to an earlier cut already.
    fn cut(&mut self, cut: &Cut<'_>, newest: Newest) -> Result<(), ToolError> {
        self.report.crash_points += 1;
        let n = cut.pending.len();
        let free = if newest == Newest::Kept { n - 1 } else { n };
        if free as u32 <= self.limits.subsets_of {
            for subset in 0..1u32 << free {
                let kept = |i: usize| i >= free || subset >> i & 1 == 1;
                self.state(cut, (0..n).map(|i| if kept(i) { Keep::All } else { Keep::None }).collect())?;
            }
        } else {
            self.state(cut, vec![Keep::All; n])?;
            for _ in 0..self.limits.samples {
                let mut keep: Vec<Keep> = cut.pending.iter().map(|(at, bytes)| self.any(*at, bytes.len())).collect();
                if newest == Newest::Kept {
                    keep[n - 1] = Keep::All;
                }
                self.state(cut, keep)?;
            }
        }
        if newest == Newest::Kept { self.torn(cut) } else { Ok(()) }
    }

    /// At the end of an epoch: each write alone, and all but each.
    fn extremes(&mut self, cut: &Cut<'_>) -> Result<(), ToolError> {
        let n = cut.pending.len();
        if n as u32 <= self.limits.subsets_of + 1 {
            return Ok(());
        }
        for i in 0..n {
            let (mut alone, mut without) = (vec![Keep::None; n], vec![Keep::All; n]);
            (alone[i], without[i]) = (Keep::All, Keep::None);
            self.state(cut, alone)?;
            self.state(cut, without)?;
        }
        Ok(())
    }

    /// The newest write in parts, the others all there or all lost.
    fn torn(&mut self, cut: &Cut<'_>) -> Result<(), ToolError> {
        let Some(((offset, bytes), _)) = cut.pending.split_last() else { return Ok(()) };
        let units = units_of(*offset, bytes.len());
        if units < 2 {
            return Ok(());
        }
        for i in 0..self.limits.torn {
            let at = 1 + self.below(units - 1);
            let part: Vec<bool> = match i % 3 {
                0 => (0..units).map(|u| u < at).collect(),
                1 => (0..units).map(|u| u >= at).collect(),
                _ => (0..units).map(|_| self.below(2) == 1).collect(),
            };
            let others = if i % 2 == 0 { Keep::All } else { Keep::None };
            let mut keep = vec![others; cut.pending.len() - 1];
            keep.push(Keep::Units(part));
            self.state(cut, keep)?;
        }
        Ok(())
    }

    fn any(&mut self, offset: u64, len: usize) -> Keep {
        match self.below(5) {
            0 | 1 => Keep::None,
            2 | 3 => Keep::All,
            _ => Keep::Units((0..units_of(offset, len)).map(|_| self.below(2) == 1).collect()),
        }
    }

    fn below(&self, n: usize) -> usize {
        self.random.random_u32() as usize % n.max(1)
    }

    fn state(&mut self, cut: &Cut<'_>, keep: Vec<Keep>) -> Result<(), ToolError> {
        if self.done {
            return Ok(());
        }
        self.report.states += 1;
        let mut layer = cut.durable.clone();
        for ((offset, bytes), keep) in cut.pending.iter().zip(&keep) {
            apply(&mut layer, *offset, bytes, keep);
        }
        let fingerprint = layer.fingerprint();
        let (least, most) = cut.allowed;
        if let Some(judged) = self.seen.get(&fingerprint) {
            // A state that was right for some number of calls is still right if that number is still possible.
            if judged.iter().any(|k| (least..=most).contains(k)) {
                return Ok(());
            }
        } else {
            self.report.distinct += 1;
        }
        let mut outcome = self.judge.ours(&layer, cut.allowed);
        let every = self.limits.fsck_every;
        if outcome.is_ok() && every > 0 && self.report.distinct % every == 1 % every {
            self.report.fsck += 1;
            outcome = self.judge.e2fsck(&layer, cut.allowed)?.and(outcome);
        }
        match outcome {
            Ok(judged) => drop(self.seen.insert(fingerprint, judged)),
            Err(what) => {
                self.report.violations.push(violation(self.run, Case { events: cut.events, keep }, what));
                self.done = self.report.violations.len() >= self.limits.violations;
            }
        }
        Ok(())
    }
}

/// Whether a cut's states must have its newest write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// The states without it were built after the event before.
    Kept,
    /// What may be found has changed: build all of them.
    Any,
}
