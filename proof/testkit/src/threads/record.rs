//! A recorded run of several threads on a block device.

use super::{Call, Machine, Orders, PerformError, Performed, Program, Unexplained, perform};
use crate::disks;
use crate::dump::{self, Snapshot, Strictness};
use crate::model::Model;
use crate::op::Op;
use crate::target::{Disagreement, Library, Lockstep};
use ondol::{Fsync, Options, Volume};
use ondol_coverage::{Heard, listen};
use ondol_power::{Event, Layer, PowerDomain};
use ondol_schedule::{Schedule, Stats};

/// What happens before power can be lost, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The fresh image, and its journal's device where there is one.
    pub disks: Vec<Layer>,
    /// How it is opened.
    pub options: Options,
    /// Calls before the recording, made durable at its begin. What they leave open is closed.
    pub before: Vec<Op>,
    /// Seed of the volume's random numbers.
    pub seed: u64,
    /// With a task for background work: the seconds that go by at each of its turns.
    pub background: Option<u64>,
}

/// A recorded run of several threads.
#[derive(Clone, Debug)]
pub struct Threads {
    /// What was called, by thread, and what it returned.
    pub calls: Vec<Vec<Call>>,
    /// The disks when the recording began.
    pub base: Vec<Layer>,
    /// Everything since, with a [`super::Mark`] before and after each call.
    pub events: Vec<Event>,
    /// What the volume showed at the end.
    pub after: Snapshot,
    /// The orders of the calls.
    pub orders: Orders,
    /// What the schedule was like.
    pub stats: Stats,
    /// Edges that were executed, between the events.
    pub heard: Heard,
}

/// A run could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The volume could not be opened, or not be closed.
    #[error("the volume fails: {0}")]
    Open(#[from] ondol::Error),
    /// The volume did not do what the model does, with one thread.
    #[error(transparent)]
    Disagreement(#[from] Box<Disagreement>),
    /// The threads did not come to their ends.
    #[error(transparent)]
    Perform(#[from] PerformError),
    /// Background work failed.
    #[error("background work failed: {0}")]
    Background(String),
    /// What the volume showed before it was closed is not what it shows when it is opened again.
    #[error("closed and opened again, the volume differs:\n  {0}")]
    Closed(String),
    /// They did what no order of their calls explains.
    #[error(transparent)]
    Unexplained(#[from] Box<Unexplained>),
    /// The volume could not be read.
    #[error("{0}")]
    Read(String),
}

/// What threads did, before anybody has asked in which order they did it.
#[derive(Clone, Debug)]
pub struct Trace {
    before: Model,
    fsync: Fsync,
    /// What was called, by thread, and what it returned.
    pub calls: Vec<Vec<Call>>,
    /// The disks when the recording began.
    pub base: Vec<Layer>,
    /// Everything that was written, with a [`super::Mark`] before and after each call, and at the end what closing the
    /// volume writes.
    pub events: Vec<Event>,
    /// What the volume showed at the end.
    pub after: Snapshot,
    /// What the schedule was like.
    pub stats: Stats,
    /// Edges that were executed, between the events.
    pub heard: Heard,
}

/// Does the setup, then `program`. Equal arguments give equal runs, event by event.
///
/// # Errors
/// The volume cannot be opened, or fails.
pub fn trace(setup: &Setup, program: &Program, schedule: Schedule) -> Result<Trace, RecordError> {
    let (domain, listening) = (PowerDomain::new(), listen(true));
    let stores = disks::recorded(&setup.disks, &domain);
    let library = Library::open(stores.media()?, &setup.options, setup.seed)?;
    let mut lockstep = Lockstep::new(library).map_err(RecordError::Read)?;
    for op in &setup.before {
        let _outcome = lockstep.step(op).map_err(Box::new)?;
    }
    let mut before: Model = lockstep.model().clone();
    before.drop_handles();
    let (volume, clock) = lockstep.into_target().into_parts()?;
    volume.sync()?;
    let base = stores.at_rest()?;
    drop(domain.take());
    listening.begin_anew();
    let done = perform(volume, Machine { clock: &clock, domain: &domain }, program, schedule, setup.background)?;
    let Performed { volume, calls, stats, background } = done;
    if let Some(what) = background {
        return Err(RecordError::Background(what));
    }
    let after = dump::of_volume(volume.inodes()).map_err(|e| RecordError::Read(e.to_string()))?;
    // What was lost of the log without being at home shows when the log is emptied.
    volume.close()?;
    let (events, heard) = (domain.take(), listening.finish());
    let disks = disks::stores(&stores.at_rest()?);
    let closed = Volume::open_stepped(disks.media()?, &setup.options, clock)?;
    let left = dump::of_volume(closed.inodes()).map_err(|e| RecordError::Read(e.to_string()))?;
    let lost = after.differences(&left, Strictness::Whole);
    if !lost.is_empty() {
        return Err(RecordError::Closed(lost.join("\n  ")));
    }
    let fsync = setup.options.fsync();
    Ok(Trace { before, fsync, calls, base, events, after, stats, heard })
}

impl Trace {
    /// With all orders of the calls that explain it.
    ///
    /// # Errors
    /// There is none.
    pub fn explain(self) -> Result<Threads, RecordError> {
        let Self { before, fsync, calls, base, events, after, stats, heard } = self;
        let orders = Orders::find(&before, &calls, &events, &after)?;
        let orders = if fsync == Fsync::File { orders.by_file(&calls) } else { orders };
        Ok(Threads { calls, base, events, after, orders, stats, heard })
    }
}

/// Does the setup, then records `program`. Equal arguments give equal runs, event by event.
///
/// # Errors
/// The volume cannot be opened, fails, or does not agree with the model.
pub fn record(setup: &Setup, program: &Program, schedule: Schedule) -> Result<Threads, RecordError> {
    trace(setup, program, schedule)?.explain()
}
