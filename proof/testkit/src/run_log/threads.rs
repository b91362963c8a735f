//! Processes, threads of theirs and a drain in interleavings that a seed decides, and power cuts of those.

use super::kernel::{Disk, Kernel, OneCall, medium};
use super::program::cut;
use super::{Random, Shown};
use ondol_env::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, thread};
use ondol_medium::Domain;
use ondol_power::{Cut, Event, Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_run_log::{Call, Client, Drain, Log, Place, WriteCall, Written, rigs};
use ondol_schedule::{Policy, Schedule, Stats, Task};

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
const LANE: u64 = 4096;

impl Shape {
    /// A file of each thread, and one that they share.
    fn files(self) -> usize {
        self.threads + 1
    }

    fn pool(self) -> Vec<u8> {
        rigs::pool(self.lanes, self.slots, LANE).unwrap()
    }
}

/// What the tasks of a run share.
struct Rig {
    base: Vec<u8>,
    clients: Vec<Client>,
    kernel: Arc<Mutex<Kernel>>,
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
        Self { base, clients, kernel: Arc::new(Mutex::new(kernel)), left, fast }
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

    /// Of a file that has no slot nobody cuts anything.
    fn cut(&self, client: &Client, call: &OneCall<'_>, len: u64) {
        if let Some(slot) = client.slot(&call.look().unwrap()).unwrap() {
            self.kernel.lock().begins_to_cut(call.file, len as usize);
            cut(client, slot, call, len).unwrap();
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

    /// A drain.
    fn drain(&self) -> Drain<Disk> {
        Drain::over(self.clients[0].log().clone(), Disk(Arc::clone(&self.kernel))).unwrap()
    }
}

/// Writes to a file of its own and to the one of all, and in every second program cuts them.
fn program(rig: &Arc<Rig>, who: usize, seed: u64) -> Task {
    let rig = Arc::clone(rig);
    Box::new(move || {
        let client = &rig.clients[who % rig.clients.len()];
        let (mut random, is_cut) = (Random(seed << 8 | who as u64), seed / 2 % 2 == 1);
        for n in 0..24 {
            let file = if random.below(3) == 0 { 0 } else { who + 1 };
            let bytes = vec![(n * 4 + who + 1) as u8; 1 + random.below(400) as usize];
            let (place, durable) = (Place::At(random.below(3) * 50), random.below(6) == 0);
            let call = OneCall { kernel: &rig.kernel, file, place, bytes: &bytes, durable, away: None };
            match random.below(5) {
                _ if is_cut && random.below(6) == 0 => rig.cut(client, &call, random.below(300)),
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
        let mut draining = drain.drain();
        while drain.left.load(SeqCst) > 0 {
            draining.step(true).unwrap();
            thread::yield_now();
        }
    };
    let mut tasks: Vec<Task> = (0..shape.threads).map(|who| program(rig, who, seed)).collect();
    tasks.push(Box::new(drain));
    tasks
}

/// Shapes of programs that share a log, each with what its schedules are fitted to.
#[derive(Debug)]
pub struct Interleaved(Vec<(Shape, Stats)>);

impl Interleaved {
    /// Threads of one process and of two, with more slots than files and fewer.
    pub fn new() -> Self {
        Self::over(&[ONE, TWO, FEW])
    }

    /// Threads of one process, which is killed.
    pub fn alone() -> Self {
        Self::over(&[ONE, Shape { threads: 2, processes: 1, ..FEW }])
    }

    fn over(shapes: &[Shape]) -> Self {
        let of = |shape: &Shape| {
            Schedule::in_turn(0).run(tasks(&Arc::new(Rig::new(*shape, Domain::Adr)), *shape, 0)).unwrap()
        };
        Self(shapes.iter().map(|shape| (*shape, of(shape))).collect())
    }

    /// An interleaving by number, and so many states that cuts of it leave.
    pub fn explore(&self, number: u64, states: u64) -> Shown {
        let (shape, stats) = &self.0[number as usize % self.0.len()];
        explore(*shape, stats, number / self.0.len() as u64, states)
    }

    /// As [`Interleaved::explore`], of a process that is killed after some of its steps, and of what goes on then.
    /// `dead` is the number of a process that is no more. None where it dies with what the model needs.
    pub fn kill(&self, dead: u32, number: u64) -> Option<Shown> {
        let (shape, stats) = &self.0[number as usize % self.0.len()];
        killed(*shape, dead, stats, number / self.0.len() as u64)
    }
}

impl Default for Interleaved {
    fn default() -> Self {
        Self::new()
    }
}

/// Every second one changes places where somebody is about to tell what he has done.
fn schedule(stats: &Stats, number: u64) -> Schedule {
    match number % 2 {
        0 => Schedule::new(Policy::Untold { depth: 2 + number as u32 / 2 % 3, places: stats.untold as u32 }, number),
        _ => Schedule::fitted(stats.steps, number / 2),
    }
}

fn explore(shape: Shape, stats: &Stats, number: u64, states: u64) -> Shown {
    let domain = match number / 2 % 8 {
        3 => Domain::Eadr,
        7 => Domain::Msync,
        _ => Domain::Adr,
    };
    let rig = Arc::new(Rig::new(shape, domain));
    let schedule = schedule(stats, number);
    schedule.run(tasks(&rig, shape, number)).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
    rig.drain().step(true).unwrap();
    let rig = Arc::into_inner(rig).expect("no task has it any more");
    // No room is lost.
    assert_eq!(rigs::used(rig.clients[0].log()).unwrap(), 0);
    let kernel = Arc::into_inner(rig.kernel).expect("the drain is gone").into_inner();
    let events = kernel.power.take();
    let media = [Medium { base: Layer::new(rig.base), kind: domain.crashes_as(), whole: None }];
    let (states, wrong) = kernel.cuts(&media, &events, domain, number, states);
    let wrong = wrong.map(|wrong| format!("{shape:?}, interleaving {number}, {schedule}: {wrong}"));
    Shown { states, fast: rig.fast.into_inner(), wrong }
}

impl Kernel {
    /// So many states that cuts of a run leave, judged: how many there were, and what is wrong with one.
    fn cuts(
        &self,
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
                wrong = self.judge(mark, layers, domain).err();
            }
        });
        (built, wrong)
    }
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
    rig.drain().step(true).unwrap();
    let rig = Arc::into_inner(rig).expect("no task has it any more");
    assert_eq!(rigs::used(rig.clients[0].log()).unwrap(), 0, "{shape:?} {number}");
    let kernel = Arc::into_inner(rig.kernel).expect("the drain is gone").into_inner();
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
    let (states, wrong) = kernel.cuts(&media, &events, domain, number, 300);
    let wrong = wrong.map(|wrong| format!("{shape:?}, {number}, {cut_short} of {}: {wrong}", cut_short.limit));
    Some(Shown { states, fast: rig.fast.into_inner(), wrong })
}
