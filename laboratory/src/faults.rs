//! A medium that fails while calls are made, and what must hold then: every call returns what it should, or an error and has changed nothing; no sync
//! succeeds after a flush, or a write into the journal, has failed; and a crash leaves what the contract says.
//!
//! The volume that meets the failing medium has to be recovered first, so that recovery meets it, too.

use crate::log::{self, Log, SUPERBLOCK};
use crate::run::{Run, Setup, after_crash, allowed};
use crate::subject::Description;
use ondol::DataMode;
use ondol_block::{BlockError, BlockStats, BlockStore, Caps, LayerStore, Result as Done};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed, Timestamp, reach};
use ondol_power::{Event, Layer, PowerDomain, UNIT};
use ondol_testkit::dump::{Snapshot, Strictness};
use ondol_testkit::model::Model;
use ondol_testkit::op::{Flags, Op};
use ondol_testkit::target::{Library, Lockstep, Target};
use ondol_testkit::{Fail, disks};
use std::fmt;
use std::io::IoSlice;
use std::str::FromStr;

/// The kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes and discards.
    Write,
    /// Flushes.
    Flush,
}

/// Transfers of this kind fail with EIO: the `nth`, counted from 0, and so many in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which transfers.
    pub kind: Kind,
    /// The first that fails.
    pub nth: u64,
    /// How many; `u64::MAX` for all from then on.
    pub times: u64,
}

/// As in `write:17`, which fails for good, or `flush:3:2`, of which two fail.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Flush => "flush",
        };
        write!(f, "{kind}:{}", self.nth)?;
        if self.times == u64::MAX { Ok(()) } else { write!(f, ":{}", self.times) }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("no fault (KIND:NUMBER[:TIMES], as in write:17 or flush:3:1): {text}");
        let mut words = text.split(':');
        let kind = match words.next() {
            Some("read") => Kind::Read,
            Some("write") => Kind::Write,
            Some("flush") => Kind::Flush,
            _ => return Err(bad()),
        };
        let nth = words.next().ok_or_else(bad)?.parse().map_err(|_| bad())?;
        let times = words.next().map_or(Ok(u64::MAX), |times| times.parse().map_err(|_| bad()))?;
        if words.next().is_some() { Err(bad()) } else { Ok(Self { kind, nth, times }) }
    }
}

/// Faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// This one.
    One(Fault),
    /// Some of those that there can be.
    Search {
        /// Which ones.
        seed: u64,
        /// How many.
        count: u64,
    },
    /// So many transfers of each kind, evenly spread over the run, each fails once and for good.
    Spread {
        /// How many; 0 for all.
        points: u64,
        /// Which ones.
        shift: u64,
    },
}

impl Faults {
    /// If it is one.
    pub(crate) fn one(self) -> Option<Fault> {
        match self {
            Self::One(fault) => Some(fault),
            Self::Search { .. } | Self::Spread { .. } => None,
        }
    }

    /// Of a run that makes so many transfers.
    pub(crate) fn of(self, tried: Tried) -> Vec<Fault> {
        let (seed, count) = match self {
            Self::One(fault) => return vec![fault],
            Self::Search { seed, count } => (seed, count),
            Self::Spread { points, shift } => return tried.spread(points, shift),
        };
        let random = Fixed::new(Timestamp::default(), seed);
        let below = |n: u64| u64::from(random.random_u32()) % n.max(1);
        let one = |_| {
            // Writes and flushes more than reads; while it is opened less than later, when there are promises to keep.
            let (kind, [opening, all]) = match below(6) {
                0 => (Kind::Read, tried.reads),
                1..4 => (Kind::Write, tried.writes),
                _ => (Kind::Flush, tried.flushes),
            };
            let nth = if below(4) == 0 { below(all) } else { opening + below(all - opening) };
            Fault { kind, nth, times: [1, u64::MAX, 2][below(3) as usize] }
        };
        (0..count).map(one).collect()
    }
}

/// Transfers that were tried: while the volume was opened, and in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    reads: [u64; 2],
    writes: [u64; 2],
    flushes: [u64; 2],
}

impl Tried {
    fn spread(mut self, points: u64, shift: u64) -> Vec<Fault> {
        let mut all = Vec::new();
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            let [_, count] = *self.of(kind);
            let points = if points == 0 { count } else { points.min(count) };
            let nth = (0..points).map(|i| (i * count + shift % count.max(1)) / points);
            all.extend(nth.flat_map(|nth| [1, u64::MAX].map(|times| Fault { kind, nth, times })));
        }
        all
    }

    fn of(&mut self, kind: Kind) -> &mut [u64; 2] {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Flush => &mut self.flushes,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    tried: Tried,
    /// Something has failed.
    failed: bool,
    /// A flush, or a write into the journal, has failed.
    stops: bool,
}

/// Recorded disks in memory that fail together, as they are told.
struct Failures {
    domain: Arc<PowerDomain>,
    log: Log,
    fault: Option<Fault>,
    state: Mutex<State>,
}

/// One of them.
struct Failing {
    inner: LayerStore,
    medium: u32,
    all: Arc<Failures>,
}

impl Failures {
    fn trips(&self, kind: Kind) -> bool {
        let mut state = self.state.lock();
        let [_, count] = state.tried.of(kind);
        let nth = *count;
        *count += 1;
        let fails = |f: &Fault| f.kind == kind && nth >= f.nth && nth - f.nth < f.times;
        let trips = self.fault.as_ref().is_some_and(fails);
        state.failed |= trips;
        trips
    }

    fn stop(&self) {
        self.state.lock().stops = true;
    }
}

impl Failing {
    fn error(op: &'static str, offset: u64, len: usize) -> BlockError {
        let source = std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        BlockError::Io { op, name: "a failing medium".into(), offset, len: len as u64, source }
    }
}

impl BlockStore for Failing {
    fn name(&self) -> &str {
        "a failing medium"
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Done<()> {
        if self.all.trips(Kind::Read) {
            return Err(Self::error("read", offset, buf.len()));
        }
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Done<()> {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let end = offset + bytes.len() as u64;
        if !self.all.trips(Kind::Write) {
            self.inner.write(offset, &bytes)?;
            self.all.domain.push(Event::Write { medium: self.medium, offset, bytes: bytes.into() });
            return Ok(());
        }
        if self.all.log.meets(self.medium as usize, &(offset..end)) {
            self.all.stop();
        }
        // Readers see half of every other one.
        let half = bytes.len() / 2 / UNIT * UNIT;
        let is_whole = self.medium == 0 && offset < SUPERBLOCK.end && end > SUPERBLOCK.start;
        if self.all.state.lock().tried.writes[1].is_multiple_of(2) && !is_whole {
            self.inner.write(offset, &bytes[..half])?;
        }
        let error = Self::error("write", offset, bytes.len());
        self.all.domain.push(Event::WriteFailed { medium: self.medium, offset, bytes: bytes.into() });
        Err(error)
    }

    fn flush(&self) -> Done<()> {
        if self.all.trips(Kind::Flush) {
            self.all.stop();
            self.all.domain.push(Event::FlushFailed { medium: self.medium });
            return Err(Self::error("flush", 0, 0));
        }
        self.all.domain.push(Event::Flush { medium: self.medium });
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Done<bool> {
        if self.all.trips(Kind::Write) {
            return Err(Self::error("discard", offset, len as usize));
        }
        let done = self.inner.discard(offset, len)?;
        self.all.domain.push(Event::Discard { medium: self.medium, offset, len });
        Ok(done)
    }

    fn stats(&self) -> BlockStats {
        BlockStats::default()
    }
}

/// Does the setup on a medium that works, and cuts the power; then opens the volume on one that fails, and does `ops`.
///
/// # Errors
/// A call does what it should not.
pub(crate) fn record(setup: &Setup, ops: &[Op], fault: Option<Fault>) -> Result<(Run, Tried), String> {
    let (base, model) = dirty(setup)?;
    let (domain, listening) = (PowerDomain::new(), reach::listen(true));
    let log = Log::of(&base)?;
    let all = Arc::new(Failures { domain, log: log.clone(), fault, state: Mutex::default() });
    let one =
        |(layer, medium): (&Layer, u32)| Failing { inner: LayerStore::new(layer.clone()), medium, all: all.clone() };
    let disks = base.iter().zip(0..).map(|disk| Arc::new(one(disk))).collect();
    let mut trial = Trial { disks, all: all.clone(), run: empty(setup, base, log, model) };
    trial.go(ops)?;
    let (tried, mut run) = (all.state.lock().tried, trial.run);
    (run.events, run.hits) = (all.domain.take(), listening.finish().hits);
    run.allowed = allowed(&run.events, &run.synced);
    Ok((run, tried))
}

/// What has to be recovered, and what it is then.
fn dirty(setup: &Setup) -> Result<(Vec<Layer>, Model), String> {
    let stores = disks::stores(&setup.disks);
    let media = disks::media(&stores).map_err(|e| e.to_string())?;
    let library = Library::open(media, &setup.options, setup.seed).map_err(|e| e.to_string())?;
    let mut lockstep = Lockstep::new(library)?;
    for op in setup.ops.iter().chain([&Op::Sync]) {
        let _outcome = lockstep.step(op).map_err(|e| e.to_string())?;
    }
    let mut model = lockstep.model().clone();
    model.drop_handles();
    Ok((disks::layers(&stores), model))
}

fn empty(setup: &Setup, base: Vec<Layer>, log: Log, model: Model) -> Run {
    Run {
        setup: setup.clone(),
        ops: Vec::new(),
        description: Description::default(),
        log,
        media: log::media(base),
        events: Vec::new(),
        hits: Vec::new(),
        expected: vec![after_crash(&model)],
        states: vec![model],
        within: Vec::new(),
        strays: Vec::new(),
        synced: Vec::new(),
        allowed: Vec::new(),
    }
}

/// Calls on a failing medium.
struct Trial {
    disks: Vec<Arc<Failing>>,
    all: Arc<Failures>,
    run: Run,
}

impl Trial {
    fn failed(&self) -> bool {
        self.all.state.lock().failed
    }

    fn go(&mut self, ops: &[Op]) -> Result<(), String> {
        let (options, seed) = (&self.run.setup.options, self.run.setup.seed ^ 0xFF);
        let opened = disks::media(&self.disks).and_then(|media| Library::open(media, options, seed));
        let mut library = match opened {
            Ok(library) => library,
            Err(_) if self.failed() => return Ok(()),
            Err(e) => return Err(format!("cannot be opened: {e}")),
        };
        let mut state = self.all.state.lock();
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            let [opening, all] = state.tried.of(kind);
            *opening = *all;
        }
        drop(state);
        // What consists of several atomic steps may fail between them: then nobody can tell what it has done.
        for op in ops.iter().filter(|op| !op.is_stepwise()) {
            let stopped = self.all.state.lock().stops;
            let call = self.run.ops.len() as u64;
            self.all.domain.mark(2 * call);
            let goes_on = self.call(&mut library, op).map_err(|what| format!("`{op}` on a failing medium: {what}"))?;
            self.all.domain.mark(2 * call + 1);
            if stopped && self.run.synced.last() == Some(&true) {
                return Err(format!("`{op}` succeeded after the journal had failed"));
            }
            if !goes_on {
                return Ok(());
            }
        }
        self.close(library)
    }

    /// Closes the volume, which makes everything durable, or fails as the medium does.
    fn close(&mut self, library: Library) -> Result<(), String> {
        let stopped = self.all.state.lock().stops;
        let call = self.run.ops.len() as u64;
        self.all.domain.mark(2 * call);
        let closed = library.close();
        self.all.domain.mark(2 * call + 1);
        match closed {
            Ok(()) if stopped => return Err("closing succeeded after the journal had failed".into()),
            Err(e) if !self.failed() => return Err(format!("cannot be closed: {e}")),
            Ok(()) | Err(_) => {}
        }
        let mut model = self.run.states.last().ok_or("no state")?.clone();
        model.drop_handles();
        self.note(&Op::Sync, Vec::new(), model, closed.is_ok());
        Ok(())
    }

    fn note(&mut self, op: &Op, within: Vec<Model>, after: Model, synced: bool) {
        self.run.ops.push(op.clone());
        self.run.within.push(within);
        self.run.expected.push(after_crash(&after));
        self.run.states.push(after);
        self.run.synced.push(synced);
    }

    /// One call. False if it cannot be told what became of it.
    fn call(&mut self, library: &mut Library, op: &Op) -> Result<bool, String> {
        let before = self.run.states.last().ok_or("no state")?.clone();
        let mut after = before.clone();
        let expected = after.apply(op);
        let got = library.apply(op);
        match (expected, got) {
            (expected, got) if expected == got => {
                let within = match op {
                    Op::Transaction(steps) if got.is_ok() => before.after_each(steps).unwrap_or_default(),
                    _ => Vec::new(),
                };
                let synced = (op.is_sync() || after.is_synchronous(op)) && got.is_ok();
                self.note(op, within, after, synced);
                Ok(true)
            }
            (_, Err(Fail::Io | Fail::ReadOnly)) if self.failed() => self.refused(library, op, before, after),
            // Space, and what the model does not follow: others look at that.
            (_, Err(Fail::NoSpace | Fail::TooBig | Fail::NotPermitted)) => {
                self.note(op, vec![after], before, false);
                Ok(false)
            }
            (Ok(wanted), Ok(done)) if done < wanted => {
                self.note(op, Vec::new(), after, false);
                Ok(false)
            }
            (expected, got) => {
                let said = library.failure().unwrap_or_default();
                Err(format!("returned {got:?}, should {expected:?} ({said})"))
            }
        }
    }

    /// A call failed as the medium did: it has not been done, but for bytes written over stored ones.
    fn refused(&mut self, library: &mut Library, op: &Op, before: Model, after: Model) -> Result<bool, String> {
        let Ok(found) = library.snapshot() else {
            self.note(op, Vec::new(), after, false);
            return Ok(false);
        };
        let strictness = match self.run.setup.data() {
            DataMode::Journal => Strictness::Whole,
            _ => Strictness::Metadata,
        };
        // What is synchronous, or becomes so, was done, and then not made durable.
        let is_synchronous =
            |flags: Option<u32>| flags.is_some_and(|flags| flags & (Flags::SYNC | Flags::DIRSYNC) != 0);
        let may_be_done = found.entries().any(|(_, entry)| is_synchronous(entry.flags));
        if may_be_done && after.snapshot().accepts(&found, strictness) {
            self.note(op, Vec::new(), after, false);
            return Ok(true);
        }
        let differences = before.snapshot().differences(&found, strictness);
        if !differences.is_empty() {
            return Err(format!("failed, but has changed something:\n  {}", differences.join("\n  ")));
        }
        let now = with_bytes_of(&before, &after, &found)?;
        // What is read now may be lost, since no flush covers it; what is not there may still come.
        self.run.strays.extend([before, after.clone()]);
        self.note(op, vec![after], now, false);
        Ok(true)
    }
}

/// `before` with the bytes that were found, each of which must be that of one of the two models.
fn with_bytes_of(before: &Model, after: &Model, found: &Snapshot) -> Result<Model, String> {
    let mut now = before.clone();
    for (path, entry) in found.entries() {
        let Some(id) = before.id_of(path) else { continue };
        let (Some(old), Some(new)) = (before.content(id), after.content(id).or(before.content(id))) else { continue };
        let wrong = |&at: &u64| entry.content.byte(at) != new.byte(at);
        if let Some(at) = old.differences(&entry.content, 8).into_iter().flatten().find(wrong) {
            return Err(format!("failed, and byte {at} of {path} is neither old nor new"));
        }
        if old != &entry.content {
            now.replace_content(id, entry.content.clone());
        }
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["read:0", "write:17", "flush:3:1"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for text in ["", "write", "sync:1", "write:x", "flush:1:2:3"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
