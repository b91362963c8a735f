//! Writers, flushers, syncer and reclaimer in interleavings that a seed decides, and power cuts of those.

use crate::common::memory::MemoryHome;
use crate::common::{env, id, medium_size, options, pool, shape};
use ondol_env::sync::atomic::{AtomicU32, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Progress, Step};
use ondol_faults::Defect;
use ondol_medium::{Nvm, Pool};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_schedule::{Schedule, Task};
use ondol_write_buffer::{Buffer, BufferError, File, Home, Identity, OnDamage, recover};
use std::io::ErrorKind;

const CAPACITY: usize = 8 << 10;
const LEN: usize = 90;

fn two() -> Vec<Identity> {
    vec![id("ash"), id("birch")]
}

/// What the tasks of one run share.
struct Rig {
    power: Arc<PowerDomain>,
    base: Vec<Vec<u8>>,
    buffer: Buffer,
    home: Arc<MemoryHome>,
    files: Vec<File>,
    _pool: Pool,
}

impl Rig {
    fn new(blocks: u64) -> Self {
        let made = pool(shape(), blocks);
        drop(Buffer::open(&made, Arc::new(MemoryHome::new()), env(), &options()).unwrap());
        let mut base = vec![made.nvm().to_bytes().unwrap()];
        assert_eq!(base[0].len() as u64, medium_size(shape(), blocks));
        base.extend(MemoryHome::media(&two(), CAPACITY));
        let power = PowerDomain::new();
        let (pool, home) = attach(&base, &power);
        let home = Arc::new(home);
        let (buffer, _) = Buffer::open(&pool, home.clone() as Arc<dyn Home>, env(), &options()).unwrap();
        let files = two().iter().map(|name| buffer.open_file(name, true).unwrap()).collect();
        Self { power, base, buffer, home, files, _pool: pool }
    }
}

impl Rig {
    /// Nothing is recorded of its home, which can have any files.
    fn plain(blocks: u64) -> Self {
        let pool = pool(shape(), blocks);
        let home = Arc::new(MemoryHome::new());
        let (buffer, _) = Buffer::open(&pool, home.clone() as Arc<dyn Home>, env(), &options()).unwrap();
        Self { power: PowerDomain::new(), base: Vec::new(), buffer, home, files: Vec::new(), _pool: pool }
    }
}

fn attach(state: &[Vec<u8>], power: &Arc<PowerDomain>) -> (Pool, MemoryHome) {
    let nvm = Nvm::from_bytes(&state[0]).unwrap().record(power.clone(), 0);
    (Pool::open(nvm).unwrap(), MemoryHome::recorded(&state[1..], &two(), power.clone(), 1))
}

/// Where a writer has its place in a file: in the first all have a stripe of their own, in the second they share one.
fn place(w: u64, file: usize) -> u64 {
    w * [2100, 700][file] + 3
}

/// Writer `w` has a place of its own in each file and writes versions 1, 2, … there; it reads each of them back.
fn writer(rig: &Arc<Rig>, w: u64, versions: u8, len: usize) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        for version in 1..=versions {
            for (f, file) in rig.files.iter().enumerate() {
                let at = place(w, f);
                file.write_at(at, &vec![version; len]).unwrap();
                rig.power.mark(mark(w, f as u64, version));
                let mut found = vec![0; len];
                assert_eq!(file.read_at(at, &mut found).unwrap(), len);
                assert!(found.iter().all(|b| *b == version), "writer {w} reads its version {version} of file {f}");
            }
        }
    })
}

fn mark(writer: u64, file: u64, version: u8) -> u64 {
    writer << 16 | file << 8 | u64::from(version)
}

fn stepper<S: Step<Error = BufferError> + 'static>(step: S, times: usize) -> Task {
    Box::new(move || {
        for _ in 0..times {
            if step.step().unwrap() == Progress::Idle {
                ondol_env::sync::thread::yield_now();
            }
        }
    })
}

fn settler(rig: &Arc<Rig>, times: usize) -> Task {
    let buffer = rig.buffer.clone();
    Box::new(move || (0..times).for_each(|_| buffer.settle().unwrap()))
}

/// Every stage and two writers, in a buffer that is nearly always full.
fn crowd(rig: &Arc<Rig>) -> Vec<Task> {
    let mut tasks = vec![writer(rig, 0, 4, LEN), writer(rig, 1, 4, 300), writer(rig, 2, 3, 600)];
    for flusher in rig.buffer.flushers() {
        tasks.push(stepper(flusher, 6));
    }
    tasks.push(stepper(rig.buffer.syncer(), 6));
    tasks.push(stepper(rig.buffer.reclaimer(), 6));
    tasks
}

/// Two who settle meanwhile: flushes of one fall into syncs of the other.
fn settlers(rig: &Arc<Rig>) -> Vec<Task> {
    vec![writer(rig, 0, 3, LEN), writer(rig, 1, 2, LEN), settler(rig, 4), settler(rig, 4), settler(rig, 2)]
}

/// Runs interleavings; after each the files hold the last versions, in the buffer and then at home.
fn run_all(count: u64, blocks: u64, tasks: impl Fn(&Arc<Rig>) -> Vec<Task>, judge: impl Fn(&Rig, u64)) {
    run_all_of(count, || Arc::new(Rig::new(blocks)), tasks, judge);
}

fn run_all_of(
    count: u64,
    make: impl Fn() -> Arc<Rig>,
    tasks: impl Fn(&Arc<Rig>) -> Vec<Task>,
    judge: impl Fn(&Rig, u64),
) {
    let rig = make();
    let steps = Schedule::in_turn(0).run(tasks(&rig)).unwrap().steps;
    for number in 0..count {
        let rig = make();
        let tasks = tasks(&rig);
        if let Err(e) = Schedule::fitted(steps, number).run(tasks) {
            panic!("{e}");
        }
        assert_eq!(rig.buffer.check(), Vec::<String>::new(), "interleaving {number}");
        judge(&rig, number);
    }
}

fn check_contents(rig: &Rig, number: u64) {
    rig.buffer.settle().unwrap();
    for (f, (name, bytes)) in rig.home.all().into_iter().enumerate() {
        for (w, versions, len) in [(0, 4u8, LEN), (1, 4, 300), (2, 3, 600)] {
            let at = place(w, f) as usize;
            assert!(bytes[at..at + len].iter().all(|b| *b == versions), "interleaving {number}: {name}, writer {w}");
        }
        assert_eq!(bytes[0..3], [0; 3]);
    }
}

#[test]
fn writers_and_stages_in_any_order() {
    run_all(600, 8, crowd, check_contents);
}

/// Files are opened, written, removed, closed and settled by several at once.
#[test]
fn names_in_any_order() {
    let names = |rig: &Arc<Rig>| -> Vec<Task> {
        let comer = |name: &'static str, value: u8| -> Task {
            let buffer = rig.buffer.clone();
            Box::new(move || {
                for _ in 0..3 {
                    let file = buffer.open_file(&id(name), true).unwrap();
                    match file.write_at(0, &[value; 50]) {
                        Ok(()) | Err(BufferError::Removed(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        };
        let remover = |name: &'static str| -> Task {
            let buffer = rig.buffer.clone();
            Box::new(move || {
                for _ in 0..2 {
                    match buffer.remove(&id(name)) {
                        Ok(()) | Err(BufferError::NotFound(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        };
        vec![comer("cedar", 1), comer("cedar", 2), remover("cedar"), settler(rig, 2), remover("cedar"), comer("oak", 3)]
    };
    run_all_of(
        300,
        || Arc::new(Rig::plain(8)),
        names,
        |rig, number| {
            rig.buffer.settle().unwrap();
            let home = rig.home.all();
            let cedar = home.get(&id("cedar"));
            let is_one = |b: &Vec<u8>| b.is_empty() || b.as_slice() == [1; 50] || b.as_slice() == [2; 50];
            assert!(cedar.is_none_or(is_one), "interleaving {number}");
            assert_eq!(home.get(&id("oak")).unwrap(), &[3; 50]);
        },
    );
}

/// Cuts of one interleaving in which an acknowledged version is not there.
fn wrong_cuts(rig: &Rig, seed: u64) -> Vec<String> {
    let events = rig.power.take();
    let kind = |i: usize| if i == 0 { Kind::Nvm } else { Kind::Block };
    let medium = |(i, b): (usize, &Vec<u8>)| Medium { base: Layer::new(b.clone()), kind: kind(i), whole: None };
    let media: Vec<Medium> = rig.base.iter().enumerate().map(medium).collect();
    let wrong = Mutex::new(Vec::new());
    let sampling = Sampling { seed, ..Sampling::default().at_most(12) }.spread(
        &media,
        &events,
        |n| matches!(events[n - 1], Event::Mark(_)),
        300,
    );
    sampling.states(&media, &events, |_| false, &mut |cut, keep| {
        let state: Vec<Vec<u8>> = cut.build(&keep).iter().map(Layer::to_bytes).collect();
        let (pool, home) = attach(&state, &PowerDomain::new());
        if let Err(e) = recover(&pool, &home, OnDamage::Refuse) {
            wrong.lock().push(e.to_string());
            return true;
        }
        for (f, name) in two().iter().enumerate() {
            for w in 0..2 {
                let is_mine = |id: &&u64| **id >> 8 == mark(w, f as u64, 0) >> 8;
                let marks: Vec<u64> = events[..cut.events()]
                    .iter()
                    .filter_map(|e| if let Event::Mark(id) = e { Some(*id) } else { None })
                    .collect();
                let done = marks.iter().rfind(is_mine).map_or(0, |id| *id as u8);
                let bytes = home.contents(name).unwrap_or_default();
                let at = place(w, f) as usize;
                let of = |i: usize| bytes.get(i).copied().unwrap_or(0);
                let found = of(at);
                let is_one = (at..at + LEN).all(|i| of(i) == found);
                if !is_one || (found != done && found != done + 1) {
                    wrong.lock().push(format!("{name}, writer {w}: version {found} instead of {done}"));
                }
            }
        }
        true
    });
    wrong.into_inner()
}

#[test]
fn cuts_of_interleavings() {
    run_all(60, 16, settlers, |rig, number| assert_eq!(wrong_cuts(rig, number), Vec::<String>::new(), "{number}"));
}

/// Of several who sync a file, one alone is told that the home has failed. Nobody takes for durable what was lost then.
#[test]
fn cuts_of_interleavings_with_failing_syncs() {
    let tasks = |rig: &Arc<Rig>| -> Vec<Task> {
        let calls = AtomicU32::new(0);
        let fails = move |what: &str, _: Option<&Identity>| {
            (what == "sync" && calls.fetch_add(1, SeqCst).is_multiple_of(2)).then(|| ErrorKind::Other.into())
        };
        rig.home.set_fault(Some(Box::new(fails)));
        let settler = || -> Task {
            let buffer = rig.buffer.clone();
            Box::new(move || (0..4).for_each(|_| drop(buffer.settle())))
        };
        vec![writer(rig, 0, 3, LEN), writer(rig, 1, 2, LEN), settler(), settler(), settler()]
    };
    run_all(60, 16, tasks, |rig, number| assert_eq!(wrong_cuts(rig, number), Vec::<String>::new(), "{number}"));
}

#[test]
fn defects_that_need_an_interleaving_are_found() {
    for defect in [Defect::BufferLateSyncPoint, Defect::BufferForgottenOverwrite] {
        let planted = ondol_faults::set(Some(defect)).unwrap();
        let found = Mutex::new(0);
        run_all_planted(1500, &found);
        drop(planted);
        assert!(*found.lock() > 0, "{defect}");
    }
}

/// As [`run_all`], until something is wrong.
fn run_all_planted(count: u64, found: &Mutex<usize>) {
    let rig = Arc::new(Rig::new(16));
    let steps = Schedule::in_turn(0).run(settlers(&rig)).unwrap().steps;
    for number in 0..count {
        let rig = Arc::new(Rig::new(16));
        Schedule::fitted(steps, number).run(settlers(&rig)).unwrap();
        let wrong = wrong_cuts(&rig, number).len();
        *found.lock() += wrong;
        if wrong > 0 {
            return;
        }
    }
}
