//! Programs that make, write, sync, rename, link and remove files, with power cut after every event: recovery finds all that was acknowledged, and of the names a beginning of what was done.
//!
//! The kernel is a model: it commits changes of names in their order, all at once, and keeps a file's bytes when it is synced. The log is the real one, on recorded NVM.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use ondol_env::sync::Arc;
use ondol_medium::{Domain, Nvm, Pool, PoolSpec};
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_run_log::{
    Call, Change, Client, FileKind, Handle, Identity, Kept, Log, LogOptions, Look, NameCall, Names, Place, Subject,
    Written, found, touched,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const POOL: u64 = 2 << 20;
const DIR: usize = 0;

type Bound = BTreeMap<u8, usize>;

/// What a cut may find, from a mark on.
#[derive(Clone, Default)]
struct Moment {
    /// How many changes of names the disk has.
    names: usize,
    /// What the disk has of each file.
    home: Vec<usize>,
    /// Changes of names, and bytes of each file, that recovery may not fall behind.
    acked: usize,
    acked_bytes: Vec<usize>,
}

struct Kernel {
    power: Arc<PowerDomain>,
    /// What the names stood for after each change, and the directory's ctime then.
    states: Vec<(Bound, u64)>,
    /// Each file's bytes, ctime, mtime, and the change that it was made by; the first is the directory.
    files: Vec<(Vec<u8>, u64, u64, usize)>,
    /// The last change of each file's names.
    newest: Vec<usize>,
    /// Files that have replaced others: by which change, and how many bytes they had.
    over: Vec<(usize, usize, usize)>,
    clock: u64,
    now: Moment,
    moments: Vec<Moment>,
}

impl Kernel {
    fn mark(&mut self) {
        self.power.mark(self.moments.len() as u64);
        self.moments.push(self.now.clone());
    }

    fn tick(&mut self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        self.clock = now.max(self.clock + 1);
        self.clock
    }

    fn bound(&self) -> &Bound {
        &self.states.last().unwrap().0
    }

    fn renames(&mut self, bound: Bound, file: usize) {
        let ctime = self.tick();
        self.states.push((bound, ctime));
        self.newest[file] = self.states.len() - 1;
        self.files[file].1 = ctime;
        (self.files[DIR].1, self.files[DIR].2) = (ctime, ctime);
    }

    /// A commit of the kernel's journal.
    fn commit(&mut self) {
        self.now.names = self.states.len() - 1;
        self.mark();
    }

    fn look(&self, file: usize) -> Look {
        let (bytes, ctime, mtime, _) = &self.files[file];
        let kind = if file == DIR { FileKind::Directory } else { FileKind::File };
        Look { dev: 7, ino: file as u64 + 1, birth: 1, ctime: *ctime, mtime: *mtime, size: bytes.len() as u64, kind }
    }

    fn acknowledged(&mut self, file: usize) {
        if file == DIR {
            self.now.acked = self.states.len() - 1;
        } else {
            self.now.acked = self.now.acked.max(self.newest[file]);
            self.now.acked_bytes[file] = self.files[file].0.len();
        }
        self.mark();
    }
}

fn handle(file: usize) -> Handle {
    Handle { kind: 1, bytes: (file as u64).to_le_bytes().to_vec() }
}

/// A write to a file, or a sync of a file or the directory.
struct OneCall<'k> {
    kernel: &'k RefCell<Kernel>,
    file: usize,
    bytes: &'k [u8],
}

impl Call for OneCall<'_> {
    type Fail = ();

    fn look(&self) -> Result<Look, ()> {
        Ok(self.kernel.borrow().look(self.file))
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        let mut k = self.kernel.borrow_mut();
        k.now.home[self.file] = k.files[self.file].0.len();
        k.commit();
        Ok(())
    }

    fn identity(&self) -> Option<Identity> {
        let kind = self.look().ok()?.kind;
        let path = if self.file == DIR { "/d".into() } else { format!("/d/{}", self.file).into() };
        Some(Identity { fsid: 5, ino: self.file as u64 + 1, kind, handle: handle(self.file), path })
    }

    fn write(&self) -> Result<usize, ()> {
        let mut k = self.kernel.borrow_mut();
        let now = k.tick();
        let file = &mut k.files[self.file];
        file.0.extend(self.bytes);
        (file.1, file.2) = (now, now);
        Ok(self.bytes.len())
    }

    fn place(&self) -> Option<Place> {
        Some(Place::Append)
    }

    fn cursor(&self) -> Option<u64> {
        None
    }

    fn moved(&self, _end: u64) -> bool {
        true
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]])) {
        show(&[&self.bytes[..len]]);
    }
}

/// A change of names.
struct OneChange<'k> {
    kernel: &'k RefCell<Kernel>,
    names: Names,
    made: Cell<usize>,
}

impl OneChange<'_> {
    fn at(&self, name: u8) -> Option<Subject> {
        let k = self.kernel.borrow();
        let file = *k.bound().get(&name)?;
        let links = k.bound().values().filter(|bound| **bound == file).count() as u32;
        Some(Subject { look: k.look(file), handle: handle(file), links, mode: 0o100_644, uid: 0, gid: 0 })
    }
}

impl NameCall for OneChange<'_> {
    type Fail = ();

    fn now_ns(&self) -> u64 {
        0
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn look(&self) -> Result<Look, ()> {
        Ok(self.kernel.borrow().look(DIR))
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        match self.names.change {
            Change::Rename if !done => self.at(self.names.old[0]),
            Change::Link if !done => self.at(b'a'),
            _ => self.at(self.names.name[0]),
        }
    }

    fn replaced(&self) -> Option<Subject> {
        self.at(self.names.name[0])
    }

    fn run(&self) -> Result<(), ()> {
        let mut k = self.kernel.borrow_mut();
        let mut bound = k.bound().clone();
        let name = self.names.name[0];
        let file = match self.names.change {
            Change::Create => {
                let (file, now) = (k.files.len(), k.tick());
                let born = k.states.len();
                k.files.push((Vec::new(), now, now, born));
                k.newest.push(0);
                k.now.home.push(0);
                k.now.acked_bytes.push(0);
                self.made.set(file);
                file
            }
            Change::Remove => bound.remove(&name).unwrap(),
            Change::Rename => bound.remove(&self.names.old[0]).unwrap(),
            Change::Link => bound[&b'a'],
        };
        if self.names.change != Change::Remove && bound.insert(name, file).is_some() {
            // The kernel writes back what comes in the place of another.
            let (len, state) = (k.files[file].0.len(), k.states.len());
            k.over.push((state, file, len));
            k.now.home[file] = len;
        }
        k.renames(bound, file);
        Ok(())
    }
}

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
fn change(random: &mut Random, bound: &Bound) -> Names {
    let name = b'a' + random.below(5) as u8;
    let other = b'a' + random.below(5) as u8;
    let change = match (bound.contains_key(&name), random.below(4)) {
        (false, 0) if bound.contains_key(&b'a') => Change::Link,
        (false, _) => Change::Create,
        (true, 0..=1) if bound.get(&other).is_some_and(|file| *file != bound[&name]) => Change::Rename,
        (true, _) => Change::Remove,
    };
    let old = if change == Change::Rename { vec![other] } else { Vec::new() };
    Names { change, name: vec![name], old }
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
    let now = Moment { home: vec![0], acked_bytes: vec![0], ..Moment::default() };
    let kernel = RefCell::new(Kernel {
        power,
        states: vec![(Bound::new(), 1)],
        files: vec![(Vec::new(), 1, 1, 0)],
        newest: vec![0],
        over: Vec::new(),
        clock: 1,
        moments: vec![now.clone()],
        now,
    });
    let (mut random, mut fast) = (Random(seed), 0);
    for _ in 0..steps {
        let client = &clients[random.below(2) as usize];
        let bytes: Vec<u8> = (0..1 + random.below(200)).map(|_| random.below(255) as u8 + 1).collect();
        let open: Vec<usize> = kernel.borrow().bound().values().copied().collect();
        let file = if open.is_empty() { DIR } else { open[random.below(open.len() as u64) as usize] };
        let call = |file| OneCall { kernel: &kernel, file, bytes: &bytes };
        let slot = |file| client.slot(&call(file).look().unwrap()).unwrap().unwrap();
        match random.below(20) {
            0..=5 if file != DIR => {
                assert_eq!(client.write(slot(file), &call(file)), Ok(Written::Done(bytes.len())));
            }
            6..=9 => {
                fast += usize::from(client.sync(slot(file), &call(file)).unwrap());
                kernel.borrow_mut().acknowledged(file);
            }
            10..=11 => {
                fast += usize::from(client.sync(slot(DIR), &call(DIR)).unwrap());
                kernel.borrow_mut().acknowledged(DIR);
            }
            12 => kernel.borrow_mut().commit(),
            13 => drop(ondol_run_log::Drain::new(client.log().clone()).unwrap().step(false).unwrap()),
            n => {
                let names = change(&mut random, kernel.borrow().bound());
                let call = OneChange { kernel: &kernel, names, made: Cell::new(0) };
                let trusted = client.trusted(&kernel.borrow().look(DIR)).unwrap().filter(|_| n != 14);
                match trusted.map(|slot| client.change_names(slot, &call)) {
                    Some(Ok(Written::Done(()))) => fast += 1,
                    // Past the log: seen to be so, or not.
                    Some(_) | None => call.run().unwrap(),
                }
            }
        }
    }
    (kernel.into_inner(), base, fast)
}

fn judge(k: &Kernel, moment: &Moment, layers: &[Layer], domain: Domain) -> Result<(), String> {
    let log = Log::join(medium(&layers[0].to_bytes(), domain)).map_err(|e| e.to_string())?;
    let live = found(&log).map_err(|e| e.to_string())?;
    let (mut bound, ctime) = k.states[moment.names].clone();
    for dir in &live.dirs {
        let behind = match dir.kept(ctime) {
            Kept::All => continue,
            Kept::Behind(behind) => behind,
            Kept::Unknown => return Err("the directory is newer than the log".into()),
        };
        let records: Vec<_> = dir.records.iter().filter(|record| record.sequence > behind).collect();
        for (name, touched) in touched(&records) {
            let file = |handle: &Handle| u64::from_le_bytes(handle.bytes.clone().try_into().unwrap()) as usize;
            if bound.get(&name[0]).copied() != touched.before.as_ref().map(file) {
                return Err(format!("{name:?} stands for {:?}, not {touched:?}", bound.get(&name[0])));
            }
            match touched.now {
                Some(now) => drop(bound.insert(name[0], file(&now))),
                None => drop(bound.remove(&name[0])),
            }
        }
    }
    let sure = moment.acked.max(moment.names);
    let Some(done) = k.states[sure..].iter().position(|(state, _)| *state == bound) else {
        return Err(format!("{bound:?} is no state after {sure} changes"));
    };
    for file in bound.values() {
        let (all, _, _, born) = &k.files[*file];
        let kept = if *born <= moment.names { moment.home.get(*file).copied().unwrap_or(0) } else { 0 };
        let mut bytes = all[..kept].to_vec();
        let own = live.files.iter().filter(|f| f.identity.as_ref().is_some_and(|id| id.handle == handle(*file)));
        for record in own.flat_map(|file| &file.records) {
            let end = record.offset as usize + record.bytes.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[record.offset as usize..end].copy_from_slice(&record.bytes);
        }
        let over = k.over.iter().filter(|(state, over, _)| over == file && *state <= sure + done);
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
