//! Workload after workload, on several processors, until enough was seen.

use crate::explore::{self, CasePath, Limits, Report, Violation, Watch};
use crate::image::Kind;
use crate::pool::PoolRun;
use crate::prey::Prey;
use crate::workload::Workload;
use ondol_env::plant;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_medium::Domain;
use ondol_power::Layer;
use std::collections::{BTreeMap, HashSet};

/// When a hunt ends, besides by running out of workloads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Distinct states.
    pub states: Option<u64>,
    /// Processors to use.
    pub threads: usize,
}

/// What a hunt found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The sum of all runs; `distinct` counts states that are distinct in their own run.
    pub report: Report,
    /// States that differ from all others of all runs, crashed recoveries left out.
    pub distinct: u64,
    /// Workloads explored.
    pub workloads: u64,
}

/// Explores the life of a pool on memory of this domain.
///
/// # Errors
/// The pool fails without any crash.
pub fn hunt_pool(prey: &Prey, domain: Domain, watch: &Watch) -> Result<Found, String> {
    let _planted = plant::set(prey.plant).map_err(|e| e.to_string())?;
    let run = PoolRun::record(domain)?;
    // A pool has few states: the recovery of each is crashed.
    let limits = Limits { recrash_every: u64::from(prey.limits.depth > 0), ..prey.limits };
    let mut report = explore::explore(&run, &limits, watch);
    report.violations = report.violations.into_iter().map(|v| explore::smallest(&run, v)).collect();
    let distinct = std::mem::take(&mut report.seen).into_iter().collect::<HashSet<u128>>().len() as u64;
    Ok(Found { report, distinct, workloads: 1 })
}

/// Judges one state of the life of a pool; `None` if nothing is wrong with it.
///
/// # Errors
/// As [`hunt_pool`], or the path does not fit the run.
pub fn replay_pool(prey: &Prey, domain: Domain, path: &CasePath) -> Result<Option<Violation>, String> {
    let _planted = plant::set(prey.plant).map_err(|e| e.to_string())?;
    explore::replay(&PoolRun::record(domain)?, path)
}

/// What the processors of a hunt share.
struct Shared<'a> {
    prey: &'a Prey,
    budget: Budget,
    watch: &'a Watch,
    workloads: Mutex<Box<dyn Iterator<Item = Workload> + Send + 'a>>,
    images: Mutex<BTreeMap<Kind, Layer>>,
    distinct: Mutex<HashSet<u128>>,
    found: Mutex<Found>,
    failure: Mutex<Option<String>>,
}

/// Hunts through `workloads`. `watch.distinct` follows; setting `watch.stop` ends it early.
///
/// # Errors
/// An image cannot be made. A volume that disagrees with the model without any crash is a violation.
pub fn hunt<'a>(
    prey: &'a Prey,
    workloads: impl Iterator<Item = Workload> + Send + 'a,
    budget: Budget,
    watch: &'a Watch,
) -> Result<Found, String> {
    let shared = Shared {
        prey,
        budget,
        watch,
        workloads: Mutex::new(Box::new(workloads)),
        images: Mutex::default(),
        distinct: Mutex::default(),
        found: Mutex::default(),
        failure: Mutex::default(),
    };
    // The laboratory's own processors, not threads of what it explores.
    std::thread::scope(|scope| {
        for _ in 0..budget.threads.max(1) {
            scope.spawn(|| while shared.next() {});
        }
    });
    match shared.failure.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(shared.found.into_inner()),
    }
}

/// How far each run may go at least.
const LEAST_STATES: u64 = 1000;

impl Shared<'_> {
    /// Explores one workload; false when the hunt is over.
    fn next(&self) -> bool {
        if self.watch.stop.load(Relaxed) {
            return false;
        }
        let Some(workload) = self.workloads.lock().next() else { return false };
        let found = self.found.lock().distinct;
        // Some of what a run shows may be known from others: with too small a share of its own, none would bring anything new.
        let left = self.budget.states.map(|most| most.saturating_sub(found).max(LEAST_STATES));
        let prey = Prey { limits: Limits { states: left, ..self.prey.limits }, ..self.prey.clone() };
        let explored = self.image(workload.image).and_then(|image| prey.explore(&image, &workload, self.watch));
        let mut report = match explored {
            Ok(report) => report,
            Err(what) => {
                self.watch.stop.store(true, Relaxed);
                *self.failure.lock() = Some(what);
                return false;
            }
        };
        if let Some(violation) = report.violations.pop() {
            self.watch.stop.store(true, Relaxed);
            self.watch.shrinking.store(true, Relaxed);
            match self.prey.smallest(&workload, violation, self.watch) {
                Ok(violation) => report.violations.push(violation),
                Err(what) => *self.failure.lock() = Some(what),
            }
        }
        self.take(report)
    }

    /// Made once for all workloads.
    fn image(&self, kind: Kind) -> Result<Layer, String> {
        let mut images = self.images.lock();
        if let Some(image) = images.get(&kind) {
            return Ok(image.clone());
        }
        let image = kind.make()?;
        images.insert(kind, image.clone());
        Ok(image)
    }

    fn take(&self, mut report: Report) -> bool {
        let distinct = {
            let mut distinct = self.distinct.lock();
            distinct.extend(report.seen.drain(..));
            distinct.len() as u64
        };
        let mut found = self.found.lock();
        found.distinct = distinct;
        found.workloads += 1;
        found.report.add(report);
        let enough = self.budget.states.is_some_and(|most| distinct >= most);
        if enough {
            self.watch.stop.store(true, Relaxed);
        }
        !enough
    }
}
