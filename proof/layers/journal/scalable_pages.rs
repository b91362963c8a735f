//! Engine `scalable`: file data in pages of the pool, and new data that waits for its commit.

use crate::VOLUME;
use crate::contract::{BLOCK, Bench, HOME, META, bench, bench_with, byte_at, config, pool_of};
use crate::scalable::{Scalable, USUAL, block_of};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_env::{Progress, System};
use ondol_faults::Defect;
use ondol_journal::{Config, Extent, JournalError, Kind, Result, scalable};
use ondol_medium::AreaKind;
use ondol_nvm_log::{Contents, OnDamage};
use ondol_power::Sampling;
use ondol_schedule::{Schedule, Task};
use ondol_stores::FaultPlan;
use ondol_testkit::put_data::PutData;

pub(crate) const DATA: u64 = HOME + 100;
const FEW: Scalable = Scalable(2 << 20, 64 << 10);

/// A handle that allocates `len` blocks of data from `start` on, each full of its `byte`, and says so in [`HOME`].
pub(crate) fn allocate(b: &Bench, start: u64, len: u64, byte: u8) {
    let mut h = b.handle(len as u32 + 1);
    (start..start + len).for_each(|block| h.new_data(block, 0, &[byte; BLOCK]).unwrap());
    h.write(HOME, META, 0, &[byte]).unwrap();
    h.close();
}

pub(crate) fn free(b: &Bench, start: u64, len: u32) {
    let mut h = b.handle(1);
    h.free(Extent { start, len }, Kind::DATA);
    h.write(HOME + 1, META, 0, &[1]).unwrap();
    h.close();
}

/// More than half of `most` blocks are in memory, and a few are not.
fn crowd(b: &Bench, most: u64) {
    (0..=most / 2).for_each(|n| b.fill(HOME + 51 + n, 1));
}

/// Has all new data wait: nobody has synced the one before.
fn nobody_syncs(b: &Bench) {
    b.fill(HOME + 50, 1);
    let committer = committer(b);
    b.env.advance(1_000_000_000);
    assert_eq!(committer.step().unwrap(), Progress::Idle, "it sees that there is something");
    b.env.advance(10_000_000_000);
    assert_eq!(committer.step().unwrap(), Progress::Worked);
}

pub(crate) fn committer(b: &Bench) -> Arc<dyn ondol_env::Step<Error = JournalError>> {
    b.engine.steps().into_iter().find(|step| step.name() == "commit").unwrap()
}

/// What is synced lies in pages: its records are short, no flush is made, and a checkpoint gives the pages back.
#[test]
fn synced_data_lies_in_pages() {
    let b = bench(&USUAL);
    allocate(&b, DATA, 16, 7);
    b.sync();
    let stats = b.engine.stats();
    assert_eq!((stats.buffer_used_blocks, stats.buffer_blocks), (16, 256));
    assert!(stats.log_lines < 16, "{} lines", stats.log_lines);
    assert_eq!((stats.staged_blocks, stats.early_flushes), (0, 0));
    assert_eq!(byte_at(&*b.store, DATA), 0, "nothing is home");
    let after = b.crashed(&USUAL);
    assert!((DATA..DATA + 16).all(|block| block_of(&*after, block) == [7; BLOCK]));
    b.engine.checkpoint_all().unwrap();
    assert_eq!(b.engine.stats().buffer_used_blocks, 0);
    assert_eq!(block_of(&*b.store, DATA + 15), [7; BLOCK]);
}

/// Where there are no pages any more, data goes through the log.
#[test]
fn more_data_than_pages_is_there_all_the_same() {
    let b = bench(&FEW);
    allocate(&b, DATA, 60, 3);
    allocate(&b, DATA + 60, 60, 4);
    b.sync();
    assert_eq!(b.engine.stats().buffer_used_blocks, 64);
    let after = b.crashed(&FEW);
    assert!((DATA..DATA + 60).all(|block| block_of(&*after, block) == [3; BLOCK]));
    assert!((DATA + 60..DATA + 120).all(|block| block_of(&*after, block) == [4; BLOCK]));
}

/// What nobody syncs goes home once, and never into the pool. Returns the engine, with it all committed.
fn unsynced() -> Bench {
    unsynced_with(config())
}

fn unsynced_with(config: Config) -> Bench {
    let b = bench_with(&USUAL, config);
    nobody_syncs(&b);
    let before = b.engine.stats();
    allocate(&b, DATA, 12, 9);
    b.env.advance(1_000_000_000);
    let committer = committer(&b);
    let _idle = committer.step().unwrap();
    b.env.advance(10_000_000_000);
    assert_eq!(committer.step().unwrap(), Progress::Worked);
    let stats = b.engine.stats();
    assert_eq!((stats.staged_blocks - before.staged_blocks, stats.commits - before.commits), (12, 1));
    b
}

#[test]
fn unsynced_data_goes_home_once() {
    let b = unsynced();
    assert_eq!(block_of(&*b.store, DATA + 11), [9; BLOCK]);
    let (_, pool) = b.now();
    let area = pool_of(&pool).area(AreaKind::JOURNAL_PAGES).unwrap();
    let pages = &pool[area.start as usize..(area.start + area.len) as usize];
    assert!(pages.iter().all(|byte| *byte == 0), "nothing is in the pages");
    let after = b.crashed(&USUAL);
    assert!((DATA..DATA + 12).all(|block| block_of(&*after, block) == [9; BLOCK]));
    let before = b.engine.stats().checkpoint_blocks;
    b.engine.checkpoint_all().unwrap();
    assert_eq!(b.engine.stats().checkpoint_blocks - before, 2, "metadata alone");
}

/// Home has it, so memory need not: it is read from there, and is what changes begin with.
#[test]
fn what_is_home_leaves_memory() {
    let b = unsynced();
    b.store.write((DATA + 11) * BLOCK as u64, &[8]).unwrap();
    assert_eq!(b.engine.read(DATA + 11, Kind::DATA).unwrap()[..2], [8, 9], "it is not in memory");
    b.store.write((DATA + 11) * BLOCK as u64, &[9]).unwrap();
    let mut h = b.handle(2);
    h.write(DATA + 3, Kind::DATA, 5, &[1; 10]).unwrap();
    h.new_data(DATA + 4, 0, &[2; BLOCK]).unwrap();
    h.close();
    free(&b, DATA + 5, 2);
    let changed = |after: &dyn BlockStore| {
        let block = block_of(after, DATA + 3);
        assert_eq!((&block[..5], &block[5..15], &block[15..]), (&[9; 5][..], &[1; 10][..], &[9; BLOCK - 15][..]));
        assert_eq!(block_of(after, DATA + 4), [2; BLOCK]);
        assert_eq!(block_of(after, DATA + 2), [9; BLOCK]);
    };
    b.sync();
    changed(&*b.crashed(&USUAL));
    allocate(&b, DATA + 5, 1, 4);
    b.sync();
    let after = b.crashed(&USUAL);
    changed(&*after);
    assert_eq!(block_of(&*after, DATA + 5), [4; BLOCK], "its next owner's");
    b.engine.checkpoint_all().unwrap();
    changed(&*b.store);
    assert_eq!(block_of(&*b.store, DATA + 5), [4; BLOCK]);
    changed(&*b.crashed(&USUAL));
}

/// Records of a block that has left memory and was changed lie in several slices: each finds what it needs.
#[test]
fn what_left_memory_is_changed_while_its_record_goes_home() {
    for after_first in [false, true] {
        let b = unsynced_with(Config { pending_bytes: 64 * BLOCK as u64, ..config() });
        crowd(&b, 64);
        let change = |byte: u8| {
            let mut h = b.handle(1);
            h.write(DATA + 3, Kind::DATA, usize::from(byte), &[byte; 10]).unwrap();
            h.close();
        };
        if !after_first {
            change(1);
            b.sync();
        }
        change(20);
        // A checkpoint takes what is committed, and what is not stays.
        assert_eq!(checkpointer(&b).step().unwrap(), Progress::Worked);
        b.sync();
        let expected = || {
            let mut block = [9; BLOCK];
            if !after_first {
                block[1..11].fill(1);
            }
            block[20..30].fill(20);
            block
        };
        assert_eq!(block_of(&*b.crashed(&USUAL), DATA + 3), expected());
        b.engine.checkpoint_all().unwrap();
        assert_eq!(block_of(&*b.store, DATA + 3), expected());
    }
}

/// Wrong states after cuts of power, in which `DATA` is named and is not there.
pub(crate) fn unnamed_contents(b: &Bench) -> usize {
    let wrong = std::sync::atomic::AtomicUsize::new(0);
    let sampling = Sampling { all_of: 4, samples: 100, ..Sampling::default() };
    b.explore(&USUAL, sampling, |after, _| {
        let is_wrong = byte_at(after, HOME) == 9 && (DATA..DATA + 12).any(|n| block_of(after, n) != [9; BLOCK]);
        wrong.fetch_add(usize::from(is_wrong), std::sync::atomic::Ordering::Relaxed);
    });
    wrong.into_inner()
}

#[test]
fn what_goes_home_before_its_commit_is_there_when_it_is_named() {
    assert_eq!(unnamed_contents(&unsynced()), 0);
    let _planted = ondol_faults::set(Some(Defect::UnflushedPages)).unwrap();
    let lost = std::panic::catch_unwind(|| unnamed_contents(&unsynced()));
    assert!(lost.is_err() || lost.is_ok_and(|wrong| wrong > 0));
}

/// A sync does not wait for the disk, whatever waits: it goes into pages.
fn synced_after_waiting() -> Result<Vec<u8>> {
    let b = bench(&USUAL);
    nobody_syncs(&b);
    allocate(&b, DATA, 12, 9);
    let flushes = b.store.stats().flushes;
    b.sync();
    assert_eq!((b.store.stats().flushes, byte_at(&*b.store, DATA)), (flushes, 0));
    let (disk, pool) = b.now();
    let after: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(disk));
    let contents = Contents::open(&pool_of(&pool), &System, OnDamage::Refuse).unwrap();
    scalable::recover(&after, VOLUME, &contents, &*b.client, &System)?;
    Ok(block_of(&*after, DATA + 11))
}

#[test]
fn a_sync_stores_what_waits() {
    assert_eq!(synced_after_waiting().unwrap(), [9; BLOCK]);
    let planted = ondol_faults::set(Some(Defect::UnstoredPages)).unwrap();
    let refused = synced_after_waiting().unwrap_err().to_string();
    assert!(refused.contains(&format!("file data of block {DATA} is lost")), "{refused}");
    drop(planted);
}

/// What is freed before anybody commits it is written nowhere.
#[test]
fn what_is_freed_before_its_commit_goes_nowhere() {
    for synced in [true, false] {
        let b = bench(&USUAL);
        nobody_syncs(&b);
        let staged = b.engine.stats().staged_blocks;
        allocate(&b, DATA, 12, 9);
        allocate(&b, DATA + 12, 1, 8);
        free(&b, DATA, 12);
        if synced {
            b.sync();
        } else {
            b.engine.checkpoint_all().unwrap();
            assert_eq!(b.engine.stats().staged_blocks - staged, 1);
        }
        let (disk, pool) = b.now();
        assert!(disk.iter().chain(&pool).filter(|byte| **byte == 9).count() < BLOCK);
        let after = b.crashed(&USUAL);
        assert_eq!((byte_at(&*after, DATA), byte_at(&*after, DATA + 12)), (0, 8));
        assert_eq!(b.client.released.lock().len(), 1);
    }
}

/// A block that is changed again while it waits: home gets what it was first, and the checkpoint what it is.
#[test]
fn what_changes_while_it_waits_is_what_it_became() {
    let b = bench(&USUAL);
    nobody_syncs(&b);
    allocate(&b, DATA, 4, 9);
    let mut h = b.handle(1);
    h.data(DATA + 1, 5, &[6; 20]).unwrap();
    h.close();
    let mut want = vec![9; BLOCK];
    want[5..25].fill(6);
    b.env.advance(1_000_000_000);
    let _idle = committer(&b).step().unwrap();
    b.env.advance(10_000_000_000);
    assert_eq!(committer(&b).step().unwrap(), Progress::Worked);
    assert_eq!(block_of(&*b.store, DATA + 1), [9; BLOCK]);
    assert!(block_of(&*b.crashed(&USUAL), DATA + 1) == want);
    // Not committed: the checkpoint builds the image from records, one of which is at home.
    let mut h = b.handle(1);
    h.data(DATA + 1, 100, &[5; 20]).unwrap();
    h.close();
    let tight = b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
    assert_eq!(tight.step().unwrap(), Progress::Idle, "there is room");
    b.engine.checkpoint_all().unwrap();
    want[100..120].fill(5);
    assert!(block_of(&*b.store, DATA + 1) == want);
}

/// Home that takes nothing: what waits goes into the pool, and nothing is lost.
#[test]
fn a_home_that_fails_leaves_what_waits_to_the_pool() {
    for plan in
        [FaultPlan { flushes: Some(0), ..FaultPlan::default() }, FaultPlan { writes: Some(0), ..FaultPlan::default() }]
    {
        let b = bench(&USUAL);
        nobody_syncs(&b);
        allocate(&b, DATA, 12, 9);
        b.store.arm(plan);
        assert!(matches!(b.engine.checkpoint_all(), Err(JournalError::Home(_))));
        b.store.arm(FaultPlan::default());
        let after = b.crashed(&USUAL);
        assert!((DATA..DATA + 12).all(|block| block_of(&*after, block) == [9; BLOCK]));
        b.engine.checkpoint_all().unwrap();
        assert_eq!(block_of(&*b.store, DATA), [9; BLOCK]);
    }
}

/// A page that has changed by itself is told by name; whoever goes on all the same is told what is lost.
#[test]
fn a_lost_page_is_told() {
    let recovered = |on_damage| {
        let b = bench(&USUAL);
        allocate(&b, DATA, 4, 7);
        b.sync();
        let (disk, mut pool) = b.now();
        let area = pool_of(&pool).area(AreaKind::JOURNAL_PAGES).unwrap();
        let at = pool[area.start as usize..].iter().position(|byte| *byte == 7).unwrap();
        pool[area.start as usize + at + 9] ^= 4;
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(disk));
        let contents = Contents::open(&pool_of(&pool), &System, on_damage).unwrap();
        let done = scalable::recover(&store, VOLUME, &contents, &*b.client, &System);
        done.map(|done| (done.lost, (DATA..DATA + 4).filter(|n| byte_at(&*store, *n) == 7).count()))
    };
    let refused = recovered(OnDamage::Refuse).unwrap_err().to_string();
    assert!(refused.starts_with("file data of block") && refused.contains("NVM pool"), "{refused}");
    let (lost, whole) = recovered(OnDamage::GoOn).unwrap();
    assert_eq!((lost.len(), whole), (1, 3));
    let _planted = ondol_faults::set(Some(Defect::UncheckedPage)).unwrap();
    assert!(recovered(OnDamage::Refuse).is_ok(), "unless nobody looks");
}

#[test]
fn what_waits_is_right_whatever_happens_beside_it() {
    beside_others(nobody_syncs);
}

/// One thread writes new data, and frees and syncs; another commits late and checkpoints. Whatever was synced is there.
pub(crate) fn beside_others(before: impl Fn(&Bench)) {
    let mut steps = 300;
    for n in 0..100 {
        let config = Config { pending_bytes: 16 << 10, kept_bytes: Some(4 << 10), ..config() };
        let b = Arc::new(bench_with(&Scalable(256 << 10, 16 << 10), config));
        before(&b);
        let writer = b.clone();
        let writes: Task = Box::new(move || {
            allocate(&writer, DATA, 4, 1);
            allocate(&writer, DATA + 4, 4, 2);
            free(&writer, DATA, 4);
            writer.sync();
            // Another owner, as soon as it may be had.
            if !writer.client.released.lock().is_empty() {
                allocate(&writer, DATA, 4, 3);
                writer.sync();
            }
        });
        let late = b.clone();
        let commits: Task = Box::new(move || {
            for _ in 0..3 {
                late.env.advance(10_000_000_000);
                let _progress = committer(&late).step().unwrap();
                for step in late.engine.steps() {
                    let _progress = step.step().unwrap();
                }
            }
        });
        let schedule = Schedule::fitted(steps, n);
        steps = schedule.run(vec![writes, commits]).unwrap().steps;
        let after = b.crashed(&Scalable(256 << 10, 16 << 10));
        let first = byte_at(&*after, HOME);
        assert!((2..=3).contains(&first), "interleaving {n}: {first}");
        assert!((DATA + 4..DATA + 8).all(|block| block_of(&*after, block) == [2; BLOCK]), "interleaving {n}");
        let is_owned = (DATA..DATA + 4).all(|block| block_of(&*after, block) == [3; BLOCK]);
        assert!(first == 2 || is_owned, "interleaving {n}");
    }
}

fn checkpointer(b: &Bench) -> Arc<dyn ondol_env::Step<Error = JournalError>> {
    b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap()
}

/// What waited is home and was changed since; a checkpoint brings the change home and fails then. The next one finds
/// more there than the first record says, which is no damage.
#[test]
fn a_checkpoint_that_failed_half_way_is_done_again() {
    let (pending_bytes, kept_bytes) = (16 * BLOCK as u64, Some(4 * BLOCK as u64));
    let b = bench_with(&USUAL, Config { pending_bytes, kept_bytes, ..config() });
    nobody_syncs(&b);
    allocate(&b, DATA, 10, 9);
    let change = |at: usize, byte: u8| {
        let mut h = b.handle(1);
        h.data(DATA + 1, at, &[byte; 20]).unwrap();
        h.close();
    };
    assert!(b.engine.stats().staged_blocks == 0 || byte_at(&*b.store, DATA) == 9);
    b.env.advance(1_000_000_000);
    let _idle = committer(&b).step().unwrap();
    b.env.advance(10_000_000_000);
    let _worked = committer(&b).step().unwrap();
    assert_eq!(block_of(&*b.store, DATA + 1), [9; BLOCK]);
    crowd(&b, 16);
    change(5, 6);
    b.sync();
    change(100, 5);
    b.store.arm(FaultPlan { flushes: Some(0), ..FaultPlan::default() });
    assert!(matches!(checkpointer(&b).step(), Err(JournalError::Home(_))));
    b.store.arm(FaultPlan::default());
    b.env.advance(2_000_000_000);
    assert_eq!(checkpointer(&b).step().unwrap(), Progress::Worked);
    assert!(b.engine.aborted().is_none() && b.engine.home_failure().is_none());
    let mut want = vec![9; BLOCK];
    want[5..25].fill(6);
    assert!(block_of(&*b.store, DATA + 1) == want);
    b.engine.checkpoint_all().unwrap();
    want[100..120].fill(5);
    assert!(block_of(&*b.store, DATA + 1) == want);
}

/// An engine that was told to stop writes nothing home, whatever waits.
#[test]
fn nothing_goes_home_once_it_has_stopped() {
    let b = bench(&USUAL);
    nobody_syncs(&b);
    allocate(&b, DATA, 12, 9);
    b.engine.stop("another host has the volume");
    b.env.advance(1_000_000_000);
    let _idle = committer(&b).step();
    b.env.advance(10_000_000_000);
    assert!(committer(&b).step().is_err() && b.engine.checkpoint_all().is_err());
    assert_eq!(byte_at(&*b.store, DATA), 0);
}
