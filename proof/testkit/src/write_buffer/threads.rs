//! Writers, flushers, syncer, reclaimer and who settles, in interleavings that a seed decides, and power cuts of those.

use super::common::memory::MemoryHome;
use super::common::{env, id, options, pool, shape};
use crate::run_log::Shown;
use ondol_env::sync::atomic::{AtomicU32, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed, Progress, Step, Timestamp};
use ondol_medium::{Nvm, Pool};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_schedule::{Schedule, Task};
use ondol_write_buffer::{Buffer, BufferError, File, Home, Identity, OnDamage, recover};
use std::io::ErrorKind;

const CAPACITY: usize = 8 << 10;

/// What is longer is not written at once.
const ATOMIC: usize = 90;

fn two() -> Vec<Identity> {
    vec![id("ash"), id("birch")]
}

/// What somebody writes: so many versions, so long.
type Writes = (u8, usize);

/// What the tasks of one run share.
struct Rig {
    power: Arc<PowerDomain>,
    base: Vec<Vec<u8>>,
    buffer: Buffer,
    home: Arc<MemoryHome>,
    files: Vec<File>,
    writers: Vec<Writes>,
    /// Syncs of the home fail, now and then.
    refuses: bool,
    wrong: Mutex<Option<String>>,
    _pool: Pool,
}

impl Rig {
    fn new(blocks: u64, writers: Vec<Writes>, refuses: bool) -> Self {
        let made = pool(shape(), blocks);
        drop(Buffer::open(&made, Arc::new(MemoryHome::new()), env(), &options()).unwrap());
        let mut base = vec![made.nvm().to_bytes().unwrap()];
        base.extend(MemoryHome::media(&two(), CAPACITY));
        let power = PowerDomain::new();
        let (pool, home) = attach(&base, &power);
        let home = Arc::new(home);
        let (buffer, _) = Buffer::open(&pool, home.clone() as Arc<dyn Home>, env(), &options()).unwrap();
        let files = two().iter().map(|name| buffer.open_file(name, true).unwrap()).collect();
        let rig = Self { power, base, buffer, home, files, writers, refuses, wrong: Mutex::default(), _pool: pool };
        if refuses {
            rig.refuse_syncs();
        }
        rig
    }

    /// Every second sync fails, and one alone of those who wait for it is told. Nobody takes for durable what was lost
    /// then.
    fn refuse_syncs(&self) {
        let calls = AtomicU32::new(0);
        let fails = move |what: &str, _: Option<&Identity>| {
            (what == "sync" && calls.fetch_add(1, SeqCst).is_multiple_of(2)).then(|| ErrorKind::Other.into())
        };
        self.home.set_fault(Some(Box::new(fails)));
    }

    /// What a stage or a settle has answered: where no sync fails, nothing else does.
    fn done<T>(&self, answer: Result<T, BufferError>) -> Option<T> {
        answer
            .inspect_err(|e| {
                if !self.refuses {
                    *self.wrong.lock() = Some(e.to_string())
                }
            })
            .ok()
    }

    /// Each writer has a place of its own in each file and writes versions 1, 2, … there; it reads each of them back.
    fn writes(&self, w: usize) {
        let (versions, len) = self.writers[w];
        for version in 1..=versions {
            for (f, file) in self.files.iter().enumerate() {
                let at = place(w, f);
                file.write_at(at, &vec![version; len]).unwrap();
                self.power.mark(mark(w, f, version));
                let mut found = vec![0; len];
                let read = file.read_at(at, &mut found).unwrap();
                if read != len || found.iter().any(|b| *b != version) {
                    *self.wrong.lock() = Some(format!("writer {w} reads something else than its version {version}"));
                }
            }
        }
    }

    /// What is wrong with the buffer, and with its home once all is there.
    fn settled(&self) -> Result<(), String> {
        self.home.set_fault(None);
        let (first, second) = (self.buffer.settle(), self.buffer.settle());
        // What a sync has lost is told once.
        first.or_else(|e| if self.refuses { Ok(()) } else { Err(e) }).and(second).map_err(|e| e.to_string())?;
        if let Some(what) = self.buffer.check().into_iter().next() {
            return Err(what);
        }
        for (f, (name, bytes)) in self.home.all().into_iter().enumerate() {
            if bytes.iter().take(place(0, f) as usize).any(|b| *b != 0) {
                return Err(format!("{name}: something is there that nobody has written"));
            }
            for (w, (versions, len)) in self.writers.iter().enumerate() {
                let at = place(w, f) as usize;
                if bytes.get(at..at + len).is_none_or(|bytes| bytes.iter().any(|b| b != versions)) {
                    return Err(format!("{name}: the last version of writer {w} is not there"));
                }
            }
        }
        Ok(())
    }
}

fn attach(state: &[Vec<u8>], power: &Arc<PowerDomain>) -> (Pool, MemoryHome) {
    let nvm = Nvm::from_bytes(&state[0]).unwrap().record(power.clone(), 0);
    (Pool::open(nvm).unwrap(), MemoryHome::recorded(&state[1..], &two(), power.clone(), 1))
}

/// Where a writer has its place in a file: in the first all have a stripe of their own, in the second they share one.
fn place(w: usize, file: usize) -> u64 {
    w as u64 * [2100, 700][file] + 3
}

fn mark(writer: usize, file: usize, version: u8) -> u64 {
    (writer as u64) << 16 | (file as u64) << 8 | u64::from(version)
}

fn stepper<S: Step<Error = BufferError> + 'static>(rig: &Arc<Rig>, step: S, times: u32) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        for _ in 0..times {
            // A home that fails is tried again.
            if rig.done(step.step()).is_none_or(|progress| progress == Progress::Idle) {
                ondol_env::sync::thread::yield_now();
            }
        }
    })
}

/// What a number stands for: writers, who settles or how long each stage works, and whether syncs fail.
struct Crowd {
    writers: Vec<Writes>,
    settles: Vec<u32>,
    steps: u32,
    refuses: bool,
    blocks: u64,
}

impl Crowd {
    fn new(number: u64) -> Self {
        let random = Fixed::new(Timestamp::default(), number);
        let below = |n: u32| random.random_u32() % n;
        let writers =
            (0..1 + below(3)).map(|_| (2 + below(3) as u8, [30, ATOMIC, ATOMIC, 300, 600][below(5) as usize]));
        let writers = writers.collect();
        let settles = (0..below(4)).map(|_| 1 + below(4)).collect();
        Self { writers, settles, steps: below(3) * 4, refuses: below(4) == 0, blocks: 8 + 8 * u64::from(below(2)) }
    }

    fn rig(&self) -> Arc<Rig> {
        Arc::new(Rig::new(self.blocks, self.writers.clone(), self.refuses))
    }

    fn tasks(&self, rig: &Arc<Rig>) -> Vec<Task> {
        let mut all: Vec<Task> = Vec::new();
        for w in 0..self.writers.len() {
            let rig = rig.clone();
            all.push(Box::new(move || rig.writes(w)));
        }
        for times in self.settles.clone() {
            let rig = rig.clone();
            all.push(Box::new(move || {
                for _ in 0..times {
                    rig.done(rig.buffer.settle());
                }
            }));
        }
        if self.steps > 0 {
            all.extend(rig.buffer.flushers().into_iter().map(|flusher| stepper(rig, flusher, self.steps)));
            all.extend([
                stepper(rig, rig.buffer.syncer(), self.steps),
                stepper(rig, rig.buffer.reclaimer(), self.steps),
            ]);
        }
        all
    }
}

/// Several callers in an interleaving, both by a number, and about so many cuts of it.
pub fn threads(number: u64, about: u64) -> Shown {
    // Eight interleavings of each crowd.
    let crowd = Crowd::new(number / 8);
    let stats = Schedule::in_turn(number / 8).run(crowd.tasks(&crowd.rig())).unwrap();
    let (rig, schedule) = (crowd.rig(), Schedule::fitted_to(&stats, number));
    schedule.run(crowd.tasks(&rig)).unwrap_or_else(|e| panic!("{e}"));
    let events = rig.power.take();
    let (states, cut) = cuts(&rig, &events, number, about);
    let wrong = rig.wrong.lock().take().or(cut).or_else(|| rig.settled().err());
    Shown { states, fast: 0, wrong: wrong.map(|wrong| format!("{schedule}: {wrong}")) }
}

/// About so many states that cuts leave, and what is wrong with one.
fn cuts(rig: &Rig, events: &[Event], seed: u64, about: u64) -> (usize, Option<String>) {
    let kind = |i: usize| if i == 0 { Kind::Nvm } else { Kind::Block };
    let medium = |(i, b): (usize, &Vec<u8>)| Medium { base: Layer::new(b.clone()), kind: kind(i), whole: None };
    let media: Vec<Medium> = rig.base.iter().enumerate().map(medium).collect();
    let is_mark = |n: usize| matches!(events[n - 1], Event::Mark(_));
    let sampling = Sampling { seed, ..Sampling::default().at_most(12) }.spread(&media, events, is_mark, about);
    let (mut states, mut wrong) = (0, None);
    sampling.states(&media, events, is_mark, &mut |cut, keep| {
        states += 1;
        let state: Vec<Vec<u8>> = cut.build(&keep).iter().map(Layer::to_bytes).collect();
        wrong = judge(&rig.writers, &state, &events[..cut.events()]).err();
        wrong.is_none()
    });
    (states, wrong)
}

/// Whether each version that was acknowledged is there, or the next one.
fn judge(writers: &[Writes], state: &[Vec<u8>], happened: &[Event]) -> Result<(), String> {
    let (pool, home) = attach(state, &PowerDomain::new());
    recover(&pool, &home, OnDamage::Refuse).map_err(|e| e.to_string())?;
    for (f, name) in two().iter().enumerate() {
        let bytes = home.contents(name).unwrap_or_default();
        for (w, (_, len)) in writers.iter().enumerate() {
            let of_this = mark(w, f, 0) >> 8;
            let done = happened.iter().rev().find_map(|event| match event {
                Event::Mark(id) if id >> 8 == of_this => Some(*id as u8),
                _ => None,
            });
            let done = done.unwrap_or(0);
            let at = place(w, f) as usize;
            let of = |i: usize| bytes.get(i).copied().unwrap_or(0);
            let is_one = *len > ATOMIC || (at..at + len).all(|i| of(i) == of(at));
            if !is_one || (at..at + len).any(|i| of(i) != done && of(i) != done + 1) {
                return Err(format!("{name}, writer {w}: version {} instead of {done}", of(at)));
            }
        }
    }
    Ok(())
}
