//! EIO at every transfer: each read, write and flush of short workloads fails, once or for good, while a volume that has
//! to be recovered is opened, used and closed.
//!
//! Every call then returns what it should or an error; after a failed flush, or a failed write into the journal, no fsync
//! succeeds any more; and what is left on the medium recovers to a state that is allowed: a prefix of the calls, with
//! everything that an fsync has promised.
//!
//! `ONDOL_POINTS` says how many transfers of each kind fail in each workload (0 for all), `ONDOL_FSCK_EVERY` how often e2fsck
//! judges what is left, too.

mod faults;

use faults::medium::{Fault, Kind, Medium, Tried};
use faults::workloads::{WORKLOADS, Workload};
use faults::{at_rest, journal_of, store_of};
use ondol::{DataMode, Volume};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_laboratory::run::{Run, Setup};
use ondol_laboratory::{Image, contract};
use ondol_power::{Layer, Pages};
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::model::Model;
use ondol_testkit::op::{Op, text};
use ondol_testkit::target::{Library, Lockstep, Target};
use ondol_testkit::{Fail, image};
use ondol_tests::parameter;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A volume that has to be recovered, and what it is then.
struct Dirty {
    layer: Layer,
    model: Model,
    calls: Vec<Op>,
    data: DataMode,
}

fn dirty(workload: &Workload, data: DataMode, image: Image) -> Dirty {
    let (medium, store) = store_of(&image.make().unwrap());
    let mut lockstep = Lockstep::new(Library::open(store, &image::options(data), 1).unwrap()).unwrap();
    // A file that is deleted while it is open leaves an orphan.
    let orphan = "create /o 0644; write /o 0 2000 #99; open @9 /o; unlink /o; sync";
    for op in text::parse(&format!("{}\n{orphan}", workload.before)).unwrap() {
        lockstep.step(&op).unwrap().unwrap_or_else(|e| panic!("{op}: {e:?}"));
    }
    let mut model = lockstep.model().clone();
    model.drop_handles();
    Dirty { layer: medium.layer(), model, calls: text::parse(workload.calls).unwrap(), data }
}

/// What happened while the medium failed.
struct Trial<'a> {
    dirty: &'a Dirty,
    medium: Arc<Medium>,
    /// The calls that may have had effects, what came of each, and the states in between.
    run: Run,
    /// The states that a recovered volume may be in begin here.
    least: usize,
}

impl<'a> Trial<'a> {
    fn new(dirty: &'a Dirty, fault: Option<Fault>) -> Self {
        let medium = Arc::new(Medium::new(&dirty.layer, journal_of(&dirty.layer), fault));
        let setup = Setup {
            image: ondol_power::Layer::new(Vec::new()),
            options: image::options(dirty.data),
            ops: Vec::new(),
            remount: false,
            seed: 1,
        };
        let run = Run {
            setup,
            ops: Vec::new(),
            description: ondol_laboratory::Description::default(),
            media: Vec::new(),
            log: Pages::default(),
            hits: Vec::new(),
            events: Vec::new(),
            states: vec![dirty.model.clone()],
            expected: vec![at_rest(&dirty.model)],
            within: Vec::new(),
            strays: Vec::new(),
            synced: Vec::new(),
            allowed: Vec::new(),
        };
        Self { dirty, medium, run, least: 0 }
    }

    /// Opens, does all calls, closes.
    fn go(&mut self) -> Result<(), String> {
        let store: Arc<dyn BlockStore> = self.medium.clone();
        let mut library = match Library::open(store, &image::options(self.dirty.data), 2) {
            Ok(library) => library,
            Err(_) if self.medium.failed() => return Ok(()),
            Err(e) => return Err(format!("cannot be opened: {e}")),
        };
        for op in &self.dirty.calls {
            let stopped = self.medium.stops();
            if !self.call(&mut library, op).map_err(|what| format!("`{op}`: {what}"))? {
                return Ok(());
            }
            if stopped && self.run.synced.last() == Some(&true) {
                return Err(format!("`{op}` succeeded after the journal had failed"));
            }
        }
        let stopped = self.medium.stops();
        match library.close() {
            Ok(()) if stopped => Err("closing succeeded after the journal had failed".into()),
            Ok(()) => {
                self.least = self.run.states.len() - 1;
                Ok(())
            }
            Err(_) if self.medium.failed() => Ok(()),
            Err(e) => Err(format!("cannot be closed: {e}")),
        }
    }

    fn model(&self) -> &Model {
        self.run.states.last().expect("the first state")
    }

    fn note(&mut self, op: &Op, within: Vec<Model>, after: Model, synced: bool) {
        self.run.ops.push(op.clone());
        self.run.within.push(within);
        self.run.expected.push(at_rest(&after));
        self.run.states.push(after);
        self.run.synced.push(synced);
    }

    /// One call. False if it cannot be told what became of it.
    fn call(&mut self, library: &mut Library, op: &Op) -> Result<bool, String> {
        let before = self.model().clone();
        let mut after = before.clone();
        let expected = after.apply(op);
        let got = library.apply(op);
        let failed = self.medium.failed();
        match (expected, got) {
            (expected, got) if expected == got => {
                let within = match op {
                    Op::Transaction(steps) if got.is_ok() => before.after_each(steps).unwrap_or_default(),
                    _ => Vec::new(),
                };
                let synced = op.is_sync() && got.is_ok();
                self.note(op, within, after, synced);
                if synced {
                    self.least = self.run.states.len() - 1;
                }
                Ok(true)
            }
            (_, Err(Fail::Io | Fail::ReadOnly)) if failed => self.failed(library, op, before, after),
            (expected, got) => {
                let said = library.failure().unwrap_or_default();
                Err(format!("returned {got:?}, should {expected:?} ({said})"))
            }
        }
    }

    /// A call failed as the medium did: it has not been done, but for bytes written over stored ones.
    fn failed(&mut self, library: &mut Library, op: &Op, before: Model, after: Model) -> Result<bool, String> {
        let Ok(found) = library.snapshot() else {
            self.note(op, Vec::new(), after, false);
            return Ok(false);
        };
        let strictness = match self.dirty.data {
            DataMode::Journal => Strictness::Whole,
            _ => Strictness::Metadata,
        };
        let shown = before.snapshot();
        let differences = shown.differences(&found, strictness);
        if !differences.is_empty() {
            return Err(format!("failed, but has changed something: {}", differences.join("; ")));
        }
        let now = with_bytes_of(&before, &after, &found)?;
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

/// What is left must recover, on a medium that works, to one of the states that are possible.
fn judge(trial: &Trial<'_>, left: &Layer) -> Result<(), String> {
    let (_, store) = store_of(left);
    ondol::recover_store(&store).map_err(|e| format!("cannot be recovered: {e}"))?;
    faults::must_be_clean(&store)?;
    let volume = Volume::open_stepped(store.clone(), &image::options(trial.dirty.data), image::clock(3))
        .map_err(|e| format!("cannot be opened after recovery: {e}"))?;
    let found = dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read after recovery: {e}"))?;
    contract::judge(&trial.run, trial.least, trial.run.states.len() - 1, &found)?;
    volume.close().map_err(|e| format!("cannot be closed after recovery: {e}"))?;
    faults::must_be_clean(&store)
}

/// Counts of what was tried.
#[derive(Default)]
struct Total {
    trials: u64,
    media: u64,
    fsck: u64,
    transfers: [u64; 3],
}

impl Total {
    fn one(&mut self, dirty: &Dirty, fault: Option<Fault>) -> Result<Tried, String> {
        let mut trial = Trial::new(dirty, fault);
        match catch_unwind(AssertUnwindSafe(|| trial.go())) {
            Ok(outcome) => outcome?,
            Err(_) => return Err("a panic".into()),
        }
        self.trials += 1;
        for (left, what) in trial.medium.left().iter().zip(["everything written", "what was flushed"]) {
            judge(&trial, left).map_err(|e| format!("{what} is left: {e}"))?;
            self.media += 1;
            let every = parameter("ONDOL_FSCK_EVERY", 300);
            if every > 0 && self.media.is_multiple_of(every) {
                self.fsck += 1;
                image::judge_replay(&left.to_bytes())
                    .map_err(|e| e.to_string())?
                    .map_err(|e| format!("{what}: {e}"))?;
            }
        }
        Ok(trial.medium.tried())
    }

    fn workload(&mut self, workload: &Workload, data: DataMode, image: Image) {
        let dirty = dirty(workload, data, image);
        let bad = |fault: Option<Fault>, what: String| -> ! {
            panic!(
                "{}, image {image}, {data:?}, {fault:?}: {what}\nbefore: {}\ncalls: {}",
                workload.name, workload.before, workload.calls
            )
        };
        let tried = self.one(&dirty, None).unwrap_or_else(|what| bad(None, what));
        let kinds = [(Kind::Read, tried.reads), (Kind::Write, tried.writes), (Kind::Flush, tried.flushes)];
        for (slot, (kind, count)) in kinds.into_iter().enumerate() {
            self.transfers[slot] += count;
            let points = match parameter("ONDOL_POINTS", 40) {
                0 => count,
                n => n.min(count),
            };
            let shift = parameter("ONDOL_SEED", 1);
            for nth in (0..points).map(|i| (i * count + shift % count) / points) {
                for once in [true, false] {
                    let fault = Some(Fault { kind, nth, once });
                    self.one(&dirty, fault).unwrap_or_else(|what| bad(fault, what));
                }
            }
        }
    }
}

fn all(data: DataMode) {
    all_on(Image::Small, data, WORKLOADS.iter());
}

fn all_on<'w>(image: Image, data: DataMode, workloads: impl Iterator<Item = &'w Workload>) {
    let mut total = Total::default();
    let count = workloads.map(|workload| total.workload(workload, data, image)).count();
    let Total { trials, media, fsck, transfers: [reads, writes, flushes] } = total;
    println!(
        "{data:?}, image {image}: {count} workloads with {reads} reads, {writes} writes and {flushes} flushes: {trials} runs, {media} media \
         recovered afterwards, {fsck} by e2fsck too"
    );
}

/// Files that are mapped in other ways.
#[test]
fn other_forms() {
    for (image, data) in Image::FORMS.into_iter().zip([DataMode::Journal, DataMode::Ordered].into_iter().cycle()) {
        // Block maps take no space ahead, and clusters move only as a whole.
        let ranges = ["fallocate", "zero", "collapse", "insert"];
        let fits = |w: &&Workload| !ranges.iter().any(|r| w.before.contains(r) || w.calls.contains(r));
        all_on(image, data, WORKLOADS.iter().filter(fits));
    }
}

#[test]
fn journal() {
    all(DataMode::Journal);
}

#[test]
fn ordered() {
    all(DataMode::Ordered);
}
