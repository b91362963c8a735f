//! Workload after workload, on several processors, until enough was seen.

use crate::explore::{self, CasePath, Limits, Report, Violation, Watch};
use crate::image::Kind;
use crate::run::{self, Run, Setup};
use crate::subject::Description;
use crate::workload::Workload;
use ondol::{DataMode, Options};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_power::Layer;
use ondol_testkit::op::{Op, text};
use ondol_testkit::{image, shrink};
use std::collections::{BTreeMap, HashSet};

/// What is hunted, and how.
#[derive(Clone, Debug)]
pub struct Prey {
    /// The data mode.
    pub data: DataMode,
    /// A defect to plant; test builds only.
    pub plant: Option<Defect>,
    /// Seed of samples and of the volume's random numbers.
    pub seed: u64,
    /// How far each run is explored.
    pub limits: Limits,
}

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

/// The word that mount options use.
pub fn data_word(data: DataMode) -> &'static str {
    match data {
        DataMode::Journal => "journal",
        DataMode::Ordered => "ordered",
        DataMode::Writeback => "writeback",
    }
}

impl Prey {
    /// Records a workload.
    ///
    /// # Errors
    /// The volume fails, or disagrees with the model without any crash.
    pub fn record(&self, image: &Layer, workload: &Workload) -> Result<Run, String> {
        let options: Options = image::options(self.data);
        let setup = Setup {
            image: image.clone(),
            options,
            ops: workload.before.clone(),
            remount: workload.remount,
            seed: self.seed,
        };
        let mut run = run::record(&setup, &workload.calls).map_err(|e| e.to_string())?;
        run.description = self.describe(workload);
        Ok(run)
    }

    fn describe(&self, workload: &Workload) -> Description {
        let Workload { name, image, before, remount, calls } = workload;
        let quoted = |ops: &[Op]| text::print(ops).trim_end().replace('\n', "; ").replace('\'', "'\\''");
        let plant = self.plant.map_or_else(String::new, |defect| format!(" --plant {defect}"));
        let before_option = if before.is_empty() { String::new() } else { format!(" --before '{}'", quoted(before)) };
        let (seed, data) = (self.seed, data_word(self.data));
        let arguments = format!(
            "--engine classic --data {data} --image {image} --seed {seed}{plant}{before_option}{} --calls '{}'",
            if *remount { " --remount" } else { "" },
            quoted(calls),
        );
        let text = format!(
            "workload: {name}\nimage {image}, data={data}, seed {seed}\nbefore{}:\n{}recorded calls:\n{}",
            if *remount { ", then unmounted and mounted" } else { ", then synced" },
            text::print(before),
            text::print(calls),
        );
        Description { arguments, text }
    }

    /// Records and explores one workload.
    ///
    /// # Errors
    /// As [`Prey::record`].
    pub fn explore(&self, image: &Layer, workload: &Workload, watch: &Watch) -> Result<Report, String> {
        let _planted = plant::set(self.plant).map_err(|e| e.to_string())?;
        let run = self.record(image, workload)?;
        Ok(explore::explore(&run, &self.limits, watch))
    }

    /// Judges one state of a workload; `None` if nothing is wrong with it.
    ///
    /// # Errors
    /// As [`Prey::record`], or the path does not fit the run.
    pub fn replay(&self, workload: &Workload, path: &CasePath) -> Result<Option<Violation>, String> {
        let _planted = plant::set(self.plant).map_err(|e| e.to_string())?;
        let image = workload.image.make()?;
        explore::replay(&self.record(&image, workload)?, path)
    }

    /// The violation with the fewest calls, and of those with the fewest losses.
    ///
    /// # Errors
    /// The image cannot be made.
    pub fn smallest(&self, workload: &Workload, violation: Violation) -> Result<Violation, String> {
        let _planted = plant::set(self.plant).map_err(|e| e.to_string())?;
        let image = workload.image.make()?;
        let first = |workload: &Workload| -> Option<(Run, Violation)> {
            let run = self.record(&image, workload).ok()?;
            let violation = explore::explore(&run, &self.limits, &Watch::default()).violations.pop()?;
            Some((run, violation))
        };
        let with = |before: &[Op], calls: &[Op]| Workload {
            before: before.to_vec(),
            calls: calls.to_vec(),
            ..workload.clone()
        };
        let calls = shrink::shrink(workload.calls.clone(), |calls| first(&with(&workload.before, calls)).is_some());
        let before = shrink::shrink(workload.before.clone(), |before| first(&with(before, &calls)).is_some());
        Ok(match first(&with(&before, &calls)) {
            Some((run, violation)) => explore::smallest(&run, violation),
            None => violation,
        })
    }
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

impl Shared<'_> {
    /// Explores one workload; false when the hunt is over.
    fn next(&self) -> bool {
        if self.watch.stop.load(Relaxed) {
            return false;
        }
        let Some(workload) = self.workloads.lock().next() else { return false };
        let explored = self.image(workload.image).and_then(|image| self.prey.explore(&image, &workload, self.watch));
        let mut report = match explored {
            Ok(report) => report,
            Err(what) => {
                self.watch.stop.store(true, Relaxed);
                *self.failure.lock() = Some(format!("{}\n{what}", self.prey.describe(&workload).text));
                return false;
            }
        };
        if let Some(violation) = report.violations.pop() {
            self.watch.stop.store(true, Relaxed);
            match self.prey.smallest(&workload, violation) {
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
