//! Writers of whole blocks and of parts, readers, commits and checkpoints, in interleavings that a seed decides, and
//! what a crash then leaves.

use crate::USUAL;
use crate::contract::{BLOCK, Bench, HOME, bench_with, config};
use crate::own::{DATA, read};
use ondol_block::BlockStore;
use ondol_env::sync::{Arc, Mutex};
use ondol_faults::Defect;
use ondol_journal::Config;
use ondol_schedule::{Schedule, Task};
use ondol_testkit::put_data::PutData;

/// Writes of each writer.
const TIMES: u8 = 3;

/// What was durable when a sync had returned, by block: how many of its writer's writes.
type Said = Arc<Mutex<[u8; 3]>>;

/// Write `n` of a block that has been filled with 1: parts of it, or all.
fn write(b: &Bench, block: u64, n: u8) {
    let all = [10 + n; BLOCK];
    let mut h = b.handle(1);
    match (block, n) {
        // Short ones build on what is there.
        (0, _) => h.data(DATA, 100 * usize::from(n), &[10 + n; 100]).unwrap(),
        // A short one, then pages.
        (1, 1) => h.data(DATA + 1, 100, &[10 + n; 100]).unwrap(),
        (1, _) => h.data(DATA + 1, 0, &[10 + n; 2000]).unwrap(),
        _ => h.lend(DATA + 2, &all, false).unwrap(),
    }
    h.close();
}

/// The block after so many of them.
fn after(block: u64, writes: u8) -> Vec<u8> {
    let mut bytes = vec![1; BLOCK];
    for n in 1..=writes {
        match (block, n) {
            (0, _) => bytes[100 * usize::from(n)..][..100].fill(10 + n),
            (1, 1) => bytes[100..200].fill(10 + n),
            (1, _) => bytes[..2000].fill(10 + n),
            _ => bytes.fill(10 + n),
        }
    }
    bytes
}

fn tasks(b: &Arc<Bench>, said: &Said) -> Vec<Task> {
    let writer = |block: u64| -> Task {
        let (b, said) = (b.clone(), said.clone());
        Box::new(move || {
            for n in 1..=TIMES {
                write(&b, block, n);
                // The others wait for somebody else's sync, if one comes.
                if n == 1 {
                    b.sync();
                    said.lock()[block as usize] = n;
                }
            }
        })
    };
    let (homing, reading) = (b.clone(), b.clone());
    let mut tasks: Vec<Task> = (0..3).map(writer).collect();
    tasks.push(Box::new(move || {
        for _ in 0..4 {
            let _some = homing.engine.checkpoint().unwrap();
            ondol_env::sync::thread::yield_now();
        }
    }));
    tasks.push(Box::new(move || {
        for n in 0..6 {
            let found = read(&reading, DATA + n % 3);
            assert!((0..=TIMES).any(|writes| found == after(n % 3, writes)), "block {n} is torn, or another's");
        }
    }));
    tasks
}

fn fresh() -> (Arc<Bench>, Said) {
    // So much memory that nobody checkpoints by himself.
    let b = Arc::new(bench_with(&USUAL, Config { pending_bytes: 8 << 20, ..config() }));
    for block in 0..3 {
        let mut h = b.handle(1);
        h.data(DATA + block, 0, &[1; BLOCK]).unwrap();
        h.close();
    }
    b.fill(HOME, 1);
    b.sync();
    b.engine.checkpoint_all().unwrap();
    (b, Said::default())
}

/// What is wrong in one interleaving, if anything.
fn run(schedule: Schedule) -> Option<String> {
    let (b, said) = fresh();
    if let Err(e) = schedule.run(tasks(&b, &said)) {
        return Some(e.to_string());
    }
    let left = b.crashed(&USUAL);
    for block in 0..3 {
        if read(&b, DATA + block) != after(block, TIMES) {
            return Some(format!("block {block} is not what was written"));
        }
        let mut found = vec![0; BLOCK];
        left.read((DATA + block) * BLOCK as u64, &mut found).unwrap();
        let durable = said.lock()[block as usize];
        if !(durable..=TIMES).any(|writes| found == after(block, writes)) {
            return Some(format!("after a crash block {block} has not what {durable} writes or more made"));
        }
    }
    b.engine.checkpoint_all().unwrap();
    match b.store.lender().unwrap().lent() {
        0 => None,
        lent => Some(format!("{lent} pages are lent to nobody")),
    }
}

fn steps() -> u64 {
    let (b, said) = fresh();
    Schedule::in_turn(0).run(tasks(&b, &said)).unwrap().steps
}

#[test]
fn writers_readers_and_checkpoints_in_any_order() {
    let steps = steps();
    for number in 0..100 {
        let wrong = run(Schedule::fitted(steps, number));
        assert_eq!(wrong, None, "interleaving {number}");
    }
    for defect in [Defect::ForgottenBase, Defect::RemapSkipped] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        assert!((0..60).any(|number| run(Schedule::fitted(steps, number)).is_some()), "{defect}");
    }
}
