//! The life of a pool, which is one workload.

use super::Found;
use crate::explore::{self, CasePath, Limits, Watch};
use crate::pool::PoolRun;
use crate::prey::{Prey, Replayed};
use ondol_medium::Domain;
use std::collections::HashSet;

/// Explores the life of a pool on memory of this domain.
///
/// # Errors
/// The pool fails without any crash.
pub fn hunt_pool(prey: &Prey, domain: Domain, watch: &Watch) -> Result<Found, String> {
    let _planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    let run = PoolRun::record(domain)?;
    // A pool has few states: the recovery of each is crashed.
    let limits = Limits { recrash_every: u64::from(prey.limits.depth > 0), ..prey.limits };
    let mut report = explore::explore(&run, &limits, watch);
    report.violations = report.violations.into_iter().map(|v| explore::smallest(&run, v)).collect();
    let distinct = std::mem::take(&mut report.seen).into_iter().collect::<HashSet<u128>>().len() as u64;
    Ok(Found { report, modes: vec![(prey.data, distinct)], workloads: 1, phases: Vec::new(), first: None })
}

/// Judges one state of the life of a pool again, or all of them, as [`Prey::replay`].
///
/// # Errors
/// As [`hunt_pool`].
pub fn replay_pool(prey: &Prey, domain: Domain, path: &CasePath) -> Result<Replayed, String> {
    let _planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    if let Ok(Some(violation)) = explore::replay(&PoolRun::record(domain)?, path) {
        return Ok(Replayed::Seen(violation));
    }
    let mut found = hunt_pool(prey, domain, &Watch::default())?;
    Ok(found.report.violations.pop().map_or(Replayed::Gone, Replayed::Elsewhere))
}
