//! Engine `scalable`: checkpoints by several threads, which claim records, images and writes; and threads that free
//! blocks beside each other.

use crate::contract::{BLOCK, Bench, Ground, HOME, META, Rig, SUMMED, bench, bench_with, byte_at, config, sum};
use crate::scalable::{Scalable, USUAL, one_slice};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_env::{Env, Timestamp};
use ondol_faults::Defect;
use ondol_journal::thresholds::WORTH_THREADS;
use ondol_journal::{Config, Engine, Extent};
use ondol_medium::Pool;
use ondol_schedule::{Schedule, Task};
use std::time::Duration;

/// On a machine with so many processors.
struct Threaded(usize);

struct Processors(Arc<dyn Env>, usize);

impl Env for Processors {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
    fn random(&self, buf: &mut [u8]) {
        self.0.random(buf);
    }
    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }
    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
    fn processors(&self) -> usize {
        self.1
    }
}

impl Rig for Threaded {
    fn empty(&self) -> Vec<u8> {
        USUAL.empty()
    }
    fn pool(&self) -> Option<Vec<u8>> {
        Scalable(2 << 20, 256 << 10).pool()
    }
    fn open(&self, ground: Ground, config: Config) -> Box<dyn Engine> {
        let env = Arc::new(Processors(ground.env, self.0));
        USUAL.open(Ground { env, ..ground }, config)
    }
    fn recover(&self, store: Arc<dyn BlockStore>, pool: Option<Pool>) {
        USUAL.recover(store, pool);
    }
    fn flushes_per_commit(&self) -> u64 {
        0
    }
}

const BLOCKS: u64 = 3 * WORTH_THREADS as u64 - 60;

fn fill(b: &Bench, block: u64, byte: u8) {
    let mut h = b.handle(2);
    h.write(block, SUMMED, 0, &[byte; BLOCK / 2]).unwrap();
    h.close();
}

fn first(i: u64) -> u8 {
    1 + (i % 100) as u8
}

/// What is at home after a checkpoint of many blocks: some changed twice, some freed, some of them taken again, some
/// changed again and not committed.
fn home_after_one(threads: usize) -> Vec<u8> {
    let rig = Threaded(threads);
    let config = Config { pending_bytes: (BLOCKS + 30) * BLOCK as u64, checkpoint_threads: Some(threads), ..config() };
    let b = bench_with(&rig, config);
    let sync = || b.engine.wait(b.engine.tid()).unwrap();
    (0..BLOCKS).for_each(|i| fill(&b, HOME + i, first(i)));
    sync();
    (0..BLOCKS).step_by(5).for_each(|i| fill(&b, HOME + i, 101 + (i % 50) as u8));
    for i in (0..BLOCKS).step_by(7) {
        let mut h = b.handle(1);
        h.free(Extent { start: HOME + i, len: 1 }, SUMMED);
        h.close();
    }
    sync();
    for i in (0..BLOCKS).step_by(14) {
        let mut h = b.handle(1);
        h.fresh(HOME + i, META).unwrap();
        h.write(HOME + i, META, 9, &[200]).unwrap();
        h.close();
    }
    sync();
    (0..BLOCKS).step_by(2).filter(|i| i % 7 > 0).for_each(|i| fill(&b, HOME + i, 250));
    // The first commit is a slice of its own.
    (0..2).for_each(|_| one_slice(&b));
    assert_eq!(b.engine.stats().commits, 3);
    let mut home = vec![0; BLOCKS as usize * BLOCK];
    b.store.read(HOME * BLOCK as u64, &mut home).unwrap();
    home
}

#[test]
fn several_threads_bring_home_what_one_does() {
    let one = home_after_one(1);
    for (i, block) in (0..).zip(one.chunks(BLOCK)) {
        let expected = match i {
            _ if i % 14 == 0 => {
                assert!(block.iter().enumerate().all(|(at, byte)| *byte == if at == 9 { 200 } else { 0 }), "{i}");
                continue;
            }
            // Freed before the first slice began: what was there then stays.
            _ if i % 7 == 0 => 0,
            _ if i % 5 == 0 => 101 + (i % 50) as u8,
            _ => first(i),
        };
        assert_eq!((block[0], block[BLOCK - 1]), (expected, sum(block)), "block {i}");
    }
    for threads in [2, 4] {
        assert!(home_after_one(threads) == one, "{threads} threads");
    }
}

/// One thread frees blocks while another frees, syncs, and gives a block that it has freed to a next owner, whose data
/// goes home past the log. A checkpoint then takes what the first owner had. Returns the interleavings in which that
/// came over the next owner's data, and how many of them had one.
fn freed_beside_another_freeing(interleavings: u64) -> (Vec<u64>, u64) {
    let (mut lost, mut owned, mut steps) = (Vec::new(), 0, 100);
    for n in 0..interleavings {
        let b = Arc::new(bench(&Scalable(64 << 10, 16 << 10)));
        let free = |b: &Bench, block: u64| {
            let mut h = b.handle(1);
            h.free(Extent { start: block, len: 1 }, META);
            h.close();
        };
        (0..2).for_each(|i| b.fill(HOME + i, 5));
        b.sync();
        for i in 0..30 {
            b.fill(HOME + 10 + i % 20, 1);
            b.sync();
        }
        let other = b.clone();
        let frees: Task = Box::new(move || free(&other, HOME + 1));
        let owner = b.clone();
        let owns: Task = Box::new(move || {
            free(&owner, HOME);
            owner.sync();
            if owner.client.released.lock().iter().any(|extent| extent.start == HOME) {
                assert!(owner.engine.write_new(HOME, &[7; BLOCK]).unwrap());
            }
        });
        let schedule = Schedule::fitted(steps, n);
        steps = schedule.run(vec![frees, owns]).unwrap().steps;
        if byte_at(&*b.store, HOME) != 7 {
            continue;
        }
        owned += 1;
        b.sync();
        one_slice(&b);
        if byte_at(&*b.store, HOME) != 7 {
            lost.push(n);
        }
    }
    (lost, owned)
}

#[test]
fn what_is_released_late_hides_no_next_owner() {
    let (lost, owned) = freed_beside_another_freeing(1_000);
    assert!(lost.is_empty() && owned > 100, "lost in {lost:?} of {owned}");
    let _planted = ondol_faults::set(Some(Defect::OlderRelease)).unwrap();
    assert!(!freed_beside_another_freeing(1_000).0.is_empty());
}
