//! Engine `scalable` against the engine contract, and what is its own.

use crate::VOLUME;
use crate::contract::{
    BLOCK, BLOCKS, Bench, Ground, HOME, META, Rig, SUMMED, bench, bench_with, byte_at, config, pool_of, sum,
};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_env::{Fixed, System, Timestamp};
use ondol_faults::Defect;
use ondol_journal::{Config, Engine, Extent, Journal, Merge, scalable};
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec};
use ondol_nvm_log::{Contents, Log, OnDamage, Options};
use ondol_power::{Layer, Medium, PowerDomain, Sampling};
use ondol_schedule::{Schedule, Task};
use ondol_stores::Recorder;

/// With a ring of so many bytes, and so many for file data.
pub(crate) struct Scalable(pub(crate) u64, pub(crate) u64);

pub(crate) const USUAL: Scalable = Scalable(2 << 20, 256 << 10);

impl Rig for Scalable {
    fn empty(&self) -> Vec<u8> {
        vec![0; BLOCK * BLOCKS as usize]
    }

    fn pool(&self) -> Option<Vec<u8>> {
        let areas = [(AreaKind::JOURNAL_LOG, self.0), (AreaKind::JOURNAL_PAGES, self.1)];
        let areas = areas.into_iter().filter(|(_, len)| *len > 0).collect();
        let nvm = Nvm::volatile(self.0 + self.1 + (64 << 10)).unwrap();
        let pool = Pool::create(nvm, &PoolSpec { uuid: [3; 16], areas, ..PoolSpec::default() }).unwrap();
        Some(pool.nvm().to_bytes().unwrap())
    }

    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine> {
        let pool = ground.pool.as_ref().unwrap();
        let contents = Contents::open(pool, &*ground.env, OnDamage::Refuse).unwrap();
        let log = ground.log(contents);
        ground.open(Journal::Scalable(log, BLOCKS), c)
    }

    fn recover(&self, store: Arc<dyn BlockStore>, pool: Option<Pool>) {
        let env = Fixed::new(Timestamp::default(), 5);
        let contents = Contents::open(&pool.unwrap(), &env, OnDamage::Refuse).unwrap();
        let client = crate::contract::TestClient::default();
        scalable::recover(&store, VOLUME, &contents, &client, &System).unwrap();
    }

    fn flushes_per_commit(&self) -> u64 {
        0
    }
}

/// Where cuts of power are tried, each of which begins with a look at the whole ring.
mod small {
    use super::*;
    crate::contract::engine_contract!(Scalable(256 << 10, 8 << 10); every_crash_leaves_a_prefix);
}

/// Without pages everything goes through the log.
mod without_pages {
    use super::*;
    crate::contract::engine_contract!(
        Scalable(2 << 20, 0);
        new_data_is_there_when_it_is_named
        new_data_that_goes_home_early_is_there_when_it_is_named
        new_data_is_not_bound_by_the_ring
        a_small_log_wraps_and_never_loses
    );

    crate::contract::engine_contract!(Scalable(256 << 10, 0); every_crash_leaves_a_prefix);
}

crate::contract::engine_contract!(
    USUAL;
    nothing_is_seen_before_close_and_nothing_of_a_dropped_handle
    concurrent_changes_of_one_block_merge
    a_waited_for_transaction_survives
    what_is_durable_already_costs_no_commit_and_no_flush
    new_data_is_there_when_it_is_named
    new_data_that_goes_home_early_is_there_when_it_is_named
    new_data_is_not_bound_by_the_ring
    freed_blocks_wait_for_durability_and_are_never_replayed
    data_written_at_home_takes_the_place_of_what_was_read
    one_commit_costs_its_flushes_and_no_more
    a_small_log_wraps_and_never_loses
    too_big_is_refused_before_anything_happens
    many_threads_share_commits
    a_read_base_that_breaks_its_rules_is_refused
    the_timer_commits_and_the_checkpointer_drains
    a_checkpoint_brings_home_what_is_committed_and_commits_nothing
    the_timer_goes_on_when_the_clock_is_set
    what_waits_for_a_commit_has_its_age
    a_handle_that_changed_nothing_is_no_work
);

pub(crate) fn block_of(store: &dyn BlockStore, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    store.read(block * BLOCK as u64, &mut bytes).unwrap();
    bytes
}

/// Changes that would take more than the block: every second byte, every third bit, numbers that are added to, and a
/// block that is written whole first.
#[test]
fn many_small_changes_of_a_block_come_back() {
    let b = bench(&USUAL);
    b.fill(HOME + 2, 0x55);
    let mut h = b.handle(8);
    for i in 0..BLOCK / 2 {
        h.write(HOME, META, 2 * i, &[i as u8 | 1]).unwrap();
    }
    for i in 0..BLOCK as u32 * 8 / 3 {
        h.merge(HOME + 1, META, Merge::Set { first: 3 * i, count: 1 }).unwrap();
        h.merge(HOME + 2, META, Merge::Clear { first: 3 * i, count: 1 }).unwrap();
        h.merge(HOME + 2, META, Merge::Set { first: 3 * i + 1, count: 1 }).unwrap();
    }
    h.merge(HOME, META, Merge::Add { offset: BLOCK - 4, width: 4, delta: -3 }).unwrap();
    h.write(HOME + 3, META, 0, &[7; BLOCK]).unwrap();
    for i in 0..BLOCK / 2 {
        h.write(HOME + 3, META, 2 * i, &[8]).unwrap();
    }
    h.close();
    b.sync();
    let live: Vec<Vec<u8>> = (HOME..HOME + 4).map(|block| b.engine.read(block, META).unwrap().to_vec()).collect();
    let now = |store: &dyn BlockStore| (HOME..HOME + 4).map(|block| block_of(store, block)).collect::<Vec<_>>();
    assert!(now(&*b.crashed(&USUAL)) == live);
    b.engine.checkpoint_all().unwrap();
    assert!(now(&*b.store) == live);
    assert!(live[2][..3] != [0x55; 3] && live[3][..4] == [8, 7, 8, 7]);
}

/// What a checkpoint takes home is what is committed, also of blocks that have changed since, and that is sealed.
#[test]
fn a_checkpoint_takes_no_change_that_is_not_committed() {
    let b = bench_with(&USUAL, Config { pending_bytes: 8 * BLOCK as u64, ..config() });
    let fill = |block, byte| {
        let mut h = b.handle(2);
        h.write(block, SUMMED, 0, &[byte; BLOCK / 2]).unwrap();
        h.merge(HOME + 9, META, Merge::Set { first: u32::from(byte), count: 1 }).unwrap();
        h.close();
    };
    (0..4).for_each(|i| fill(HOME + i, 3));
    b.sync();
    (0..2).for_each(|i| fill(HOME + i, 4));
    let checkpointer = b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
    assert_eq!(checkpointer.step().unwrap(), ondol_env::Progress::Worked);
    assert_eq!(b.engine.stats().commits, 1, "what was committed was enough");
    for i in 0..4 {
        let home = block_of(&*b.store, HOME + i);
        assert_eq!((home[0], home[BLOCK - 1]), (3, sum(&home)), "block {i}");
    }
    assert_eq!(byte_at(&*b.store, HOME + 9), 1 << 3);
    let after = b.crashed(&USUAL);
    assert_eq!((byte_at(&*after, HOME), byte_at(&*after, HOME + 9)), (3, 1 << 3));
    b.sync();
    let after = b.crashed(&USUAL);
    assert_eq!((byte_at(&*after, HOME), byte_at(&*after, HOME + 9), byte_at(&*after, HOME + 2)), (4, 3 << 3, 3));
    b.engine.checkpoint_all().unwrap();
    assert!((0..2).all(|i| block_of(&*b.store, HOME + i) == block_of(&*after, HOME + i)));
    assert_eq!(b.engine.stats().journal_used_blocks, 0);
}

#[test]
fn a_change_that_is_not_committed_and_goes_home_is_found() {
    let _planted = ondol_faults::set(Some(Defect::UncommittedHome)).unwrap();
    assert!(std::panic::catch_unwind(a_checkpoint_takes_no_change_that_is_not_committed).is_err());
}

/// The background checkpointer once, which has work.
pub(crate) fn one_slice(b: &Bench) {
    let checkpointer = b.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
    assert_eq!(checkpointer.step().unwrap(), ondol_env::Progress::Worked);
}

/// A checkpoint takes the oldest commits, an eighth of the ring; what the others have stays in the log.
#[test]
fn a_checkpoint_takes_a_slice() {
    let rig = Scalable(64 << 10, 16 << 10);
    let b = bench(&rig);
    // Each takes 18 lines with its commit; a slice is 112 of 896.
    for n in 0..40u8 {
        b.fill(HOME + u64::from(n) % 20, n + 1);
        b.sync();
    }
    let used = b.engine.stats().journal_used_blocks;
    one_slice(&b);
    let stats = b.engine.stats();
    assert!(
        (used - 9..used - 6).contains(&stats.journal_used_blocks) && stats.checkpoint_blocks == 7,
        "{used}, {stats:?}"
    );
    let home: Vec<u8> = (0..20).map(|i| byte_at(&*b.store, HOME + i)).collect();
    assert_eq!(home[..7], [1, 2, 3, 4, 5, 6, 7], "what was committed then, not what is live");
    assert_eq!(home[7..], [0; 13]);
    let after = b.crashed(&rig);
    assert!((0..20).all(|i| byte_at(&*after, HOME + i) == 21 + i as u8));
}

/// A block has a next owner already when a slice comes by its first one's records. Returns what it holds after a crash,
/// and at home before that.
fn owners_in_different_slices() -> (u8, u8) {
    let rig = Scalable(64 << 10, 16 << 10);
    let b = bench(&rig);
    let others = |which: std::ops::Range<u64>| {
        for n in which {
            b.fill(HOME + 1 + n, 1);
            b.sync();
        }
    };
    let owns = |byte: u8| {
        let mut h = b.handle(1);
        if byte == 7 {
            h.fresh(HOME, META).unwrap();
        }
        h.write(HOME, META, 0, &[byte; BLOCK]).unwrap();
        h.close();
    };
    b.fill(HOME, 5);
    b.sync();
    others(0..8);
    let mut h = b.handle(1);
    h.free(Extent { start: HOME, len: 1 }, META);
    h.close();
    b.sync();
    assert_eq!(b.client.released.lock().len(), 1);
    others(8..10);
    owns(7);
    b.sync();
    others(10..40);
    // Never committed.
    owns(8);
    let commits = b.engine.stats().commits;
    one_slice(&b);
    let home = byte_at(&*b.store, HOME);
    one_slice(&b);
    assert_eq!(b.engine.stats().commits, commits);
    (byte_at(&*b.crashed(&rig), HOME), home)
}

#[test]
fn a_slice_leaves_alone_what_has_a_next_owner() {
    assert_eq!(owners_in_different_slices(), (7, 0));
    let _planted = ondol_faults::set(Some(Defect::UntoldOwner)).unwrap();
    assert_ne!(owners_in_different_slices().0, 7);
}

/// Wrong states after cuts of a recovery that were recovered again, and how many there were.
fn recovery_is_cut() -> (usize, usize) {
    let rig = Scalable(64 << 10, 16 << 10);
    let b = bench(&rig);
    (0..3).for_each(|i| b.fill(HOME + i, 5 + i as u8));
    b.sync();
    let (disk, pool) = b.now();
    let domain = PowerDomain::new();
    let store: Arc<dyn BlockStore> = Arc::new(Recorder::new(RamStore::from_bytes(disk.clone()), 0, domain.clone()));
    let recorded = Pool::open(Nvm::from_bytes(&pool).unwrap().record(domain.clone(), 1)).unwrap();
    let contents = Contents::open(&recorded, &System, OnDamage::Refuse).unwrap();
    scalable::recover(&store, VOLUME, &contents, &*b.client, &System).unwrap();
    drop(Log::start(contents, Arc::new(System), &Options::default()).unwrap());
    let medium = |bytes: Vec<u8>, kind| Medium { base: Layer::new(bytes), kind, whole: None };
    let media = [medium(disk, ondol_power::Kind::Block), medium(pool, ondol_power::Kind::Nvm)];
    let mut wrong = 0;
    let states = Sampling::default().at_most(32).each(&media, &domain.take(), |layers, _| {
        let after = Arc::new(RamStore::from_bytes(layers[0].to_bytes()));
        rig.recover(after.clone(), Some(pool_of(&layers[1].to_bytes())));
        wrong += usize::from((0..3).any(|i| byte_at(&*after, HOME + i) != 5 + i as u8));
    });
    (wrong, states)
}

#[test]
fn a_recovery_that_is_cut_is_done_again() {
    let (wrong, states) = recovery_is_cut();
    assert!(wrong == 0 && states > 10, "{wrong} of {states}");
    let _planted = ondol_faults::set(Some(Defect::MissingFlushInRecovery)).unwrap();
    assert!(recovery_is_cut().0 > 0);
}

/// A block that was freed is taken by another, synced, and freed again, while a checkpoint takes its first freeing
/// home: as long as the second is not committed, what was synced is there. Returns the interleavings in which it was
/// not, and those that could be judged.
fn freed_again_beside_a_checkpoint(interleavings: u64) -> (Vec<u64>, u64) {
    let rig = Scalable(256 << 10, 8 << 10);
    let free = |b: &Bench, mark: u8| {
        let mut h = b.handle(2);
        h.free(Extent { start: HOME, len: 1 }, META);
        h.write(HOME + 1, META, 0, &[mark]).unwrap();
        h.close();
    };
    let (mut lost, mut judged, mut steps) = (Vec::new(), 0, 200);
    for n in 0..interleavings {
        let b = Arc::new(bench_with(&rig, Config { pending_bytes: 6 * BLOCK as u64, ..config() }));
        (0..4).for_each(|i| b.fill(HOME + i, 1));
        b.sync();
        free(&b, 2);
        b.sync();
        assert_eq!(b.client.released.lock().len(), 1);
        let owner = b.clone();
        let owners: Task = Box::new(move || {
            let mut h = owner.handle(1);
            h.fresh(HOME, META).unwrap();
            h.write(HOME, META, 0, &[7; BLOCK]).unwrap();
            h.close();
            owner.sync();
            free(&owner, 9);
        });
        let other = b.clone();
        let checkpoints: Task = Box::new(move || {
            let checkpointer = other.engine.steps().into_iter().find(|step| step.name() == "checkpoint").unwrap();
            for _ in 0..2 {
                let _progress = checkpointer.step().unwrap();
                other.engine.cache().stats();
            }
            // Whatever is committed goes home.
            let _stopped = other.engine.checkpoint_all();
        });
        let schedule = Schedule::fitted(steps, n);
        steps = schedule.run(vec![owners, checkpoints]).unwrap().steps;
        let after = b.crashed(&rig);
        if byte_at(&*after, HOME + 1) != 9 {
            judged += 1;
            if byte_at(&*after, HOME) != 7 {
                lost.push(n);
            }
        }
    }
    (lost, judged)
}

#[test]
fn a_block_that_is_freed_again_beside_a_checkpoint_is_not_lost() {
    let (lost, judged) = freed_again_beside_a_checkpoint(2_000);
    assert!(lost.is_empty() && judged > 100, "lost in {lost:?} of {judged}");
}

/// Numbers that several threads add to are right in the log, also where a commit voids one of them.
fn counters_add_up(interleavings: std::ops::Range<u64>) -> Result<(), String> {
    for n in interleavings {
        let b = Arc::new(bench(&Scalable(256 << 10, 8 << 10)));
        let adder = |at: u64| -> Task {
            let b = b.clone();
            Box::new(move || {
                for i in 0..3 {
                    let mut h = b.handle(2);
                    h.merge(HOME, META, Merge::Add { offset: 0, width: 4, delta: 1 }).unwrap();
                    h.write(HOME + 1 + at, META, 0, &[i]).unwrap();
                    h.close();
                }
            })
        };
        let syncer = |b: Arc<Bench>| -> Task { Box::new(move || (0..6).for_each(|_| b.sync())) };
        let tasks = vec![adder(0), adder(1), syncer(b.clone()), adder(2)];
        Schedule::fitted(2_000, n).run(tasks).map_err(|e| e.to_string())?;
        b.sync();
        let after = block_of(&*b.crashed(&Scalable(256 << 10, 8 << 10)), HOME)[0];
        if after != 9 {
            return Err(format!("interleaving {n}: {after} of 9"));
        }
    }
    Ok(())
}

#[test]
fn counters_are_right_whatever_is_voided() {
    counters_add_up(0..150).unwrap();
    let _planted = ondol_faults::set(Some(Defect::UnlockedCounters)).unwrap();
    assert!(counters_add_up(0..600).is_err(), "without their locks they are");
}

/// Threads that bring more than the ring holds make room themselves, and lose nothing.
#[test]
fn a_full_ring_slows_down_and_never_stops() {
    let rig = Scalable(64 << 10, 16 << 10);
    let b = bench(&rig);
    let max = b.engine.max_blocks();
    assert!((1..16).contains(&max), "{max}");
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let b = &b;
            scope.spawn(move || {
                for n in 0..300u32 {
                    let mut h = b.handle(max);
                    h.write(HOME + t, META, 0, &n.to_le_bytes()).unwrap();
                    h.write(HOME + 10 + t, META, 0, &[n as u8; BLOCK]).unwrap();
                    h.merge(HOME + 20, META, Merge::Add { offset: 0, width: 4, delta: 1 }).unwrap();
                    h.close();
                    if n % 17 == 0 {
                        b.sync();
                    }
                }
            });
        }
    });
    b.sync();
    assert!(b.engine.stats().foreground_checkpoints > 0, "{:?}", b.engine.stats());
    let after = b.crashed(&rig);
    let number = |block| u32::from_le_bytes(std::array::from_fn(|i| block_of(&*after, block)[i]));
    assert!((0..4).all(|t| number(HOME + t) == 299 && byte_at(&*after, HOME + 10 + t) == 299u32 as u8));
    assert_eq!(number(HOME + 20), 1200);
}

/// Data that is written in place is durable before a commit that comes after it, whoever makes that.
#[test]
fn data_in_place_is_durable_before_the_commit() {
    let b = bench(&USUAL);
    b.engine.write_data(HOME + 7, 0, &[9; BLOCK]).unwrap();
    b.fill(HOME, 1);
    let before = b.store.stats().flushes;
    b.sync();
    assert_eq!(b.store.stats().flushes - before, 1);
    b.sync();
    b.engine.write_data(HOME + 7, 0, &[9; BLOCK]).unwrap();
    b.sync();
    assert_eq!(b.store.stats().flushes - before, 2, "also where there is nothing to commit");
}

/// A commit is one line and one fence, an fsync with nothing new none; a record is as long as what changed.
#[test]
fn commits_and_records_cost_what_they_should() {
    let b = bench(&USUAL);
    b.fill(HOME, 1);
    b.sync();
    let lines = || b.engine.stats().log_lines;
    let before = lines();
    let mut h = b.handle(3);
    h.write(HOME, META, 100, &[2; 40]).unwrap();
    h.merge(HOME + 1, META, Merge::Set { first: 5, count: 2 }).unwrap();
    h.close();
    b.sync();
    // Head 24, two blocks 24 each, two changes 8 each, 40 bytes; and the commit.
    assert_eq!(lines() - before, 3);
    let before = (lines(), b.engine.stats().commits);
    b.sync();
    assert_eq!((lines(), b.engine.stats().commits), before);
}

/// An update logs what it changes, beside what is staged already; what it does not change is whatever it is.
#[test]
fn an_update_logs_what_differs() {
    let b = bench(&USUAL);
    b.fill(HOME, 1);
    b.sync();
    let lines = || b.engine.stats().log_lines;
    let mut wanted = [1; 256];
    (wanted[3], wanted[20], wanted[200]) = (2, 3, 4);
    let before = lines();
    let mut h = b.handle(1);
    h.update(HOME, META, 512, &wanted).unwrap();
    h.close();
    b.sync();
    // Head 24, a block 24, runs of 3 and of 1 words with 8 each; and the commit.
    assert_eq!(lines() - before, 3);
    let mut h = b.handle(1);
    h.write(HOME, META, 600, &[7; 8]).unwrap();
    h.update(HOME, META, 512, &wanted).unwrap();
    h.write(HOME, META, 1000, &[8; 8]).unwrap();
    h.update(HOME, META, 0, &[1; 256]).unwrap();
    h.close();
    b.sync();
    let after = block_of(&*b.crashed(&USUAL), HOME);
    assert_eq!((&after[..512], &after[512..768], &after[1000..1008]), (&[1; 512][..], &wanted[..], &[8; 8][..]));
}

crate::lost::lost_pages!(USUAL);
