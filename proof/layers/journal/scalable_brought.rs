//! Engine `scalable`: new data that nobody syncs, written home by its operation.

use crate::contract::{BLOCK, Bench, HOME, bench_with, config};
use crate::scalable::{USUAL, block_of};
use crate::scalable_pages::{DATA, allocate, beside_others, committer, free, unnamed_contents};
use ondol_block::{BlockStore, DeviceClass};
use ondol_env::Progress;
use ondol_faults::Defect;
use ondol_journal::{Before, Config, Extent, Kind, Placement};
use ondol_stores::FaultPlan;
use ondol_testkit::put_data::{PutData, placed};

/// Commits, none of which a program has waited for.
fn quiet(b: &Bench) {
    let committer = committer(b);
    for round in 0..12 {
        b.fill(HOME + 50, round + 1);
        let _idle = committer.step().unwrap();
        b.env.advance(10_000_000_000);
        assert_eq!(committer.step().unwrap(), Progress::Worked);
    }
}

/// Nobody has synced for long, and there is more new data than goes home: operations write it there themselves, without
/// pages, and a commit flushes it first.
fn brought_home() -> Bench {
    let b =
        bench_with(&USUAL, Config { dirty_bytes: 16 * BLOCK as u64, kept_bytes: Some(4 * BLOCK as u64), ..config() });
    quiet(&b);
    // Others have brought much.
    allocate(&b, DATA + 100, 12, 3);
    let before = b.engine.stats();
    allocate(&b, DATA, 12, 9);
    assert_eq!(b.engine.stats().staged_early_blocks - before.staged_early_blocks, 12);
    assert_eq!(block_of(&*b.store, DATA + 11), [9; BLOCK]);
    b
}

#[test]
fn operations_bring_home_what_nobody_syncs() {
    let b = brought_home();
    let pages = b.engine.stats().buffer_used_blocks;
    let flushes = b.store.stats().flushes;
    b.sync();
    assert_eq!(b.store.stats().flushes, flushes + 1, "what is home is flushed before it counts");
    assert!(b.engine.stats().buffer_used_blocks <= pages, "and is in no page");
    let mut h = b.handle(1);
    h.write(DATA + 3, Kind::DATA, 5, &[1; 10]).unwrap();
    h.close();
    free(&b, DATA + 5, 2);
    b.sync();
    let right = |after: &dyn BlockStore| {
        assert_eq!(block_of(after, DATA + 3)[4..16], [9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9]);
        assert!([0, 1, 2, 4, 7, 11].iter().all(|n| block_of(after, DATA + n) == [9; BLOCK]));
        assert!((0..12).all(|n| block_of(after, DATA + 100 + n) == [3; BLOCK]));
    };
    right(&*b.crashed(&USUAL));
    b.engine.checkpoint_all().unwrap();
    right(&*b.store);
    right(&*b.crashed(&USUAL));
}

/// One operation has blocks that it brings home and others that lie in pages: each record finds its own, and all pages
/// come back.
#[test]
fn what_is_home_and_what_lies_in_pages_are_told_apart() {
    let b = brought_home();
    b.engine.checkpoint_all().unwrap();
    quiet(&b);
    allocate(&b, DATA + 100, 12, 4);
    let before = b.engine.stats();
    let mut h = b.handle(3);
    h.data(DATA + 1, 0, &[6; BLOCK]).unwrap();
    h.new_data(DATA + 50, 0, &[7; BLOCK]).unwrap();
    h.data(DATA + 2, 0, &[8; BLOCK]).unwrap();
    h.close();
    assert_eq!(b.engine.stats().staged_early_blocks - before.staged_early_blocks, 1);
    assert_eq!(b.engine.stats().buffer_used_blocks - before.buffer_used_blocks, 2);
    b.sync();
    let right = |after: &dyn BlockStore| {
        let found = [1, 50, 2, 3].map(|n| block_of(after, DATA + n)[BLOCK - 1]);
        assert_eq!(found, [6, 7, 8, 9]);
    };
    right(&*b.crashed(&USUAL));
    b.engine.checkpoint_all().unwrap();
    right(&*b.store);
    assert_eq!(b.engine.stats().buffer_used_blocks, 0, "no page is lost");
}

/// What would pass goes into the handle where home cannot be written to, and nothing stops; nothing more passes then.
#[test]
fn what_cannot_pass_belongs_into_the_handle() {
    let b = bench_with(&USUAL, Config { device: DeviceClass::Memory, ..config() });
    let extent = Extent { start: DATA, len: 64 };
    let is_written_through = || placed(&*b.engine, extent, Before::New, 64 << 10) == Placement::InPlace;
    assert!(is_written_through());
    b.store.arm(FaultPlan { writes: Some(0), ..FaultPlan::default() });
    assert!(!b.engine.write_new(DATA, &[5; BLOCK]).unwrap());
    assert!(b.engine.home_failure().is_some() && b.engine.aborted().is_none());
    assert!(!is_written_through(), "home rests");
    allocate(&b, DATA, 1, 5);
    b.sync();
    b.store.arm(FaultPlan::default());
    assert_eq!(block_of(&*b.crashed(&USUAL), DATA), [5; BLOCK]);
}

/// A home that cannot be written to leaves what an operation brings to the pool, and nothing stops.
#[test]
fn what_cannot_be_brought_home_lies_in_pages() {
    let b = brought_home();
    b.sync();
    quiet(&b);
    allocate(&b, DATA + 120, 12, 4);
    b.store.arm(FaultPlan { writes: Some(0), flushes: Some(0), ..FaultPlan::default() });
    allocate(&b, DATA + 50, 4, 5);
    assert!(b.engine.home_failure().is_some(), "it has been tried");
    b.sync();
    assert!(b.engine.aborted().is_none());
    b.store.arm(FaultPlan::default());
    assert!((DATA + 50..DATA + 54).all(|block| block_of(&*b.crashed(&USUAL), block) == [5; BLOCK]));
}

#[test]
fn what_operations_bring_home_is_there_when_it_is_named() {
    let synced = || {
        let b = brought_home();
        b.sync();
        unnamed_contents(&b)
    };
    assert_eq!(synced(), 0);
    let _planted = ondol_faults::set(Some(Defect::MissingDataFlush)).unwrap();
    let lost = std::panic::catch_unwind(synced);
    assert!(lost.is_err() || lost.is_ok_and(|wrong| wrong > 0));
}

#[test]
fn what_operations_bring_home_is_right_whatever_happens_beside_it() {
    beside_others(|b| {
        quiet(b);
        allocate(b, DATA + 100, 12, 3);
        // After so many operations somebody looks how much waits.
        (0..16).for_each(|n| b.fill(HOME + 51, n));
        allocate(b, DATA + 120, 1, 3);
        assert_eq!(b.engine.stats().staged_early_blocks, 1, "operations bring data home");
    });
}
