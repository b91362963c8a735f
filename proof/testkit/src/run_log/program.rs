//! Random calls by two processes, one after the other, and power cuts of those.

use super::kernel::{Disk, Kernel, OneCall, medium};
use super::{Random, Shown};
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{Domain, Nvm, Pool, PoolSpec};
use ondol_power::{Layer, Medium, PowerDomain, Sampling};
use ondol_run_log::{Call, Client, Drain, Log, LogOptions, Place, SlotKey, Times, Written};
use rustix::fs::Timespec;

/// The pool: room for a few records, so that lanes run over and wrap.
const POOL: u64 = 2 << 20;

/// What a run did.
struct Run {
    kernel: Kernel,
    base: Vec<u8>,
    fast: usize,
}

/// Cuts a file, or extends it: past the log, or in it. An error is what the disk has refused before.
pub(super) fn cut(client: &Client, slot: SlotKey, call: &OneCall<'_>, len: u64) -> Result<(), ()> {
    let change = || {
        let mut k = call.kernel.lock();
        k.cut(call.file, len as usize);
        // A commit of the kernel's at once.
        if len.is_multiple_of(3) {
            k.write_back(call.file);
        }
        Ok(())
    };
    match len % 2 {
        0 => client.unlogged(slot, call, change).map(Result::unwrap),
        _ => client.truncate(slot, call, len, change),
    }
}

/// Sets a file's mtime.
fn give_times(client: &Client, slot: SlotKey, call: &OneCall<'_>, mtime: u64) {
    let change = || {
        let mut k = call.kernel.lock();
        k.ctime[call.file] += 1;
        k.mtime[call.file] = mtime;
        Ok(())
    };
    let time = Timespec { tv_sec: 5, tv_nsec: 0 };
    client.set_times(slot, call, change, || Some(Times { atime: time, mtime: time })).unwrap();
}

/// sync(2).
fn sync_all(client: &Client, kernel: &Mutex<Kernel>, unseen: [bool; 3]) {
    client.persist().unwrap();
    (0..3).for_each(|file| kernel.lock().write_back(file));
    // What was written unseen and is synced unseen may have older records; what the disk refuses it does not tell.
    let mut kernel = kernel.lock();
    let done: Vec<_> = (0..3).filter(|file| !unseen[*file] && !kernel.has_failed(*file)).collect();
    done.into_iter().for_each(|file| kernel.acknowledged(file, None));
}

/// The bytes of a pool with an empty log, and two processes that have joined it.
fn joined(domain: Domain) -> (Vec<u8>, Arc<PowerDomain>, [Client; 2]) {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    Log::prepare(&mut pool, &LogOptions::here()).unwrap();
    let (base, power) = (pool.nvm().to_bytes().unwrap(), PowerDomain::new());
    let log = Log::join(medium(&base, domain).record(Arc::clone(&power), 0)).unwrap();
    let parent = std::os::unix::process::parent_id();
    (base, power, [Client::new(log.clone()).unwrap(), Client::of_process(log, parent).unwrap()])
}

/// Random calls by two processes on a few files.
fn record(seed: u64, domain: Domain, steps: usize, most: u64) -> Run {
    let (base, power, clients) = joined(domain);
    let kernel = Arc::new(Mutex::new(Kernel::new(power, 3)));
    let mut drain = Drain::over(clients[0].log().clone(), Disk(kernel.clone())).unwrap();
    let (mut random, mut fast, mut unseen) = (Random(seed), 0, [false; 3]);
    // Files that cannot be found, and records that are not old.
    let is_hiding = seed % 4 == 1;
    kernel.lock().ages = is_hiding.then_some(Random(!seed));
    for _ in 0..steps {
        let file = random.below(3) as usize;
        let client = &clients[random.below(2) as usize];
        let bytes: Vec<u8> = (0..1 + random.below(most)).map(|_| random.below(256) as u8).collect();
        let place = match random.below(4) {
            0 => Place::Append,
            1 => Place::Cursor,
            _ => Place::At(random.below(300)),
        };
        let durable = random.below(4) == 0;
        let away = (random.below(8) == 0).then(|| random.below(300) as usize);
        let call = OneCall { kernel: &kernel, file, place, bytes: &bytes, durable, away };
        let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
        kernel.lock().is_failing |= seed.is_multiple_of(3) && random.below(20) == 0;
        if is_hiding && random.below(10) == 0 {
            kernel.lock().hidden = (0..3).filter(|_| random.below(2) == 0).collect();
        }
        match random.below(if is_hiding { 26 } else { 22 }) {
            0..=9 => {
                let syncs = kernel.lock().moments.len();
                let wrote = client.write(slot, &call);
                unseen[file] |= away.is_some();
                if wrote.is_err() {
                    kernel.lock().tell(file);
                }
                assert!(durable && wrote.is_err() || wrote == Ok(Written::Done(bytes.len())));
                if durable && wrote.is_ok() {
                    // Nothing was written back for it.
                    fast += usize::from(kernel.lock().moments.len() == syncs);
                    kernel.lock().acknowledged(file, None);
                }
            }
            10..=15 => match client.sync(slot, &call) {
                Ok(in_log) => {
                    fast += usize::from(in_log);
                    unseen[file] = false;
                    kernel.lock().acknowledged(file, None);
                }
                Err(()) => kernel.lock().tell(file),
            },
            16 => kernel.lock().write_back(file),
            20 => sync_all(client, &kernel, unseen),
            // To the past or to the future.
            21 => give_times(client, slot, &call, [5, 1 << 62][random.below(2) as usize]),
            // Somebody whom nobody sees.
            17 => {
                kernel.lock().write(file, random.below(200) as usize, &bytes);
                unseen[file] = true;
            }
            18 => {
                if cut(client, slot, &call, random.below(100)).is_err() {
                    kernel.lock().tell(file);
                }
            }
            now => {
                kernel.lock().is_failing |= is_hiding && random.below(4) == 0;
                drop(drain.step(now == 19).unwrap());
            }
        }
    }
    drop(drain);
    let kernel = Arc::into_inner(kernel).expect("the drain is gone").into_inner();
    Run { kernel, base, fast }
}

/// Recovers after cuts all over a run, so many states at an event.
fn explored(run: Run, seed: u64, domain: Domain, states: usize) -> Shown {
    let events = run.kernel.power.take();
    let media = [Medium { base: Layer::new(run.base.clone()), kind: domain.crashes_as(), whole: None }];
    let mut wrong = None;
    let sampling = Sampling { seed, ..Sampling::default().at_most(states) }.spread(&media, &events, |_| false, 500);
    let states = sampling.each(&media, &events, |layers, mark| {
        if wrong.is_none() {
            wrong = run.kernel.judge(mark, layers, domain).err();
        }
    });
    Shown { states, fast: run.fast, wrong }
}

/// Calls with small writes.
pub fn small_writes(seed: u64) -> Shown {
    let domain = match seed % 8 {
        3 => Domain::Eadr,
        7 => Domain::Msync,
        _ => Domain::Adr,
    };
    explored(record(seed, domain, 120, 150), seed, domain, 16)
}

/// Writes that fill lane after lane, over and over.
pub fn full_lanes(seed: u64) -> Shown {
    explored(record(seed, Domain::Adr, 250, 20_000), seed, Domain::Adr, 6)
}

/// A process lets go of the pool, and goes on with its file as the kernel has it; another one stays.
pub fn synced_past_the_pool(seed: u64) -> Shown {
    explored(let_go(seed), seed, Domain::Adr, 16)
}

/// A process lets go of the pool, and goes on with its file as the kernel has it; another one stays.
fn let_go(seed: u64) -> Run {
    let (base, power, clients) = joined(Domain::Adr);
    let (kernel, mut random) = (Mutex::new(Kernel::new(power, 2)), Random(seed));
    let mut fast = 0;
    let mut work = |client: &Client, steps: u64| {
        for _ in 0..steps {
            let (file, bytes) = (random.below(2) as usize, [random.below(256) as u8; 40]);
            let place = Place::At(random.below(100));
            let call = OneCall { kernel: &kernel, file, place, bytes: &bytes, durable: false, away: None };
            let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
            if random.below(3) == 0 {
                fast += usize::from(client.sync(slot, &call).unwrap());
                kernel.lock().acknowledged(file, None);
            } else {
                client.write(slot, &call).unwrap();
            }
        }
    };
    (0..6).for_each(|n| work(&clients[n % 2], 8));
    let looks = [0].map(|file| {
        OneCall { kernel: &kernel, file, place: Place::Append, bytes: b"", durable: false, away: None }.look().unwrap()
    });
    let sync = |_| {
        (0..2).for_each(|file| kernel.lock().write_back(file));
        true
    };
    clients[0].bring_home(looks.into_iter(), sync).unwrap();
    for n in 0..8u8 {
        // Synced by the kernel alone.
        kernel.lock().write(0, usize::from(n) * 10, &[n; 30]);
        kernel.lock().write_back(0);
        kernel.lock().acknowledged(0, None);
        work(&clients[1], 4);
    }
    Run { kernel: kernel.into_inner(), base, fast }
}
