//! A run: what a volume wrote while it did some calls, and what the model says after each of them.

use crate::contract;
use crate::judge::VolumeRun;
use crate::log::{self, Log};
use crate::log_judge;
use crate::rot::{self, Flip};
use crate::subject::Description;
use ondol::{DataMode, Fsync, Options, RecoverReport};
use ondol_coverage::{Heard, listen};
use ondol_power::{Event, Layer, Medium, PowerDomain};
use ondol_testkit::disks;
use ondol_testkit::dump::{Snapshot, Strictness};
use ondol_testkit::model::Model;
use ondol_testkit::op::Op;
use ondol_testkit::target::{Disagreement, Library, Lockstep};

/// What happens before power can be lost, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The fresh image, and its journal's device where there is one.
    pub disks: Vec<Layer>,
    /// How it is mounted.
    pub options: Options,
    /// Calls before the recording, made durable at its begin.
    pub ops: Vec<Op>,
    /// Unmount and mount again before the recording: it begins with an empty journal.
    pub remount: bool,
    /// Seed of the volume's random numbers.
    pub seed: u64,
}

impl Setup {
    /// The data mode; that of images that say nothing, if the options do not name one.
    pub fn data(&self) -> DataMode {
        self.options.data().unwrap_or(DataMode::Ordered)
    }
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What came before.
    pub setup: Setup,
    /// The recorded calls.
    pub ops: Vec<Op>,
    /// Bytes that a write of them may have and still be atomic.
    pub atomic: u64,
    /// How the driver is called to make this run, and the run for readers.
    pub description: Description,
    /// The disks when the recording began.
    pub media: Vec<Medium>,
    /// The log.
    pub log: Log,
    /// Everything since. Call `i` began at `Mark(2 * i)` and had returned at `Mark(2 * i + 1)`.
    pub events: Vec<Event>,
    /// Edges that were executed, between the events.
    pub heard: Heard,
    /// The model after each number of calls, from none to all, with what was open then.
    pub states: Vec<Model>,
    /// What those look like after a crash: nothing is open.
    pub expected: Vec<Snapshot>,
    /// What each call goes through that is a transaction: the model after each of its calls. Empty for all others.
    pub within: Vec<Vec<Model>>,
    /// Bytes over stored ones that calls wrote which failed as their medium did, and what was there before: any of
    /// them may be there while no more calls than this must be.
    pub strays: Vec<(usize, Model)>,
    /// Calls that made something durable: everything before them, or with `fsync=file` what was done to one file, or
    /// what was old.
    pub synced: Vec<bool>,
    /// For each number of events, the numbers of calls that may be found then: at least, at most.
    pub allowed: Vec<(usize, usize)>,
}

/// A run could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The volume could not be opened.
    #[error("the volume cannot be opened: {0}")]
    Open(#[from] ondol::Error),
    /// The volume did not do what the model does, crash or not.
    #[error(transparent)]
    Disagreement(#[from] Box<Disagreement>),
    /// The volume could not be read.
    #[error("{0}")]
    Read(String),
    /// The log, or what was written beside it, broke a rule of logs.
    #[error("{0}")]
    Rule(String),
}

/// Does the setup, then records `ops`.
///
/// # Errors
/// The volume cannot be opened, or does not agree with the model.
pub fn record(setup: &Setup, ops: &[Op]) -> Result<Run, RecordError> {
    let (domain, listening) = (PowerDomain::new(), listen(true));
    let stores = disks::recorded(&setup.disks, &domain);
    let library = Library::open(stores.media()?, &setup.options, setup.seed)?;
    let atomic = library.atomic_bytes();
    let mut lockstep = Lockstep::new(library).map_err(RecordError::Read)?;
    let last = if setup.remount { Op::Remount } else { Op::Sync };
    for op in setup.ops.iter().chain([&last]) {
        let _outcome = lockstep.step(op).map_err(Box::new)?;
    }
    let base = stores.at_rest()?;
    drop(domain.take());
    // Opening a pool to look for the log may store, which is no event of the run.
    let log = Log::of(&base).map_err(RecordError::Read)?;
    listening.begin_anew();
    let mut run = Run::new(setup, ops, atomic, log, log::media(base));
    run.go(&mut lockstep, &domain, &mut |_, _| Ok(()))?;
    (run.events, run.heard) = (domain.take(), listening.finish());
    lockstep.compare().map_err(Box::new)?;
    log_judge::judge(&run.log, &run.media, &run.events, true).map_err(RecordError::Rule)?;
    let covered = covered(&run);
    run.end(&covered);
    Ok(run)
}

impl Run {
    /// Of these calls, none of which is done yet.
    pub(crate) fn new(setup: &Setup, ops: &[Op], atomic: u64, log: Log, media: Vec<Medium>) -> Self {
        Self {
            setup: setup.clone(),
            ops: ops.to_vec(),
            atomic,
            description: Description::default(),
            media,
            log,
            events: Vec::new(),
            heard: Heard::default(),
            states: Vec::new(),
            expected: Vec::new(),
            within: Vec::new(),
            strays: Vec::new(),
            synced: Vec::new(),
            allowed: Vec::new(),
        }
    }

    /// Does the calls, with the model in step. `beside` is called when each is done, before it is marked as returned.
    ///
    /// # Errors
    /// They do not agree; those of `beside`.
    pub(crate) fn go(
        &mut self,
        lockstep: &mut Lockstep<Library>,
        domain: &PowerDomain,
        beside: &mut dyn FnMut(usize, &Library) -> Result<(), String>,
    ) -> Result<(), RecordError> {
        self.states = vec![lockstep.model().clone()];
        for call in 0..self.ops.len() {
            let (op, before) = (self.ops[call].clone(), lockstep.model().clone());
            domain.mark(2 * call as u64);
            let outcome = lockstep.step(&op).map_err(Box::new)?;
            beside(call, lockstep.target()).map_err(RecordError::Read)?;
            domain.mark(2 * call as u64 + 1);
            self.within.push(match &op {
                Op::Transaction(steps) if outcome.is_ok() => before.after_each(steps).unwrap_or_default(),
                _ => Vec::new(),
            });
            self.states.push(lockstep.model().clone());
            let syncs = op.is_sync() || is_long(&op) || lockstep.model().is_synchronous(&before, &op);
            self.synced.push(syncs && outcome.is_ok());
        }
        Ok(())
    }

    /// Everything is done and recorded. Of each call it is told how many it made durable.
    pub(crate) fn end(&mut self, covered: &[usize]) {
        self.expected = self.states.iter().map(after_crash).collect();
        self.allowed = allowed(&self.events, covered);
    }
}

/// Seconds after which what nobody syncs is committed by default (`commit=`).
const COMMIT: u64 = 5;

/// Whether what was done before is old afterwards.
fn is_long(op: &Op) -> bool {
    matches!(op, Op::Idle { seconds } if *seconds >= COMMIT)
}

pub(crate) fn after_crash(model: &Model) -> Snapshot {
    let mut model = model.clone();
    model.drop_handles();
    model.snapshot()
}

/// For each call, how many calls from the first on it made durable. With `fsync=file` these are those up to the last
/// that was done to the file, or to a name of it: what survives is always a beginning of all calls.
pub(crate) fn covered(run: &Run) -> Vec<usize> {
    let by_file = run.setup.options.fsync() == Fsync::File;
    let touches = |call: usize, id| run.states[call + 1].touched_since(&run.states[call]).contains(&id);
    let one = |(call, synced): (usize, &bool)| match &run.ops[call] {
        _ if !synced => 0,
        op if is_long(op) => run.old(call),
        op if by_file && op.synced_file().is_some() => {
            let id = op.synced_file().and_then(|file| run.states[call].id_of_file(file));
            let last = id.and_then(|id| (0..=call).rev().find(|before| touches(*before, id)));
            let covered = last.map_or(0, |last| last + 1);
            // Syncs change nothing: the state after them is the same.
            let changes = |op: &Op| !op.is_sync() || matches!(op, Op::MapCommit { .. });
            let between = run.ops.get(covered..call).unwrap_or_default();
            between.iter().position(changes).map_or(call + 1, |n| covered + n)
        }
        _ => call + 1,
    };
    run.synced.iter().enumerate().map(one).collect()
}

/// For each number of events, how many calls are found at least, and at most. Of each call it is told how many it made
/// durable.
pub(crate) fn allowed(events: &[Event], covered: &[usize]) -> Vec<(usize, usize)> {
    let (mut least, mut most) = (0, 0);
    let after = events.iter().map(|event| {
        if let &Event::Mark(id) = event {
            let call = (id / 2) as usize;
            if id % 2 == 0 {
                most = call + 1;
            } else {
                least = least.max(covered.get(call).copied().unwrap_or(0));
            }
        }
        (least, most)
    });
    [(0, 0)].into_iter().chain(after).collect()
}

/// What a recovered volume was found to be.
#[derive(Clone, Debug)]
pub struct Found {
    /// Numbers of calls that it is the state of.
    calls: Vec<usize>,
    /// The least number that was allowed when it was looked at.
    least: usize,
    /// What opening it had to finish: truncates, and inodes without names to delete.
    finished: [u64; 2],
}

impl Run {
    /// How many calls from the first on the commit timer has made durable when this one returns: up to the last one
    /// after which the volume looks different, since bytes that are written in place may leave nothing to commit. In
    /// `writeback` bytes count from a sync on, and no number of calls tells that from this.
    fn old(&self, call: usize) -> usize {
        let strictness = match self.setup.data() {
            DataMode::Writeback => return 0,
            DataMode::Journal => Strictness::Whole,
            DataMode::Ordered => Strictness::Metadata,
        };
        let shows = |before: &usize| {
            let [was, is] = [*before, before + 1].map(|calls| after_crash(&self.states[calls]));
            !was.accepts(&is, strictness)
        };
        (0..call).rev().find(shows).map_or(0, |last| last + 1)
    }

    /// What opening a volume must not have had to do, if all calls were done and durable then.
    fn too_late(&self, [truncated, deleted]: [u64; 2], events: usize) -> Option<String> {
        let (least, most) = self.allowed[events];
        // A call that failed as its medium did may have left its work to the next mount.
        if least != most || self.description.fault.is_some() {
            return None;
        }
        let left = if truncated > 0 {
            format!("finishes {truncated} truncates")
        } else if deleted > 0 && least > 0 && self.ops[least - 1].is_sync() && !self.states[least].holds_nameless() {
            format!("deletes {deleted} inodes without names")
        } else {
            return None;
        };
        Some(format!("opening it {left}, although all calls are done and durable"))
    }
}

impl VolumeRun for Run {
    type Found = Found;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn heard(&self) -> &Heard {
        &self.heard
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn opening(&self) -> (&Options, u64) {
        (&self.setup.options, self.setup.seed)
    }

    fn compare(&self, found: &Snapshot, opening: &RecoverReport, events: usize) -> Result<Found, String> {
        let (least, most) = self.allowed[events];
        let finished = [opening.orphans_truncated, opening.orphans_deleted];
        if let Some(late) = self.too_late(finished, events) {
            return Err(late);
        }
        Ok(Found { calls: contract::judge(self, least, most, found)?, least, finished })
    }

    fn still_allowed(&self, found: &Found, events: usize) -> bool {
        let (least, most) = self.allowed[events];
        // What is stale counts from the last sync on in `writeback` alone: elsewhere a state that was right for some
        // number of calls is right for as long as that number is possible.
        (self.setup.data() != DataMode::Writeback || found.least == least)
            && self.too_late(found.finished, events).is_none()
            && found.calls.iter().any(|calls| (least..=most).contains(calls))
    }

    fn is_narrowed(&self, events: usize) -> bool {
        let is_checkpoint = |call: &u64| self.ops.get(*call as usize) == Some(&Op::Checkpoint);
        let at_checkpoint =
            matches!(&self.events[events - 1], Event::Mark(id) if id % 2 == 1 && is_checkpoint(&(id / 2)));
        at_checkpoint || self.allowed[events].0 > self.allowed[events - 1].0
    }

    fn flip(&self, events: usize, seed: u64) -> Option<Flip> {
        rot::choose(self, events, seed)
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }
}
