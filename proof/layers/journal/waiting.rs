//! New data that waits for its commit: how much of it, who writes it before, and what a transaction still knows of it
//! then.

use crate::classic::Classic;
use crate::compressed::Compressed;
use crate::contract::{BLOCK, Bench, HOME, META, bench_with, byte_at, config};
use ondol_block::BlockStore;
use ondol_journal::{Before, Bytes, Config, Extent, Kind, Placement, Run};
use ondol_power::Event;
use ondol_testkit::put_data::{PutData, placed};
use std::ops::Range;

const COMPRESSED: Compressed = Compressed { zeroing: false };

/// An engine that lets so many blocks of new data wait.
fn waiting(blocks: u64) -> Bench {
    let bytes = blocks * BLOCK as u64;
    // The cache has room for what may wait, and for little beside it.
    let cache_bytes = 256 * BLOCK;
    bench_with(&COMPRESSED, Config { dirty_bytes: bytes, kept_bytes: Some(bytes), cache_bytes, ..config() })
}

/// Where run `n` of so many blocks lies.
fn place(n: u64, blocks: u64) -> Range<u64> {
    HOME + 20 + n * blocks..HOME + 20 + (n + 1) * blocks
}

/// The same, with a gap behind each.
fn apart(n: u64, blocks: u64) -> Range<u64> {
    let start = place(n, blocks).start + n;
    start..start + blocks
}

/// Closes a handle with new data in `blocks`.
fn born(b: &Bench, blocks: Range<u64>, byte: u8) {
    let mut h = b.handle(blocks.clone().count() as u32 + 1);
    h.write(HOME, META, 0, &[byte]).unwrap();
    blocks.for_each(|block| h.new_data(block, 0, &[byte; BLOCK]).unwrap());
    h.close();
}

fn freed(b: &Bench, blocks: Range<u64>) {
    let mut h = b.handle(1);
    h.write(HOME, META, 0, &[8]).unwrap();
    h.free(Extent { start: blocks.start, len: blocks.count() as u32 }, Kind::DATA);
    h.close();
}

/// Lets the background do what there is to do.
fn idle(b: &Bench) {
    b.engine.steps().iter().for_each(|step| assert!(step.step().is_ok()));
}

#[test]
fn operations_write_new_data_only_while_more_waits_than_may_and_the_oldest_first() {
    let b = waiting(200);
    // None continues the one before it.
    let place = |n: u64| apart(n, 60);
    (0..4).for_each(|n| born(&b, place(n), 1 + n as u8));
    assert_eq!(b.engine.stats().staged_early_blocks, 0, "each began when no more waited than may");
    born(&b, place(4), 5);
    let first = |n| byte_at(&*b.store, place(n).start);
    assert_eq!((b.engine.stats().staged_early_blocks, first(0), first(1)), (60, 1, 0));
    drop(b.handle(1));
    assert_eq!((b.engine.stats().staged_early_blocks, first(1), first(2)), (120, 2, 0));
    drop(b.handle(1));
    assert_eq!(b.engine.stats().staged_early_blocks, 120, "180 blocks may wait");
}

#[test]
fn the_flusher_writes_down_to_seven_eighths() {
    let b = waiting(160);
    (0..4).for_each(|n| born(&b, apart(n, 40), 1));
    idle(&b);
    assert_eq!(b.engine.stats().staged_early_blocks, 0);
    born(&b, apart(4, 40), 1);
    idle(&b);
    let stats = b.engine.stats();
    assert_eq!((stats.staged_early_blocks, stats.data_runs, stats.commits), (80, 2, 0), "an eighth at a time");
    idle(&b);
    assert_eq!(b.engine.stats().staged_early_blocks, 80);
}

#[test]
fn what_is_home_is_no_reason_for_a_commit_and_leaves_the_cache() {
    let b = waiting(100);
    for n in 0..9 {
        born(&b, place(n, 100), 1 + n as u8);
        idle(&b);
    }
    let stats = b.engine.stats();
    assert_eq!((stats.commits, stats.foreground_commits), (0, 0), "nine times as much as may wait");
    assert!(stats.staged_early_blocks >= 800, "{stats:?}");
    assert_eq!(stats.uncommitted_bytes, 901 * BLOCK as u64, "no commit has made it durable");
    assert!(b.engine.cache().stats().blocks < 450, "{:?}", b.engine.cache().stats());
    let mut bytes = vec![0; 900 * BLOCK];
    b.engine.read_data(place(0, 100).start, 0, &mut bytes).unwrap();
    assert!(bytes.chunks(100 * BLOCK).zip(1..).all(|(run, n)| run.iter().all(|byte| *byte == n)));
    b.sync();
    let stats = b.engine.stats();
    assert_eq!((stats.staged_blocks, stats.kept_blocks + stats.staged_early_blocks), (900, 900));
    let after = b.crashed(&COMPRESSED);
    assert!((0..9).all(|n| place(n, 100).all(|block| byte_at(&*after, block) == 1 + n as u8)));
}

#[test]
fn what_changes_after_it_was_home_is_new_data_still() {
    let b = waiting(100);
    (0..4).for_each(|n| born(&b, place(n, 100), 1 + n as u8));
    assert_eq!(b.engine.stats().staged_early_blocks, 200);
    // The second half of the first run, which has left the cache or not.
    let changed = place(0, 100).start + 50..place(0, 100).end;
    let mut h = b.handle(51);
    changed.clone().for_each(|block| h.data(block, 3, &[9]).unwrap());
    h.close();
    let first = Extent { start: place(0, 100).start, len: 1 };
    assert_eq!(placed(&*b.engine, first, Before::Stored, usize::MAX), Placement::Logged, "a unit will name it");
    b.sync();
    let after = b.crashed(&COMPRESSED);
    for block in place(0, 100) {
        let mut got = vec![0; BLOCK];
        after.read(block * BLOCK as u64, &mut got).unwrap();
        let at = if changed.contains(&block) { 9 } else { 1 };
        assert_eq!((got[2], got[3], got[4]), (1, at, 1), "block {block}");
    }
}

/// Blocks that a unit frees may be written by their next owner while it is the last unit: were they named in it, it
/// would count no more.
#[test]
fn a_unit_does_not_name_what_it_frees() {
    let b = waiting(40);
    born(&b, place(0, 60), 1);
    drop(b.handle(1));
    assert_eq!(b.engine.stats().staged_early_blocks, 60);
    freed(&b, place(0, 60));
    assert_eq!(b.engine.stats().uncommitted_bytes, BLOCK as u64);
    b.sync();
    assert_eq!(b.engine.stats().staged_blocks, 0);
    born(&b, place(0, 60), 2);
    drop(b.handle(1));
    assert_eq!(byte_at(&*b.store, place(0, 60).start), 2);
    assert_eq!(byte_at(&*b.crashed(&COMPRESSED), HOME), 8);
}

/// Engine `classic` as in `ordered`, whose commits write new data home.
fn keeping(kept: u64) -> Bench {
    let kept_bytes = Some(kept * BLOCK as u64);
    bench_with(&Classic, Config { journaled_data: false, kept_bytes, ..config() })
}

/// Where the medium was written to, in order, and where it was flushed.
#[derive(Debug, PartialEq, Eq)]
enum Wrote {
    Data(u64, u64),
    Log,
    Flush,
}

fn wrote(b: &Bench) -> Vec<Wrote> {
    let what = |event: Event| match event {
        Event::Flush { .. } => Some(Wrote::Flush),
        Event::Write { offset, bytes, .. } => {
            let (block, blocks) = (offset / BLOCK as u64, (bytes.len() / BLOCK) as u64);
            Some(if block < HOME { Wrote::Log } else { Wrote::Data(block, blocks) })
        }
        _ => None,
    };
    b.domain.take().into_iter().filter_map(what).collect()
}

#[test]
fn kept_data_goes_home_before_the_first_flush_of_its_commit_and_the_log_has_nothing_of_it() {
    let b = keeping(1000);
    b.fill(HOME + 1, 1);
    b.sync();
    wrote(&b);
    // The second piece continues the first.
    [place(1, 30), place(0, 30), place(4, 30)].into_iter().for_each(|blocks| born(&b, blocks, 1));
    assert_eq!(wrote(&b), []);
    b.sync();
    let events = wrote(&b);
    let first = events.iter().position(|event| *event == Wrote::Flush).unwrap();
    let data = |event: &&Wrote| matches!(event, Wrote::Data(..));
    let home: Vec<&Wrote> = events[..first].iter().filter(data).collect();
    assert_eq!(home, [&Wrote::Data(place(0, 30).start, 60), &Wrote::Data(place(4, 30).start, 30)]);
    assert_eq!(events.iter().filter(data).count(), 2, "{events:?}");
    let stats = b.engine.stats();
    assert_eq!((stats.kept_blocks, stats.data_runs, stats.staged_blocks, stats.images), (90, 2, 0, 2));
    assert_eq!(stats.journal_blocks, 6, "twice a descriptor, an image and a commit block");
}

#[test]
fn kept_data_is_promised_nothing_and_what_is_removed_is_never_written() {
    let b = keeping(1000);
    wrote(&b);
    for round in 0..40 {
        let mut h = b.handle(1);
        h.write(HOME, META, 0, &[round]).unwrap();
        place(0, 400).for_each(|block| h.new_data(block, 0, &[round; BLOCK]).unwrap());
        assert_eq!((h.credits().left, h.credits().delayed), (0, 400));
        h.close();
        freed(&b, place(0, 400));
        idle(&b);
    }
    let stats = b.engine.stats();
    assert_eq!((stats.commits, stats.dead_blocks, stats.data_runs), (0, 40 * 400, 0));
    assert_eq!(wrote(&b).len(), 0);
    b.sync();
    assert_eq!((b.engine.stats().kept_blocks, b.engine.stats().images), (0, 1));
}

#[test]
fn what_went_home_early_is_known_to_nobody_and_flushed_with_the_commit() {
    let b = keeping(50);
    born(&b, place(0, 60), 1);
    let extent = Extent { start: place(0, 60).start + 3, len: 2 };
    assert_eq!(placed(&*b.engine, extent, Before::Stored, 0), Placement::Delayed, "it waits");
    drop(b.handle(1));
    let stats = b.engine.stats();
    assert_eq!((stats.staged_early_blocks, stats.unflushed_bytes), (60, 60 * BLOCK as u64));
    assert_eq!(stats.uncommitted_bytes, BLOCK as u64);
    assert_eq!(placed(&*b.engine, extent, Before::Stored, 0), Placement::InPlace);
    b.engine.write_data(extent.start, 0, &[2; 2 * BLOCK]).unwrap();
    let mut got = vec![0; 3 * BLOCK];
    b.engine.read_data(extent.start, 0, &mut got).unwrap();
    assert_eq!((got[0], got[2 * BLOCK]), (2, 1), "not what the cache had");
    b.sync();
    let stats = b.engine.stats();
    assert_eq!((stats.kept_blocks, stats.unflushed_bytes), (0, 0));
    let after = b.crashed(&Classic);
    assert_eq!((byte_at(&*after, extent.start), byte_at(&*after, extent.start + 2)), (2, 1));
}

#[test]
fn runs_that_continue_each_other_are_written_as_one() {
    let b = keeping(30);
    (0..8).for_each(|n| born(&b, place(n, 4), 1));
    assert_eq!(b.engine.stats().data_runs, 0);
    drop(b.handle(1));
    let stats = b.engine.stats();
    assert_eq!((stats.staged_early_blocks, stats.data_runs), (32, 1));
}

/// A file whose data is journaled from now on: what is in the transaction to go home goes into the log with it.
#[test]
fn data_over_kept_data_goes_home_or_into_the_log_as_it_is_asked() {
    let b = keeping(1000);
    let block = place(0, 1).start;
    b.engine.write_data(block, 0, &[1; 2 * BLOCK]).unwrap();
    b.sync();
    let over = |byte: u8| {
        let mut h = b.handle(1);
        h.write(HOME, META, 0, &[byte]).unwrap();
        let mut put = |block, at, before| {
            h.put_data(block, at, Bytes::Passing(&[byte; 10]), Placement::Delayed, before).unwrap();
        };
        put(block, 0, Before::Stored);
        put(block + 1, 5, Before::Unwritten);
        h.close();
    };
    over(2);
    let mut h = b.handle(1);
    let run =
        Run { extent: Extent { start: block, len: 1 }, bytes: 10, before: Before::Stored, journaled: true, delayed: 0 };
    assert_eq!(b.engine.place(&run), (Placement::Logged, 1));
    h.data(block, 20, &[3; 10]).unwrap();
    assert_eq!(h.credits().left, 0);
    h.close();
    b.sync();
    let stats = b.engine.stats();
    assert_eq!((stats.images, stats.kept_blocks), (2, 1), "{stats:?}");
    let after = b.crashed(&Classic);
    let at = |block: u64, offset: u64| {
        let mut byte = [0];
        after.read(block * BLOCK as u64 + offset, &mut byte).unwrap();
        byte[0]
    };
    assert_eq!([0, 15, 20].map(|offset| at(block, offset)), [2, 1, 3]);
    assert_eq!([0, 5, 15].map(|offset| at(block + 1, offset)), [0, 2, 0]);
}
