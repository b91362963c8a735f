//! What waits is bounded by `dirty=`, however much a fast device would write in the stated time.

use crate::classic::Classic;
use crate::compressed::Compressed;
use crate::contract::{BLOCK, Bench, HOME, META, Rig, bench_with, config};
use crate::scalable::USUAL;
use crate::scalable_pages::{DATA, allocate, committer};
use ondol_env::Progress;
use ondol_journal::Config;
use ondol_testkit::put_data::PutData;
use std::ops::Range;

/// Blocks that may wait.
const MOST: u64 = 64;

fn each(test: impl Fn(&dyn Rig)) {
    test(&Classic);
    test(&Compressed { zeroing: false });
}

fn bounded(rig: &dyn Rig) -> Bench {
    let dirty_bytes = MOST * BLOCK as u64;
    let config = Config { journaled_data: false, dirty_bytes, kept_bytes: None, ..config() };
    let b = bench_with(rig, Config { pending_bytes: 4 << 20, cache_bytes: 4 << 20, ..config });
    assert_eq!(b.engine.stats().dirty_bound, dirty_bytes);
    b
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

#[test]
fn operations_write_early_what_is_more_than_may_wait() {
    each(|rig| {
        let b = bounded(rig);
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
        let b = bounded(rig);
        let dirty = || b.engine.stats().commits_dirty;
        let idle = || b.engine.steps().iter().for_each(|step| assert!(step.step().is_ok()));
        fill(&b, HOME + 400..HOME + 463);
        idle();
        assert_eq!(dirty(), 0);
        fill(&b, HOME + 463..HOME + 465);
        idle();
        assert_eq!(dirty(), 1, "a transaction of 65 blocks is large");
    });
}

/// Engine `scalable`, where new data waits as long as nobody syncs, and goes home before a commit that nobody waits
/// for.
#[test]
fn where_a_log_in_nvm_is_before_the_medium_no_more_waits() {
    let b = bounded(&USUAL);
    let committer = committer(&b);
    let staged = || b.engine.stats().staged_blocks;
    allocate(&b, DATA + 200, 60, 9);
    assert_eq!(committer.step().unwrap(), Progress::Idle, "60 blocks may wait");
    allocate(&b, DATA + 300, 10, 9);
    assert_eq!((committer.step().unwrap(), staged()), (Progress::Worked, 70), "70 may not");
}
