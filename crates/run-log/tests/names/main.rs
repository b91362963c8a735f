//! Programs that make, write, sync, rename, link and remove files of two directories, with power cut after every event: recovery finds all that was acknowledged, of each directory's names a beginning of what was done, moves
//! done in both or in none, and no file without a name that was not removed.
//!
//! The kernel is a model: it commits changes of names in their order, all at once, and keeps a file's bytes when it is synced. The log is the real one, on recorded NVM.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use ondol_env::sync::Arc;
use ondol_medium::{Domain, Nvm, Pool, PoolSpec};
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_run_log::{
    Call, Change, Client, Found, Handle, Kept, Log, LogOptions, NameCall, Names, Written, found, touched,
};
use std::cell::{Cell, RefCell};

mod kernel;

use kernel::{Bound, DIRS, Inode, Kernel, Moment, Name, OneCall, OneChange, Step, handle};

const POOL: u64 = 2 << 20;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn medium(base: &[u8], domain: Domain) -> Nvm {
    Nvm::from_bytes(base).unwrap().with_domain(domain).unwrap()
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

/// Random calls by two processes; answers how many syncs and changes ended in the log, too.
fn record(seed: u64, domain: Domain, steps: usize) -> (Kernel, Vec<u8>, usize) {
    let spec = PoolSpec { uuid: [9; 16], ..PoolSpec::default() };
    let mut pool = Pool::create(Nvm::volatile(POOL).unwrap(), &spec).unwrap();
    Log::prepare(&mut pool, &LogOptions::here()).unwrap();
    let base = pool.nvm().to_bytes().unwrap();
    let power = PowerDomain::new();
    let log = Log::join(medium(&base, domain).record(Arc::clone(&power), 0)).unwrap();
    let parent = std::os::unix::process::parent_id();
    let clients = [Client::new(log.clone()).unwrap(), Client::of_process(log, parent).unwrap()];
    let now = Moment { home: vec![0; DIRS], acked_bytes: vec![0; DIRS], ..Moment::default() };
    let kernel = RefCell::new(Kernel {
        power,
        states: vec![(Bound::new(), [1; DIRS])],
        files: vec![Inode { ctime: 1, mtime: 1, ..Inode::default() }; DIRS],
        moves: Vec::new(),
        over: Vec::new(),
        clock: 1,
        moments: vec![now.clone()],
        now,
    });
    let (mut random, mut fast, mut linked) = (Random(seed), 0, None);
    for _ in 0..steps {
        let client = &clients[random.below(2) as usize];
        let bytes: Vec<u8> = (0..1 + random.below(200)).map(|_| random.below(255) as u8 + 1).collect();
        let open: Vec<usize> = kernel.borrow().bound().values().copied().collect();
        let file = if open.is_empty() { 0 } else { open[random.below(open.len() as u64) as usize] };
        let call = |file| OneCall { kernel: &kernel, file, bytes: &bytes };
        let slot = |file| client.slot(&call(file).look().unwrap()).unwrap().unwrap();
        let sync = |file| {
            let fast = client.sync(slot(file), &call(file)).unwrap();
            kernel.borrow_mut().acknowledged(file);
            usize::from(fast)
        };
        match random.below(20) {
            0..=5 if file >= DIRS => {
                assert_eq!(client.write(slot(file), &call(file)), Ok(Written::Done(bytes.len())));
            }
            6..=9 => fast += sync(file),
            10..=11 => fast += sync(random.below(DIRS as u64) as usize),
            12 => kernel.borrow_mut().commit(),
            13 => drop(ondol_run_log::Drain::new(client.log().clone()).unwrap().step(false).unwrap()),
            n => {
                let call = change(&mut random, &kernel, linked.take());
                let trusted = |dir| client.trusted(&kernel.borrow().look(dir)).unwrap().filter(|_| n != 14);
                let (there, left) = (trusted(call.there.0), call.left().map(trusted));
                // Seen, but past the log.
                let known = there.filter(|_| left != Some(None));
                if known.is_none() && n != 14 {
                    for slot in [there, left.flatten()].into_iter().flatten() {
                        client.unseen(slot).unwrap();
                    }
                }
                match known.map(|slot| client.change_names(slot, left.flatten(), &call)) {
                    Some(Ok(Written::Done(()))) => fast += 1,
                    // Past the log: seen to be so, or not.
                    Some(_) | None => {
                        let lost = kernel.borrow().bound().get(&call.there).copied();
                        lost.into_iter().for_each(|file| kernel.borrow_mut().files[file].unlogged = true);
                        call.run().unwrap();
                    }
                }
                linked = (call.names.change == Change::Link).then_some(call.old);
                if call.held.get().is_some() {
                    fast += sync(call.there.0);
                }
            }
        }
    }
    (kernel.into_inner(), base, fast)
}

/// What recovery makes of the names that the disk has: gives them first, and takes no last one that no record says was lost.
fn brought(k: &Kernel, moment: &Moment, live: &Found) -> Result<Bound, String> {
    let (mut bound, ctimes) = k.states[moment.names].clone();
    let file = |handle: &Handle| u64::from_le_bytes(handle.bytes.clone().try_into().unwrap()) as usize;
    let mut wanted = Vec::new();
    for dir in &live.dirs {
        let number = file(&dir.identity.handle);
        let behind = match dir.kept(ctimes[number]) {
            Kept::All => continue,
            Kept::Behind(behind) => behind,
            Kept::Unknown => return Err("a directory is newer than the log".into()),
        };
        let records: Vec<_> = dir.records.iter().filter(|record| record.sequence > behind).collect();
        for (name, touched) in touched(&records) {
            let name = (number, name[0]);
            if bound.get(&name).copied() != touched.before.as_ref().map(file) {
                return Err(format!("{name:?} stands for {:?}, not {touched:?}", bound.get(&name)));
            }
            wanted.push((name, touched));
        }
    }
    for (name, touched) in &wanted {
        if let Some(now) = &touched.now {
            bound.insert(*name, file(now));
        }
    }
    let dead: Vec<usize> = live.dirs.iter().flat_map(|dir| &dir.records).filter_map(|r| r.dead().map(file)).collect();
    for (name, _) in wanted.iter().filter(|(_, touched)| touched.now.is_none()) {
        let Some(taken) = bound.get(name).copied() else { continue };
        if dead.contains(&taken) || bound.values().filter(|other| **other == taken).count() > 1 {
            bound.remove(name);
        }
    }
    Ok(bound)
}

/// How many changes of each directory are there, if the names can be read so.
fn done(k: &Kernel, moment: &Moment, bound: &Bound) -> Result<[usize; DIRS], String> {
    let of = |bound: &Bound, dir: usize| -> Bound {
        bound.iter().filter(|(name, _)| name.0 == dir).map(|(name, file)| (*name, *file)).collect()
    };
    let candidates = [0, 1].map(|dir| {
        let (found, sure) = (of(bound, dir), moment.acked[dir].max(moment.names));
        (sure..k.states.len()).filter(move |step| of(&k.states[*step].0, dir) == found).collect::<Vec<_>>()
    });
    let fits = |done: &[usize; DIRS]| {
        let has = |step: &Step| step.0 <= done[step.1];
        let moved = k.moves.iter().all(|step| has(&(*step, 0)) == has(&(*step, 1)));
        moved
            && k.files.iter().enumerate().skip(DIRS).all(|(number, file)| {
                let (named, died) =
                    (bound.values().any(|bound| *bound == number), file.died.is_some_and(|at| has(&at)));
                if named { !died || file.unlogged } else { died || !has(&file.born) }
            })
    };
    let pairs = candidates[0].iter().flat_map(|one| candidates[1].iter().map(move |two| [*one, *two]));
    let sure = (moment.names, moment.acked);
    pairs.into_iter().find(fits).ok_or_else(|| format!("{bound:?} are no names after {sure:?}, but {candidates:?}"))
}

fn judge(k: &Kernel, moment: &Moment, layers: &[Layer], domain: Domain) -> Result<(), String> {
    let log = Log::join(medium(&layers[0].to_bytes(), domain)).map_err(|e| e.to_string())?;
    let live = found(&log).map_err(|e| e.to_string())?;
    let bound = brought(k, moment, &live)?;
    let done = done(k, moment, &bound)?;
    for file in bound.values() {
        let Inode { bytes: all, born, .. } = &k.files[*file];
        let kept = if born.0 <= moment.names { moment.home.get(*file).copied().unwrap_or(0) } else { 0 };
        let mut bytes = all[..kept].to_vec();
        let own = live.files.iter().filter(|f| f.identity.as_ref().is_some_and(|id| id.handle == handle(*file)));
        for record in own.flat_map(|file| &file.records) {
            let end = record.offset as usize + record.bytes.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[record.offset as usize..end].copy_from_slice(&record.bytes);
        }
        let over = k.over.iter().filter(|((step, dir), over, _)| over == file && *step <= done[*dir]);
        let carried = over.map(|(.., len)| *len).max().unwrap_or(0);
        let acked = moment.acked_bytes.get(*file).copied().unwrap_or(0).max(carried);
        if !all.starts_with(&bytes) || bytes.len() < acked {
            return Err(format!("file {file} has {} bytes of {acked}", bytes.len()));
        }
    }
    Ok(())
}

/// `ONDOL_RUN_SEEDS` for longer hunts.
#[test]
fn names_that_were_acknowledged_are_found_after_any_cut() {
    let seeds = std::env::var("ONDOL_RUN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let (mut states, mut fast) = (0, 0);
    for seed in 0..seeds {
        let domain = if seed % 4 == 3 { Domain::Eadr } else { Domain::Adr };
        let (kernel, base, logged) = record(seed, domain, 150);
        let kind = if domain == Domain::Eadr { Kind::PersistentCaches } else { Kind::Nvm };
        let events = kernel.power.take();
        let media = [Medium { base: Layer::new(base), kind, whole: None }];
        let mut wrong = None;
        states += Sampling { seed, ..Sampling::default().at_most(16) }.spread(&media, &events, |_| false, 500).each(
            &media,
            &events,
            |layers, mark| {
                if wrong.is_none() {
                    wrong = judge(&kernel, &kernel.moments[mark as usize], layers, domain).err();
                }
            },
        );
        assert_eq!(wrong, None, "seed {seed}, {domain}");
        fast += logged;
    }
    println!("{states} states, {fast} fast syncs and changes");
    assert!(fast as u64 > seeds * 20, "only {fast} ended in the log");
}
