//! Workload after workload, on several processors, until enough was seen.

mod parts;
mod phase;
mod pool;
mod tools;

pub use parts::{Part, hunt_part};
pub use phase::{Phase, Share};
pub use pool::{hunt_pool, replay_pool};
pub use tools::{Members, hunt_tools, replay_tools};

use crate::explore::{Limits, Report, Violation, Watch};
use crate::image::Kind;
use crate::prey::Prey;
use crate::processor;
use crate::workload::Corpus;
use ondol::DataMode;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_medium::Domain;
use ondol_power::Layer;
use phase::{Course, Turn};
use std::collections::{BTreeMap, HashSet};

/// When a hunt ends, besides by running out of workloads.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Distinct states.
    pub states: Option<u64>,
    /// Processors to use.
    pub threads: usize,
    /// Seconds of processors, however busy the machine is.
    pub processor_seconds: Option<u64>,
    /// Different violations.
    pub violations: usize,
    /// Whether violations are made small.
    pub shrinks: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { states: None, threads: 1, processor_seconds: None, violations: 1, shrinks: true }
    }
}

/// What a hunt found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The sum of all runs; `distinct` counts states that are distinct in their own run.
    pub report: Report,
    /// By data mode: states that differ from all others of all its runs, crashed recoveries left out.
    pub modes: Vec<(DataMode, u64)>,
    /// Workloads explored.
    pub workloads: u64,
    /// What each phase did.
    pub phases: Vec<Share>,
    /// Where the first violation was found.
    pub first: Option<First>,
}

/// How much it took until something was found.
#[derive(Clone, Debug)]
pub struct First {
    /// The phase that found it.
    pub phase: &'static str,
    /// And with which workload.
    pub workload: String,
    /// Nanoseconds of processors until then.
    pub spent: u64,
    /// Workloads until then.
    pub workloads: u64,
    /// States that were recovered until then.
    pub recovered: u64,
}

impl Found {
    /// States that differ from all others of their data mode.
    pub fn distinct(&self) -> u64 {
        self.modes.iter().map(|(_, distinct)| distinct).sum()
    }
}

/// What the processors of a hunt share.
struct Shared<'h, 'a> {
    preys: &'h [Prey],
    budget: Budget,
    watch: &'h Watch,
    corpus: Option<&'h Corpus>,
    course: Mutex<Course<'a>>,
    images: Mutex<BTreeMap<Kind, Vec<Layer>>>,
    /// By mode.
    distinct: Vec<Mutex<HashSet<u128>>>,
    report: Mutex<Report>,
    first: Mutex<Option<First>>,
    /// Kinds of violations that were found, or are being made small.
    kinds: Mutex<HashSet<String>>,
    failure: Mutex<Option<String>>,
}

/// Hunts through the workloads of all phases; `preys` has one entry for each data mode. `watch` follows; setting
/// `watch.stop` ends it early.
///
/// # Errors
/// An image cannot be made. A volume that disagrees with the model without any crash is a violation.
pub fn hunt(preys: &[Prey], phases: Vec<Phase<'_>>, budget: Budget, watch: &Watch) -> Result<Found, String> {
    let corpus = phases.iter().find_map(|phase| phase.corpus.clone());
    let shared = Shared {
        preys,
        budget,
        watch,
        corpus: corpus.as_deref(),
        course: Mutex::new(Course::new(phases, &preys.iter().map(|prey| prey.data).collect::<Vec<_>>())),
        images: Mutex::default(),
        distinct: preys.iter().map(|_| Mutex::default()).collect(),
        report: Mutex::default(),
        first: Mutex::default(),
        kinds: Mutex::default(),
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
        None => {
            let phases = shared.course.into_inner().shares();
            let modes = preys.iter().zip(shared.distinct);
            Ok(Found {
                report: shared.report.into_inner(),
                modes: modes.map(|(prey, distinct)| (prey.data, distinct.into_inner().len() as u64)).collect(),
                workloads: phases.iter().map(|share| share.workloads).sum(),
                phases,
                first: shared.first.into_inner(),
            })
        }
    }
}

/// How far each run may go at least.
const LEAST_STATES: u64 = 1000;

impl Shared<'_, '_> {
    /// Explores one workload; false when the hunt is over.
    fn next(&self) -> bool {
        if self.watch.stop.load(Relaxed) {
            return false;
        }
        let Some((turn, prey)) = self.turn() else { return false };
        let made = self.image(turn.workload.image).and_then(|disks| prey.prepare(&turn.workload).map(|()| disks));
        let began = processor::spent();
        let report = match made.and_then(|disks| self.explore(&prey, &turn, &disks)) {
            Ok(report) => report,
            Err(what) => {
                self.watch.stop.store(true, Relaxed);
                *self.failure.lock() = Some(what);
                return false;
            }
        };
        let spent = processor::spent() - began + report.waited;
        let so_far = {
            let mut course = self.course.lock();
            course.took(&turn, spent, report.distinct, report.seen.len() as u64);
            course.so_far()
        };
        self.watch.workloads.fetch_add(1, Relaxed);
        self.note_first(&turn, &report, so_far);
        let is_spent = self.budget.processor_seconds.is_some_and(|most| so_far.spent >= most * 1_000_000_000);
        if is_spent {
            self.watch.stop.store(true, Relaxed);
        }
        self.take(&turn, report) && !is_spent
    }

    /// What comes next, and how it is explored.
    fn turn(&self) -> Option<(Turn, Prey)> {
        let mut course = self.course.lock();
        let turn = course.next()?;
        *self.watch.phase.lock() = turn.name;
        let prey = &self.preys[turn.mode];
        let found = self.watch.distinct.load(Relaxed);
        // Some of what a run shows may be known from others: with too small a share of its own, none would bring
        // anything new.
        let left = self.budget.states.map(|most| most.saturating_sub(found).max(LEAST_STATES));
        let limits = Limits { states: left, ..course.limits(&turn, prey.limits) };
        let fault = course.faults(&turn).or(prey.fault);
        let domain = if prey.domain == Domain::Auto { turn.domain() } else { prey.domain };
        Some((turn, Prey { limits, fault, domain, ..prey.clone() }))
    }

    fn explore(&self, prey: &Prey, turn: &Turn, disks: &[Layer]) -> Result<Report, String> {
        let mut report = prey.explore(disks, &turn.workload, self.watch)?;
        let features = std::mem::take(&mut report.features);
        if let Some(corpus) = self.corpus {
            corpus.learn(&turn.workload, &features);
        }
        for violation in std::mem::take(&mut report.violations) {
            report.violations.push(self.small(prey, turn, violation)?);
        }
        Ok(report)
    }

    fn note_first(&self, turn: &Turn, report: &Report, so_far: Share) {
        let mut first = self.first.lock();
        if first.is_none() && !report.violations.is_empty() {
            let Share { spent, workloads, recovered, .. } = so_far;
            let (phase, workload) = (turn.name, turn.workload.name.clone());
            *first = Some(First { phase, workload, spent, workloads, recovered });
        }
    }

    /// As small as it can be made, if it is the first of its kind.
    fn small(&self, prey: &Prey, turn: &Turn, violation: Violation) -> Result<Violation, String> {
        if !self.kinds.lock().insert(violation.kind()) || !self.budget.shrinks {
            return Ok(violation);
        }
        self.watch.shrinking.fetch_add(1, Relaxed);
        // With fewer calls it may be seen in a state that few samples leave out.
        let prey = Prey { limits: Limits { about: None, ..prey.limits }, ..prey.clone() };
        let small = prey.smallest(&turn.workload, violation, self.watch);
        self.watch.shrinking.fetch_sub(1, Relaxed);
        if let Ok(small) = &small {
            self.kinds.lock().insert(small.kind());
        }
        small
    }

    /// Made once for all workloads.
    fn image(&self, kind: Kind) -> Result<Vec<Layer>, String> {
        let mut images = self.images.lock();
        if let Some(image) = images.get(&kind) {
            return Ok(image.clone());
        }
        let image = kind.make()?;
        images.insert(kind, image.clone());
        Ok(image)
    }

    fn take(&self, turn: &Turn, mut report: Report) -> bool {
        let new = {
            let mut distinct = self.distinct[turn.mode].lock();
            let before = distinct.len();
            distinct.extend(report.seen.drain(..));
            (distinct.len() - before) as u64
        };
        let distinct = self.watch.distinct.fetch_add(new, Relaxed) + new;
        let mut sum = self.report.lock();
        sum.add(report);
        let violations = sum.violations.len();
        self.watch.violations.store(violations as u64, Relaxed);
        let enough =
            self.budget.states.is_some_and(|most| distinct >= most) || violations >= self.budget.violations.max(1);
        if enough {
            self.watch.stop.store(true, Relaxed);
        }
        !enough
    }
}
