//! One workload: recorded, explored, replayed, and made small.

use crate::explore::{self, CasePath, Limits, Report, Violation, Watch};
use crate::faults::together::{self, Together};
use crate::faults::{self, Fault, Faults, Tried};
use crate::image::Kind;
use crate::pools;
use crate::run::{self, Run};
use crate::search::Search;
use crate::subject::Description;
use crate::threads::ThreadsRun;
use crate::workload::{Mount, Others, Schedules, Workload};
use ondol::{DataMode, Durable, JournalEngine, Options};
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_faults::Defect;
use ondol_medium::{Domain, PAGE};
use ondol_power::Layer;
use ondol_schedule::Schedule;
use ondol_testkit::op::{Op, text};
use ondol_testkit::threads::{self, Program};
use ondol_testkit::{disks, image};
use std::panic::AssertUnwindSafe;

/// What is hunted, and how.
#[derive(Clone, Debug)]
pub struct Prey {
    /// The journal engine.
    pub engine: JournalEngine,
    /// The data mode.
    pub data: DataMode,
    /// A defect to plant; test builds only.
    pub plant: Option<Defect>,
    /// Seed of samples and of the volume's random numbers.
    pub seed: u64,
    /// How far each run is explored.
    pub limits: Limits,
    /// How the medium fails, for one thread; `None` for one that works.
    pub fault: Option<Faults>,
    /// The persistence domain of pools; in a hunt, `Auto` for one in turn.
    pub domain: Domain,
    /// The volume is in object storage; when its syncs end.
    pub store: Option<Durable>,
}

/// The word that mount options use.
pub fn data_word(data: DataMode) -> &'static str {
    match data {
        DataMode::Journal => "journal",
        DataMode::Ordered => "ordered",
        DataMode::Writeback => "writeback",
    }
}

/// What `record` returns; a panic is a failure, too.
pub(crate) fn caught<T>(record: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(record)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", what.unwrap_or("without words")))
    })
}

/// A recorded workload.
pub(crate) enum Recorded {
    One(Box<Run>),
    Several(Box<ThreadsRun>),
    /// One of many interleavings, where only what was told is asked.
    Told(Box<ThreadsRun>),
    Failing(Box<Together>),
}

impl Recorded {
    pub(crate) fn explore(&self, limits: &Limits, watch: &Watch) -> Report {
        match self {
            Self::One(run) => explore::explore(&**run, limits, watch),
            Self::Several(run) => explore::explore(&**run, limits, watch),
            Self::Told(run) => explore::explore_told(&**run, limits, watch),
            Self::Failing(run) => explore::explore(&**run, limits, watch),
        }
    }

    fn replay(&self, path: &CasePath) -> Result<Option<Violation>, String> {
        match self {
            Self::One(run) => explore::replay(&**run, path),
            Self::Several(run) | Self::Told(run) => explore::replay(&**run, path),
            Self::Failing(run) => explore::replay(&**run, path),
        }
    }

    pub(crate) fn smallest(&self, violation: Violation) -> Violation {
        match self {
            Self::One(run) => explore::smallest(&**run, violation),
            Self::Several(run) | Self::Told(run) => explore::smallest(&**run, violation),
            Self::Failing(run) => explore::smallest(&**run, violation),
        }
    }
}

impl Prey {
    /// Records a workload of one thread.
    ///
    /// # Errors
    /// The volume fails, or disagrees with the model without any crash.
    pub fn record(&self, disks: &[Layer], workload: &Workload) -> Result<Run, String> {
        let setup = self.setup(disks, workload)?;
        let record = || run::record(&setup, &workload.calls).map_err(|e| e.to_string());
        let mut run = caught(record)?;
        run.description = self.describe(workload);
        Ok(run)
    }

    /// The disks of a workload's image, in a new pool where it is to be in one, and with a new pool in front where the
    /// engine needs one.
    ///
    /// # Errors
    /// The image cannot be made in blocks that are pages.
    fn with_pool(&self, disks: &[Layer], workload: &Workload) -> Result<Vec<Layer>, String> {
        let disks = match self.is_in_pool(workload) {
            // Where blocks are no pages, an image with blocks that are takes its place.
            true if workload.image.block_size() == PAGE => vec![self.in_pool(&disks[0], workload)],
            true => vec![self.in_pool(&workload.image.in_pages()?, workload)],
            false if self.engine == JournalEngine::Batch => match disks {
                [image] if !disks::is_pool(image) => vec![disks::in_batches(image)],
                // A journal is no longer on a device of its own.
                _ => vec![disks::in_batches(&workload.image.in_pages()?)],
            },
            false => disks.to_vec(),
        };
        let pool = (self.engine == JournalEngine::Scalable)
            .then(|| disks::pool(workload.mount.pool(workload.image.block_size()), self.domain));
        let mut all: Vec<Layer> = disks.into_iter().chain(pool).collect();
        let lines = workload.mount.lines_to_end(self.domain).filter(|_| self.engine.logs_records());
        if let (Some(lines), Some(pool)) = (lines, all.last_mut()) {
            *pool = disks::near_end(pool, lines);
        }
        Ok(all)
    }

    /// Makes what is made once for all workloads on a kind of volume, so that none of them is charged with it.
    ///
    /// # Errors
    /// As for [`Kind::make`].
    pub(crate) fn prepare(&self, workload: &Workload) -> Result<(), String> {
        let is_other = self.is_in_pool(workload) && workload.image.block_size() != PAGE;
        if is_other { workload.image.in_pages().map(drop) } else { Ok(()) }
    }

    fn in_pool(&self, image: &Layer, workload: &Workload) -> Layer {
        let log = if self.engine == JournalEngine::Remap { workload.mount.log_in_pool() } else { 0 };
        pools::of(image, workload.mount.lines(), log, self.domain)
    }

    fn is_in_pool(&self, workload: &Workload) -> bool {
        (workload.image == Kind::Pool && self.engine != JournalEngine::Batch)
            || matches!(self.engine, JournalEngine::Swap | JournalEngine::Remap)
    }

    fn setup(&self, disks: &[Layer], workload: &Workload) -> Result<run::Setup, String> {
        Ok(run::Setup {
            disks: self.with_pool(disks, workload)?,
            options: self.options(workload),
            ops: workload.before.clone(),
            remount: workload.remount,
            seed: self.seed,
        })
    }

    /// On a medium that fails: once for each fault.
    fn record_failing(
        &self,
        disks: &[Layer],
        workload: &Workload,
        faults: Faults,
    ) -> Result<Vec<Recorded>, Box<Violation>> {
        let setup = self.setup(disks, workload).map_err(|what| self.uncrashed(workload, what))?;
        let one = |fault| {
            let failing = Self { fault: Some(Faults::One(fault)), ..self.clone() };
            let run = caught(|| faults::record(&setup, &workload.calls, Some(fault)));
            let (mut run, _) = run.map_err(|what| failing.uncrashed(workload, what))?;
            run.description = failing.describe(workload);
            Ok(Recorded::One(Box::new(run)))
        };
        self.faults_of(disks, workload, faults)?.into_iter().map(one).collect()
    }

    /// Several threads on a medium that fails: once for each fault, each in an interleaving of its own.
    fn record_together(
        &self,
        setup: &threads::Setup,
        program: &Program,
        workload: &Workload,
        faults: Faults,
    ) -> Result<Vec<Recorded>, Box<Violation>> {
        let one = |schedule: Schedule, fault: Option<Fault>| {
            let failing = Self { fault: fault.map(Faults::One), ..self.clone() };
            let workload = workload.under(Some(schedule));
            let run = caught(|| together::record(setup, program, schedule, fault));
            let (tried, run) = run.map_err(|what| failing.uncrashed(&workload, what))?;
            let described = run.map(|(stats, mut run)| {
                run.description = failing.describe(&workload);
                (stats, Recorded::Failing(Box::new(run)))
            });
            Ok::<_, Box<Violation>>((tried, described))
        };
        let (first, seed) = match workload.others.as_ref().map(|others| others.schedules) {
            Some(Schedules::One(schedule)) => (schedule, None),
            Some(Schedules::Search { seed, .. }) => (Schedule::in_turn(seed), Some(seed)),
            None => return Ok(Vec::new()),
        };
        let (tried, run) = match faults {
            Faults::One(_) => (Tried::default(), None),
            Faults::Search { .. } | Faults::Spread { .. } => one(first, None)?,
        };
        let stats = run.map(|(stats, _)| stats);
        let mut runs = Vec::new();
        for (n, fault) in faults.of(tried).into_iter().enumerate() {
            let fitted = stats.as_ref().zip(seed).map(|(stats, seed)| Schedule::fitted_to(stats, seed ^ n as u64));
            runs.extend(one(fitted.unwrap_or(first), Some(fault))?.1.map(|(_, run)| run));
        }
        Ok(runs)
    }

    /// In which ways the medium fails while a workload is done, one way for each run.
    ///
    /// # Errors
    /// The volume does what it should not on a medium that works.
    pub fn faults(&self, disks: &[Layer], workload: &Workload) -> Result<Vec<Fault>, Box<Violation>> {
        self.fault.map_or(Ok(Vec::new()), |faults| self.faults_of(disks, workload, faults))
    }

    fn faults_of(&self, disks: &[Layer], workload: &Workload, faults: Faults) -> Result<Vec<Fault>, Box<Violation>> {
        let tried = match faults {
            Faults::One(_) => Tried::default(),
            Faults::Search { .. } | Faults::Spread { .. } => {
                let works = Self { fault: None, ..self.clone() };
                let setup = self.setup(disks, workload).map_err(|what| works.uncrashed(workload, what))?;
                let run = caught(|| faults::record(&setup, &workload.calls, None));
                run.map_err(|what| works.uncrashed(workload, what))?.1
            }
        };
        Ok(faults.of(tried))
    }

    #[cfg(feature = "object")]
    fn explore_in_store(
        &self,
        durable: Durable,
        disks: &[Layer],
        workload: &Workload,
        watch: &Watch,
    ) -> Result<Report, String> {
        if workload.others.is_some() {
            return Err("threads of a volume in object storage cannot be scheduled".into());
        }
        Ok(crate::store::explore(self, durable, disks, workload, watch))
    }

    #[cfg(not(feature = "object"))]
    fn explore_in_store(
        &self,
        _durable: Durable,
        _disks: &[Layer],
        _workload: &Workload,
        _watch: &Watch,
    ) -> Result<Report, String> {
        Err("this build opens no volumes in object storage: it was built without the feature `object`".into())
    }

    /// The image of a workload, to be put into object storage. Its journal is not on a device of its own there.
    ///
    /// # Errors
    /// It cannot be made.
    #[cfg(feature = "object")]
    pub(crate) fn image_in_store(disks: &[Layer], workload: &Workload) -> Result<Layer, String> {
        match disks {
            [image] => Ok(image.clone()),
            _ => workload.image.in_pages(),
        }
    }

    /// As what is recorded on disks, without any.
    #[cfg(feature = "object")]
    pub(crate) fn setup_in_store(&self, workload: &Workload) -> run::Setup {
        let (options, ops) = (self.options(workload), workload.before.clone());
        run::Setup { disks: Vec::new(), options, ops, remount: workload.remount, seed: self.seed }
    }

    fn options(&self, workload: &Workload) -> Options {
        let options = image::options(self.data).with_journal(self.engine).with_discard(workload.image.discards());
        workload.mount.over(options, self.engine)
    }

    /// Records a workload in its interleaving, or in the best of many.
    ///
    /// # Errors
    /// The volume fails, or does what it should not, without any crash.
    pub(crate) fn record_all(
        &self,
        disks: &[Layer],
        workload: &Workload,
        watch: &Watch,
    ) -> Result<Vec<Recorded>, Box<Violation>> {
        let Some(others) = &workload.others else {
            if let Some(faults) = self.fault {
                return self.record_failing(disks, workload, faults);
            }
            let run = self.record(disks, workload);
            return run.map(|run| vec![Recorded::One(Box::new(run))]).map_err(|what| self.uncrashed(workload, what));
        };
        let options = self.options(workload);
        // Only where a schedule says who goes first may a checkpoint have threads of its own.
        let options = if workload.mount == Mount::Roomy { options.with_checkpoint_threads(2) } else { options };
        let setup = threads::Setup {
            disks: self.with_pool(disks, workload).map_err(|what| self.uncrashed(workload, what))?,
            options,
            before: workload.before.clone(),
            seed: self.seed,
            background: others.background,
        };
        let program = [std::slice::from_ref(&workload.calls), &others.calls].concat();
        let program =
            Program::new(program).map_err(|e| self.uncrashed(workload, e.to_string()))?.with_lead(others.lead);
        if let Some(faults) = self.fault {
            return self.record_together(&setup, &program, workload, faults);
        }
        match others.schedules {
            Schedules::One(schedule) => {
                let run = ThreadsRun::record(&setup, &program, schedule, self.describe(workload));
                run.map(|run| vec![Recorded::Several(Box::new(run))]).map_err(|what| self.uncrashed(workload, what))
            }
            Schedules::Search { seed, count } => {
                let describe = |schedule| self.describe(&workload.under(Some(schedule)));
                let is_over = || watch.stop.load(Relaxed) || watch.hurry.load(Relaxed);
                let search =
                    Search { setup: &setup, program: &program, seed, count, describe: &describe, is_over: &is_over };
                search.best().map_err(|(at, what)| self.uncrashed(&workload.under(Some(at)), what))
            }
        }
    }

    /// How the program is told to do this, and what a reader wants to know of it.
    pub(crate) fn describe(&self, workload: &Workload) -> Description {
        let Workload { name, image, mount, before, remount, calls, others } = workload;
        let quoted = |ops: &[Op]| text::print(ops).trim_end().replace('\n', " ; ").replace('\'', "'\\''");
        let (seed, data, engine) = (self.seed, data_word(self.data), self.engine.name());
        let mut arguments = format!("--engine {engine} --data {data} --image {image} --seed {seed}");
        if *mount != Mount::default() {
            arguments += &format!(" --mount {mount}");
        }
        let has_memory = self.engine.logs_records() || self.is_in_pool(workload);
        if has_memory && self.domain != Domain::Adr {
            arguments += &format!(" --domain {}", self.domain);
        }
        let mut text =
            format!("workload: {name}\nimage {image}, mount {mount}, journal={engine}, data={data}, seed {seed}\n");
        if let Some(durable) = self.store {
            arguments += &format!(" --store {}", durable.name());
            text += &format!("in object storage, durable={}\n", durable.name());
        }
        if let Some(defect) = self.plant {
            arguments += &format!(" --plant {defect}");
        }
        if !before.is_empty() {
            arguments += &format!(" --before '{}'", quoted(before));
        }
        let then = if *remount { "unmounted and mounted" } else { "synced" };
        text += &format!("before, then {then}:\n{}", text::print(before));
        if *remount {
            arguments += " --remount";
        }
        arguments += &format!(" --calls '{}'", quoted(calls));
        text += &format!("recorded calls:\n{}", text::print(calls));
        let mut schedule = None;
        if let Some(Others { calls, schedules, background, lead }) = others {
            for calls in calls {
                arguments += &format!(" --calls '{}'", quoted(calls));
                text += &format!("at the same time:\n{}", text::print(calls));
            }
            if let Schedules::One(one) = schedules {
                arguments += &format!(" --schedule {one}");
                schedule = Some(*one);
            }
            if *lead > 0 {
                arguments += &format!(" --lead {lead}");
            }
            if let Some(seconds) = background {
                arguments += &format!(" --background {seconds}");
            }
        }
        let fault = match self.fault {
            Some(Faults::One(fault)) => Some(fault),
            _ => None,
        };
        if let Some(fault) = fault {
            arguments += &format!(" --fault {fault}");
            text += &format!("the medium fails: {fault}\n");
        }
        Description { arguments, text, schedule, fault }
    }

    /// Records and explores one workload. That the volume fails, or disagrees with the model, without any crash, is a
    /// violation, too.
    ///
    /// # Errors
    /// There are no planted defects in this build.
    pub fn explore(&self, disks: &[Layer], workload: &Workload, watch: &Watch) -> Result<Report, String> {
        let _planted = ondol_faults::set(self.plant).map_err(|e| e.to_string())?;
        if let Some(durable) = self.store {
            return self.explore_in_store(durable, disks, workload, watch);
        }
        let mut report = Report::default();
        match self.record_all(disks, workload, watch) {
            Ok(runs) => {
                let whole = runs.iter().filter(|run| !matches!(run, Recorded::Told(_))).count();
                let about = self.limits.about.map(|about| about.div_ceil(whole.max(1) as u64));
                let limits = Limits { about, ..self.limits };
                for run in runs {
                    // What is left is for all runs together.
                    let states = limits.states.map(|most| most.saturating_sub(report.seen.len() as u64).max(1));
                    let mut of_run = run.explore(&Limits { states, ..limits }, watch);
                    report.seen.append(&mut of_run.seen);
                    report.add(of_run);
                    if report.violations.len() >= self.limits.violations {
                        break;
                    }
                }
            }
            Err(violation) => report.violations.push(*violation),
        }
        Ok(report)
    }

    fn uncrashed(&self, workload: &Workload, what: String) -> Box<Violation> {
        let (path, run, events) = (CasePath::default(), self.describe(workload), String::new());
        Box::new(Violation { what, path, run, state: None, events, times: 1 })
    }

    /// Judges one state of a workload again. Where that is sound now, or there is no such state any more because the
    /// calls write something else, the whole workload is explored, several threads in many interleavings.
    ///
    /// # Errors
    /// The image cannot be made.
    pub fn replay(&self, workload: &Workload, path: &CasePath) -> Result<Replayed, String> {
        let _planted = ondol_faults::set(self.plant).map_err(|e| e.to_string())?;
        let (disks, watch) = (workload.image.make()?, Watch::default());
        let runs = match self.record_all(&disks, workload, &watch) {
            Ok(runs) => runs,
            Err(violation) => return Ok(Replayed::Elsewhere(*violation)),
        };
        if let Some(violation) = runs.iter().find_map(|run| run.replay(path).ok().flatten()) {
            return Ok(Replayed::Seen(violation));
        }
        for workload in [Some(workload.clone()), workload.searched()].into_iter().flatten() {
            if let Some(violation) = self.explore(&disks, &workload, &watch)?.violations.pop() {
                return Ok(Replayed::Elsewhere(violation));
            }
        }
        Ok(Replayed::Gone)
    }
}

/// What became of a violation that was seen before.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// It is there.
    Seen(Violation),
    /// That state is sound now, or there is none any more; another one of the same calls breaks the contract.
    Elsewhere(Violation),
    /// Nothing is found any more.
    Gone,
}
