//! Several threads on a medium that fails, each with a directory of its own: `/0`, `/1` and so on.
//!
//! A thread meets nobody's files but its own, so what these may be after a crash does not depend on the order of the
//! threads: they are as after some of the thread's calls, from the first on, and at least after those that a sync
//! covers which has returned without an error. A call that failed is done or not. Another thread's failed commit is a
//! thread's own failure where it waits for it.

use super::fault::{Fault, Tried};
use super::medium::{Failing, Failures};
use crate::judge::VolumeRun;
use crate::log::{self, Log};
use crate::log_judge;
use crate::subject::Description;
use ondol::{Fsync, Options, RecoverReport};
use ondol_coverage::{Heard, listen};
use ondol_env::sync::{Arc, Mutex};
use ondol_power::{Event, Medium, PowerDomain};
use ondol_schedule::{Schedule, Stats};
use ondol_testkit::Fail;
use ondol_testkit::disks;
use ondol_testkit::dump::{Entry, Snapshot};
use ondol_testkit::model::Model;
use ondol_testkit::op::Path;
use ondol_testkit::target::Library;
use ondol_testkit::threads::{Call, Machine, Mark, Program, Setup, perform};

/// Of more models than this a thread's files are not judged any further.
const MOST: usize = 16;

/// A recorded run.
pub(crate) struct Together {
    setup: Setup,
    media: Vec<Medium>,
    log: Log,
    events: Vec<Event>,
    heard: Heard,
    pub(crate) description: Description,
    /// By thread and number of calls: what its files can be then. `None`: anything.
    files: Vec<Vec<Option<Vec<Files>>>>,
    /// By number of events and thread: calls that are there at least, and at most.
    allowed: Vec<Vec<(usize, usize)>>,
}

/// What is compared of a thread's own directory.
type Files = Vec<(Path, Entry)>;

/// What was tried, how long it was, and the run, if the volume could be opened.
pub(crate) type Recorded = (Tried, Option<(Stats, Together)>);

/// Does the setup on a medium that works, and cuts the power; then opens the volume on one that fails, and does the
/// program.
///
/// # Errors
/// A call does what it should not.
pub(crate) fn record(
    setup: &Setup,
    program: &Program,
    schedule: Schedule,
    fault: Option<Fault>,
) -> Result<Recorded, String> {
    let (base, model) = super::dirty(&setup.disks, &setup.options, &setup.before, setup.seed)?;
    let log = Log::of(&base)?;
    let (domain, listening) = (PowerDomain::new(), listen(true));
    let all = Arc::new(Failures {
        domain,
        log: log.clone(),
        fault,
        outlives_flushes: base.iter().any(disks::is_pool),
        state: Mutex::default(),
    });
    let one = |layer, medium| Failing { inner: disks::store(layer), medium, all: all.clone() };
    let stores = disks::of(&base, Some(&all.domain), one);
    let opened = stores.media().and_then(|media| Library::open(media, &setup.options, setup.seed ^ 0xFF));
    let has_failed = || all.state.lock().failed;
    let tried = || all.state.lock().tried;
    let (volume, clock) = match opened.and_then(Library::into_parts) {
        Ok(parts) => parts,
        Err(_) if has_failed() => return Ok((tried(), None)),
        Err(e) => return Err(format!("cannot be opened: {e}")),
    };
    all.opened();
    let done = perform(volume, Machine { clock: &clock, domain: &all.domain }, program, schedule, setup.background)
        .map_err(|e| e.to_string())?;
    if let Some(what) = done.background.filter(|_| !has_failed()) {
        return Err(format!("background work failed: {what}"));
    }
    if let Err(e) = done.volume.close()
        && !has_failed()
    {
        return Err(format!("cannot be closed: {e}"));
    }
    let (events, heard) = (all.domain.take(), listening.finish());
    let media = log::media(base);
    log_judge::judge(&log, &media, &events, false)?;
    let files = done.calls.iter().enumerate().map(|(thread, calls)| files_of(&model, thread, calls, has_failed()));
    let files = files.collect::<Result<_, String>>()?;
    let allowed = allowed(&events, &done.calls, setup.options.fsync() == Fsync::File);
    let (setup, description) = (setup.clone(), Description::default());
    Ok((tried(), Some((done.stats, Together { setup, media, log, events, heard, description, files, allowed }))))
}

/// A thread's own files after each number of its calls.
fn files_of(model: &Model, thread: usize, calls: &[Call], has_failed: bool) -> Result<Vec<Option<Vec<Files>>>, String> {
    let shown = |models: &[Model]| models.iter().map(|model| own(&model.snapshot(), thread)).collect();
    let mut models = vec![model.clone()];
    let mut files = vec![Some(shown(&models))];
    for Call { op, outcome, failure } in calls {
        let mut after = Vec::new();
        for before in &models {
            let mut done = before.clone();
            let expected = done.apply(op);
            match outcome {
                _ if expected == *outcome => after.push(done),
                Err(Fail::Io | Fail::ReadOnly) if has_failed => after.extend([before.clone(), done]),
                Err(Fail::NoSpace | Fail::TooBig | Fail::NotPermitted) => after.push(before.clone()),
                _ => {}
            }
        }
        if after.is_empty() && !models.is_empty() {
            let said = failure.as_deref().unwrap_or_default();
            return Err(format!("`{op}` of thread {thread} on a failing medium returned {outcome:?} ({said})"));
        }
        models = if after.len() > MOST { Vec::new() } else { after };
        files.push((!models.is_empty()).then(|| shown(&models)));
    }
    Ok(files)
}

/// What a thread has in its directory, but for times.
fn own(found: &Snapshot, thread: usize) -> Files {
    let place = format!("/{thread}/");
    let own = found.entries().filter(|(path, _)| path.as_str().starts_with(&place));
    own.map(|(path, entry)| (path.clone(), Entry { mtime: None, ..entry.clone() })).collect()
}

/// For each number of events, of each thread the calls that are there at least, and at most.
fn allowed(events: &[Event], calls: &[Vec<Call>], by_file: bool) -> Vec<Vec<(usize, usize)>> {
    let mut now = vec![(0, 0); calls.len()];
    let mut returned = vec![0; calls.len()];
    // What had returned when the sync of each thread began.
    let mut covered = vec![Vec::new(); calls.len()];
    let mut all = vec![now.clone()];
    for event in events {
        if let Event::Mark(id) = event {
            let Mark { thread, call, returned: is_done } = Mark::from_id(*id);
            if is_done {
                returned[thread] = call + 1;
                let Call { op, outcome, .. } = &calls[thread][call];
                if op.is_sync() && outcome.is_ok() {
                    let of_all = !by_file || op.synced_file().is_none();
                    let covers = |other: usize| of_all || other == thread;
                    for (other, covered) in covered[thread].iter().enumerate().filter(|(other, _)| covers(*other)) {
                        now[other].0 = now[other].0.max(*covered);
                    }
                }
            } else {
                now[thread].1 = call + 1;
                covered[thread].clone_from(&returned);
            }
        }
        all.push(now.clone());
    }
    all
}

/// Which numbers of its calls explain what each thread has.
pub(crate) type Explained = Vec<Vec<usize>>;

impl VolumeRun for Together {
    type Found = Explained;

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

    fn compare(&self, found: &Snapshot, _: &RecoverReport, events: usize) -> Result<Explained, String> {
        let explain = |(thread, files): (usize, &Vec<Option<Vec<Files>>>)| {
            let own = own(found, thread);
            let is_it = |files: &Option<Vec<Files>>| files.as_ref().is_none_or(|files| files.contains(&own));
            let calls: Vec<usize> = (0..files.len()).filter(|n| is_it(&files[*n])).collect();
            let (least, most) = self.allowed[events][thread];
            if calls.iter().any(|calls| (least..=most).contains(calls)) {
                return Ok(calls);
            }
            let names: Vec<String> =
                own.iter().map(|(path, entry)| format!("{path} ({} bytes)", entry.content.len())).collect();
            Err(format!(
                "on a failing medium, /{thread} is not as after {least} to {most} of its thread's calls: {}",
                names.join(", ")
            ))
        };
        self.files.iter().enumerate().map(explain).collect()
    }

    fn still_allowed(&self, found: &Explained, events: usize) -> bool {
        let is_allowed = |(calls, (least, most)): (&Vec<usize>, &(usize, usize))| {
            calls.iter().any(|calls| (least..=most).contains(&calls))
        };
        found.iter().zip(&self.allowed[events]).all(is_allowed)
    }

    fn is_narrowed(&self, events: usize) -> bool {
        let (before, now) = (&self.allowed[events - 1], &self.allowed[events]);
        before.iter().zip(now).any(|(before, now)| now.0 > before.0)
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }
}
