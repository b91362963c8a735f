//! Volumes that are given another size, one after the other.

use super::{First, Found, Share};
use crate::explore::{self, CasePath, Limits, Report, Violation, Watch};
use crate::prey::{Prey, Replayed};
use crate::processor;
use crate::resize::{ResizeRun, describe};
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_testkit::resizing::Resizing;
use std::collections::HashSet;

/// Of so many times more states recoveries are crashed, and programs of others are asked: the resize goes on then, too.
const CLOSER: u64 = 10;

const PHASE: &str = "resizes";

/// Explores these resizes, of [`ondol_testkit::resizing::names`].
///
/// # Errors
/// A volume cannot be made. That a resize fails without any crash is a violation.
pub fn hunt_resizes(prey: &Prey, names: &[&str], watch: &Watch) -> Result<Found, String> {
    *watch.phase.lock() = PHASE;
    let began = processor::spent();
    let (mut report, mut distinct, mut first, mut workloads) = (Report::default(), 0, None, 0);
    for name in names {
        let enough = prey.limits.states.is_some_and(|most| distinct >= most);
        if watch.stop.load(Relaxed) || enough || report.violations.len() >= prey.limits.violations {
            break;
        }
        let states = prey.limits.states.map(|most| most - distinct);
        let mut of_run = explore(&Prey { limits: Limits { states, ..prey.limits }, ..prey.clone() }, name, watch)?;
        distinct += std::mem::take(&mut of_run.seen).into_iter().collect::<HashSet<u128>>().len() as u64;
        watch.distinct.store(distinct, Relaxed);
        workloads = watch.workloads.fetch_add(1, Relaxed) + 1;
        let found = !of_run.violations.is_empty();
        report.add(of_run);
        if found && first.is_none() {
            let (spent, recovered) = (processor::spent() - began, report.distinct);
            first = Some(First { phase: PHASE, workload: (*name).to_owned(), spent, workloads, recovered });
        }
    }
    let spent = processor::spent() - began;
    let phases = vec![Share { name: PHASE, workloads, recovered: report.distinct, explored: distinct, spent }];
    Ok(Found { report, modes: vec![(prey.data, distinct)], workloads, phases, first })
}

fn explore(prey: &Prey, name: &str, watch: &Watch) -> Result<Report, String> {
    let of = Resizing::make(name)?;
    let _planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    let described = describe(&of, prey.seed, prey.plant);
    let run = match ResizeRun::record(of, prey.seed) {
        Ok(run) => run,
        Err(what) => {
            let (path, events) = (CasePath::default(), String::new());
            return Ok(Report {
                violations: vec![Violation { what, path, run: described, state: None, events, times: 1 }],
                ..Report::default()
            });
        }
    };
    let limits = Limits {
        recrash_every: prey.limits.recrash_every.div_ceil(CLOSER),
        second_opinion_every: prey.limits.second_opinion_every.div_ceil(4 * CLOSER),
        use_every: prey.limits.use_every.div_ceil(CLOSER),
        ..prey.limits
    };
    let mut report = explore::explore(&run, &limits, watch);
    report.violations = report.violations.into_iter().map(|v| explore::smallest(&run, v)).collect();
    Ok(report)
}

/// Judges one state of a resize again, or all of them, as [`Prey::replay`].
///
/// # Errors
/// As [`hunt_resizes`].
pub fn replay_resize(prey: &Prey, name: &str, path: &CasePath) -> Result<Replayed, String> {
    let of = Resizing::make(name)?;
    let planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    // What fails without any crash, the hunt tells.
    if let Ok(run) = ResizeRun::record(of, prey.seed)
        && let Ok(Some(violation)) = explore::replay(&run, path)
    {
        return Ok(Replayed::Seen(violation));
    }
    drop(planted);
    let mut found = hunt_resizes(prey, &[name], &Watch::default())?;
    Ok(found.report.violations.pop().map_or(Replayed::Gone, Replayed::Elsewhere))
}
