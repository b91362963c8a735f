//! Runs that are recorded, and every power cut of them judged by the plain model.

use super::memory::MemoryHome;
use super::{Op, Plain, Rig, names, open, pool, shape};
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_medium::{Domain, Nvm, Pool};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_write_buffer::{BufferError, BufferStats, Identity, OnDamage, recover};
use std::collections::BTreeMap;

pub(crate) const CAPACITY: usize = 8 << 10;

type Files = BTreeMap<Identity, Vec<u8>>;

/// A run: what the media held before, what was done to them, and the model after each operation.
pub(crate) struct Run {
    kind: Kind,
    base: Vec<Vec<u8>>,
    events: Vec<Event>,
    states: Vec<Plain>,
    pub(crate) stats: BufferStats,
}

/// After which numbers of events fewer states are allowed.
fn marks(events: &[Event]) -> impl Fn(usize) -> bool {
    move |n| matches!(events[n - 1], Event::Mark(_))
}

/// What exploring a run found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) again: usize,
    pub(crate) wrong: Vec<String>,
}

impl Run {
    /// Does `ops` with a buffer of so many blocks.
    pub(crate) fn record(blocks: u64, kind: Kind, ops: &[Op]) -> Self {
        let made = pool(shape(), blocks);
        drop(open(&made, Arc::new(MemoryHome::new())));
        let mut base = vec![made.nvm().to_bytes().unwrap()];
        base.extend(MemoryHome::media(&names(), CAPACITY));
        let power = PowerDomain::new();
        let (pool, home) = attach(&base, kind, &power);
        let mut rig = Rig::over(pool, Arc::new(home));
        let mut states = vec![rig.plain.clone()];
        for (i, op) in ops.iter().enumerate() {
            rig.apply(op);
            states.push(rig.plain.clone());
            power.mark(i as u64 + 1);
        }
        let (events, stats) = (power.take(), rig.buffer.stats());
        rig.buffer.settle().unwrap();
        rig.check();
        Self { kind, base, events, states, stats }
    }

    pub(crate) fn events(&self) -> usize {
        self.events.len()
    }

    fn media(&self, base: &[Vec<u8>]) -> Vec<Medium> {
        let kind = |i: usize| if i == 0 { self.kind } else { Kind::Block };
        let medium =
            |(i, bytes): (usize, &Vec<u8>)| Medium { base: Layer::new(bytes.clone()), kind: kind(i), whole: None };
        base.iter().enumerate().map(medium).collect()
    }

    /// Recovers from cuts everywhere, and for one of `again` of them from cuts of that recovery.
    pub(crate) fn explore(&self, sampling: Sampling, again: usize) -> Found {
        let media = self.media(&self.base);
        let sampling = sampling.spread(&media, &self.events, marks(&self.events), 60_000);
        let mut found = Found::default();
        found.states = sampling.each(&media, &self.events, |layers, mark| {
            let state: Vec<Vec<u8>> = layers.iter().map(Layer::to_bytes).collect();
            let number = found.again;
            found.again += 1;
            if let Err(wrong) = self.judge(&state, mark as usize, number % again == 0) {
                found.wrong.push(format!("after operation {mark}: {wrong}"));
            }
        });
        found
    }

    fn judge(&self, state: &[Vec<u8>], done: usize, again: bool) -> Result<(), String> {
        let power = PowerDomain::new();
        let first = recovered(state, self.kind, &power)?;
        let next = self.states.get(done + 1).unwrap_or(&self.states[done]);
        allowed(&first, &self.states[done].files, &next.files)?;
        if !again {
            return Ok(());
        }
        let events = power.take();
        let media = self.media(state);
        let few = Sampling::default().at_most(8).spread(&media, &events, marks(&events), 60);
        let mut wrong = Ok(());
        few.each(&media, &events, |layers, _| {
            let state: Vec<Vec<u8>> = layers.iter().map(Layer::to_bytes).collect();
            match recovered(&state, self.kind, &PowerDomain::new()) {
                Ok(second) if filled(&second) == filled(&first) => {}
                Ok(second) => wrong = Err(format!("recovered again: {}", difference(&first, &second))),
                Err(e) => wrong = Err(format!("recovered again: {e}")),
            }
        });
        wrong
    }
}

fn attach(state: &[Vec<u8>], kind: Kind, power: &Arc<PowerDomain>) -> (Pool, MemoryHome) {
    let domain = if kind == Kind::Nvm { Domain::Adr } else { Domain::Eadr };
    let nvm = Nvm::from_bytes(&state[0]).unwrap().with_domain(domain).unwrap().record(power.clone(), 0);
    (Pool::open(nvm).unwrap(), MemoryHome::recorded(&state[1..], &names(), power.clone(), 1))
}

fn recovered(state: &[Vec<u8>], kind: Kind, power: &Arc<PowerDomain>) -> Result<Files, String> {
    let (pool, home) = attach(state, kind, power);
    recover(&pool, &home, OnDamage::Refuse).map_err(|e: BufferError| e.to_string())?;
    Ok(home.all())
}

/// A file without bytes is as good as none: making one promises nothing.
fn filled(files: &Files) -> Files {
    files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

fn difference(a: &Files, b: &Files) -> String {
    let lens =
        |files: &Files| -> Vec<(String, usize)> { files.iter().map(|(n, b)| (n.to_string(), b.len())).collect() };
    format!("{:?} and {:?}", lens(a), lens(b))
}

/// Each byte is as after the last operation that has returned, or as after the one that was under way.
fn allowed(found: &Files, before: &Files, after: &Files) -> Result<(), String> {
    let empty = Vec::new();
    for name in names() {
        let of = |files: &Files| files.get(&name).cloned();
        let (found, before, after) = (of(found), of(before), of(after));
        let Some(bytes) = found else {
            let may_be_absent = before.as_ref().is_none_or(Vec::is_empty) || after.is_none();
            if may_be_absent {
                continue;
            }
            return Err(format!("{name} is gone"));
        };
        if before.is_none() && after.is_none() && !bytes.is_empty() {
            return Err(format!("{name} is there with {} bytes", bytes.len()));
        }
        if after.is_none() && Some(&bytes) == before.as_ref() {
            continue;
        }
        let (before, after) = (before.as_ref().unwrap_or(&empty), after.as_ref().unwrap_or(&empty));
        if !(before.len().min(after.len())..=before.len().max(after.len())).contains(&bytes.len()) {
            return Err(format!("{name} has {} bytes, not {} or {}", bytes.len(), before.len(), after.len()));
        }
        let at = |bytes: &[u8], i: usize| bytes.get(i).copied().unwrap_or(0);
        for (i, byte) in bytes.iter().enumerate() {
            if ![at(before, i), at(after, i)].contains(byte) {
                let (old, new) = (at(before, i), at(after, i));
                return Err(format!("byte {i} of {name} is {byte:#04x}, not {old:#04x} or {new:#04x}"));
            }
        }
    }
    Ok(())
}

/// Any operations, by a seed.
pub(crate) fn random_ops(seed: u64, count: usize) -> Vec<Op> {
    let random = ondol_env::Fixed::new(ondol_env::Timestamp::default(), seed);
    let below = |n: u32| random.random_u32() % n;
    let mut removed = [0; 3];
    let mut ops = Vec::new();
    while ops.len() < count {
        let file = below(3) as usize;
        let offset = u64::from(if below(3) == 0 { below(6) * 512 } else { below(2000) });
        let len = match below(8) {
            0..4 => 1 + below(120),
            4..6 => 512,
            _ => 100 + below(1400),
        };
        ops.push(match below(20) {
            0..9 => Op::Write { file, offset, len: len as usize },
            9 | 10 => Op::SetLen { file, len: offset },
            11 if removed[file] < 3 => {
                removed[file] += 1;
                Op::Remove { file }
            }
            11..14 => Op::Flush(below(2) as usize),
            14 | 15 => Op::Sync,
            16 | 17 => Op::Reclaim,
            18 => Op::Close { file },
            _ if below(3) == 0 => Op::FailingSettle,
            _ => Op::Settle,
        });
    }
    ops
}
