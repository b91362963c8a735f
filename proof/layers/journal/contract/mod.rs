//! The engine contract as tests. An engine passes when every function here does, given a [`Rig`] that makes it.

mod new_data;
mod rig;

pub(crate) use rig::*;

pub(crate) use new_data::{
    new_data_fits_when_nobody_else_has_been_promised_anything, new_data_is_not_bound_by_the_ring,
    new_data_is_there_when_it_is_named, new_data_that_goes_home_early_is_there_when_it_is_named,
};

use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_env::{Env, Timestamp};
use ondol_journal::{Config, Extent, Handle, Merge};
use ondol_power::Sampling;
use ondol_stores::FaultPlan;

pub(crate) fn nothing_is_seen_before_close_and_nothing_of_a_dropped_handle(rig: &dyn Rig) {
    let b = bench(rig);
    let mut h = b.handle(2);
    h.write(HOME, META, 0, &[5; 10]).unwrap();
    assert_eq!(h.read(HOME, META).unwrap()[0], 5, "a handle sees its own writes");
    assert_eq!(b.first_byte(HOME), 0, "nobody else does");
    drop(h);
    b.sync();
    assert_eq!(b.first_byte(HOME), 0);
    assert_eq!(byte_at(&*b.crashed(rig), HOME), 0);
    b.fill(HOME, 9);
    assert_eq!(b.first_byte(HOME), 9);
}

pub(crate) fn concurrent_changes_of_one_block_merge(rig: &dyn Rig) {
    let b = bench(rig);
    let (mut x, mut y) = (b.handle(1), b.handle(1));
    x.write(HOME, META, 0, &[1; 4]).unwrap();
    y.write(HOME, META, 8, &[2; 4]).unwrap();
    x.merge(HOME, META, Merge::Set { first: 128, count: 12 }).unwrap();
    y.merge(HOME, META, Merge::Set { first: 140, count: 4 }).unwrap();
    x.merge(HOME, META, Merge::Add { offset: 32, width: 2, delta: 3 }).unwrap();
    y.merge(HOME, META, Merge::Add { offset: 32, width: 2, delta: -1 }).unwrap();
    y.close();
    x.close();
    let block = b.engine.read(HOME, META).unwrap();
    assert_eq!(block[..12], [1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2]);
    assert_eq!((block[16], block[17]), (0xFF, 0xFF));
    assert_eq!(block[32..34], [2, 0]);
}

pub(crate) fn a_waited_for_transaction_survives(rig: &dyn Rig) {
    let b = bench(rig);
    b.fill(HOME, 3);
    b.sync();
    b.fill(HOME, 4);
    assert_eq!(byte_at(&*b.crashed(rig), HOME), 3, "durable is durable, and the rest is not there");
}

pub(crate) fn what_is_durable_already_costs_no_commit_and_no_flush(rig: &dyn Rig) {
    let b = bench_with(rig, Config { journaled_data: false, ..config() });
    let counts = || (b.engine.stats().commits, b.store.stats().flushes);
    let fill = |block, byte| {
        let mut h = b.handle(1);
        h.write(block, META, 0, &[byte; BLOCK]).unwrap();
        h.close()
    };
    let first = fill(HOME, 3);
    b.engine.write_data(HOME + 1, 0, &[4; BLOCK]).unwrap();
    let written = b.engine.written();
    b.engine.wait_for(first, written).unwrap();
    assert_eq!(b.engine.stats().commits, 1);
    // Newer ones are there, and are nobody's affair.
    let second = fill(HOME, 5);
    b.engine.write_data(HOME + 2, 0, &[6; BLOCK]).unwrap();
    assert!(second > first && b.engine.written() > written);
    let before = counts();
    b.engine.wait_for(first, written).unwrap();
    assert_eq!(counts(), before);
    assert_eq!(byte_at(&*b.crashed(rig), HOME), 3);
    b.engine.wait_for(first, b.engine.written()).unwrap();
    assert_eq!(counts(), (before.0, before.1 + 1), "data without a transaction takes a flush");
    b.engine.wait_for(second, written).unwrap();
    assert_eq!((b.engine.stats().commits, byte_at(&*b.crashed(rig), HOME)), (2, 5));
}

/// A block that does not compress.
pub(crate) fn noise(n: u8, i: u64) -> Vec<u8> {
    let mut x = (u64::from(n) << 32 | i << 8) ^ 0x9E37_79B9_7F4A_7C15;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 40) as u8
    };
    (0..BLOCK).map(|_| next()).collect()
}

pub(crate) fn every_crash_leaves_a_prefix(rig: &dyn Rig) {
    let b = bench(rig);
    // Step n writes n into two blocks: a state is a prefix exactly if both hold the same number.
    for n in 1..=8u8 {
        let mut h = b.handle(5);
        h.write(HOME, META, 0, &[n; BLOCK]).unwrap();
        for i in 1..4 {
            h.write(HOME + i, META, 0, &noise(n, i)).unwrap();
        }
        h.write(HOME + 50, SUMMED, 0, &[n; BLOCK / 2]).unwrap();
        h.close();
        if n % 2 == 0 {
            b.sync();
            b.domain.mark(u64::from(n));
        }
        if n == 4 {
            b.engine.checkpoint_all().unwrap();
        }
    }
    let sampling = Sampling { all_of: 1, samples: 500, torn: 2048, ..Sampling::default() };
    let states = b.explore(rig, sampling, |after, synced| {
        let got = (byte_at(after, HOME), byte_at(after, HOME + 50));
        assert_eq!(got.0, got.1, "half of an operation after {synced} was synced");
        assert!(u64::from(got.0) >= synced, "{got:?} although {synced} was synced");
        let mut block = vec![0; BLOCK];
        after.read((HOME + 50) * BLOCK as u64, &mut block).unwrap();
        assert_eq!(block[BLOCK - 1], sum(&block), "a block came home unsealed");
    });
    assert!(states > rig.least_states(150), "only {states} crash states");
}

pub(crate) fn freed_blocks_wait_for_durability_and_are_never_replayed(rig: &dyn Rig) {
    let b = bench(rig);
    b.fill(HOME, 1);
    b.sync();
    let freed = Extent { start: HOME, len: 1 };
    let mut h = b.handle(1);
    h.write(HOME + 1, META, 0, &[1]).unwrap();
    h.free(freed, META);
    h.close();
    assert!(b.client.released.lock().is_empty(), "reusable before its freeing is durable");
    b.sync();
    assert_eq!(*b.client.released.lock(), vec![freed]);
    // Reused for data that goes home directly: the old image in the log must not come back over it.
    b.engine.write_data(HOME, 0, &[77; BLOCK]).unwrap();
    b.sync();
    assert_eq!(byte_at(&*b.crashed(rig), HOME), 77);
    b.engine.checkpoint_all().unwrap();
    assert_eq!(byte_at(&*b.store, HOME), 77);
}

/// What is written at home is read, and changed further, whatever had been read there before.
pub(crate) fn data_written_at_home_takes_the_place_of_what_was_read(rig: &dyn Rig) {
    let b = bench(rig);
    assert_eq!(b.engine.read(HOME + 1, META).unwrap()[0], 0);
    b.engine.write_data(HOME, 0, &[5; 2 * BLOCK]).unwrap();
    assert_eq!(b.engine.read(HOME + 1, META).unwrap()[7], 5);
    let mut h = b.handle(1);
    h.write(HOME + 1, META, 7, &[6]).unwrap();
    h.close();
    b.sync();
    b.engine.checkpoint_all().unwrap();
    let mut home = [0; BLOCK];
    b.store.read((HOME + 1) * BLOCK as u64, &mut home).unwrap();
    assert_eq!((home[6], home[7], home[8]), (5, 6, 5));
}

pub(crate) fn one_commit_costs_its_flushes_and_no_more(rig: &dyn Rig) {
    let b = bench(rig);
    b.fill(HOME, 1);
    b.sync();
    let before = b.store.stats().flushes;
    b.fill(HOME, 2);
    b.sync();
    assert_eq!(b.store.stats().flushes - before, rig.flushes_per_commit());
    let before = b.store.stats().flushes;
    b.sync();
    assert_eq!(b.store.stats().flushes, before, "nothing to commit, nothing to flush");
}

pub(crate) fn a_small_log_wraps_and_never_loses(rig: &dyn Rig) {
    let b = bench(rig);
    let max = b.engine.max_blocks();
    assert!(max > 8);
    for round in 0..400u32 {
        let mut h = b.handle(max.min(40));
        for i in 0..30 {
            h.write(HOME + i, META, 0, &round.to_le_bytes()).unwrap();
        }
        h.close();
        if round % 7 == 0 {
            b.sync();
        }
    }
    b.sync();
    let after = b.crashed(rig);
    for i in 0..30 {
        let mut got = [0; 4];
        after.read((HOME + i) * BLOCK as u64, &mut got).unwrap();
        assert_eq!(u32::from_le_bytes(got), 399);
    }
    let s = b.engine.stats();
    assert!(s.journal_used_blocks < s.journal_ring_blocks || rig.batch().is_some());
}

pub(crate) fn too_big_is_refused_before_anything_happens(rig: &dyn Rig) {
    let b = bench(rig);
    assert!(Handle::begin(&*b.engine, b.engine.max_blocks() + 1).is_err());
    let mut h = b.handle(1);
    h.write(HOME, META, 0, &[1]).unwrap();
    assert!(h.write(HOME + 1, META, 0, &[1]).is_err(), "a handle kept to its promise");
}

pub(crate) fn a_failed_flush_or_write_ends_all_promises(rig: &dyn Rig) {
    for plan in
        [FaultPlan { flushes: Some(0), ..FaultPlan::default() }, FaultPlan { writes: Some(0), ..FaultPlan::default() }]
    {
        let b = bench(rig);
        b.fill(HOME, 1);
        b.sync();
        b.fill(HOME, 2);
        b.store.arm(FaultPlan { once: true, ..plan });
        assert!(b.engine.wait(b.engine.tid()).is_err());
        assert!(b.engine.wait(b.engine.tid()).is_err(), "no later fsync pretends");
        assert!(Handle::begin(&*b.engine, 1).is_err());
        assert!(b.engine.aborted().is_some());
        // What was written can be read, however much is read beside it.
        (HOME + 1..b.store.size() / BLOCK as u64).for_each(|block| drop(b.engine.read(block, META)));
        assert_eq!(b.first_byte(HOME), 2);
    }
}

pub(crate) fn many_threads_share_commits(rig: &dyn Rig) {
    let b = bench(rig);
    let waits = 8 * 50;
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let b = &b;
            scope.spawn(move || {
                for n in 0..50u8 {
                    b.fill(HOME + t, n);
                    b.sync();
                    assert_eq!(b.first_byte(HOME + t), n);
                }
            });
        }
    });
    assert!(b.engine.stats().commits <= waits);
    let after = b.crashed(rig);
    for t in 0..8 {
        assert_eq!(byte_at(&*after, HOME + t), 49);
    }
}

pub(crate) fn a_read_base_that_breaks_its_rules_is_refused(rig: &dyn Rig) {
    let b = bench(rig);
    b.store.write((HOME + 9) * BLOCK as u64, &[1; BLOCK]).unwrap();
    assert!(b.engine.read(HOME + 9, SUMMED).is_err());
    let mut h = b.handle(1);
    assert!(h.write(HOME + 9, SUMMED, 0, &[1]).is_err());
    h.fresh(HOME + 9, SUMMED).unwrap();
    h.close();
    assert_eq!(b.engine.read(HOME + 9, SUMMED).unwrap()[0], 0);
}

pub(crate) fn the_timer_commits_and_the_checkpointer_drains(rig: &dyn Rig) {
    let b = bench(rig);
    b.fill(HOME, 1);
    let steps = b.engine.steps();
    steps.iter().for_each(|s| assert!(s.step().is_ok()));
    assert_eq!(b.engine.stats().commits, 0, "too early");
    b.env.advance(6_000_000_000);
    steps.iter().for_each(|s| assert!(s.step().is_ok()));
    assert_eq!(b.engine.stats().commits, 1);
    assert_eq!(byte_at(&*b.crashed(rig), HOME), 1);
}

pub(crate) fn a_checkpoint_brings_home_what_is_committed_and_commits_nothing(rig: &dyn Rig) {
    let b = bench(rig);
    b.fill(HOME, 3);
    assert!(!b.engine.checkpoint().unwrap(), "nothing is committed");
    b.sync();
    b.fill(HOME, 4);
    let before = b.engine.stats();
    assert!(b.engine.checkpoint().unwrap());
    assert!(!b.engine.checkpoint().unwrap(), "what is committed is home");
    let after = b.engine.stats();
    assert_eq!(after.commits, before.commits);
    assert!(after.checkpoint_blocks + after.swapped_blocks > before.checkpoint_blocks + before.swapped_blocks);
    assert_eq!((byte_at(&*b.crashed(rig), HOME), b.first_byte(HOME)), (3, 4));
}

pub(crate) fn the_timer_goes_on_when_the_clock_is_set(rig: &dyn Rig) {
    for set in [-3600, 3600] {
        let b = bench(rig);
        let commits = || {
            b.engine.steps().iter().for_each(|s| assert!(s.step().is_ok()));
            b.engine.stats().commits
        };
        b.fill(HOME, 1);
        let now = b.env.now();
        b.env.set_wall(Timestamp { sec: now.sec + set, ..now });
        assert_eq!(commits(), 0, "too early: no time has passed");
        b.env.advance(6_000_000_000);
        assert_eq!(commits(), 1, "six seconds later, by a clock that was set by {set} s");
        assert_eq!(byte_at(&*b.crashed(rig), HOME), 1);
    }
}

pub(crate) fn what_waits_for_a_commit_has_its_age(rig: &dyn Rig) {
    let b = bench(rig);
    let age = || b.engine.stats().uncommitted_ns;
    assert_eq!(age(), 0);
    for block in 0..3 {
        // Nothing waits meanwhile, and no step looks.
        b.env.advance(60_000_000_000);
        b.fill(HOME + block, 1);
        b.env.advance(2_000_000_000);
        b.fill(HOME + block, 2);
        assert_eq!(age(), 2_000_000_000);
        b.sync();
        assert_eq!(age(), 0);
    }
}

pub(crate) fn a_commit_that_panics_ends_all_promises(rig: &dyn Rig) {
    use ondol_env::sync::atomic::Ordering::SeqCst;
    let b = bench(rig);
    b.fill(HOME, 1);
    b.client.broken.store(true, SeqCst);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| b.engine.wait(b.engine.tid()))).is_err());
    b.client.broken.store(false, SeqCst);
    assert!(b.engine.wait(b.engine.tid()).is_err(), "what was lost is called durable");
    assert!(Handle::begin(&*b.engine, 1).is_err());
}

pub(crate) fn a_handle_that_changed_nothing_is_no_work(rig: &dyn Rig) {
    let b = bench(rig);
    b.fill(HOME, 1);
    b.sync();
    b.handle(1).close();
    b.env.advance(10_000_000_000);
    let idle = |step: &Arc<dyn ondol_env::Step<Error = ondol_journal::JournalError>>| {
        // What ends with the first round is work; a step that always finds some keeps its thread busy for good.
        let _ = step.step().unwrap();
        step.step().unwrap() == ondol_env::Progress::Idle
    };
    assert!(b.engine.steps().iter().all(idle));
}

/// What others have been promised and not used is no reason to commit what little there is; what the running
/// transaction itself was promised is.
pub(crate) fn promises_to_others_make_no_commits(rig: &dyn Rig) {
    let b = bench(rig);
    let background = || {
        for step in b.engine.steps() {
            step.step().unwrap();
        }
    };
    let most = b.engine.max_blocks();
    let others: Vec<Handle<'_>> = (0..3).map(|_| b.handle(most * 2 / 7)).collect();
    for i in 0..5 {
        b.fill(HOME + i, 1);
        background();
    }
    assert_eq!(b.engine.stats().commits, 0);
    drop(others);
    let mut large = b.handle(most * 6 / 7);
    (0..u64::from(most * 6 / 7)).for_each(|i| large.write(HOME + i, META, 0, &[2; BLOCK]).unwrap());
    large.close();
    background();
    assert_eq!(b.engine.stats().commits, 1);
}

/// Makes a test of every rule of the contract for the rig `$rig`.
macro_rules! engine_contract {
    ($rig:expr) => {
        crate::contract::engine_contract!(
            $rig;
            nothing_is_seen_before_close_and_nothing_of_a_dropped_handle
            concurrent_changes_of_one_block_merge
            a_waited_for_transaction_survives
            what_is_durable_already_costs_no_commit_and_no_flush
            every_crash_leaves_a_prefix
            new_data_is_there_when_it_is_named
            new_data_that_goes_home_early_is_there_when_it_is_named
            new_data_is_not_bound_by_the_ring
            new_data_fits_when_nobody_else_has_been_promised_anything
            freed_blocks_wait_for_durability_and_are_never_replayed
            data_written_at_home_takes_the_place_of_what_was_read
            one_commit_costs_its_flushes_and_no_more
            a_small_log_wraps_and_never_loses
            too_big_is_refused_before_anything_happens
            a_failed_flush_or_write_ends_all_promises
            many_threads_share_commits
            a_read_base_that_breaks_its_rules_is_refused
            the_timer_commits_and_the_checkpointer_drains
            a_checkpoint_brings_home_what_is_committed_and_commits_nothing
            the_timer_goes_on_when_the_clock_is_set
            what_waits_for_a_commit_has_its_age
            a_handle_that_changed_nothing_is_no_work
            promises_to_others_make_no_commits
            a_commit_that_panics_ends_all_promises
        );
    };
    ($rig:expr; $($name:ident)*) => { $(#[test] fn $name() { crate::contract::$name(&$rig); })* };
}
pub(crate) use engine_contract;
