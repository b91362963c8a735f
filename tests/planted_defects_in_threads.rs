//! Planted defects that only a second thread shows are found, and where none is planted nothing is: two tasks under a schedule
//! that a seed decides, and then a crash at every event of theirs.
//!
//! `ONDOL_PLANT=name` picks one, `ONDOL_SCHEDULES=1000` tries more schedules, `ONDOL_SHOW=1` prints how it was found.

use ondol::{Caller, DataMode, Fallocate, Ino, JournalEngine, Options, ROOT, SetAttr, SetXattr, Volume};
use ondol_block::{BlockStore, LayerStore, Recorder};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_laboratory::explore::{Limits, Watch, explore};
use ondol_laboratory::{Description, VolumeRun};
use ondol_power::{Event, Kind, Layer, Medium, Pages, PowerDomain, Sampling};
use ondol_testkit::dump::{self, Snapshot};
use ondol_testkit::image::{self, Spec};
use ondol_testkit::op::Path;
use ondol_testkit::schedule::{Policy, Schedule, Task};
use ondol_tests::parameter;

type Outcome = Result<(), ondol_volume::Error>;

/// A defect that takes two threads.
struct Threaded {
    defect: Defect,
    engine: JournalEngine,
    data: DataMode,
    /// Choices of a schedule in which the tasks change places.
    steps: u32,
    /// The seed to begin with: not far from one that shows it.
    seed: u64,
    /// What is done before there are threads.
    before: fn(&Volume) -> Outcome,
    tasks: [fn(&Volume) -> Outcome; 2],
    /// What must hold of a volume: after a crash and recovery, or at the end. The image is sound in any case.
    holds: fn(&Snapshot, When) -> Result<(), String>,
}

/// When a volume is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Crashed,
    /// All calls have returned.
    End,
}

const THREADED: &[Threaded] = &[
    Threaded {
        defect: Defect::TornPublish,
        engine: CLASSIC,
        data: DataMode::Ordered,
        steps: 130,
        seed: 0,
        before: |_| Ok(()),
        tasks: [
            |v| ["a", "b", "c"].iter().try_for_each(|name| create(v, name).map(drop)),
            |v| (0..30).try_for_each(|_| v.inodes().sync()),
        ],
        holds: |_, _| Ok(()),
    },
    Threaded {
        defect: Defect::UnwrittenLate,
        engine: CLASSIC,
        data: DataMode::Ordered,
        steps: 100,
        seed: 10,
        before: |v| {
            write(v, "old", OLD, 9000)?;
            v.inodes().sync()?;
            v.inodes().unlink(ROOT, b"old")?;
            v.inodes().sync()?;
            v.inodes().fallocate(create(v, "a")?, Fallocate::Allocate, 0, 9000)?;
            v.inodes().sync()
        },
        tasks: [|v| write(v, "a", NEW, 9000), |v| v.inodes().sync()],
        holds: |found, _| bytes_are(found, "/a", &[0, NEW]),
    },
    Threaded {
        defect: Defect::ReuseDuringCheckpoint,
        engine: CLASSIC,
        data: DataMode::Ordered,
        steps: 200,
        seed: 130,
        before: |v| {
            create(v, "b")?;
            create(v, "full")?;
            v.inodes().mkdir(ROOT, b"d", 0o755, Caller::default())?;
            fill(v)?;
            crowd(v)
        },
        tasks: [checkpoint, |v| {
            v.inodes().rmdir(ROOT, b"d")?;
            v.inodes().sync()?;
            write(v, "b", NEW, 1024)?;
            v.inodes().sync()
        }],
        holds: |found, _| bytes_are(found, "/b", &[NEW]),
    },
    Threaded {
        defect: Defect::LostNewerImage,
        engine: CLASSIC,
        data: DataMode::Ordered,
        steps: 200,
        seed: 10,
        before: crowd,
        tasks: [checkpoint, |v| {
            v.inodes().setattr(ROOT, &SetAttr { uid: Some(1), ..SetAttr::default() })?;
            v.inodes().sync()
        }],
        holds: |found, when| match found.get(&Path::root()).ok_or("no root")?.uid {
            1 => Ok(()),
            0 if when == When::Crashed => Ok(()),
            uid => Err(format!("the root belongs to {uid}")),
        },
    },
    Threaded {
        defect: Defect::PromiseInGap,
        engine: CLASSIC,
        data: DataMode::Journal,
        steps: 700,
        seed: 94,
        before: |v| {
            // What is left of the log is enough for the running transaction, and not for that and the other task's.
            change_root(v, 262)?;
            ["a", "b", "c"].iter().try_for_each(|name| write(v, name, OLD, 60_000))
        },
        tasks: [
            |v| v.inodes().sync(),
            |v| {
                write(v, "d", NEW, 60_000)?;
                v.inodes().sync()
            },
        ],
        holds: |_, _| Ok(()),
    },
    Threaded {
        defect: Defect::EarlyForget,
        engine: CLASSIC,
        data: DataMode::Ordered,
        steps: 200,
        seed: 8,
        before: |v| {
            let ino = create(v, "a")?;
            v.inodes().sync()?;
            // A block of its own, which only the running transaction holds.
            v.inodes().setxattr(ino, b"user.x", &[NEW; 600], SetXattr::Any)
        },
        tasks: [|v| v.inodes().removexattr(v.inodes().lookup(ROOT, b"a")?.ino, b"user.x"), |v| v.inodes().sync()],
        holds: |_, _| Ok(()),
    },
    Threaded {
        defect: Defect::UnawaitedStaging,
        engine: JournalEngine::Compressed,
        data: DataMode::Journal,
        steps: 200,
        seed: 70,
        before: |v| {
            create(v, "a")?;
            v.inodes().sync()?;
            write(v, "a", OLD, 70_000)
        },
        tasks: [
            // Takes a hand in writing what was to be written before.
            |v| create(v, "b").map(drop),
            |v| {
                write(v, "a", NEW, 70_000)?;
                v.inodes().sync()
            },
        ],
        holds: |found, when| bytes_are(found, "/a", if when == When::End { &[NEW] } else { &[OLD, NEW] }),
    },
];

/// What most of them are shown with.
const CLASSIC: JournalEngine = JournalEngine::Classic;

const OLD: u8 = 0xEE;
const NEW: u8 = 0x11;

fn create(volume: &Volume, name: &str) -> Result<Ino, ondol_volume::Error> {
    Ok(volume.inodes().create(ROOT, name.as_bytes(), 0o644, Caller::default())?.ino)
}

fn write(volume: &Volume, name: &str, byte: u8, len: usize) -> Outcome {
    let ino = match volume.inodes().lookup(ROOT, name.as_bytes()) {
        Ok(attr) => attr.ino,
        Err(_) => create(volume, name)?,
    };
    volume.inodes().write(ino, 0, &vec![byte; len]).map(drop)
}

/// Gives all free blocks to one file, but for those that only deleting may take.
fn fill(volume: &Volume) -> Outcome {
    let ino = volume.inodes().lookup(ROOT, b"full")?.ino;
    let mut at = 0;
    for len in (0..13).rev().map(|n| 1024u64 << n) {
        while volume.inodes().fallocate(ino, Fallocate::KeepSize, at, len).is_ok() {
            at += len;
        }
    }
    volume.inodes().sync()
}

/// So many transactions, of three blocks each.
fn change_root(volume: &Volume, times: u16) -> Outcome {
    (0..times).try_for_each(|i| {
        volume.inodes().setattr(ROOT, &SetAttr { perm: Some(0o700 + i % 8), uid: Some(0), ..SetAttr::default() })?;
        volume.inodes().sync()
    })
}

/// Fills more than half of the log: a checkpoint is due then.
fn crowd(volume: &Volume) -> Outcome {
    change_root(volume, 200)
}

fn checkpoint(volume: &Volume) -> Outcome {
    volume.step_until_idle().map_err(|_| ondol_volume::Error::Invalid("a background step failed"))
}

fn bytes_are(found: &Snapshot, path: &str, allowed: &[u8]) -> Result<(), String> {
    let content = &found.get(&Path::new(path)?).ok_or_else(|| format!("{path} is gone"))?.content;
    match (0..content.len()).find(|at| !allowed.contains(&content.byte(*at))) {
        Some(at) => Err(format!("{path}: byte {at} is {:#04x}, which nobody has written there", content.byte(at))),
        None => Ok(()),
    }
}

/// What the tasks of a schedule wrote.
struct Recorded {
    media: [Medium; 1],
    events: Vec<Event>,
    log: Pages,
    options: Options,
    holds: fn(&Snapshot, When) -> Result<(), String>,
}

fn open(store: Arc<dyn BlockStore>, options: &Options) -> Result<Volume, String> {
    Volume::open_stepped(store, options, image::clock(1)).map_err(|e| format!("cannot be opened: {e}"))
}

fn snapshot(volume: &Volume) -> Result<Snapshot, String> {
    dump::of_volume(volume.inodes()).map_err(|e| e.to_string())
}

impl VolumeRun for Recorded {
    type Found = ();

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn log(&self) -> &Pages {
        &self.log
    }

    fn opening(&self) -> (&Options, u64) {
        (&self.options, 1)
    }

    fn compare(&self, found: &Snapshot, _: usize) -> Result<(), String> {
        (self.holds)(found, When::Crashed)
    }

    fn still_allowed(&self, (): &(), _: usize) -> bool {
        true
    }

    fn is_narrowed(&self, _: usize) -> bool {
        false
    }

    fn describe(&self) -> Description {
        Description::default()
    }
}

/// Runs the tasks, and says what is wrong then or after any crash since they began.
fn look(threaded: &Threaded, image: &Layer, schedule: Schedule) -> Result<(), String> {
    // Room for all that the log can hold: no checkpoint comes before its time.
    let options = image::options(threaded.data).with_journal(threaded.engine).with_cache(8 << 20);
    let options = if threaded.engine == CLASSIC { options } else { options.with_dirty(64 << 10) };
    let domain = PowerDomain::new();
    let medium = Arc::new(Recorder::new(LayerStore::new(image.clone()), 0, domain.clone()));
    let volume = Arc::new(open(medium.clone(), &options)?);
    (threaded.before)(&volume).map_err(|e| e.to_string())?;
    medium.flush().map_err(|e| e.to_string())?;
    drop(domain.take());
    let base = medium.inner().layer();
    let task = |task: fn(&Volume) -> Outcome| -> Task {
        let volume = volume.clone();
        Box::new(move || task(&volume).unwrap_or_else(|e| panic!("{e}")))
    };
    schedule.run(threaded.tasks.map(task).into()).map_err(|e| e.to_string())?;
    (threaded.holds)(&snapshot(&volume)?, When::End)?;
    let volume = Arc::into_inner(volume).ok_or("a task has kept the volume")?;
    volume.close().map_err(|e| format!("cannot be closed: {e}"))?;
    let closed = Arc::new(LayerStore::new(medium.inner().layer()));
    (threaded.holds)(&snapshot(&open(closed, &options)?)?, When::End)?;
    let media = [Medium { base, kind: Kind::Block, whole: Some(1024..2048) }];
    let recorded = Recorded { media, events: domain.take(), log: Pages::default(), options, holds: threaded.holds };
    let sampling = Sampling { all_of: 64, samples: 4, torn: 2, extremes: 4, ..Sampling::default() };
    let limits = Limits { sampling, depth: 0, second_opinion_every: 0, ..Limits::default() };
    let report = explore(&recorded, &limits, &Watch::default());
    report.violations.first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

#[test]
fn each_and_nothing_else() {
    let only = std::env::var("ONDOL_PLANT").ok();
    let image = Layer::new(Spec::small().make().unwrap());
    for threaded in THREADED.iter().filter(|t| only.as_deref().is_none_or(|o| o == t.defect.name())) {
        let defect = threaded.defect;
        let schedules = (0..parameter("ONDOL_SCHEDULES", 400)).map(|i| threaded.seed + i).flat_map(|seed| {
            let priorities = Policy::Priorities { depth: 3, steps: threaded.steps };
            [Schedule::new(Policy::Random, seed), Schedule::new(priorities, seed)]
        });
        let mut found = None;
        for schedule in schedules {
            if let Err(what) = look(threaded, &image, schedule) {
                panic!("without {defect}, schedule {schedule}: {what}");
            }
            let _planted = plant::set(Some(defect)).unwrap();
            if let Err(what) = look(threaded, &image, schedule) {
                found = Some((schedule, what));
                break;
            }
        }
        let (schedule, what) = found.unwrap_or_else(|| panic!("{defect} is not found"));
        if parameter("ONDOL_SHOW", 0) > 0 {
            println!("{defect}, schedule {schedule}: {what}");
        }
    }
}
