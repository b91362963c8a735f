//! What is written where, and how often.

use crate::contract::{BLOCK, Bench, HOME, META, bench, byte_at};
use crate::{SMALL, USUAL};
use ondol_block::BlockStore;
use ondol_faults::Defect;
use ondol_journal::{Extent, JournalError, Kind};
use ondol_stores::FaultPlan;
use ondol_testkit::put_data::PutData;

pub(crate) const DATA: u64 = HOME + 100;

/// Puts data over `len` blocks from `start` on, each full of its `byte`, and says so in [`HOME`]. Every other block is
/// lent.
pub(crate) fn write(b: &Bench, start: u64, len: u64, byte: u8) {
    let bytes = [byte; BLOCK];
    let mut h = b.handle(len as u32 + 1);
    for block in start..start + len {
        if block % 2 == 0 { h.lend(block, &bytes, false).unwrap() } else { h.data(block, 0, &bytes).unwrap() }
    }
    h.write(HOME, META, 0, &[byte]).unwrap();
    h.close();
}

pub(crate) fn read(b: &Bench, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    b.engine.read_data(block, 0, &mut bytes).unwrap();
    bytes
}

/// Pages that are lent.
fn lent(b: &Bench) -> u64 {
    b.store.lender().unwrap().lent()
}

/// Each block is written once, all in all, and fenced with its record; a checkpoint stores nothing but entries.
#[test]
fn data_is_written_once() {
    let b = bench(&USUAL);
    write(&b, DATA, 40, 1);
    b.sync();
    b.engine.checkpoint_all().unwrap();
    let nvm = || b.nvm.as_ref().unwrap().stats();
    let before = nvm();
    write(&b, DATA, 40, 2);
    let written = nvm();
    assert_eq!(written.fences - before.fences, 1, "pages and record");
    b.sync();
    assert_eq!(nvm().fences - written.fences, 1, "the commit");
    assert_eq!((byte_at(&*b.store, DATA), read(&b, DATA + 39)), (1, vec![2; BLOCK]), "the table does not know it yet");
    assert_eq!(byte_at(&*b.crashed(&USUAL), DATA), 2);
    b.engine.checkpoint_all().unwrap();
    let copied = nvm().copied_bytes - before.copied_bytes;
    // The record and the block of metadata beside the data.
    let most = 40 * BLOCK as u64 + 4096 + 2 * BLOCK as u64;
    assert!((40 * BLOCK as u64..most).contains(&copied), "{copied} bytes of {}", 40 * BLOCK);
    assert_eq!((lent(&b), byte_at(&*b.store, DATA + 39)), (0, 2));
}

/// File data is not in the cache of blocks, neither before its commit nor after its checkpoint.
#[test]
fn data_is_not_kept_in_memory() {
    let b = bench(&USUAL);
    write(&b, DATA, 20, 3);
    assert!((DATA..DATA + 20).all(|block| b.engine.read(block, Kind::DATA).is_ok_and(|bytes| bytes[0] == 3)));
    write(&b, DATA, 20, 4);
    let before = b.store.stats().read_bytes;
    assert_eq!(read(&b, DATA + 7), [4; BLOCK]);
    assert_eq!(b.store.stats().read_bytes, before, "from its page");
    b.sync();
    b.engine.checkpoint_all().unwrap();
    assert_eq!(read(&b, DATA + 7), [4; BLOCK]);
    assert_eq!(b.store.stats().read_bytes - before, BLOCK as u64, "from its block");
}

/// What is short goes into the record, and builds on what the page has; what is long makes a new page of it.
#[test]
fn parts_of_blocks_build_on_pages() {
    let b = bench(&USUAL);
    write(&b, DATA, 2, 1);
    let part = |len: usize, byte: u8| {
        let mut h = b.handle(1);
        h.data(DATA, 100, &vec![byte; len]).unwrap();
        h.close();
    };
    part(50, 2);
    assert_eq!(lent(&b), 2, "bytes in the record");
    part(1024, 3);
    assert_eq!(lent(&b), 3, "a page");
    part(20, 4);
    b.sync();
    let mut all = vec![1; BLOCK];
    all[100..1124].fill(3);
    all[100..120].fill(4);
    assert!(read(&b, DATA) == all);
    let after = b.crashed(&USUAL);
    let mut found = vec![0; BLOCK];
    after.read(DATA * BLOCK as u64, &mut found).unwrap();
    assert!(found == all);
    part(30, 5);
    b.engine.checkpoint_all().unwrap();
    all[100..130].fill(5);
    assert!(read(&b, DATA) == all && lent(&b) == 0);
}

/// Whatever is under way, a checkpoint knows what is committed of a block from records and pages alone.
#[test]
fn a_block_that_goes_on_changing_comes_home_as_it_was_committed() {
    let b = bench(&USUAL);
    write(&b, DATA, 3, 1);
    b.sync();
    // Not committed: another page, bytes over the page, and a freed block.
    write(&b, DATA, 1, 2);
    let mut h = b.handle(3);
    h.data(DATA + 1, 0, &[3; 10]).unwrap();
    h.free(Extent { start: DATA + 2, len: 1 }, Kind::DATA);
    h.close();
    let checkpointer = b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
    (0..60).for_each(|n| b.fill(HOME + 10 + n, 1));
    while b.engine.stats().checkpoint_blocks == 0 {
        let _progress = checkpointer.step().unwrap();
        b.fill(HOME + 5, 1);
    }
    let now: Vec<u8> = (0..2).map(|n| read(&b, DATA + n)[0]).collect();
    assert_eq!(now, [2, 3]);
    b.sync();
    b.engine.checkpoint_all().unwrap();
    assert_eq!((byte_at(&*b.store, DATA), read(&b, DATA + 1)[9..11].to_vec(), lent(&b)), (2, vec![3, 1], 0));
}

/// An operation that finds nothing to borrow makes room, and one that needs more than there is puts the rest into its
/// record.
#[test]
fn more_data_than_pages_is_there_all_the_same() {
    let b = bench(&USUAL);
    let most = b.store.lender().unwrap().most_lent();
    for round in 1..20 {
        write(&b, DATA, most / 2 + 1, round);
        assert!(lent(&b) <= most);
    }
    assert!(b.engine.stats().foreground_checkpoints > 0);
    write(&b, DATA, most + 10, 77);
    b.sync();
    assert_eq!(lent(&b), most);
    let after = b.crashed(&USUAL);
    assert!((DATA..DATA + most + 10).all(|block| byte_at(&*after, block) == 77));
    b.engine.checkpoint_all().unwrap();
    assert_eq!(lent(&b), 0);
}

/// A home that takes nothing for a while: what is committed stays in pages and records, and pages are nobody else's.
#[test]
fn a_home_that_fails_for_a_while_loses_nothing() {
    for plan in
        [FaultPlan { flushes: Some(0), ..FaultPlan::default() }, FaultPlan { writes: Some(0), ..FaultPlan::default() }]
    {
        let b = bench(&SMALL);
        write(&b, DATA, 4, 1);
        b.sync();
        b.store.arm(plan);
        assert!(matches!(b.engine.checkpoint_all(), Err(JournalError::Home(_))));
        write(&b, DATA, 4, 2);
        b.sync();
        let after = b.crashed(&SMALL);
        assert!((DATA..DATA + 4).all(|block| byte_at(&*after, block) == 2));
        assert!(b.engine.checkpoint_all().is_err());
        b.store.arm(FaultPlan::default());
        b.engine.checkpoint_all().unwrap();
        assert_eq!((read(&b, DATA)[0], byte_at(&*b.store, DATA + 3), lent(&b)), (2, 2, 0));
    }
}

/// What is freed before it is committed leaves nothing behind.
#[test]
fn freed_data_gives_its_pages_back() {
    let b = bench(&USUAL);
    let mut h = b.handle(6);
    (0..5).for_each(|n| h.new_data(DATA + n, 0, &[9; BLOCK]).unwrap());
    h.close();
    let mut h = b.handle(2);
    h.free(Extent { start: DATA, len: 5 }, Kind::DATA);
    h.write(HOME, META, 0, &[1]).unwrap();
    h.close();
    b.sync();
    // The next owner's.
    b.fill(DATA + 1, 4);
    write(&b, DATA + 2, 1, 5);
    b.sync();
    let after = b.crashed(&USUAL);
    let bytes: Vec<u8> = (0..3).map(|n| byte_at(&*after, DATA + n)).collect();
    assert_eq!(bytes, [0, 4, 5]);
    b.engine.checkpoint_all().unwrap();
    assert_eq!((lent(&b), byte_at(&*b.store, DATA), byte_at(&*b.store, DATA + 1)), (0, 0, 4));
}

/// What is planted in this engine shows in scenes as short as this.
#[test]
fn planted_defects_are_seen() {
    let seen = |defect| {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let b = bench(&SMALL);
        write(&b, DATA, 2, 1);
        b.engine.checkpoint_all().unwrap();
        write(&b, DATA, 2, 2);
        // Somebody flushes the table.
        b.store.flush().unwrap();
        let after = b.crashed(&SMALL);
        let crashed: Vec<u8> = (0..2).map(|n| byte_at(&*after, DATA + n)).collect();
        b.sync();
        b.engine.checkpoint_all().unwrap();
        (crashed, read(&b, DATA)[0])
    };
    assert_eq!(seen(Defect::RemapUncommitted), (vec![2, 2], 2), "what is not committed is there");
    assert_eq!(seen(Defect::RemapSkipped), (vec![0, 0], 0), "the checkpoint forgets it");
}

/// What a record builds on is known as long as it may come home without what came later, however that is written: here
/// short and committed, then pages that are not.
#[test]
fn what_a_short_write_builds_on_is_not_forgotten() {
    for (later, then) in [(1500, 1500), (1500, 40)] {
        let b = bench(&SMALL);
        write(&b, DATA, 1, 1);
        b.sync();
        b.engine.checkpoint_all().unwrap();
        let part = |len: usize, byte: u8| {
            let mut h = b.handle(1);
            h.data(DATA, 100, &vec![byte; len]).unwrap();
            h.close();
        };
        part(100, 2);
        b.sync();
        part(later, 3);
        part(then, 4);
        let before = b.engine.stats();
        // Blocks enough for a checkpoint, of what is committed.
        let checkpointer = b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
        (0..60).for_each(|n| b.fill(HOME + 10 + n, 1));
        while b.engine.stats().checkpoint_blocks == before.checkpoint_blocks {
            let _progress = checkpointer.step().unwrap();
            b.fill(HOME + 5, 1);
        }
        assert_eq!(b.engine.stats().commits, before.commits, "only what was committed has come home");
        let after = b.crashed(&SMALL);
        let mut found = vec![0; BLOCK];
        after.read(DATA * BLOCK as u64, &mut found).unwrap();
        let mut all = vec![1; BLOCK];
        all[100..200].fill(2);
        assert!(found == all, "{later} {then}: {:?} .. {:?}", &found[..4], &found[98..104]);
    }
}

/// An operation sees what it was lent, and its own changes of it; what it does not close leaves nothing behind.
#[test]
fn lent_bytes_are_a_block_of_their_operation() {
    let (b, bytes) = (bench(&USUAL), [7; BLOCK]);
    let mut h = b.handle(2);
    h.lend(DATA, &bytes, false).unwrap();
    assert!(h.read(DATA, Kind::DATA).unwrap()[..] == bytes);
    h.data(DATA, 10, &[8; 20]).unwrap();
    h.lend(DATA + 1, &bytes, true).unwrap();
    let mut changed = bytes;
    changed[10..30].fill(8);
    assert!(h.read(DATA, Kind::DATA).unwrap()[..] == changed);
    drop(h);
    assert_eq!((lent(&b), read(&b, DATA)[0]), (0, 0));
    let mut h = b.handle(3);
    h.lend(DATA, &bytes, false).unwrap();
    h.data(DATA, 10, &[8; 20]).unwrap();
    h.lend(DATA + 1, &bytes, true).unwrap();
    // The last word counts.
    h.data(DATA + 2, 0, &[1; BLOCK]).unwrap();
    h.lend(DATA + 2, &bytes, false).unwrap();
    h.close();
    let is_there = |read: &dyn Fn(u64) -> Vec<u8>| {
        assert!(read(DATA) == changed && read(DATA + 1) == bytes && read(DATA + 2) == bytes);
    };
    is_there(&|block| read(&b, block));
    b.sync();
    let after = b.crashed(&USUAL);
    is_there(&|block| {
        let mut found = vec![0; BLOCK];
        after.read(block * BLOCK as u64, &mut found).unwrap();
        found
    });
    b.engine.checkpoint_all().unwrap();
    is_there(&|block| read(&b, block));
}

/// What was there before stays in memory where a record of the block builds on it, and where another operation has the
/// block.
#[test]
fn lent_bytes_are_kept_where_memory_needs_them() {
    let (b, bytes) = (bench(&SMALL), [9; BLOCK]);
    write(&b, DATA, 3, 1);
    b.sync();
    b.engine.checkpoint_all().unwrap();
    let mut h = b.handle(1);
    h.data(DATA, 5, &[2; 20]).unwrap();
    h.close();
    let mut other = b.handle(2);
    other.data(DATA + 1, 100, &[3; 20]).unwrap();
    let mut h = b.handle(3);
    (0..3).for_each(|n| h.lend(DATA + n, &bytes, false).unwrap());
    h.close();
    assert!((0..3).all(|n| read(&b, DATA + n) == bytes));
    other.close();
    let mut changed = bytes;
    changed[100..120].fill(3);
    let is_right = || assert!(read(&b, DATA) == bytes && read(&b, DATA + 1) == changed && read(&b, DATA + 2) == bytes);
    is_right();
    b.sync();
    let after = b.crashed(&SMALL);
    let mut found = vec![0; BLOCK];
    after.read((DATA + 1) * BLOCK as u64, &mut found).unwrap();
    assert!(found == changed && byte_at(&*after, DATA) == 9);
    b.engine.checkpoint_all().unwrap();
    is_right();
}

/// Without a page to lend, lent bytes go into the record.
#[test]
fn lent_bytes_need_no_page() {
    let (b, bytes) = (bench(&USUAL), [4; BLOCK]);
    let lender = b.store.lender().unwrap();
    let taken = lender.lend(lender.most_lent()).unwrap().unwrap();
    let mut h = b.handle(2);
    h.lend(DATA, &bytes, false).unwrap();
    h.lend(DATA + 1, &bytes, true).unwrap();
    h.close();
    b.sync();
    assert!(read(&b, DATA) == bytes && read(&b, DATA + 1) == bytes);
    assert_eq!((byte_at(&*b.crashed(&USUAL), DATA), lent(&b)), (4, taken.len() as u64));
    lender.give(&taken);
}
