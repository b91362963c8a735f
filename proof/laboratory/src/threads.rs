//! Several threads on a volume as the subject of an exploration: one schedule, cut everywhere.

use crate::judge::VolumeRun;
use crate::log::{self, Log};
use crate::log_judge;
use crate::subject::Description;
use ondol::{DataMode, Options, RecoverReport};
use ondol_coverage::Heard;
use ondol_power::{Event, Medium};
use ondol_schedule::Schedule;
use ondol_testkit::dump::Snapshot;
use ondol_testkit::threads::{Matched, Program, Setup, Threads, record};

/// A recorded run of several threads.
#[derive(Clone, Debug)]
pub struct ThreadsRun {
    setup: Setup,
    run: Threads,
    media: Vec<Medium>,
    log: Log,
    description: Description,
}

impl ThreadsRun {
    /// Records `program` under `schedule`. Equal arguments give equal runs.
    ///
    /// # Errors
    /// The volume fails, or does what no order of the calls explains.
    pub fn record(
        setup: &Setup,
        program: &Program,
        schedule: Schedule,
        description: Description,
    ) -> Result<Self, String> {
        let run = record(setup, program, schedule).map_err(|e| e.to_string())?;
        let new = Self::new(setup, run, description)?;
        log_judge::judge(&new.log, &new.media, &new.run.events, false)?;
        Ok(new)
    }

    /// What was recorded.
    ///
    /// # Errors
    /// The log of its medium cannot be found.
    pub(crate) fn new(setup: &Setup, run: Threads, description: Description) -> Result<Self, String> {
        let log = Log::of(&run.base)?;
        let media = log::media(run.base.clone());
        Ok(Self { setup: setup.clone(), run, media, log, description })
    }

    fn data(&self) -> DataMode {
        self.setup.options.data().unwrap_or(DataMode::Ordered)
    }
}

impl VolumeRun for ThreadsRun {
    type Found = Matched;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.run.events
    }

    fn heard(&self) -> &Heard {
        &self.run.heard
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn opening(&self) -> (&Options, u64) {
        (&self.setup.options, self.setup.seed)
    }

    fn compare(&self, found: &Snapshot, _: &RecoverReport, events: usize) -> Result<Matched, String> {
        self.run.orders.judge(self.data(), events, found)
    }

    fn still_allowed(&self, found: &Matched, events: usize) -> bool {
        self.run.orders.still_allowed(self.data(), found, events)
    }

    fn is_narrowed(&self, events: usize) -> bool {
        self.run.orders.is_narrowed(events)
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }
}
