//! The page table alone, over a handful of pages: one caller, and several that have two blocks each, with power cut
//! after each event.
#![allow(clippy::unwrap_used, reason = "what a rig cannot have is a panic, as in a test")]

#[allow(dead_code, reason = "shared with the table's own tests")]
#[path = "../../../crates/page-table/tests/table/rig.rs"]
pub(crate) mod rig;

use crate::run_log::Shown;
use ondol_block::BlockStore;
use ondol_env::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_medium::Domain;
use ondol_page_table::PageTable;
use ondol_power::{Layer, Medium, PowerDomain, Sampling};
use ondol_schedule::{Schedule, Task};
use rig::Op::{self, Checkpoint, Discard, Flush, InPlace, Lent, Part, Remap, Swap, Write};
use rig::{BLOCKS, Image, PAGE, allowed, found, pool, recorded, run, seen};

const P: u64 = PAGE as u64;

/// Callers of [`threads`], and blocks of each.
const OWNERS: u64 = 3;
const EACH: u64 = BLOCKS / OWNERS;

fn domain(seed: u64) -> Domain {
    match seed % 8 {
        3 => Domain::Eadr,
        7 => Domain::Msync,
        _ => Domain::Adr,
    }
}

/// What one caller does, by a seed, and about so many cuts of it. Of one in 37 states the attaching is cut, and the
/// table goes on.
pub fn operations(seed: u64, about: u64) -> Shown {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u64| u64::from(random.random_u32()) % n;
    let mut ops = vec![Write(0, 3), Write(3, 3)];
    ops.extend((0..10).map(|_| match below(17) {
        0..=1 => Write(below(BLOCKS - 2), 1 + below(2)),
        2..=3 => Part(below(20_000), 1 + below(4000)),
        4 | 14 => Flush,
        5..=6 => Swap(below(BLOCKS), below(BLOCKS)),
        7 => Remap(below(BLOCKS)),
        8 => Lent(below(BLOCKS)),
        9..=10 => InPlace(below(BLOCKS - 2), 1 + below(2)),
        11 => Op::Flatten,
        15..=16 => Discard(below(BLOCKS - 2), 1 + below(2)),
        _ => Checkpoint([below(BLOCKS), below(BLOCKS), below(BLOCKS), below(BLOCKS)], below(BLOCKS)),
    }));
    let sampling = Sampling { seed, ..Sampling::default().at_most(16) };
    let found = run(domain(seed), &ops).explore(sampling, 37, about);
    Shown { states: found.states, fast: 0, wrong: found.wrong.into_iter().next() }
}

/// What one caller does to its own blocks, and what all blocks would be after each, if it were alone.
struct Owner {
    first: u64,
    ops: Vec<Op>,
    images: Vec<Image>,
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Owner {
    fn new(who: u64, begins: &Image, below: impl Fn(u64) -> u64) -> Self {
        let first = who * EACH;
        let block = || first + below(EACH);
        let whole = || {
            let at = block();
            (at, 1 + below(first + EACH - at))
        };
        let op = |_| match below(14) {
            0..=2 => Write(whole().0, 1),
            3 => Write(first, EACH),
            4..=5 => {
                let at = below(EACH * P - 1);
                Part(first * P + at, 1 + below(EACH * P - at - 1))
            }
            6 => {
                let (at, count) = whole();
                InPlace(at, count)
            }
            7..=8 => Swap(first, first + 1),
            9 => Discard(block(), 1),
            10 => Lent(block()),
            _ => Flush,
        };
        let ops: Vec<Op> = (0..3 + below(4)).map(op).collect();
        let mut images = vec![begins.clone()];
        for (n, op) in ops.iter().enumerate() {
            let next = op.model(&images[n], tag(who, n));
            images.push(next);
        }
        Self { first, ops, images, begun: AtomicUsize::default(), done: AtomicUsize::default() }
    }
}

/// What a write of this owner is known by.
fn tag(who: u64, n: usize) -> u8 {
    (40 + who * 60 + n as u64 * 8) as u8
}

/// A table over a recorded medium, and whose its blocks are.
struct Rig {
    table: PageTable,
    power: Arc<PowerDomain>,
    owners: Vec<Owner>,
    saying: Mutex<()>,
    wrong: Mutex<Option<String>>,
}

impl Rig {
    /// So many operations of an owner are done. Of two such words the newer is said last.
    fn says(&self, owner: &Owner, done: usize) {
        let _alone = self.saying.lock();
        owner.done.store(done, SeqCst);
        let counts = self.owners.iter().rev();
        self.power.mark(counts.fold(0, |all, owner| all << 16 | owner.done.load(SeqCst) as u64));
    }

    fn works(&self, who: usize) {
        let owner = &self.owners[who];
        for (n, op) in owner.ops.iter().enumerate() {
            owner.begun.store(n + 1, SeqCst);
            op.run(&self.table, tag(who as u64, n));
            self.says(owner, n + 1);
        }
    }

    /// What lies in several pages is read at once; each block of it is as it was at some time meanwhile.
    fn reads(&self, block: u64, count: u64) {
        let of = |count: fn(&Owner) -> &AtomicUsize| -> Vec<_> {
            self.owners.iter().map(|owner| count(owner).load(SeqCst)).collect()
        };
        let done = of(|owner| &owner.done);
        let mut bytes = vec![0; (count * P) as usize];
        self.table.read(block * P, &mut bytes).unwrap();
        let begun = of(|owner| &owner.begun);
        for (block, bytes) in (block..).zip(bytes.chunks(PAGE)) {
            let who = (block / EACH) as usize;
            let owner = &self.owners[who];
            if let Err(what) = seen(&owner.ops, &owner.images, bytes, block as usize, done[who]..begun[who]) {
                *self.wrong.lock() = Some(format!("what was read: {what}"));
            }
        }
    }
}

/// Several callers in an interleaving, both by a number, and about so many cuts of it.
pub fn threads(number: u64, about: u64) -> Shown {
    // Eight interleavings of each crowd.
    let crowd = number / 8;
    let base = {
        let table = PageTable::attach(&pool()).unwrap();
        (0..BLOCKS).filter(|block| !crowd.is_multiple_of(3) || block.is_multiple_of(2)).for_each(|block| {
            table.write(block * P, &rig::page(block as u8 + 1)).unwrap();
        });
        table.flush().unwrap();
        table.nvm().to_bytes().unwrap()
    };
    let begins = found(&base, Domain::Adr).unwrap();
    let new = || {
        let random = Fixed::new(Timestamp::default(), crowd);
        let below = |n: u64| u64::from(random.random_u32()) % n;
        let owners = (0..OWNERS).map(|who| Owner::new(who, &begins, below)).collect();
        let reads: Vec<(u64, u64)> = (0..below(5))
            .map(|_| {
                let at = below(BLOCKS);
                (at, 1 + below(BLOCKS - at))
            })
            .collect();
        let power = PowerDomain::new();
        let table = PageTable::attach(&recorded(&base, domain(number), Some(&power))).unwrap();
        (Arc::new(Rig { table, power, owners, saying: Mutex::default(), wrong: Mutex::default() }), reads)
    };
    let tasks = |rig: &Arc<Rig>, reads: Vec<(u64, u64)>| -> Vec<Task> {
        let mut all: Vec<Task> = (0..OWNERS as usize)
            .map(|who| {
                let rig = rig.clone();
                Box::new(move || rig.works(who)) as Task
            })
            .collect();
        let rig = rig.clone();
        all.push(Box::new(move || reads.into_iter().for_each(|(block, count)| rig.reads(block, count))));
        all
    };
    let (rig, reads) = new();
    let stats = Schedule::in_turn(crowd).run(tasks(&rig, reads)).unwrap();
    let ((rig, reads), schedule) = (new(), Schedule::fitted_to(&stats, number));
    schedule.run(tasks(&rig, reads)).unwrap_or_else(|e| panic!("{e}"));
    let Rig { table, power, owners, wrong, .. } = Arc::into_inner(rig).expect("no task has it any more");
    drop(table);
    let (events, mut wrong) = (power.take(), wrong.into_inner());
    let media = [Medium { base: Layer::new(base), kind: domain(number).crashes_as(), whole: None }];
    let sampling = Sampling { seed: number, ..Sampling::default().at_most(16) };
    let states = sampling.spread(&media, &events, |_| false, about).each(&media, &events, |layers, mark| {
        let judged = found(&layers[0].to_bytes(), domain(number)).and_then(|image| {
            (0..).zip(&owners).try_for_each(|(who, owner)| {
                let done = (mark >> (16 * who) & 0xffff) as usize;
                allowed(&owner.ops, &owner.images, &image, done, owner.first..owner.first + EACH)
            })
        });
        if let (Err(what), None) = (judged, &wrong) {
            wrong = Some(what);
        }
    });
    Shown { states, fast: 0, wrong: wrong.map(|wrong| format!("{schedule}: {wrong}")) }
}
