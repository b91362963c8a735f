//! One workload: recorded, explored, replayed, and made small.

use crate::explore::{self, CasePath, Limits, Report, Violation, Watch};
use crate::run::{self, Run};
use crate::subject::Description;
use crate::threads::ThreadsRun;
use crate::workload::{Others, Workload};
use ondol::{DataMode, JournalEngine, Options};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_env::{Env, System};
use ondol_power::Layer;
use ondol_testkit::op::{Op, text};
use ondol_testkit::threads::{self, Program};
use ondol_testkit::{image, shrink};
use std::cell::RefCell;

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
}

/// The word that mount options use.
pub fn data_word(data: DataMode) -> &'static str {
    match data {
        DataMode::Journal => "journal",
        DataMode::Ordered => "ordered",
        DataMode::Writeback => "writeback",
    }
}

/// A recorded workload.
enum Recorded {
    One(Run),
    Several(ThreadsRun),
}

impl Recorded {
    fn explore(&self, limits: &Limits, watch: &Watch) -> Report {
        match self {
            Self::One(run) => explore::explore(run, limits, watch),
            Self::Several(run) => explore::explore(run, limits, watch),
        }
    }

    fn replay(&self, path: &CasePath) -> Result<Option<Violation>, String> {
        match self {
            Self::One(run) => explore::replay(run, path),
            Self::Several(run) => explore::replay(run, path),
        }
    }

    fn smallest(&self, violation: Violation) -> Violation {
        match self {
            Self::One(run) => explore::smallest(run, violation),
            Self::Several(run) => explore::smallest(run, violation),
        }
    }
}

impl Prey {
    /// Records a workload of one thread.
    ///
    /// # Errors
    /// The volume fails, or disagrees with the model without any crash.
    pub fn record(&self, image: &Layer, workload: &Workload) -> Result<Run, String> {
        let setup = run::Setup {
            image: image.clone(),
            options: self.options(workload),
            ops: workload.before.clone(),
            remount: workload.remount,
            seed: self.seed,
        };
        let mut run = run::record(&setup, &workload.calls).map_err(|e| e.to_string())?;
        run.description = self.describe(workload);
        Ok(run)
    }

    fn options(&self, workload: &Workload) -> Options {
        let options = image::options(self.data).with_journal(self.engine).with_discard(workload.image.discards());
        match self.engine {
            // A long write is then more than may wait: the next operation lends a hand with it.
            JournalEngine::Compressed => options.with_dirty(64 << 10),
            JournalEngine::Classic => options,
        }
    }

    fn record_any(&self, image: &Layer, workload: &Workload) -> Result<Recorded, String> {
        let Some(others) = &workload.others else { return self.record(image, workload).map(Recorded::One) };
        let setup = threads::Setup {
            image: image.clone(),
            options: self.options(workload),
            before: workload.before.clone(),
            seed: self.seed,
            background: others.background,
        };
        let program = [std::slice::from_ref(&workload.calls), &others.calls].concat();
        let program = Program::new(program).map_err(|e| e.to_string())?;
        ThreadsRun::record(&setup, &program, others.schedule, self.describe(workload)).map(Recorded::Several)
    }

    /// How the program is told to do this, and what a reader wants to know of it.
    pub(crate) fn describe(&self, workload: &Workload) -> Description {
        let Workload { name, image, before, remount, calls, others } = workload;
        let quoted = |ops: &[Op]| text::print(ops).trim_end().replace('\n', " ; ").replace('\'', "'\\''");
        let (seed, data, engine) = (self.seed, data_word(self.data), self.engine.name());
        let mut arguments = format!("--engine {engine} --data {data} --image {image} --seed {seed}");
        let mut text = format!("workload: {name}\nimage {image}, journal={engine}, data={data}, seed {seed}\n");
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
        if let Some(Others { calls, schedule, background }) = others {
            for calls in calls {
                arguments += &format!(" --calls '{}'", quoted(calls));
                text += &format!("at the same time:\n{}", text::print(calls));
            }
            arguments += &format!(" --schedule {schedule}");
            if let Some(seconds) = background {
                arguments += &format!(" --background {seconds}");
            }
        }
        Description { arguments, text }
    }

    /// Records and explores one workload. That the volume fails, or disagrees with the model, without any crash, is a violation, too.
    ///
    /// # Errors
    /// There are no planted defects in this build.
    pub fn explore(&self, image: &Layer, workload: &Workload, watch: &Watch) -> Result<Report, String> {
        let _planted = plant::set(self.plant).map_err(|e| e.to_string())?;
        Ok(match self.record_any(image, workload) {
            Ok(run) => run.explore(&self.limits, watch),
            Err(what) => Report { violations: vec![self.uncrashed(workload, what)], ..Report::default() },
        })
    }

    fn uncrashed(&self, workload: &Workload, what: String) -> Violation {
        Violation { what, path: CasePath(Vec::new()), run: self.describe(workload), events: String::new(), times: 1 }
    }

    /// Judges one state of a workload; `None` if nothing is wrong with it.
    ///
    /// # Errors
    /// As [`Prey::record`], or the path does not fit the run.
    pub fn replay(&self, workload: &Workload, path: &CasePath) -> Result<Option<Violation>, String> {
        let _planted = plant::set(self.plant).map_err(|e| e.to_string())?;
        self.record_any(&workload.image.make()?, workload)?.replay(path)
    }

    /// The violation with the fewest calls, and of those with the fewest losses; what is reached by then, once `watch` says to
    /// hurry or half a minute is over.
    ///
    /// # Errors
    /// The image cannot be made.
    pub fn smallest(&self, workload: &Workload, violation: Violation, watch: &Watch) -> Result<Violation, String> {
        let _planted = plant::set(self.plant).map_err(|e| e.to_string())?;
        let shrinking = Shrinking {
            prey: self,
            image: workload.image.make()?,
            without_crash: violation.path.0.is_empty(),
            watch: Watch { hurry: Arc::clone(&watch.hurry), ..Watch::default() },
            until: System.monotonic_ns() + SHRINKING,
            best: RefCell::default(),
        };
        let mut small = workload.clone();
        small.calls = shrink::shrink(small.calls.clone(), |calls| {
            shrinking.fails(&Workload { calls: calls.to_vec(), ..small.clone() })
        });
        for thread in 0..small.others.as_ref().map_or(0, |others| others.calls.len()) {
            let with = |calls: &[Op]| {
                let mut smaller = small.clone();
                smaller.others.iter_mut().for_each(|others| others.calls[thread] = calls.to_vec());
                smaller
            };
            let calls = small.others.as_ref().map(|others| others.calls[thread].clone()).unwrap_or_default();
            let calls = shrink::shrink(calls, |calls| shrinking.fails(&with(calls)));
            small = with(&calls);
        }
        small.before = shrink::shrink(small.before.clone(), |before| {
            shrinking.fails(&Workload { before: before.to_vec(), ..small.clone() })
        });
        Ok(match shrinking.best.into_inner() {
            Some((Some(run), violation)) => run.smallest(violation),
            Some((None, violation)) => violation,
            // No call can be left out; its losses may be.
            None if violation.path.0.is_empty() => violation,
            None => self.record_any(&workload.image.make()?, workload)?.smallest(violation),
        })
    }
}

/// Nanoseconds that are spent on making a violation small.
const SHRINKING: u64 = 30_000_000_000;

/// A search for fewer calls.
struct Shrinking<'a> {
    prey: &'a Prey,
    image: Layer,
    without_crash: bool,
    watch: Watch,
    until: u64,
    /// The last that failed, which is the smallest: each is made of the one before.
    best: RefCell<Option<(Option<Recorded>, Violation)>>,
}

impl Shrinking<'_> {
    fn fails(&self, workload: &Workload) -> bool {
        if self.watch.hurry.load(Relaxed) || System.monotonic_ns() > self.until {
            return false;
        }
        let found = match self.prey.record_any(&self.image, workload) {
            Err(what) => self.without_crash.then(|| (None, self.prey.uncrashed(workload, what))),
            Ok(_) if self.without_crash => None,
            Ok(run) => {
                let violation = run.explore(&self.prey.limits, &self.watch).violations.pop();
                violation.map(|violation| (Some(run), violation))
            }
        };
        let fails = found.is_some();
        if fails {
            *self.best.borrow_mut() = found;
        }
        fails
    }
}
