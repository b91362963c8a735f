//! What is no volume: programs under `ondol run`, the write buffer, and the NVM log and the page table alone.

use super::{Budget, First, Found, Share};
use crate::explore::{CasePath, Report, Violation, Watch};
use crate::prey::{Prey, caught};
use crate::processor;
use crate::subject::Description;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_testkit::run_log::threads::Interleaved;
use ondol_testkit::run_log::{self, Shown, program};
use ondol_testkit::{nvm_log, page_table, write_buffer};

/// States of each interleaving, about.
const STATES: u64 = 300;

/// A part of Ondol that has files of its own below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The log of `ondol run`.
    Run,
    /// The write buffer.
    Buffer,
    /// The NVM log.
    Log,
    /// The page table.
    Table,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Run, Self::Buffer, Self::Log, Self::Table];

    /// As `--workload` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Buffer => "buffer",
            Self::Log => "log",
            Self::Table => "table",
        }
    }

    /// What it is.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Run => "programs under `ondol run`",
            Self::Buffer => "the write buffer",
            Self::Log => "the NVM log",
            Self::Table => "the page table",
        }
    }
}

/// What is tried of a part, one number after the other.
enum Tried {
    Run {
        programs: Interleaved,
        killed: Interleaved,
        /// The number of a process that is no more.
        dead: u32,
    },
    Buffer,
    Log,
    Table,
}

impl Tried {
    fn new(part: Part) -> Result<Self, String> {
        match part {
            Part::Run => {}
            Part::Buffer => return Ok(Self::Buffer),
            Part::Log => return Ok(Self::Log),
            Part::Table => return Ok(Self::Table),
        }
        let mut child = std::process::Command::new("true").spawn().map_err(|e| format!("true: {e}"))?;
        child.wait().map_err(|e| format!("true: {e}"))?;
        Ok(Self::Run { programs: Interleaved::new(), killed: Interleaved::alone(), dead: child.id() })
    }

    /// What a number stands for, and what cuts of it have shown.
    fn one(&self, number: u64) -> (&'static str, Shown) {
        match self {
            Self::Run { programs, killed, dead } => match number % 16 {
                15 => ("full lanes", program::full_lanes(number / 16)),
                7 => ("synced past the pool", program::synced_past_the_pool(number / 16)),
                n if n % 4 == 2 => ("names", run_log::names(number / 4, STATES)),
                n if n % 4 == 1 => ("killed", killed.kill(*dead, number / 4).unwrap_or_default()),
                n if n % 4 == 3 => ("small writes", program::small_writes(number / 8)),
                _ => ("threads", programs.explore(number / 4, STATES)),
            },
            Self::Buffer if number % 2 == 1 => ("operations", write_buffer::cuts(number / 2)),
            Self::Log if number % 4 == 3 => ("operations", nvm_log::operations(number / 4, STATES)),
            Self::Table if number % 4 == 3 => ("operations", page_table::operations(number / 4, STATES)),
            Self::Buffer => ("threads", write_buffer::threads(number / 2, STATES)),
            Self::Log => ("threads", nvm_log::threads(number, STATES)),
            Self::Table => ("threads", page_table::threads(number, STATES)),
        }
    }
}

/// Tries a part until the budget is spent or `watch` ends it, from the number on that is the seed of `prey`.
///
/// # Errors
/// No process can be started.
pub fn hunt_part(prey: &Prey, part: Part, budget: Budget, watch: &Watch) -> Result<Found, String> {
    *watch.phase.lock() = part.name();
    let planted = ondol_faults::set(prey.plant).map_err(|e| e.to_string())?;
    let tried = Tried::new(part)?;
    drop(planted);
    let (next, all) = (AtomicU64::new(prey.seed), Mutex::new(Spent::default()));
    std::thread::scope(|scope| {
        for _ in 0..budget.threads.max(1) {
            scope.spawn(|| {
                let _planted = ondol_faults::set(prey.plant);
                while !watch.stop.load(Relaxed) {
                    let (number, began) = (next.fetch_add(1, Relaxed), processor::spent());
                    let shown = caught(|| Ok(tried.one(number)));
                    let (name, shown) =
                        shown.unwrap_or_else(|wrong| (part.name(), Shown { wrong: Some(wrong), ..Shown::default() }));
                    let mut all = all.lock();
                    all.nanoseconds += processor::spent() - began;
                    let plant = prey.plant.map_or(String::new(), |defect| format!(" --plant {defect}"));
                    let arguments = format!("--workload {} --processors 1 --seed {number}{plant}", part.name());
                    let text = format!("{name}, number {number}\n");
                    let run = Description { arguments, text, ..Description::default() };
                    all.take(part.name(), name, run, shown);
                    all.tell(watch);
                    let report = &all.found.report;
                    let is_enough = budget.states.is_some_and(|most| report.distinct >= most)
                        || budget.processor_seconds.is_some_and(|most| all.nanoseconds >= most * 1_000_000_000)
                        || report.violations.len() >= budget.violations.max(1);
                    if is_enough {
                        watch.stop.store(true, Relaxed);
                    }
                }
            });
        }
    });
    let Spent { mut found, nanoseconds: spent } = all.into_inner();
    let (recovered, workloads) = (found.report.distinct, found.workloads);
    found.phases = vec![Share { name: part.name(), workloads, recovered, explored: recovered, spent }];
    found.modes = vec![(prey.data, recovered)];
    Ok(found)
}

/// What was found, and what of the processors' time it took.
#[derive(Default)]
struct Spent {
    found: Found,
    nanoseconds: u64,
}

impl Spent {
    fn take(&mut self, phase: &'static str, name: &str, run: Description, shown: Shown) {
        let Self { found, nanoseconds: spent } = self;
        found.workloads += 1;
        let states = shown.states as u64;
        let mut report = Report { states, distinct: states, ..Report::default() };
        if let Some(what) = shown.wrong {
            let (path, events) = (CasePath::default(), String::new());
            report.violations.push(Violation { what, path, run, state: None, events, times: 1 });
            let (spent, workloads, recovered) = (*spent, found.workloads, found.report.distinct + states);
            found.first.get_or_insert(First { phase, workload: name.to_owned(), spent, workloads, recovered });
        }
        found.report.add(report);
    }

    fn tell(&self, watch: &Watch) {
        let report = &self.found.report;
        watch.workloads.store(self.found.workloads, Relaxed);
        watch.recovered.store(report.states, Relaxed);
        watch.distinct.store(report.distinct, Relaxed);
        watch.violations.store(report.violations.len() as u64, Relaxed);
    }
}
