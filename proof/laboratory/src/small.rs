//! A violation with the fewest calls that still show it.

use crate::explore::{Then, Violation, Watch};
use crate::faults::Faults;
use crate::prey::{Prey, Recorded};
use crate::processor;
use crate::workload::{Schedules, Workload};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_power::Layer;
use ondol_testkit::op::Op;
use ondol_testkit::shrink;
use std::cell::RefCell;

/// Nanoseconds of the processor that are spent on making a violation small.
const SHRINKING: u64 = 30_000_000_000;

/// Faults with which fewer calls are tried.
const FAULTS: Faults = Faults::Search { seed: 1, count: 40 };

/// Interleavings in which fewer calls of several threads are tried.
const SCHEDULES: u32 = 60;

impl Prey {
    /// The violation with the fewest calls, and of those with the fewest losses; what is reached by then, once `watch`
    /// says to hurry or half a minute of the processor is over. Calls of several threads are tried in many
    /// interleavings: without a call, another one may show it.
    ///
    /// # Errors
    /// The image cannot be made.
    pub fn smallest(&self, workload: &Workload, violation: Violation, watch: &Watch) -> Result<Violation, String> {
        let _planted = ondol_faults::set(self.plant).map_err(|e| e.to_string())?;
        let exact = workload.under(violation.run.schedule);
        let mut prey = Self { fault: violation.run.fault.map(Faults::One), ..self.clone() };
        if matches!(violation.path.1, Some(Then::Flipped(_))) {
            prey.limits.flip_every = 1;
        }
        let shrinking = Shrinking {
            prey: &prey,
            disks: workload.image.make()?,
            without_crash: violation.path.0.is_empty(),
            class: violation.class(),
            watch: Watch { hurry: Arc::clone(&watch.hurry), ..Watch::default() },
            until: processor::spent() + SHRINKING,
            best: RefCell::default(),
        };
        shrinking.shrink(exact.clone());
        Ok(match shrinking.best.into_inner() {
            Some((Some(run), violation)) => run.smallest(violation),
            Some((None, violation)) => violation,
            // No call can be left out; its losses may be.
            None if violation.path.0.is_empty() => violation,
            None => match prey.record_all(&workload.image.make()?, &exact, watch) {
                Ok(runs) => runs.iter().fold(violation, |violation, run| run.smallest(violation)),
                Err(_) => violation,
            },
        })
    }
}

/// A search for fewer calls.
struct Shrinking<'a> {
    prey: &'a Prey,
    disks: Vec<Layer>,
    without_crash: bool,
    /// What is wrong: something else does not count.
    class: String,
    watch: Watch,
    until: u64,
    /// The last that failed, which is the smallest: each is made of the one before.
    best: RefCell<Option<(Option<Recorded>, Violation)>>,
}

impl Shrinking<'_> {
    fn shrink(&self, mut small: Workload) {
        small.calls = shrink::shrink(small.calls.clone(), |calls| {
            self.fails(&Workload { calls: calls.to_vec(), ..small.clone() })
        });
        for thread in 0..small.others.as_ref().map_or(0, |others| others.calls.len()) {
            let with = |calls: &[Op]| {
                let mut smaller = small.clone();
                smaller.others.iter_mut().for_each(|others| others.calls[thread] = calls.to_vec());
                smaller
            };
            let calls = small.others.as_ref().map(|others| others.calls[thread].clone()).unwrap_or_default();
            let calls = shrink::shrink(calls, |calls| self.fails(&with(calls)));
            small = with(&calls);
        }
        small.before = shrink::shrink(small.before.clone(), |before| {
            self.fails(&Workload { before: before.to_vec(), ..small.clone() })
        });
        let fewer = small.clone().without_idle_threads();
        if fewer.others.is_some() {
            self.fails(&fewer);
        }
    }

    /// As it was, or in another interleaving, or with another fault.
    fn fails(&self, workload: &Workload) -> bool {
        let known = self.best.borrow().as_ref().map(|(_, violation)| (violation.run.schedule, violation.run.fault));
        let (schedule, fault) = known.unwrap_or((None, self.prey.fault.and_then(Faults::one)));
        let exact = workload.under(schedule);
        let with = |fault| Prey { fault, ..self.prey.clone() };
        self.shows(&with(fault.map(Faults::One)), &exact)
            || exact.searched().is_some_and(|many| self.shows(self.prey, &many))
            || fault.is_some() && self.shows(&with(Some(FAULTS)), &exact)
    }

    fn shows(&self, prey: &Prey, workload: &Workload) -> bool {
        if self.watch.hurry.load(Relaxed) || processor::spent() > self.until {
            return false;
        }
        let found = match prey.record_all(&self.disks, workload, &self.watch) {
            Err(violation) => self.without_crash.then_some((None, *violation)),
            Ok(_) if self.without_crash => None,
            Ok(runs) => runs.into_iter().find_map(|run| {
                let violation = run.explore(&self.prey.limits, &self.watch).violations.pop()?;
                Some((Some(run), violation))
            }),
        };
        let found = found.filter(|(_, violation)| violation.class() == self.class);
        let fails = found.is_some();
        if fails {
            *self.best.borrow_mut() = found;
        }
        fails
    }
}

impl Workload {
    /// In many interleavings, if there are several threads.
    pub(crate) fn searched(&self) -> Option<Self> {
        let mut many = self.clone();
        many.others.as_mut()?.schedules = Schedules::Search { seed: 1, count: SCHEDULES };
        Some(many)
    }

    /// Without threads that do nothing.
    fn without_idle_threads(mut self) -> Self {
        if let Some(others) = &mut self.others {
            others.calls.retain(|calls| !calls.is_empty());
            if self.calls.is_empty() && !others.calls.is_empty() {
                self.calls = others.calls.remove(0);
            }
        }
        self
    }
}
