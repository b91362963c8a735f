//! Logs whose runs are recorded, and every power cut of them judged.

use crate::page_table::rig::recorded;
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_medium::{AreaKind, Domain, Nvm, Pool, PoolSpec};
use ondol_nvm_log::{Contents, Log, LogError, OnDamage, Options, Promise};
use ondol_power::{Cut, Event, Layer, Medium, PowerDomain, Sampling};
use std::collections::BTreeSet;

/// Lines of a tiny ring.
pub const LINES: u64 = 64;

/// A clock that stands.
pub fn env() -> Arc<dyn Env> {
    Arc::new(Fixed::new(Timestamp { sec: 1_700_000_000, nsec: 5 }, 3))
}

/// A pool with a log of so many lines, not made yet.
pub fn pool(lines: u64) -> Pool {
    let bytes = 8192 + lines * 64;
    let spec =
        PoolSpec { uuid: [9; 16], areas: vec![(AreaKind::JOURNAL_LOG, bytes)], force: true, ..PoolSpec::default() };
    let nvm = Nvm::volatile(bytes + 8192).unwrap();
    // Whatever lay there before.
    let mut junk = nvm.stored();
    (2..nvm.size() / 4096).for_each(|page| junk.store(page * 4096, &[0xa5; 4096]).unwrap());
    let _fenced = junk.write_back().fence().unwrap();
    Pool::create(nvm, &spec).unwrap()
}

/// What the log of a pool holds, opened.
pub fn contents(pool: &Pool) -> Contents {
    Contents::open(pool, &*env(), OnDamage::Refuse).unwrap()
}

/// With `patience` looks at a record that is not complete.
pub fn start(pool: &Pool, patience: u32) -> Log {
    Log::start(contents(pool), env(), &Options { patience }).unwrap()
}

/// Who appended it, and the how many-th of that one it is.
pub type Id = (u8, u32);

/// Contents that say whose they are.
pub fn record(id: Id, len: usize) -> Vec<u8> {
    let len = len.max(9);
    let mut bytes = vec![id.0; len];
    bytes[1..5].copy_from_slice(&id.1.to_le_bytes());
    bytes[5..9].copy_from_slice(&(len as u32).to_le_bytes());
    bytes.iter_mut().enumerate().skip(9).for_each(|(i, byte)| *byte = byte.wrapping_add((i * 7) as u8) ^ id.1 as u8);
    bytes
}

/// Whose a record is; zeros are nobody's.
pub fn read(bytes: &[u8]) -> Result<Option<Id>, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (id, len) = ((bytes[0], number(1)), number(5) as usize);
    let is_right = len <= bytes.len() && bytes[..len] == record(id, len) && bytes[len..].iter().all(|b| *b == 0);
    if is_right { Ok(Some(id)) } else { Err(format!("{id:?} is not what was appended")) }
}

/// A log over a recorded medium, and what it has promised to whom.
pub struct Rig {
    /// What is recorded.
    pub power: Arc<PowerDomain>,
    /// What the memory held first.
    pub base: Vec<u8>,
    /// The log.
    pub log: Log,
    said: Mutex<Said>,
    /// Who writes home is one alone.
    releasing: Mutex<()>,
}

/// In their order.
#[derive(Clone, Debug, Default)]
struct Said {
    appended: Vec<Id>,
    committed: Vec<Id>,
    home: Vec<Id>,
}

impl Rig {
    /// A new log of so many lines.
    pub fn new(domain: Domain, lines: u64, patience: u32) -> Self {
        let made = pool(lines);
        drop(contents(&made));
        Self::over(made.nvm().to_bytes().unwrap(), domain, patience)
    }

    /// A log with so few free lines, of commits of all lengths from the `first` on; what made it so is not recorded.
    pub fn nearly_full(domain: Domain, lines: u64, patience: u32, free: u64, first: u32) -> Self {
        let mut rig = Self::new(domain, lines, patience);
        let mut next = 0;
        for n in 0.. {
            let stats = rig.log.stats();
            if stats.used + free.max(4) > stats.capacity {
                break;
            }
            let (id, len) = ((100, next), [300, 9, 100, 9, 200][((first + n) % 5) as usize]);
            let Ok(promise) = rig.log.promise(len as u64) else { continue };
            rig.appends(id);
            let position = promise.claim(len as u64).complete(&record(id, len)).unwrap();
            rig.commit(position, &[id]);
            next += 1;
        }
        rig.base = Cut::after(&media(&rig.base, domain), &rig.power.take()).everything().remove(0).to_bytes();
        rig
    }

    /// A log over a memory that holds this.
    pub fn over(base: Vec<u8>, domain: Domain, patience: u32) -> Self {
        let power = PowerDomain::new();
        let log = start(&recorded(&base, domain, Some(&power)), patience);
        Self { power, base, log, said: Mutex::default(), releasing: Mutex::default() }
    }

    /// A record is about to be appended.
    pub fn appends(&self, id: Id) {
        self.said.lock().appended.push(id);
    }

    /// Commits what lies up to `position`, among it `ids`.
    pub fn commit(&self, position: u64, ids: &[Id]) {
        self.log.commit(position).unwrap();
        let mut said = self.said.lock();
        said.committed.extend(ids);
        self.mark(&said);
    }

    fn mark(&self, said: &Said) {
        self.power.mark((said.committed.len() as u64) << 32 | said.home.len() as u64);
    }

    /// Takes the first batch home, if there is one and nobody else does, and releases it.
    pub fn release(&self) -> bool {
        let Some(_alone) = self.releasing.try_lock() else { return false };
        let Some(batch) = self.log.first_batch() else { return false };
        for position in &batch.records {
            let mut bytes = Vec::new();
            let contents = self.log.read(*position, &mut bytes).unwrap();
            let id = read(&bytes[contents]).unwrap();
            let mut said = self.said.lock();
            said.home.extend(id);
            self.mark(&said);
        }
        self.log.release(&[batch]).unwrap();
        true
    }

    /// Promises, and makes room as long as there is none.
    pub fn promise(&self, bytes: u64) -> Promise<'_> {
        loop {
            match self.log.promise(bytes) {
                Ok(promise) => return promise,
                Err(LogError::Full { .. }) => {
                    self.log.commit_all().unwrap();
                    if !self.release() {
                        ondol_env::sync::thread::yield_now();
                    }
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// Ends it.
    pub fn run(self, domain: Domain) -> Run {
        let said = self.said.into_inner();
        drop(self.log);
        Run { domain, base: self.base, events: self.power.take(), said }
    }
}

fn media(base: &[u8], domain: Domain) -> Vec<Medium> {
    vec![Medium { base: Layer::new(base.to_vec()), kind: domain.crashes_as(), whole: None }]
}

/// A run that is over.
pub struct Run {
    domain: Domain,
    base: Vec<u8>,
    /// What was recorded.
    pub events: Vec<Event>,
    said: Said,
}

/// States that cuts of a run have left.
#[derive(Debug, Default)]
pub struct Cuts {
    /// So many there were.
    pub states: usize,
    /// What is wrong with some.
    pub wrong: Vec<String>,
}

impl Run {
    /// What the memory holds when everything has arrived.
    pub fn end(&self) -> Vec<u8> {
        Cut::after(&media(&self.base, self.domain), &self.events).everything().remove(0).to_bytes()
    }

    /// Recovers `state`, and cuts that everywhere: each of those must still have what `state` had, or be empty as the
    /// recovery leaves it.
    pub fn explore_recovery(&self, state: &[u8]) -> Cuts {
        let had = found(&recorded(state, self.domain, None));
        let power = PowerDomain::new();
        let pool = recorded(state, self.domain, Some(&power));
        drop(start(&pool, 0));
        let media = media(state, self.domain);
        let mut cuts = Cuts::default();
        cuts.states = Sampling::default().each(&media, &power.take(), |layers, _| {
            let now = found(&recorded(&layers[0].to_bytes(), self.domain, None));
            if now != had && now != Ok(Vec::new()) {
                cuts.wrong.push(format!("{now:?}, and was {had:?}"));
            }
        });
        cuts
    }

    /// Recovers from cuts everywhere, about so many; for one of `again` of them goes on, and cuts that, too,
    /// and of an eighth of that the recovery.
    pub fn explore(&self, sampling: Sampling, again: usize, about: u64) -> Cuts {
        let media = media(&self.base, self.domain);
        let marks = |n: usize| matches!(self.events[n - 1], Event::Mark(_));
        let sampling = sampling.spread(&media, &self.events, marks, about);
        let mut cuts = Cuts::default();
        let mut number = 0;
        cuts.states = sampling.each(&media, &self.events, |layers, mark| {
            number += 1;
            let state = layers[0].to_bytes();
            let go_on = (number % again == 0).then_some(number / again);
            if let Err(wrong) = self.judge(&state, mark, go_on) {
                cuts.wrong.push(format!("after mark {mark:x}: {wrong}"));
            } else if number % (8 * again) == again / 2 {
                let wrong = self.explore_recovery(&state).wrong.into_iter().next();
                cuts.wrong
                    .extend(wrong.map(|wrong| format!("after mark {mark:x}, and a cut of the recovery: {wrong}")));
            }
        });
        cuts
    }

    fn judge(&self, state: &[u8], mark: u64, go_on: Option<usize>) -> Result<(), String> {
        let pool = recorded(state, self.domain, None);
        let found = found(&pool)?;
        let said = &self.said;
        let (committed, home) = (&said.committed[..(mark >> 32) as usize], &said.home[..mark as u32 as usize]);
        let mut all: BTreeSet<Id> = home.iter().copied().collect();
        for id in &found {
            if !said.appended.contains(id) {
                return Err(format!("nobody appended {id:?}"));
            }
            all.insert(*id);
        }
        if found.iter().collect::<BTreeSet<_>>().len() != found.len() {
            return Err(format!("found twice: {found:?}"));
        }
        if let Some(lost) = committed.iter().find(|id| !all.contains(id)) {
            return Err(format!("{lost:?} was committed, and is not in {found:?} after {home:?}"));
        }
        // Each appends one after the other: what lies before something is there with it.
        if let Some((who, n)) = all.iter().find(|(who, n)| *n > 0 && !all.contains(&(*who, n - 1))) {
            return Err(format!("{n} of {who} is there, and not the one before"));
        }
        if found.windows(2).any(|two| two[0].0 == two[1].0 && two[0].1 > two[1].1) {
            return Err(format!("not in their order: {found:?}"));
        }
        go_on.map_or(Ok(()), |number| self.go_on(state, number))
    }

    /// A log that goes on after a crash has what was appended since, and nothing from before.
    fn go_on(&self, state: &[u8], number: usize) -> Result<(), String> {
        let rig = Rig::over(state.to_vec(), self.domain, 0);
        for n in 0..4 {
            let id = (200, n);
            rig.appends(id);
            let bytes = record(id, [30 + 90 * n as usize, 9, 9 + 50 * n as usize][number % 3]);
            let position = rig.promise(bytes.len() as u64).claim(bytes.len() as u64).complete(&bytes).unwrap();
            if n % 2 == 1 {
                rig.commit(position, &[(200, n - 1), id]);
            }
        }
        let began = rig.power.take();
        let next = Run { domain: self.domain, base: state.to_vec(), events: began, said: rig.said.into_inner() };
        let media = media(state, self.domain);
        let few = Sampling::default().at_most(8).spread(&media, &next.events, |_| false, 40);
        let mut wrong = Ok(());
        few.each(&media, &next.events, |layers, mark| {
            let layer = layers[0].to_bytes();
            let found = match found(&recorded(&layer, self.domain, None)) {
                Ok(found) => found,
                Err(e) => return wrong = Err(format!("gone on: {e}")),
            };
            let started = found.iter().any(|(who, _)| *who == 200);
            if started && found.iter().any(|(who, _)| *who != 200) {
                wrong = Err(format!("gone on: what was given up is back: {found:?}"));
            }
            let committed = &next.said.committed[..(mark >> 32) as usize];
            if committed.iter().any(|id| !found.contains(id)) {
                wrong = Err(format!("gone on: {committed:?} were committed, not {found:?}"));
            }
        });
        wrong
    }
}

/// All records of the log of a pool, in their order.
pub fn found(pool: &Pool) -> Result<Vec<Id>, String> {
    let contents = Contents::open(pool, &*env(), OnDamage::Refuse).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for commit in contents.commits() {
        for position in &commit.records {
            let mut bytes = Vec::new();
            let at = contents.read(*position, &mut bytes).map_err(|e| e.to_string())?;
            found.extend(read(&bytes[at])?);
        }
    }
    Ok(found)
}

/// What a single caller can do.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Appends so many bytes.
    Append(usize),
    /// Claims room for so many bytes and keeps it: the next commit voids it.
    Hold(usize),
    /// Completes the oldest that is kept.
    Finish,
    /// Appends nothing where room was claimed.
    GiveUp,
    /// Commits what was appended.
    Commit,
    /// Takes the first batch home.
    Release,
}

/// Does `ops` alone.
pub fn run_alone(domain: Domain, lines: u64, ops: &[Op]) -> Run {
    let rig = Rig::new(domain, lines, 0);
    {
        let (mut held, mut open, mut last) = (Vec::new(), Vec::new(), None);
        // A slot that is held is a client of its own: nothing orders it.
        let (mut next, mut who) = (0, 1);
        for op in ops {
            match op {
                Op::Append(len) => {
                    let id = (0, next);
                    let bytes = record(id, *len);
                    let promise = match rig.log.promise(bytes.len() as u64) {
                        Ok(promise) => promise,
                        Err(LogError::Full { .. }) if !held.is_empty() => continue,
                        Err(_) => rig.promise(bytes.len() as u64),
                    };
                    next += 1;
                    rig.appends(id);
                    last = Some(promise.claim(bytes.len() as u64).complete(&bytes).unwrap());
                    open.push(id);
                }
                Op::Hold(len) if held.len() < 3 => {
                    if let Ok(promise) = rig.log.promise(*len as u64) {
                        rig.appends((who, 0));
                        held.push((promise.claim(*len as u64), (who, 0), *len));
                        who += 1;
                    }
                }
                Op::Finish if !held.is_empty() => {
                    let (slot, id, len) = held.remove(0);
                    let position = slot.complete(&record(id, len)).unwrap();
                    last = last.max(Some(position));
                    open.push(id);
                }
                Op::GiveUp => drop(held.pop()),
                // With more than can be passed over it would wait for ever: they are this thread's.
                Op::Commit if held.len() <= 2 => {
                    if let Some(position) = last.take() {
                        rig.commit(position, &std::mem::take(&mut open));
                    }
                }
                Op::Release => {
                    rig.release();
                }
                Op::Hold(_) | Op::Finish | Op::Commit => {}
            }
        }
    }
    rig.run(domain)
}
