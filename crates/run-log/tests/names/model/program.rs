//! Random calls of two processes.

use super::kernel::{Bound, DIRS, Inode, Kernel, Moment, Name, OneCall, OneChange};
use super::{Random, medium};
use ondol_env::sync::Arc;
use ondol_medium::{Domain, Nvm, Pool, PoolSpec};
use ondol_power::PowerDomain;
use ondol_run_log::{Call, Change, Client, Drain, Log, LogOptions, NameCall, Names, Written};
use std::cell::{Cell, RefCell};

const POOL: u64 = 1 << 20;

/// What was done.
pub(crate) struct Run {
    pub(crate) kernel: Kernel,
    /// The pool before it.
    pub(crate) base: Vec<u8>,
    /// Syncs and changes that ended in the log.
    pub(crate) fast: usize,
}

/// What a program does next.
fn change<'k>(random: &mut Random, kernel: &'k RefCell<Kernel>, linked: Option<Name>) -> OneChange<'k> {
    let mut name = || (random.below(DIRS as u64) as usize, b'a' + random.below(4) as u8);
    let (there, old) = (name(), name());
    // What was linked loses its first name, as in a maildir.
    let there = linked.filter(|_| random.below(2) == 0).unwrap_or(there);
    let kind = random.below(5);
    let k = kernel.borrow();
    let (over, file) = (k.bound().get(&there), k.bound().get(&old));
    let renames = if there.0 == old.0 { Change::Rename } else { Change::Arrive };
    let change = match (over, file) {
        (Some(_), _) if linked == Some(there) => Change::Remove,
        (None, Some(_)) if kind < 2 => Change::Link,
        (None, Some(_)) if kind < 4 => renames,
        (None, _) => Change::Create,
        (Some(over), Some(file)) if kind < 2 && over != file => renames,
        (Some(_), _) => Change::Remove,
    };
    let moved = matches!(change, Change::Rename | Change::Arrive);
    let names = Names { change, name: vec![there.1], old: if moved { vec![old.1] } else { Vec::new() } };
    OneChange { kernel, names, there, old, held: Cell::new(None) }
}

/// Changes names by a process; past the log if that is so wanted, seen to be so or not. Answers whether it is logged.
fn changed(client: &Client, kernel: &RefCell<Kernel>, call: &OneChange<'_>, is_unseen: bool) -> bool {
    let trusted = |dir| client.trusted(&kernel.borrow().look(dir)).unwrap().filter(|_| !is_unseen);
    let (there, left) = (trusted(call.there.0), call.left().map(trusted));
    let known = there.filter(|_| left != Some(None));
    if known.is_none() && !is_unseen {
        for slot in [there, left.flatten()].into_iter().flatten() {
            client.unseen(slot).unwrap();
        }
    }
    if let Some(Ok(Written::Done(()))) = known.map(|slot| client.change_names(slot, left.flatten(), call)) {
        return true;
    }
    let lost = kernel.borrow().bound().get(&call.there).copied();
    lost.into_iter().for_each(|file| kernel.borrow_mut().files[file].unlogged = true);
    call.run().unwrap();
    false
}

fn new_kernel(power: Arc<PowerDomain>) -> Kernel {
    let now =
        Moment { home: vec![0; DIRS], acked_bytes: vec![0; DIRS], times: vec![(1, 1); DIRS], ..Moment::default() };
    Kernel {
        power,
        states: vec![(Bound::new(), [1; DIRS])],
        files: vec![Inode { ctime: 1, mtime: 1, ..Inode::default() }; DIRS],
        moves: Vec::new(),
        over: Vec::new(),
        clock: 1,
        moments: vec![now.clone()],
        now,
    }
}

/// Random calls by two processes.
pub(crate) fn record(seed: u64, domain: Domain, steps: usize) -> Run {
    let spec = PoolSpec { uuid: [9; 16], ..PoolSpec::default() };
    let mut pool = Pool::create(Nvm::volatile(POOL).unwrap(), &spec).unwrap();
    Log::prepare(&mut pool, &LogOptions::here()).unwrap();
    let base = pool.nvm().to_bytes().unwrap();
    let power = PowerDomain::new();
    let log = Log::join(medium(&base, domain).record(Arc::clone(&power), 0)).unwrap();
    let parent = std::os::unix::process::parent_id();
    let clients = [Client::new(log.clone()).unwrap(), Client::of_process(log, parent).unwrap()];
    let kernel = RefCell::new(new_kernel(power));
    let (mut random, mut fast, mut linked) = (Random(seed), 0, None);
    for _ in 0..steps {
        let client = &clients[random.below(2) as usize];
        let bytes: Vec<u8> = (0..1 + random.below(200)).map(|_| random.below(255) as u8 + 1).collect();
        let open: Vec<usize> = kernel.borrow().bound().values().copied().collect();
        let file = if open.is_empty() { 0 } else { open[random.below(open.len() as u64) as usize] };
        let call = |file| OneCall { kernel: &kernel, file, bytes: &bytes, durable: random_durable(&bytes) };
        let slot = |file| client.slot(&call(file).look().unwrap()).unwrap().unwrap();
        let sync = |file| {
            let fast = client.sync(slot(file), &call(file)).unwrap();
            kernel.borrow_mut().acknowledged(file);
            usize::from(fast)
        };
        match random.below(20) {
            0..=5 if file >= DIRS => {
                let call = call(file);
                assert_eq!(client.write(slot(file), &call), Ok(Written::Done(bytes.len())));
                if call.durable {
                    kernel.borrow_mut().acknowledged(file);
                }
            }
            6..=9 => fast += sync(file),
            10..=11 => fast += sync(random.below(DIRS as u64) as usize),
            12 => kernel.borrow_mut().commit(),
            13 => drop(Drain::new(client.log().clone()).unwrap().step(false).unwrap()),
            n => {
                let call = change(&mut random, &kernel, linked.take());
                fast += usize::from(changed(client, &kernel, &call, n == 14));
                linked = (call.names.change == Change::Link).then_some(call.old);
                if call.held.get().is_some() {
                    fast += sync(call.there.0);
                }
            }
        }
    }
    Run { kernel: kernel.into_inner(), base, fast }
}

/// Every fifth write is to be durable when it returns.
fn random_durable(bytes: &[u8]) -> bool {
    bytes[0].is_multiple_of(5)
}
