//! Processes, threads of theirs and a drain in interleavings that a seed decides, and power cuts of those.

#[path = "../tests/power/kernel.rs"]
mod kernel;

use crate::area::Places;
use crate::format::{Header, RecordHead, checked_word, slot, slot_at};
use crate::{Call, Client, Log, LogOptions, Place, Written};
use kernel::{Kernel, OneCall, medium};
use ondol_env::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, thread};
use ondol_medium::{AreaKind, Domain, Nvm, Pool, PoolSpec};
use ondol_power::{Cut, Event, Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_schedule::{Policy, Schedule, Stats, Task};
use zerocopy::FromZeros;

/// Who shares a log.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Of a page each: nearly always full.
    lanes: u32,
    slots: u32,
    processes: usize,
    /// Of all processes.
    threads: usize,
}

/// Two threads of one process, and one lane.
const ONE: Shape = Shape { lanes: 1, slots: 4, processes: 1, threads: 2 };
/// Two processes, and a lane for each.
const TWO: Shape = Shape { lanes: 2, slots: 4, processes: 2, threads: 3 };
/// More files than slots.
const FEW: Shape = Shape { lanes: 2, slots: 2, processes: 2, threads: 3 };
const SHAPES: [Shape; 3] = [ONE, TWO, FEW];
const LANE: u64 = 4096;

impl Shape {
    /// A file of each thread, and one that they share.
    fn files(self) -> usize {
        self.threads + 1
    }

    fn pool(self) -> Vec<u8> {
        let (files, log) = (slot_at(self.lanes, self.slots), u64::from(self.lanes) * LANE);
        let areas = vec![(AreaKind::RUN_FILES, files), (AreaKind::RUN_LOG, log)];
        let spec = PoolSpec { uuid: [9; 16], areas, ..PoolSpec::default() };
        let mut pool = Pool::create(Nvm::volatile(files + log + (16 << 10)).unwrap(), &spec).unwrap();
        let LogOptions { boot, namespace } = LogOptions::here();
        let Self { lanes, slots, .. } = self;
        let header =
            Header { uuid: [9; 16], epoch: 1, resetting: false, lanes, slots, lane_len: LANE, boot, namespace };
        Places::make(&mut pool).unwrap().reset(pool.nvm(), &header).unwrap();
        pool.nvm().to_bytes().unwrap()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What the tasks of a run share.
struct Rig {
    base: Vec<u8>,
    clients: Vec<Client>,
    kernel: Mutex<Kernel>,
    /// Threads that have not ended.
    left: AtomicUsize,
    /// Syncs that ended in the log.
    fast: AtomicUsize,
}

impl Rig {
    fn new(shape: Shape, domain: Domain) -> Self {
        let living = [std::process::id(), std::os::unix::process::parent_id()];
        let kernel = Kernel::new(PowerDomain::new(), shape.files());
        Self::over(shape.pool(), shape, domain, kernel, &living[..shape.processes])
    }

    /// Processes with these numbers, in a pool that others may have left.
    fn over(base: Vec<u8>, shape: Shape, domain: Domain, kernel: Kernel, processes: &[u32]) -> Self {
        let log = Log::join(medium(&base, domain).record(Arc::clone(&kernel.power), 0)).unwrap();
        let client = |process: &u32| Client::of_process(log.clone(), *process).unwrap();
        let clients = processes.iter().map(client).collect();
        let (left, fast) = (AtomicUsize::new(shape.threads), AtomicUsize::new(0));
        Self { base, clients, kernel: Mutex::new(kernel), left, fast }
    }

    /// As the library does it.
    fn write(&self, client: &Client, call: &OneCall<'_>) {
        loop {
            let given = client.given();
            let look = call.look().unwrap();
            let Some(slot) = client.slot(&look).unwrap() else {
                call.write().unwrap();
                if client.given() != given
                    && let Some(slot) = client.find(&look).unwrap()
                {
                    client.unseen(slot).unwrap();
                }
                break;
            };
            if client.write(slot, call).unwrap() != Written::Stale {
                break;
            }
        }
        if call.durable {
            let mut kernel = self.kernel.lock();
            let mine = kernel.mine[&ondol_env::thread_number()];
            kernel.acknowledged(call.file, Some(mine));
        }
    }

    fn sync(&self, client: &Client, call: &OneCall<'_>) {
        let before = self.kernel.lock().states[call.file].len() - 1;
        match client.slot(&call.look().unwrap()).unwrap() {
            Some(slot) => drop(self.fast.fetch_add(usize::from(client.sync(slot, call).unwrap()), SeqCst)),
            None => call.sync().unwrap(),
        }
        self.kernel.lock().acknowledged(call.file, Some(before));
    }

    /// A step of a drain.
    fn drain(&self) {
        let log = self.clients[0].log();
        for slot in log.slots() {
            let incarnation = slot.load(slot::NAMED).unwrap();
            let named = slot.identity().unwrap().filter(|(named, ..)| *named == incarnation);
            if let Some((_, _, identity)) = named.filter(|_| slot.is_live().unwrap()) {
                let last = slot.load(slot::LAST).unwrap();
                self.kernel.lock().write_back(identity.handle.bytes[0].into());
                slot.retire(incarnation, last).unwrap();
            }
        }
        log.lanes().for_each(|lane| lane.advance().unwrap());
    }
}

/// Writes to a file of its own and to the one of all.
fn program(rig: &Arc<Rig>, who: usize, seed: u64) -> Task {
    let rig = Arc::clone(rig);
    Box::new(move || {
        let client = &rig.clients[who % rig.clients.len()];
        let mut random = Random(seed << 8 | who as u64);
        for n in 0..24 {
            let file = if random.below(3) == 0 { 0 } else { who + 1 };
            let bytes = vec![(n * 4 + who + 1) as u8; 1 + random.below(400) as usize];
            let (place, durable) = (Place::At(random.below(3) * 50), random.below(6) == 0);
            let call = OneCall { kernel: &rig.kernel, file, place, bytes: &bytes, durable, away: None };
            match random.below(5) {
                0..3 => rig.write(client, &call),
                _ => rig.sync(client, &call),
            }
            if random.below(3) == 0 {
                thread::yield_now();
            }
        }
        rig.left.fetch_sub(1, SeqCst);
    })
}

fn tasks(rig: &Arc<Rig>, shape: Shape, seed: u64) -> Vec<Task> {
    let drain = Arc::clone(rig);
    let drain = move || {
        while drain.left.load(SeqCst) > 0 {
            drain.drain();
            thread::yield_now();
        }
    };
    let mut tasks: Vec<Task> = (0..shape.threads).map(|who| program(rig, who, seed)).collect();
    tasks.push(Box::new(drain));
    tasks
}

fn stats(shape: Shape) -> Stats {
    Schedule::in_turn(0).run(tasks(&Arc::new(Rig::new(shape, Domain::Adr)), shape, 0)).unwrap()
}

/// What cuts of one interleaving have shown.
#[derive(Debug, Default)]
struct Shown {
    states: usize,
    fast: usize,
    wrong: Option<String>,
}

/// Every second one changes places where somebody is about to tell what he has done.
fn schedule(stats: &Stats, number: u64) -> Schedule {
    match number % 2 {
        0 => Schedule::new(Policy::Untold { depth: 2 + number as u32 / 2 % 3, places: stats.untold as u32 }, number),
        _ => Schedule::fitted(stats.steps, number / 2),
    }
}

fn explore(shape: Shape, stats: &Stats, number: u64, states: u64) -> Shown {
    let domain = if number / 2 % 4 == 3 { Domain::Eadr } else { Domain::Adr };
    let rig = Arc::new(Rig::new(shape, domain));
    let schedule = schedule(stats, number);
    schedule.run(tasks(&rig, shape, number)).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
    let rig = Arc::into_inner(rig).expect("no task has it any more");
    rig.drain();
    // No room is lost.
    rig.clients[0].log().lanes().for_each(|lane| assert_eq!(lane.used().unwrap().0, 0));
    let kernel = rig.kernel.into_inner();
    let kind = if domain == Domain::Eadr { Kind::PersistentCaches } else { Kind::Nvm };
    let events = kernel.power.take();
    let media = [Medium { base: Layer::new(rig.base), kind, whole: None }];
    let (states, wrong) = cuts(&kernel, &media, &events, domain, number, states);
    let wrong = wrong.map(|wrong| format!("{shape:?}, interleaving {number}, {schedule}: {wrong}"));
    Shown { states, fast: rig.fast.into_inner(), wrong }
}

/// So many states that cuts of a run leave, judged: how many there were, and what is wrong with one.
fn cuts(
    kernel: &Kernel,
    media: &[Medium],
    events: &[Event],
    domain: Domain,
    seed: u64,
    most: u64,
) -> (usize, Option<String>) {
    let sampling = Sampling { seed, ..Sampling::default().at_most(16) };
    let mut wrong = None;
    let built = sampling.spread(media, events, |_| false, most).each(media, events, |layers, mark| {
        if wrong.is_none() {
            wrong = kernel.judge(mark, layers, domain).err();
        }
    });
    (built, wrong)
}

/// A process is killed after so many of its steps, and another one goes on, or only a drain. Cuts of the whole.
fn killed(shape: Shape, dead: u32, stats: &Stats, number: u64) -> Option<Shown> {
    let (domain, mut random) = (Domain::Adr, Random(number));
    let kernel = Kernel::new(PowerDomain::new(), shape.files());
    let rig = Arc::new(Rig::over(shape.pool(), shape, domain, kernel, &[dead]));
    let whole = schedule(stats, number);
    let cut_short = Schedule { limit: 1 + random.below(stats.steps), ..whole };
    let ended = cut_short.run(tasks(&rig, shape, number));
    // Its tasks stay where they are for ever, with what they have locked: then the model cannot go on.
    let mut left = rig.kernel.try_lock().filter(|_| ended.is_err())?;
    let mut kernel = std::mem::replace(&mut *left, Kernel::new(PowerDomain::new(), 0));
    let before = std::mem::replace(&mut kernel.power, PowerDomain::new()).take();
    let media = [Medium { base: Layer::new(rig.base.clone()), kind: Kind::Nvm, whole: None }];
    let seen = Cut::after(&media, &before).everything().remove(0).to_bytes();
    let rig = Arc::new(Rig::over(seen, shape, domain, kernel, &[std::process::id()]));
    if !number.is_multiple_of(3) {
        whole.run(tasks(&rig, shape, number + 1)).unwrap_or_else(|e| panic!("{shape:?} {number}: {e}"));
    }
    let rig = Arc::into_inner(rig).expect("no task has it any more");
    rig.drain();
    rig.clients[0].log().lanes().for_each(|lane| assert_eq!(lane.used().unwrap().0, 0, "{shape:?} {number}"));
    let kernel = rig.kernel.into_inner();
    // A fence completes nothing of whoever is dead.
    let others = kernel.power.take().into_iter().map(|event| match event {
        Event::Store { medium, thread, offset, bytes } => Event::Store { medium, thread: thread + 64, offset, bytes },
        Event::WriteBack { medium, thread, offset, len } => {
            Event::WriteBack { medium, thread: thread + 64, offset, len }
        }
        Event::Fence { thread } => Event::Fence { thread: thread + 64 },
        event => event,
    });
    let events: Vec<Event> = before.iter().cloned().chain(others).collect();
    let (states, wrong) = cuts(&kernel, &media, &events, domain, number, 300);
    let wrong = wrong.map(|wrong| format!("{shape:?}, {number}, {cut_short} of {}: {wrong}", cut_short.limit));
    Some(Shown { states, fast: rig.fast.into_inner(), wrong })
}

/// How many interleavings are tried.
fn count(usual: u64) -> u64 {
    let hunt = if std::env::var_os("ONDOL_HUNT").is_some() { 10 * usual } else { usual };
    std::env::var("ONDOL_RUN_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(hunt)
}

#[test]
fn what_is_killed_anywhere_takes_nothing_with_it() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let (mut tried, mut states) = (0, 0);
    for shape in [ONE, Shape { threads: 2, processes: 1, ..FEW }] {
        let stats = stats(shape);
        for shown in (0..count(60)).filter_map(|number| killed(shape, child.id(), &stats, number)) {
            assert_eq!(shown.wrong, None);
            (tried, states) = (tried + 1, states + shown.states);
        }
    }
    println!("{tried} kills, {states} states");
    assert!(tried > count(60), "only {tried} kills");
}

/// A killed process has stored that records are retired, and not fenced it.
#[test]
fn what_is_seen_when_a_pool_is_opened_is_durable() {
    let power = PowerDomain::new();
    let base = ONE.pool();
    let nvm = medium(&base, Domain::Adr).record(Arc::clone(&power), 0);
    let mut pool = Pool::open(nvm).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let slot = log.slot(0);
    let word = checked_word(log.seal, &[0, 1], 7);
    slot.set(slot::RETIRED, word).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    assert_eq!(log.slot(0).retired(1).stored().unwrap().value, 7);
    let media = [Medium { base: Layer::new(base), kind: Kind::Nvm, whole: None }];
    let events = power.take();
    let cut = Cut::after(&media, &events);
    assert_eq!(cut.items().len(), 0, "all of it is durable");
}

/// Whoever is killed between two words of a slot leaves the end of a record with another lane.
#[test]
fn an_end_of_another_lane_makes_no_later_record_count_as_durable() {
    let (power, base) = (PowerDomain::new(), TWO.pool());
    let log = Log::join(medium(&base, Domain::Adr).record(Arc::clone(&power), 0)).unwrap();
    let client = Client::new(log.clone()).unwrap();
    let (me, slot) = (client.me(std::process::id()).unwrap(), log.slot(0));
    slot.set(slot::NAME_LANE, 1).unwrap();
    slot.set(slot::NAME_END, 1024).unwrap();
    client.persist_name(&slot).unwrap();
    let lane = log.lane(1);
    let end = lane.append(me, RecordHead::new_zeroed(), &[b"acknowledged"]).unwrap().unwrap();
    lane.persist(end).unwrap();
    power.mark(1);
    let media = [Medium { base: Layer::new(base), kind: Kind::Nvm, whole: None }];
    let states = Sampling::default().each(&media, &power.take(), |layers, mark| {
        let log = Log::join(medium(&layers[0].to_bytes(), Domain::Adr)).unwrap();
        assert!(mark == 0 || log.lane(1).record(0).unwrap().is_some());
    });
    assert!(states > 0);
}

/// `ONDOL_RUN_SCHEDULES` for longer hunts.
#[test]
fn what_was_acknowledged_is_found_after_a_cut_of_any_interleaving() {
    let count = count(100);
    let (mut states, mut fast) = (0, 0);
    for shape in SHAPES {
        let stats = stats(shape);
        for number in 0..count {
            let shown = explore(shape, &stats, number, 300);
            assert_eq!(shown.wrong, None);
            (states, fast) = (states + shown.states, fast + shown.fast);
        }
        println!("{shape:?}: {stats:?}, {states} states, {fast} fast syncs");
    }
    assert!(fast as u64 > count * 6, "only {fast} syncs ended in the log");
}
