//! What transactions of block engines are made of: why they are committed, and what they have of blocks that are freed
//! in them.

use crate::batch::Batch;
use crate::classic::Classic;
use crate::compressed::Compressed;
use crate::contract::{BLOCK, Bench, HOME, META, Rig, bench, bench_with, config};
use ondol_journal::{Config, EngineStats, Extent, Kind};
use ondol_power::Event;
use ondol_testkit::put_data::PutData;

fn each(test: impl Fn(&dyn Rig)) {
    test(&Classic);
    test(&Compressed { zeroing: false });
}

/// Those, and engine `batch`, which has no reasons of its own to commit.
fn each_and_batch(test: impl Fn(&dyn Rig)) {
    each(&test);
    test(&Batch);
}

/// Commits that somebody asked for, and those of old transactions, of dirty ones, of ones that keep much, and for
/// promises.
fn reasons(stats: &EngineStats) -> [u64; 5] {
    let EngineStats { commits_asked, commits_age, commits_dirty, commits_kept, commits_promises, .. } = *stats;
    [commits_asked, commits_age, commits_dirty, commits_kept, commits_promises]
}

/// Lets the background do what there is to do.
fn idle(b: &Bench) {
    b.engine.steps().iter().for_each(|step| assert!(step.step().is_ok()));
}

fn fill(b: &Bench, blocks: std::ops::Range<u64>) {
    let mut h = b.handle(blocks.clone().count() as u32);
    blocks.for_each(|block| h.write(block, META, 0, &[1; BLOCK]).unwrap());
    h.close();
}

#[test]
fn why_transactions_are_committed_is_counted() {
    each(|rig| {
        let b = bench_with(rig, Config { dirty_bytes: 100 * BLOCK as u64, ..config() });
        fill(&b, HOME..HOME + 1);
        b.sync();
        fill(&b, HOME..HOME + 1);
        idle(&b);
        assert_eq!(reasons(&b.engine.stats()), [1, 0, 0, 0, 0], "it is neither old nor large");
        b.env.advance(6_000_000_000);
        idle(&b);
        fill(&b, HOME..HOME + 100);
        idle(&b);
        let stats = b.engine.stats();
        assert_eq!((reasons(&stats), stats.commits), ([1, 1, 1, 0, 0], 3));
    });
}

#[test]
fn a_transaction_that_has_had_its_space_promised_is_committed_for_that() {
    each(|rig| {
        let b = bench(rig);
        let most = u64::from(b.engine.max_blocks());
        (0..most / 100 + 1).for_each(|n| fill(&b, HOME + n * 100..HOME + n * 100 + 99));
        idle(&b);
        let stats = b.engine.stats();
        assert!(stats.commits_promises > 0 && stats.commits_promises == stats.commits, "{stats:?}");
    });
}

const RUN: u64 = 60;

/// Closes a handle with new data in `blocks`.
fn born(b: &Bench, blocks: std::ops::Range<u64>) {
    let mut h = b.handle(blocks.clone().count() as u32 + 1);
    h.write(HOME, META, 0, &[7]).unwrap();
    blocks.for_each(|block| h.new_data(block, 0, &[block as u8; BLOCK]).unwrap());
    h.close();
}

fn freed(b: &Bench, blocks: std::ops::Range<u64>, kind: Kind) {
    let mut h = b.handle(1);
    h.write(HOME, META, 0, &[8]).unwrap();
    h.free(Extent { start: blocks.start, len: blocks.count() as u32 }, kind);
    h.close();
}

#[test]
fn what_is_freed_before_its_commit_costs_nothing() {
    each(|rig| {
        let b = bench(rig);
        // Beyond the medium: nobody reads or writes there.
        let place = |n: u64| HOME + 1000 + n * RUN..HOME + 1000 + n * RUN + RUN;
        for n in 0..40 {
            born(&b, place(n));
            freed(&b, place(n), Kind::DATA);
            idle(&b);
        }
        let stats = b.engine.stats();
        assert_eq!((stats.commits, stats.foreground_commits), (0, 0), "forty times as much as a transaction may have");
        assert_eq!(stats.uncommitted_bytes, BLOCK as u64, "what both change");
        assert_eq!((stats.dead_blocks, stats.staged_early_blocks), (40 * RUN, 0));
        b.sync();
        let stats = b.engine.stats();
        assert_eq!((stats.images, stats.staged_blocks, stats.data_runs), (1, 0, 0), "{stats:?}");
    });
}

/// A batch has the discards alone.
#[test]
fn what_is_freed_before_its_batch_costs_no_place_in_it() {
    let b = bench(&Batch);
    let (first, rounds) = (HOME + 20, 15);
    let most = u64::from(b.engine.max_blocks());
    assert!(rounds * RUN > most * 3 / 4, "so much would be submitted");
    for run in (0..rounds).map(|n| first + n * RUN..first + n * RUN + RUN) {
        born(&b, run.clone());
        freed(&b, run, Kind::DATA);
        idle(&b);
    }
    let stats = b.engine.stats();
    assert_eq!((stats.commits, stats.foreground_commits, stats.dead_blocks), (0, 0, rounds * RUN));
    assert_eq!(stats.uncommitted_bytes, BLOCK as u64, "what all change");
    b.domain.take();
    b.sync();
    let batches = b.domain.take();
    let Some(Event::Batch { writes, discards, .. }) = batches.first() else { panic!("{batches:?}") };
    assert_eq!((writes.len(), discards.len() as u64), (1, rounds));
}

#[test]
fn what_a_handle_frees_itself_does_not_join() {
    each_and_batch(|rig| {
        let b = bench(rig);
        let mut h = b.handle(4);
        h.write(HOME, META, 0, &[1]).unwrap();
        h.fresh(HOME + 1, META).unwrap();
        h.new_data(HOME + 2, 0, &[2; BLOCK]).unwrap();
        h.free(Extent { start: HOME + 1, len: 1 }, META);
        h.free(Extent { start: HOME + 2, len: 1 }, Kind::DATA);
        h.close();
        assert_eq!(b.engine.stats().uncommitted_bytes, BLOCK as u64);
        b.sync();
        assert_eq!(b.engine.stats().images, 1);
    });
}

#[test]
fn promises_come_back_once() {
    each(|rig| {
        let b = bench(rig);
        let most = u64::from(b.engine.max_blocks());
        // As much lives as dies, until what lives is several transactions.
        for n in 0..4 * most / RUN {
            let (lives, dies) = (HOME + 400 + n % 8 * RUN, HOME + 20 + n % 6 * RUN);
            fill(&b, lives..lives + RUN);
            born(&b, dies..dies + RUN);
            freed(&b, dies..dies + RUN, Kind::DATA);
            assert!(
                b.engine.stats().uncommitted_bytes <= (most + 1) * BLOCK as u64,
                "a transaction outgrows its share"
            );
        }
        b.sync();
        assert!(b.engine.aborted().is_none() && b.engine.stats().dead_blocks > 0);
    });
}

#[test]
fn data_that_was_home_and_dies_is_not_counted_twice() {
    let rig = Compressed { zeroing: false };
    let b = bench_with(&rig, Config { kept_bytes: Some(40 * BLOCK as u64), ..config() });
    let run = HOME + 10..HOME + 10 + RUN;
    born(&b, run.clone());
    // It has been brought home by whoever begins this handle; one block of it changes, and a part dies.
    let mut h = b.handle(2);
    h.data(run.start, 0, &[9; 16]).unwrap();
    h.close();
    assert_eq!(b.engine.stats().staged_early_blocks, RUN);
    freed(&b, run.start..run.start + 20, Kind::DATA);
    let stats = b.engine.stats();
    assert_eq!((stats.dead_blocks, stats.uncommitted_bytes), (1, (1 + RUN - 20) * BLOCK as u64), "{stats:?}");
    b.sync();
    assert_eq!(b.engine.stats().staged_blocks, RUN - 20);
}
