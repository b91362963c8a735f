//! A medium that fails while calls are made, and what must hold then: every call returns what it should, or an error
//! and has changed nothing; no sync succeeds after a flush, or a write into the journal, has failed, but with a log in
//! a pool, which keeps what home did not take; and a crash leaves what the contract says.
//!
//! The volume that meets the failing medium has to be recovered first, so that recovery meets it, too.

mod fault;
mod medium;
pub(crate) mod together;

pub use fault::{Fault, Faults, Kind};

pub(crate) use fault::Tried;

use crate::log::{self, Log};
use crate::run::{Run, Setup, after_crash, allowed, covered};
use crate::subject::Description;
use medium::{Failing, Failures};
use ondol::{DataMode, Options};
use ondol_coverage::{Heard, listen};
use ondol_env::sync::{Arc, Mutex};
use ondol_power::{Layer, PowerDomain};
use ondol_testkit::Fail;
use ondol_testkit::disks::{self, Disks};
use ondol_testkit::dump::{Snapshot, Strictness, describe_bytes};
use ondol_testkit::model::Model;
use ondol_testkit::op::{Fallocate, Flags, Op};
use ondol_testkit::target::{Library, Lockstep, Target};

/// Does the setup on a medium that works, and cuts the power; then opens the volume on one that fails, and does `ops`.
///
/// # Errors
/// A call does what it should not.
pub(crate) fn record(setup: &Setup, ops: &[Op], fault: Option<Fault>) -> Result<(Run, Tried), String> {
    let (base, model) = dirty(&setup.disks, &setup.options, &setup.ops, setup.seed)?;
    let log = Log::of(&base)?;
    let (domain, listening) = (PowerDomain::new(), listen(true));
    let outlives_flushes = base.iter().any(disks::is_pool);
    let all = Arc::new(Failures { domain, log: log.clone(), fault, outlives_flushes, state: Mutex::default() });
    let one = |layer, medium| Failing { inner: disks::store(layer), medium, all: all.clone() };
    let disks = disks::of(&base, Some(&all.domain), one);
    let mut trial = Trial { disks, all: all.clone(), run: empty(setup, base, log, model) };
    trial.go(ops)?;
    let (tried, mut run) = (all.state.lock().tried, trial.run);
    (run.events, run.heard) = (all.domain.take(), listening.finish());
    crate::log_judge::judge(&run.log, &run.media, &run.events, true)?;
    run.allowed = allowed(&run.events, &covered(&run));
    Ok((run, tried))
}

/// What has to be recovered, and what it is then.
fn dirty(disks: &[Layer], options: &Options, before: &[Op], seed: u64) -> Result<(Vec<Layer>, Model), String> {
    let stores = disks::stores(disks);
    let media = stores.media().map_err(|e| e.to_string())?;
    let library = Library::open(media, options, seed).map_err(|e| e.to_string())?;
    let mut lockstep = Lockstep::new(library)?;
    for op in before.iter().chain([&Op::Sync]) {
        let _outcome = lockstep.step(op).map_err(|e| e.to_string())?;
    }
    let mut model = lockstep.model().clone();
    model.drop_handles();
    Ok((stores.layers(), model))
}

fn empty(setup: &Setup, base: Vec<Layer>, log: Log, model: Model) -> Run {
    Run {
        setup: setup.clone(),
        ops: Vec::new(),
        // Nothing that has more is done.
        atomic: u64::MAX,
        description: Description::default(),
        log,
        media: log::media(base),
        events: Vec::new(),
        heard: Heard::default(),
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
    disks: Disks<Failing>,
    all: Arc<Failures>,
    run: Run,
}

impl Trial {
    fn failed(&self) -> bool {
        self.all.state.lock().failed
    }

    fn go(&mut self, ops: &[Op]) -> Result<(), String> {
        let (options, seed) = (&self.run.setup.options, self.run.setup.seed ^ 0xFF);
        let opened = self.disks.media().and_then(|media| Library::open(media, options, seed));
        let mut library = match opened {
            Ok(library) => library,
            Err(_) if self.failed() => return Ok(()),
            Err(e) => return Err(format!("cannot be opened: {e}")),
        };
        self.all.opened();
        // What consists of several atomic steps may fail between them: then nobody can tell what it has done.
        let atomic = library.atomic_bytes();
        for op in ops.iter().filter(|op| !op.is_stepwise(atomic)) {
            // Where the bytes of a call that failed have gone then, nobody can tell.
            if !self.run.strays.is_empty() && moves_bytes(op) {
                continue;
            }
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

    /// What was done is seen, and nothing else, when all is read again, from home where the cache has lost it. Bytes
    /// that were to be written in place may be there or not.
    fn look_again(&self, library: &mut Library) -> Result<(), String> {
        let Some(found) = self.look(library)? else { return Ok(()) };
        let last = self.run.states.last().ok_or("no state")?.snapshot();
        match last.differences(&found, self.strictness()) {
            differences if differences.is_empty() => Ok(()),
            differences => Err(format!("read after all calls, the volume differs:\n  {}", differences.join("\n  "))),
        }
    }

    /// What is there; nothing where the medium fails to read, and of a volume that could not be mounted again.
    fn look(&self, library: &mut Library) -> Result<Option<Snapshot>, String> {
        let fails_reads = self.all.fault.is_some_and(|fault| fault.kind == Kind::Read);
        match library.snapshot() {
            Err(_) if fails_reads || library.volume().is_err() => Ok(None),
            found => found.map(Some).map_err(|e| format!("cannot be read any more: {e}")),
        }
    }

    /// What of a volume is never there in part.
    fn strictness(&self) -> Strictness {
        if self.run.setup.data() == DataMode::Journal { Strictness::Whole } else { Strictness::Metadata }
    }

    /// Closes the volume, which makes everything durable, or fails as the medium does.
    fn close(&mut self, mut library: Library) -> Result<(), String> {
        self.look_again(&mut library)?;
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
            // What did not reach the medium may come later.
            (_, got) if self.failed() && matches!(op, Op::Read { .. }) => {
                self.note(op, Vec::new(), before, false);
                Ok(got.is_ok())
            }
            (expected, got) if expected == got => {
                let within = if got.is_ok() { steps_of(op, &before) } else { Vec::new() };
                let synced = (op.is_sync() || after.is_synchronous(&before, op)) && got.is_ok();
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

    /// What is not there after a call that failed may still come; what is there may be lost until a sync succeeds.
    fn stray<'m>(&mut self, led_to: impl Iterator<Item = &'m Model>, before: &Model) {
        let call = self.run.ops.len();
        self.run.strays.extend(led_to.map(|model| (usize::MAX, model.clone())).chain([(call, before.clone())]));
    }

    /// A call failed as the medium did: it has not been done, but for bytes written over stored ones.
    fn refused(&mut self, library: &mut Library, op: &Op, mut before: Model, after: Model) -> Result<bool, String> {
        // What unmounting closes stays closed, wherever it fails.
        if *op == Op::Remount {
            before.drop_handles();
        }
        let Some(found) = self.look(library)? else {
            self.note(op, Vec::new(), after, false);
            return Ok(false);
        };
        let strictness = self.strictness();
        let mut within = steps_of(op, &before);
        // What is synchronous, or becomes so, was done, and then not made durable; a commit of a map is, and an
        // exchange, where contents do not go through the journal.
        let is_synchronous =
            |flags: Option<u32>| flags.is_some_and(|flags| flags & (Flags::SYNC | Flags::DIRSYNC) != 0);
        let is_exchange = matches!(op, Op::Exchange { .. });
        let waits = strictness == Strictness::Metadata && is_exchange || matches!(op, Op::MapCommit { .. });
        let was = before.snapshot();
        let may_be_done = waits || found.entries().chain(was.entries()).any(|(_, entry)| is_synchronous(entry.flags));
        if may_be_done && after.snapshot().accepts(&found, strictness) {
            // Bytes over stored ones have no part in that: their own write may have failed.
            let now = with_bytes_of(&after, within.iter().chain([&before]), &found)?;
            self.stray(within.iter().chain([&after]), &before);
            within.push(after);
            self.note(op, within, now, false);
            return Ok(true);
        }
        let differences = was.differences(&found, strictness);
        if !differences.is_empty() {
            return Err(format!("failed, but has changed something:\n  {}", differences.join("\n  ")));
        }
        let now = with_bytes_of(&before, within.iter().chain([&after]), &found)?;
        self.stray(within.iter().chain([&after]), &before);
        within.push(after);
        self.note(op, within, now, false);
        Ok(true)
    }
}

/// Whether it gives bytes that are stored another place in a file.
fn moves_bytes(op: &Op) -> bool {
    match op {
        Op::Fallocate { how, .. } => matches!(how, Fallocate::CollapseRange | Fallocate::InsertRange),
        Op::Transaction(steps) => steps.iter().any(moves_bytes),
        op => matches!(op, Op::Exchange { .. }),
    }
}

/// What a transaction leads through: each of its steps puts its bytes over stored ones outside of it.
fn steps_of(op: &Op, before: &Model) -> Vec<Model> {
    match op {
        Op::Transaction(steps) => before.after_each(steps).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The first model with the bytes that were found, each of which must be that of one of the models.
fn with_bytes_of<'m>(
    one: &Model,
    others: impl Iterator<Item = &'m Model> + Clone,
    found: &Snapshot,
) -> Result<Model, String> {
    let mut now = one.clone();
    for (path, entry) in found.entries() {
        let Some(id) = one.id_of(path) else { continue };
        let Some(old) = one.content(id) else { continue };
        let new = others.clone().filter_map(|other| other.content(id));
        let wrong = |&at: &u64| new.clone().chain([old]).all(|model| entry.content.byte(at) != model.byte(at));
        if let Some(at) = old.differences(&entry.content, 8).into_iter().flatten().find(wrong) {
            let what = describe_bytes(old, &entry.content).unwrap_or_default();
            return Err(format!("failed, and byte {at} of {path} is neither old nor new: {what}"));
        }
        if old != &entry.content {
            now.replace_content(id, entry.content.clone());
        }
    }
    Ok(now)
}
