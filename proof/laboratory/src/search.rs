//! Many interleavings of one program, of which the best are crashed, and the others asked whether what they told is so.
//!
//! The first run lets the threads go one after the other and counts their steps. All further schedules are fitted to
//! that number: a change of place chosen among 1,500 points of a program that has 200 hardly ever comes. Runs that
//! write the same between the same calls are one. Of the others those come first that answer, or leave, something new,
//! then those that execute new edges, then those in which most turns were taken from a thread that could have gone on;
//! and the best of each policy before the second best of any.

use crate::coverage::features;
use crate::log::{self, Log};
use crate::log_judge;
use crate::prey::Recorded;
use crate::subject::Description;
use crate::threads::ThreadsRun;
use ondol_power::Event;
use ondol_schedule::Schedule;
use ondol_testkit::threads::{Program, Setup, Trace, trace};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

/// Interleavings of a program that are crashed, and of one of a few calls.
const CRASHED: usize = 5;
const CRASHED_OF_FEW: usize = 40;

/// So many calls are few.
const FEW: usize = 4;

/// A program whose interleavings are searched.
pub(crate) struct Search<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) program: &'a Program,
    /// Where the numbers of the schedules begin, and how many there are.
    pub(crate) seed: u64,
    pub(crate) count: u32,
    /// How the run of one is told.
    pub(crate) describe: &'a dyn Fn(Schedule) -> Description,
    /// Whether there is no time for more.
    pub(crate) is_over: &'a dyn Fn() -> bool,
}

/// A run that differs from those before it.
struct Kept {
    schedule: Schedule,
    trace: Trace,
    /// Nothing before it has answered, and left, the same.
    is_new: bool,
    /// So many features of it are new.
    reached: usize,
}

impl Search<'_> {
    /// The best interleavings, and the others.
    ///
    /// # Errors
    /// A schedule in which the volume fails, or does what no order of the calls explains.
    pub(crate) fn best(&self) -> Result<Vec<Recorded>, (Schedule, String)> {
        let mut kept = self.runs()?;
        kept.sort_by_key(|run| (!run.is_new, Reverse(run.reached), Reverse(run.trace.stats.taken)));
        // The best of each way to choose comes before the second best of any.
        let mut of_way = HashMap::new();
        let mut ranked: Vec<(usize, Kept)> = Vec::new();
        for run in kept {
            let rank = of_way.entry(discriminant(&run.schedule.policy)).or_insert(0);
            *rank += 1;
            ranked.push((*rank, run));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let few = self.program.threads().iter().map(Vec::len).sum::<usize>() <= FEW;
        let crashed = if few { CRASHED_OF_FEW } else { CRASHED };
        let mut best = Vec::new();
        for (n, (_, Kept { schedule, trace, .. })) in ranked.into_iter().enumerate() {
            let threads = trace.explain().map_err(|e| (schedule, e.to_string()))?;
            let run = ThreadsRun::new(self.setup, threads, (self.describe)(schedule)).map_err(|e| (schedule, e))?;
            let recorded = if n < crashed { Recorded::Several } else { Recorded::Told };
            best.push(recorded(Box::new(run)));
        }
        Ok(best)
    }

    /// All that differ.
    fn runs(&self) -> Result<Vec<Kept>, (Schedule, String)> {
        let in_turn = Schedule::in_turn(self.seed);
        let run = |schedule| trace(self.setup, self.program, schedule).map_err(|e| (schedule, e.to_string()));
        let first = run(in_turn)?;
        judge(&first).map_err(|e| (in_turn, e))?;
        let stats = first.stats.clone();
        let mut shapes = HashSet::from([shape(&first)]);
        let mut known = features(&first.heard);
        let mut kept = vec![Kept { schedule: in_turn, trace: first, is_new: true, reached: 0 }];
        for number in (0..self.count).map(|i| self.seed.wrapping_add(u64::from(i))) {
            if (self.is_over)() {
                break;
            }
            let schedule = Schedule::fitted_to(&stats, number);
            let trace = run(schedule)?;
            if shapes.insert(shape(&trace)) {
                judge(&trace).map_err(|e| (schedule, e))?;
                let is_new = kept.iter().all(|known| !same(&known.trace, &trace));
                let passed = features(&trace.heard);
                let reached = passed.difference(&known).count();
                known.extend(passed);
                kept.push(Kept { schedule, trace, is_new, reached });
            }
        }
        Ok(kept)
    }
}

/// Whether the log keeps its rules, in each interleaving: most are not crashed.
fn judge(trace: &Trace) -> Result<(), String> {
    log_judge::judge(&Log::of(&trace.base)?, &log::media(trace.base.clone()), &trace.events, false)
}

/// Whether two runs have answered, and left, the same.
fn same(one: &Trace, other: &Trace) -> bool {
    let outcomes = |trace: &Trace| -> Vec<_> { trace.calls.iter().flatten().map(|call| call.outcome).collect() };
    outcomes(one) == outcomes(other) && one.after == other.after
}

/// What was written where, between which calls.
fn shape(trace: &Trace) -> u64 {
    let mut hasher = DefaultHasher::new();
    for event in &trace.events {
        match event {
            Event::Write { medium, offset, bytes } => (0, *medium, *offset, bytes.len() as u64).hash(&mut hasher),
            Event::Discard { medium, offset, len } => (1, *medium, *offset, *len).hash(&mut hasher),
            Event::Flush { medium } => (2, *medium).hash(&mut hasher),
            Event::Mark(id) => (3, *id).hash(&mut hasher),
            Event::Batch { medium, writes, discards, .. } => {
                let places: Vec<_> = writes.iter().map(|(offset, bytes)| (*offset, bytes.len() as u64)).collect();
                (4, *medium, places, discards).hash(&mut hasher);
            }
            Event::Settled { medium, number } => (5, *medium, *number).hash(&mut hasher),
            _ => {}
        }
    }
    hasher.finish()
}
