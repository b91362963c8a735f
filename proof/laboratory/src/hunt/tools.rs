//! Volumes that tools change, one after the other.

use super::{Budget, First, Found, Share};
use crate::explore::{self, CasePath, Limits, Report, Violation, Watch};
use crate::prey::{Prey, Replayed, caught};
use crate::processor;
use crate::tools::{Family, ToolRun, describe, make};
use ondol_env::sync::atomic::Ordering::Relaxed;
use std::collections::HashSet;

/// Of so many times more states recoveries are crashed, and programs of others are asked: the tools go on then, too.
const CLOSER: u64 = 10;

/// Some of a family, of [`Family::names`].
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The family.
    pub family: Family,
    /// Which of it.
    pub names: &'a [String],
}

/// Explores these members of a family: once, or where `is_endless` with one seed after the other.
///
/// # Errors
/// A volume cannot be made. That a tool fails without any crash is a violation.
pub fn hunt_tools(
    prey: &Prey,
    Members { family, names }: Members<'_>,
    budget: Budget,
    is_endless: bool,
    watch: &Watch,
) -> Result<Found, String> {
    *watch.phase.lock() = family.word();
    let began = processor::spent();
    let (mut report, mut distinct, mut first, mut workloads) = (Report::default(), 0, None, 0);
    let spent = |report: &Report| processor::spent() - began + report.waited;
    let seeds = (prey.seed..).take(if is_endless { usize::MAX } else { 1 });
    for (seed, name) in seeds.flat_map(|seed| names.iter().map(move |name| (seed, name))) {
        let enough = budget.states.is_some_and(|most| distinct >= most)
            || budget.processor_seconds.is_some_and(|most| spent(&report) >= most * 1_000_000_000);
        if watch.stop.load(Relaxed) || enough || report.violations.len() >= budget.violations {
            break;
        }
        let states = budget.states.map(|most| most - distinct);
        let mut prey = Prey { seed, limits: Limits { states, ..prey.limits }, ..prey.clone() };
        prey.limits.sampling.seed = seed;
        let mut of_run = explore(&prey, family, name, budget.shrinks, watch)?;
        distinct += std::mem::take(&mut of_run.seen).into_iter().collect::<HashSet<u128>>().len() as u64;
        watch.distinct.store(distinct, Relaxed);
        workloads = watch.workloads.fetch_add(1, Relaxed) + 1;
        let found = !of_run.violations.is_empty();
        report.add(of_run);
        watch.violations.store(report.violations.len() as u64, Relaxed);
        if found && first.is_none() {
            let (phase, recovered) = (family.word(), report.distinct);
            first = Some(First { phase, workload: name.clone(), spent: spent(&report), workloads, recovered });
        }
    }
    let (name, recovered, spent) = (family.word(), report.distinct, spent(&report));
    let phases = vec![Share { name, workloads, recovered, explored: distinct, spent }];
    Ok(Found { report, modes: vec![(prey.data, distinct)], workloads, phases, first })
}

fn explore(prey: &Prey, family: Family, name: &str, shrinks: bool, watch: &Watch) -> Result<Report, String> {
    let run = match record(prey, family, name)? {
        Ok(run) => run,
        Err(violation) => return Ok(Report { violations: vec![violation], ..Report::default() }),
    };
    let _planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    let limits = Limits {
        recrash_every: prey.limits.recrash_every.div_ceil(CLOSER),
        second_opinion_every: prey.limits.second_opinion_every.div_ceil(4 * CLOSER),
        use_every: prey.limits.use_every.div_ceil(CLOSER),
        ..prey.limits
    };
    let mut report = explore::explore(&run, &limits, watch);
    if shrinks {
        report.violations = report.violations.into_iter().map(|v| explore::smallest(&run, v)).collect();
    }
    Ok(report)
}

/// What is begun with and what is to come of it is made without the planted defect, or it would be judged by itself.
fn record(prey: &Prey, family: Family, name: &str) -> Result<Result<ToolRun, Violation>, String> {
    let of = make(family, name, prey.seed)?;
    let described = describe(family, name, prey.seed, prey.plant);
    let _planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    let run = caught(|| ToolRun::record(of, described.clone()));
    Ok(run.map_err(|what| {
        let (path, events) = (CasePath::default(), String::new());
        Violation { what, path, run: described, state: None, events, times: 1 }
    }))
}

/// Judges one state of tools again, or all of them, as [`Prey::replay`].
///
/// # Errors
/// As [`hunt_tools`].
pub fn replay_tools(prey: &Prey, family: Family, name: &String, path: &CasePath) -> Result<Replayed, String> {
    // What fails without any crash, the hunt tells.
    if let Ok(run) = record(prey, family, name)? {
        let _planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
        if let Ok(Some(violation)) = explore::replay(&run, path) {
            return Ok(Replayed::Seen(violation));
        }
    }
    let names = std::slice::from_ref(name);
    let mut found = hunt_tools(prey, Members { family, names }, Budget::default(), false, &Watch::default())?;
    Ok(found.report.violations.pop().map_or(Replayed::Gone, Replayed::Elsewhere))
}
