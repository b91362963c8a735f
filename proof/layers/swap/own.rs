//! What a checkpoint by swapping does, and what it must not.

use crate::contract::{BLOCK, Bench, HOME, META, bench, bench_with, byte_at, config, map};
use crate::{BLOCKS, FEW, MANY};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_faults::Defect;
use ondol_format::Time;
use ondol_format::jbd2::{Commit, JournalSuperblock, OldChecksum};
use ondol_journal::{Config, EngineStats, Extent, Ground, Journal, JournalError, jbd2};

fn stats_of(b: &Bench, work: impl FnOnce()) -> (u64, u64) {
    let of = |s: EngineStats| (s.swapped_blocks, s.checkpoint_blocks);
    let before = of(b.engine.stats());
    work();
    let after = of(b.engine.stats());
    (after.0 - before.0, after.1 - before.1)
}

fn checkpoint(b: &Bench) -> (u64, u64) {
    stats_of(b, || b.engine.checkpoint_all().unwrap())
}

#[test]
fn a_checkpoint_swaps_the_newest_image_of_each_block_and_copies_none() {
    let b = bench(&MANY);
    for byte in 1..=3 {
        for i in 0..20 {
            b.fill(HOME + i, byte);
        }
        b.sync();
    }
    let before = b.store.stats();
    assert_eq!(checkpoint(&b), (20, 0), "swapped and copied");
    let after = b.store.stats();
    assert_eq!(after.written_bytes - before.written_bytes, 1024, "the journal's superblock alone is stored");
    assert!((0..20).all(|i| byte_at(&*b.store, HOME + i) == 3));
    // The ring goes on with pages that were at home.
    b.fill(HOME, 4);
    b.sync();
    assert_eq!(byte_at(&*b.crashed(&MANY), HOME), 4);
}

#[test]
fn what_the_table_cannot_take_at_once_is_split_or_copied() {
    let b = bench(&FEW);
    for round in 0..4u8 {
        let mut h = b.handle(30);
        (0..30).for_each(|i| h.write(HOME + u64::from(round) * 30 + i, META, 0, &[round + 1; BLOCK]).unwrap());
        h.close();
        b.sync();
    }
    assert_eq!(checkpoint(&b), (120, 0), "transaction by transaction");
    let mut h = b.handle(200);
    (0..200).for_each(|i| h.write(HOME + i, META, 0, &[9; BLOCK]).unwrap());
    h.close();
    let (swapped, copied) = checkpoint(&b);
    assert!(copied > 0 && swapped > 40 && swapped + copied == 200, "{swapped} swapped, {copied} copied");
    assert!((0..200).all(|i| byte_at(&*b.store, HOME + i) == 9));
}

#[test]
fn a_block_with_a_younger_image_is_left_to_that() {
    let b = bench_with(&FEW, Config { pending_bytes: 60 * BLOCK as u64, ..config() });
    for byte in 1..=40 {
        b.fill(HOME, byte);
        for i in 1..=u64::from(byte % 3) + 8 {
            b.fill(HOME + u64::from(byte) * 12 + i, byte);
        }
        b.sync();
        assert_eq!(
            byte_at(&*b.crashed(&FEW), HOME),
            byte,
            "the image in the log is gone, or the older one came home last"
        );
    }
    assert!(b.engine.stats().swapped_blocks > 100, "{:?}", b.engine.stats());
}

/// A block is committed, freed, and has data written to it; what it holds after a checkpoint, and how many blocks that
/// has swapped.
fn written_after_a_revoke() -> (u8, u64) {
    let b = bench_with(&MANY, Config { journaled_data: false, ..config() });
    b.fill(HOME, 1);
    b.fill(HOME + 1, 1);
    b.sync();
    let mut h = b.handle(1);
    h.write(HOME + 1, META, 0, &[2]).unwrap();
    h.free(Extent { start: HOME, len: 1 }, META);
    h.close();
    b.sync();
    b.engine.write_data(HOME, 0, &[77; BLOCK]).unwrap();
    let (swapped, _) = checkpoint(&b);
    assert_eq!(byte_at(&*b.store, HOME + 1), 2);
    (byte_at(&*b.store, HOME), swapped)
}

#[test]
fn a_revoked_image_is_not_swapped_over_what_came_after_it() {
    assert_eq!(written_after_a_revoke(), (77, 1));
    let _planted = ondol_faults::set(Some(Defect::RevokedImageKept)).unwrap();
    assert_eq!(written_after_a_revoke(), (1, 2));
}

/// What a program that means harm writes to a file: a commit block of this journal, of a transaction that is still to
/// come.
fn commit_to_come(store: &dyn BlockStore, env: &dyn Env) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    store.read(map().physical(0).unwrap() * BLOCK as u64, &mut bytes).unwrap();
    let sb = JournalSuperblock::parse(&bytes, BLOCK as u32, 1024).unwrap();
    let now = env.now();
    let mut block = vec![0; BLOCK];
    let time = Time { sec: now.sec + 1000, nsec: 0 };
    let commit = Commit { sequence: sb.sequence() + 5, time, old_checksum: OldChecksum::None };
    commit.write(&mut block, &sb.format());
    block
}

/// Has a block at home that looks like one of the log, then writes over it; what a crash after that leaves.
fn written_over_a_lookalike() -> (EngineStats, Result<jbd2::Recovered, JournalError>) {
    let b = bench(&MANY);
    let put = |bytes: &[u8]| {
        let mut h = b.handle(12);
        (0..10).for_each(|i| h.write(HOME + i, META, 0, bytes).unwrap());
        h.close();
        b.engine.checkpoint_all().unwrap();
    };
    put(&commit_to_come(&*b.store, &*b.env));
    put(&[5; BLOCK]);
    b.fill(HOME + 20, 1);
    b.sync();
    let after = RamStore::from_bytes(b.store.bytes());
    let recovered = jbd2::recover(&after, &map(), jbd2::Volume { blocks: BLOCKS, made: 0 });
    assert!((0..10).all(|i| byte_at(&*b.store, HOME + i) == 5));
    (b.engine.stats(), recovered)
}

#[test]
fn what_looks_like_a_block_of_the_log_never_gets_into_it() {
    let (stats, recovered) = written_over_a_lookalike();
    assert_eq!(recovered.unwrap().transactions, 1);
    // Once because its image is escaped, and once because of what it is written over.
    assert_eq!((stats.checkpoint_blocks, stats.swapped_blocks), (20, 0));
    let _planted = ondol_faults::set(Some(Defect::SwappedLookalike)).unwrap();
    let (_, recovered) = written_over_a_lookalike();
    assert!(recovered.is_err(), "a file's contents were not taken for a commit: {recovered:?}");
}

#[test]
fn a_store_that_cannot_exchange_blocks_is_refused_by_name() {
    let b = bench(&MANY);
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(b.store.bytes()));
    let env = Arc::new(Fixed::new(Timestamp { sec: 1, nsec: 0 }, 1));
    let ground = Ground { store: store.clone(), block_size: BLOCK, client: b.client.clone(), env, config: config() };
    let refused = ondol_journal::open(ground, Journal::Swap(map()));
    let why = refused.err().expect("a refusal").to_string();
    assert!(why.contains("does not exchange blocks of 4096 bytes"), "{why}");
}
