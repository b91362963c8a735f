//! Programs that write and sync, with power cut after every event: recovery finds everything that was acknowledged.
//!
//! The kernel is a model: a page cache, and what the disk holds of it. The log is the real one, on recorded NVM.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{Domain, Nvm, Pool, PoolSpec};
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_run_log::{Call, Client, Log, LogOptions, Place, Times, Written, found};
use rustix::fs::Timespec;

mod kernel;

use kernel::{Kernel, OneCall, medium, recovered};

/// The pool: room for a few records, so that lanes run over and wrap.
const POOL: u64 = 2 << 20;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What a run did.
struct Run {
    kernel: Kernel,
    base: Vec<u8>,
    fast: usize,
}

/// Cuts a file, or extends it: past the log, or in it.
fn cut(client: &Client, slot: (u32, u64), call: &OneCall<'_>, len: u64) {
    let change = || {
        let mut k = call.kernel.lock();
        k.cache[call.file].resize(len as usize, 0);
        k.changed(call.file);
        // A commit of the kernel's at once.
        if len.is_multiple_of(3) {
            k.write_back(call.file);
        }
        Ok(())
    };
    match len % 2 {
        0 => client.unlogged(slot, call, change).unwrap().unwrap(),
        _ => client.truncate(slot, call, len, change).unwrap(),
    }
}

/// Sets a file's mtime.
fn give_times(client: &Client, slot: (u32, u64), call: &OneCall<'_>, mtime: u64) {
    let change = || {
        let mut k = call.kernel.lock();
        k.ctime[call.file] += 1;
        k.mtime[call.file] = mtime;
        Ok(())
    };
    let time = Timespec { tv_sec: 5, tv_nsec: 0 };
    client.set_times(slot, call, change, || Some(Times { atime: time, mtime: time })).unwrap();
}

/// Random calls by two processes on a few files.
fn record(seed: u64, domain: Domain, steps: usize, most: u64) -> Run {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    Log::prepare(&mut pool, &LogOptions::here()).unwrap();
    let base = pool.nvm().to_bytes().unwrap();
    let power = PowerDomain::new();
    let nvm = medium(&base, domain).record(Arc::clone(&power), 0);
    let log = Log::join(nvm).unwrap();
    let parent = std::os::unix::process::parent_id();
    let clients = [Client::new(log.clone()).unwrap(), Client::of_process(log, parent).unwrap()];
    let kernel = Mutex::new(Kernel::new(power, 3));
    let (mut random, mut fast, mut unseen) = (Random(seed), 0, [false; 3]);
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
        match random.below(22) {
            0..=9 => {
                let syncs = kernel.lock().moments.len();
                assert_eq!(client.write(slot, &call), Ok(Written::Done(bytes.len())));
                unseen[file] |= away.is_some();
                if durable {
                    // Nothing was written back for it.
                    fast += usize::from(kernel.lock().moments.len() == syncs);
                    kernel.lock().acknowledged(file, None);
                }
            }
            10..=15 => {
                fast += usize::from(client.sync(slot, &call).unwrap());
                unseen[file] = false;
                kernel.lock().acknowledged(file, None);
            }
            16 => kernel.lock().write_back(file),
            // sync(2)
            20 => {
                client.persist().unwrap();
                (0..3).for_each(|file| kernel.lock().write_back(file));
                // What was written unseen and is synced unseen may have older records.
                (0..3).filter(|file| !unseen[*file]).for_each(|file| kernel.lock().acknowledged(file, None));
            }
            // To the past or to the future.
            21 => give_times(client, slot, &call, [5, 1 << 62][random.below(2) as usize]),
            // Somebody whom nobody sees.
            17 => {
                kernel.lock().write(file, random.below(200) as usize, &bytes);
                unseen[file] = true;
            }
            18 => cut(client, slot, &call, random.below(100)),
            _ => drop(ondol_run_log::Drain::new(client.log().clone()).unwrap().step(false).unwrap()),
        }
    }
    Run { kernel: kernel.into_inner(), base, fast }
}

fn explore(seed: u64, domain: Domain, (steps, most): (usize, u64), states: usize) -> (usize, usize) {
    explored(record(seed, domain, steps, most), seed, domain, states)
}

/// Recovers after cuts all over a run.
fn explored(run: Run, seed: u64, domain: Domain, states: usize) -> (usize, usize) {
    let kind = if domain == Domain::Eadr { Kind::PersistentCaches } else { Kind::Nvm };
    let events = run.kernel.power.take();
    let media = [Medium { base: Layer::new(run.base.clone()), kind, whole: None }];
    let mut wrong = None;
    let built = Sampling { seed, ..Sampling::default().at_most(states) }.spread(&media, &events, |_| false, 500).each(
        &media,
        &events,
        |layers, mark| {
            if wrong.is_none() {
                wrong = run.kernel.judge(mark, layers, domain).err();
            }
        },
    );
    assert_eq!(wrong, None, "seed {seed}, {domain}");
    (built, run.fast)
}

/// `ONDOL_RUN_SEEDS` for longer hunts.
#[test]
fn what_was_acknowledged_is_found_after_any_cut() {
    let seeds = std::env::var("ONDOL_RUN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let (mut states, mut fast) = (0, 0);
    for seed in 0..seeds {
        let domain = if seed % 4 == 3 { Domain::Eadr } else { Domain::Adr };
        let (built, acknowledged) = explore(seed, domain, (120, 150), 16);
        (states, fast) = (states + built, fast + acknowledged);
    }
    println!("{states} states, {fast} fast syncs");
    assert!(fast as u64 > seeds * 5, "only {fast} syncs ended in the log");
}

/// Writes that fill lane after lane, over and over.
#[test]
fn full_lanes_are_found_after_any_cut() {
    let seeds = std::env::var("ONDOL_RUN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let fast: usize = (0..seeds).map(|seed| explore(seed, Domain::Adr, (250, 20_000), 6).1).sum();
    assert!(fast as u64 > seeds * 20, "only {fast} syncs ended in the log");
}

/// Lanes that are too small for what is written between syncs.
#[test]
fn a_full_lane_is_synced_for_real() {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let bytes = vec![3; 20_000];
    let call = OneCall { kernel: &kernel, file: 0, place: Place::Append, bytes: &bytes, durable: false, away: None };
    let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
    assert_eq!(client.sync(slot, &call), Ok(false));
    let mut logged = 0;
    while kernel.lock().syncs < 2 {
        assert_eq!(client.write(slot, &call), Ok(Written::Done(bytes.len())));
        logged += 1;
    }
    // All lanes but what is left to others; and nothing is logged from then on.
    let (lane, room) = (256 << 10, client.log().room());
    assert!((room / 2..room - lane).contains(&(logged * 20_000)), "{logged} of {room}");
    for _ in 0..40 {
        assert_eq!(client.write(slot, &call), Ok(Written::Done(bytes.len())));
    }
    assert_eq!(kernel.lock().syncs, 2);
    assert_eq!(client.sync(slot, &call), Ok(false));
    assert!(found(client.log()).unwrap().files.is_empty());
    assert_eq!(client.sync(slot, &call), Ok(true));
}

/// Nothing that the program's library does not see is acknowledged from the log.
#[test]
fn unseen_changes_make_syncs_real() {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = OneCall { kernel: &kernel, file: 0, place: Place::At(0), bytes: b"abc", durable: false, away: None };
    let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
    let sync = || client.sync(slot, &call).unwrap();
    assert!(!sync() && sync());
    client.write(slot, &call).unwrap();
    assert!(sync());
    kernel.lock().write(0, 0, b"xyz");
    assert!(!sync() && sync());
    client.write(slot, &call).unwrap();
    kernel.lock().write(0, 1, b"-");
    client.write(slot, &call).unwrap();
    assert!(!sync() && sync());
    // Only the ctime: a rename, say.
    kernel.lock().ctime[0] += 1;
    assert!(!sync() && sync());
    client.map(slot).unwrap();
    assert!(!sync() && !sync());
}

/// A write to a file without a slot that is over only when the file has one and is trusted, in the midst of a logged write: nothing tells it but the number of slots that were given.
#[test]
fn a_write_that_was_not_counted_tells_afterwards() {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 2));
    let client = Client::new(log).unwrap();
    let call =
        |file| OneCall { kernel: &kernel, file, place: Place::Append, bytes: b"abc", durable: false, away: None };
    let look = |file| call(file).look().unwrap();
    assert_eq!((client.given(), client.find(&look(0)).unwrap()), (0, None));
    let began = client.given();
    let slot = client.slot(&look(0)).unwrap().unwrap();
    assert!(!client.sync(slot, &call(0)).unwrap());
    // The other one's bytes come between the two looks, and take no time: the log alone would answer.
    kernel.lock().away_ns = 0;
    let unlucky = || client.write(slot, &OneCall { place: Place::At(0), away: Some(0), ..call(0) }).unwrap();
    unlucky();
    assert!(client.sync(slot, &call(0)).unwrap());
    unlucky();
    assert_ne!(client.given(), began);
    client.unseen(client.find(&look(0)).unwrap().unwrap()).unwrap();
    assert!(!client.sync(slot, &call(0)).unwrap() && client.sync(slot, &call(0)).unwrap());
    // A file that has one is given no other. Each new one is counted before it is trusted, by whoever syncs the file:
    // the one that has given it may be stopped.
    let given = client.given();
    assert_eq!(client.slot(&look(0)).unwrap(), Some(slot));
    let new = client.slot(&look(1)).unwrap().unwrap();
    assert_eq!(client.given(), given);
    let other = Client::new(client.log().clone()).unwrap();
    assert_eq!((other.sync(new, &call(1)), client.given()), (Ok(false), given + 1));
    assert_eq!((other.sync(new, &call(1)), client.given()), (Ok(true), given + 1));
}

/// A durable write to a file without a slot that is over only when the file has one, and an older acknowledged record.
#[test]
fn a_durable_write_that_was_not_counted_leaves_nothing_older() {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = |bytes, durable| OneCall { kernel: &kernel, file: 0, place: Place::At(0), bytes, durable, away: None };
    let (older, newer) = (call(b"older", false), call(b"newer", true));
    let slot = client.slot(&older.look().unwrap()).unwrap().unwrap();
    assert_eq!(client.sync(slot, &older), Ok(false));
    client.write(slot, &older).unwrap();
    assert_eq!(client.sync(slot, &older), Ok(true));
    assert_eq!(client.appeared(slot, &newer, newer.write()), Ok(5));
    assert_eq!(recovered(client.log(), &kernel.lock().now.home), [b"newer"]);
    assert_eq!(client.sync(slot, &older), Ok(false));
}

/// A process lets go of the pool, and goes on with its file as the kernel has it; another one stays.
fn let_go(seed: u64) -> Run {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    Log::prepare(&mut pool, &LogOptions::here()).unwrap();
    let base = pool.nvm().to_bytes().unwrap();
    let power = PowerDomain::new();
    let log = Log::join(medium(&base, Domain::Adr).record(Arc::clone(&power), 0)).unwrap();
    let parent = std::os::unix::process::parent_id();
    let clients = [Client::new(log.clone()).unwrap(), Client::of_process(log, parent).unwrap()];
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

#[test]
fn what_is_synced_past_the_pool_is_found_after_any_cut() {
    let fast: usize = (0..8).map(|seed| explored(let_go(seed), seed, Domain::Adr, 16).1).sum();
    assert!(fast > 40, "only {fast} syncs ended in the log");
}

/// Durable writes alone make a file trusted, and end in the log then; where that is of no use they stop trying.
#[test]
fn durable_writes_need_no_sync() {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = OneCall { kernel: &kernel, file: 0, place: Place::Cursor, bytes: b"abc", durable: true, away: None };
    let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
    let write = || {
        let before = kernel.lock().moments.len();
        client.write(slot, &call).unwrap();
        kernel.lock().moments.len() - before
    };
    // The first may be the only one. The second has a sync behind it, which begins trust.
    assert_eq!([write(), write()], [1, 2]);
    assert_eq!([write(), write(), write()], [0; 3]);
    assert_eq!(found(client.log()).unwrap().files[0].records.len(), 3);
    // Somebody else writes between all of them: each is durable, few try again.
    let mut written_back = 0;
    for _ in 0..500 {
        kernel.lock().write(0, 1, b"-");
        written_back += write();
    }
    assert!((500..530).contains(&written_back), "{written_back}");
    let text = kernel.lock().now.home[0].clone();
    assert_eq!(text, kernel.lock().cache[0]);
}

/// The kernel has promised a write to a file that is not trusted any more: no older record may come back over it.
#[test]
fn no_record_outlives_what_the_kernel_has_promised() {
    let mut pool =
        Pool::create(Nvm::volatile(POOL).unwrap(), &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = |bytes| OneCall { kernel: &kernel, file: 0, place: Place::At(0), bytes, durable: true, away: None };
    let slot = client.slot(&call(b"").look().unwrap()).unwrap().unwrap();
    for bytes in [b"first", b"other", b"older"] {
        client.write(slot, &call(bytes)).unwrap();
    }
    assert_eq!(found(client.log()).unwrap().files.len(), 1);
    client.map(slot).unwrap();
    client.write(slot, &call(b"newer")).unwrap();
    assert_eq!(recovered(client.log(), &kernel.lock().now.home), [b"newer"]);
}
