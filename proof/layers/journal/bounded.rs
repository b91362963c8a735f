//! What waits is bounded by what the medium drains in a stated time. How fast that is, is said, so nothing depends on the machine.

use crate::classic::Classic;
use crate::compressed::Compressed;
use crate::contract::{BLOCK, Bench, HOME, META, Rig, bench_with, config};
use crate::scalable::USUAL;
use crate::scalable_pages::{DATA, allocate, committer};
use ondol_env::Progress;
use ondol_env::reach::{self, Place};
use ondol_journal::{Config, Drains};
use std::ops::Range;

/// A second drains so many blocks, and a tenth of one is what may wait where programs sync.
const SECOND: u64 = 640;

fn each(test: impl Fn(&dyn Rig)) {
    test(&Classic);
    test(&Compressed { zeroing: false });
}

/// An engine that lets 256 blocks wait, until the medium turns out to be slow.
fn slow(rig: &dyn Rig) -> Bench {
    let block = BLOCK as u64;
    let drains = Some(Drains { least: 16 * block, byte_ns: 1_000_000_000 / (SECOND * block) });
    let config = Config { journaled_data: false, dirty_bytes: 256 * block, kept_bytes: None, drains, ..config() };
    bench_with(rig, Config { pending_bytes: 4 << 20, cache_bytes: 4 << 20, ..config })
}

/// Blocks that may wait.
fn bound(b: &Bench) -> u64 {
    (b.engine.stats().dirty_bound + BLOCK as u64 / 2) / BLOCK as u64
}

/// Closes a handle with new data in `blocks`.
fn born(b: &Bench, blocks: Range<u64>) {
    let mut h = b.handle(blocks.clone().count() as u32 + 1);
    h.write(HOME, META, 0, &[1]).unwrap();
    blocks.for_each(|block| h.new_data(block, 0, &[7; BLOCK]).unwrap());
    h.close();
}

fn fill(b: &Bench, blocks: Range<u64>) {
    let mut h = b.handle(blocks.clone().count() as u32);
    blocks.for_each(|block| h.write(block, META, 0, &[block as u8; BLOCK]).unwrap());
    h.close();
}

/// Lets the background do what there is to do.
fn idle(b: &Bench) {
    b.engine.steps().iter().for_each(|step| assert!(step.step().is_ok()));
}

/// An engine that has found out.
fn slowed(rig: &dyn Rig) -> Bench {
    let b = slow(rig);
    assert_eq!((bound(&b), b.engine.stats().drain_rate), (256, 0), "nothing is known");
    born(&b, HOME + 20..HOME + 120);
    b.sync();
    assert_eq!(bound(&b), 256, "not before the next transaction");
    let bounds = [(); 4].map(|()| {
        b.fill(HOME + 1, 1);
        b.sync();
        bound(&b)
    });
    assert_eq!(bounds, [128, 64, 64, 64], "half as much at least");
    assert!(b.engine.stats().drain_rate.abs_diff(SECOND * BLOCK as u64) < BLOCK as u64);
    b
}

#[test]
fn operations_write_early_what_the_medium_cannot_drain_in_time() {
    each(|rig| {
        let listening = reach::listen(false);
        let b = slowed(rig);
        assert_eq!(listening.finish().counts[Place::BoundMoved as usize], 2);
        born(&b, HOME + 200..HOME + 260);
        drop(b.handle(1));
        assert_eq!(b.engine.stats().staged_early_blocks, 0, "60 blocks may wait");
        born(&b, HOME + 300..HOME + 340);
        drop(b.handle(1));
        assert_eq!(b.engine.stats().staged_early_blocks, 60, "a hundred may not");
    });
}

#[test]
fn what_a_commit_alone_can_write_waits_for_no_more_than_that() {
    each(|rig| {
        let b = slowed(rig);
        let dirty = || b.engine.stats().commits_dirty;
        fill(&b, HOME + 400..HOME + 463);
        idle(&b);
        assert_eq!(dirty(), 0);
        fill(&b, HOME + 463..HOME + 465);
        idle(&b);
        assert_eq!(dirty(), 1, "a transaction of 65 blocks is large");
    });
}

#[test]
fn where_nobody_syncs_more_may_wait() {
    each(|rig| {
        let b = slowed(rig);
        let late = |_| {
            fill(&b, HOME + 1..HOME + 2);
            b.env.advance(6_000_000_000);
            idle(&b);
            bound(&b)
        };
        let bounds: Vec<u64> = (0..10).map(late).collect();
        assert_eq!(
            bounds,
            [64, 64, 64, 64, 64, 64, 64, 128, 256, 256],
            "from the eighth commit on, up to what was set"
        );
        assert_eq!(b.engine.stats().commits_age, 10);
        b.fill(HOME + 1, 2);
        b.sync();
        assert_eq!(bound(&b), 128, "somebody waits");
    });
}

/// Engine `scalable`, where new data waits as long as nobody syncs, and goes home before a commit that nobody waits for.
#[test]
fn where_a_log_in_nvm_is_before_the_medium_as_much_waits_as_that_drains() {
    let b = slow(&USUAL);
    let committer = committer(&b);
    let late = |data: u64| {
        b.fill(HOME + 50, 1);
        let _seen = committer.step().unwrap();
        if data > 0 {
            allocate(&b, DATA, data, 9);
        }
        b.env.advance(10_000_000_000);
        assert_eq!(committer.step().unwrap(), Progress::Worked);
        bound(&b)
    };
    // The first has nothing wait; the second brings a hundred home, and what that takes counts from the next on.
    assert_eq!([0, 100, 0, 0, 0].map(late), [256, 256, 128, 64, 64]);
    let staged = || b.engine.stats().staged_blocks;
    assert_eq!(staged(), 100);
    allocate(&b, DATA + 200, 60, 9);
    assert_eq!(committer.step().unwrap(), Progress::Idle, "60 blocks may wait");
    allocate(&b, DATA + 300, 10, 9);
    assert_eq!((committer.step().unwrap(), staged()), (Progress::Worked, 170), "70 may not");
    // Nobody has waited for the last eight.
    assert_eq!([0, 0, 0, 0].map(late), [64, 128, 256, 256]);
}

/// As the tests and the laboratory have it: nothing is measured.
#[test]
fn what_is_set_stays() {
    each(|rig| {
        let b = bench_with(rig, Config { journaled_data: false, ..config() });
        for n in 0..9 {
            born(&b, HOME + 20 + n * 30..HOME + 50 + n * 30);
            b.sync();
        }
        assert_eq!((b.engine.stats().dirty_bound, b.engine.stats().drain_rate), (1 << 20, 0));
    });
}
