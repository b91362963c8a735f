//! Engine `scalable` over a home that fails.

use crate::contract::{BLOCK, HOME, META, SUMMED, bench, byte_at, sum};
use crate::scalable::{Scalable, USUAL, block_of};
use ondol_journal::{Handle, JournalError};
use ondol_stores::FaultPlan;

/// What cannot go home stays in the log, and what comes after it, too; when home works again all of it goes there.
#[test]
fn a_home_that_fails_for_a_while_loses_nothing() {
    for plan in
        [FaultPlan { flushes: Some(0), ..FaultPlan::default() }, FaultPlan { writes: Some(0), ..FaultPlan::default() }]
    {
        let b = bench(&USUAL);
        let shared = |byte| {
            let mut h = b.handle(1);
            h.write(HOME + 1, SUMMED, 0, &[byte; BLOCK / 2]).unwrap();
            h.close();
        };
        b.fill(HOME, 1);
        shared(2);
        b.sync();
        b.store.arm(plan);
        assert!(matches!(b.engine.checkpoint_all(), Err(JournalError::Home(_))));
        assert!(b.engine.home_failure().is_some() && b.engine.aborted().is_none());
        b.fill(HOME, 3);
        b.sync();
        assert_eq!(byte_at(&*b.crashed(&USUAL), HOME), 3);
        assert!(b.engine.checkpoint_all().is_err());
        b.store.arm(FaultPlan::default());
        b.engine.checkpoint_all().unwrap();
        assert!(b.engine.home_failure().is_none() && b.engine.stats().journal_used_blocks == 0);
        let home = block_of(&*b.store, HOME + 1);
        assert_eq!((byte_at(&*b.store, HOME), home[0], home[BLOCK - 1]), (3, 2, sum(&home)));
    }
}

/// A home that fails for good: operations begin until half of the log is full, and what was acknowledged is there after
/// a crash.
#[test]
fn a_home_that_fails_for_good_ends_operations_and_no_promise() {
    let rig = Scalable(64 << 10, 16 << 10);
    let b = bench(&rig);
    b.store.arm(FaultPlan { writes: Some(0), ..FaultPlan::default() });
    assert!(b.engine.steps().iter().all(|step| step.step().is_ok()));
    let mut done = 0;
    while let Ok(mut h) = Handle::begin(&*b.engine, 1) {
        done += 1;
        h.write(HOME + done % 20, META, 0, &[done as u8; BLOCK]).unwrap();
        h.close();
        b.sync();
        if b.engine.stats().journal_used_blocks * 2 > b.engine.stats().journal_ring_blocks {
            let checkpointer = b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
            assert!(matches!(checkpointer.step(), Err(JournalError::Home(_)) | Ok(ondol_env::Progress::Idle)));
        }
        assert!(done < 100);
    }
    assert!(done > 20 && b.engine.aborted().is_none(), "{done}");
    assert!(matches!(Handle::begin(&*b.engine, 1), Err(JournalError::Home(_))));
    b.sync();
    let after = b.crashed(&rig);
    assert!((done - 19..=done).all(|n| byte_at(&*after, HOME + n % 20) == n as u8));
    b.store.arm(FaultPlan::default());
    b.fill(HOME, 200);
    b.sync();
    assert!(b.engine.home_failure().is_none());
}

/// Data that was written in place is nowhere else: where its flush fails, the engine stops.
#[test]
fn a_flush_that_fails_over_data_in_place_stops_the_engine() {
    let b = bench(&USUAL);
    b.fill(HOME, 1);
    b.sync();
    b.engine.write_data(HOME + 7, 0, &[9; BLOCK]).unwrap();
    b.store.arm(FaultPlan { flushes: Some(0), once: true, ..FaultPlan::default() });
    let checkpointed = b.engine.checkpoint_all();
    assert!(checkpointed.is_err() && b.engine.aborted().is_some(), "{checkpointed:?}");
    assert!(Handle::begin(&*b.engine, 1).is_err());
    assert!(b.engine.wait(b.engine.tid()).is_err());
    assert_eq!(byte_at(&*b.crashed(&USUAL), HOME), 1);
}
