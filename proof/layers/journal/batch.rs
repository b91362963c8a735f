//! Engine `batch` against the engine contract, and what is its own.

use crate::contract::{BLOCK, BLOCKS, Bench, Ground, HOME, META, Rig, TestClient, bench, bench_with, byte_at, config};
use ondol_block::{BlockStats, BlockStore, Caps, RamStore};
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{Arc, Condvar, Mutex, thread};
use ondol_env::{Fixed, Progress, Timestamp};
use ondol_faults::Defect;
use ondol_journal::{Config, Engine, Extent, Handle, Journal, JournalError, Kind, batch, open};
use ondol_medium::Pool;
use ondol_power::{Event, PowerDomain, Sampling};
use ondol_stores::{FaultPlan, Recorder};
use ondol_testkit::put_data::PutData;
use std::io::IoSlice;

pub(crate) struct Batch;

/// Bytes of a batch: 1024 blocks.
const MOST: u64 = 1 << 20;

impl Rig for Batch {
    fn empty(&self) -> Vec<u8> {
        vec![0; BLOCK * BLOCKS as usize]
    }

    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine> {
        ground.open(Journal::Batch, c)
    }

    /// There is nothing to be done.
    fn recover(&self, _: Arc<dyn BlockStore>, _: Option<Pool>) {}

    fn flushes_per_commit(&self) -> u64 {
        1
    }

    fn batch(&self) -> Option<u64> {
        Some(MOST)
    }

    /// Of a few batches, the first so many are there.
    fn least_states(&self, _: usize) -> usize {
        8
    }
}

crate::contract::engine_contract!(
    Batch;
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
    the_timer_goes_on_when_the_clock_is_set
    a_handle_that_changed_nothing_is_no_work
    promises_to_others_make_no_commits
    a_commit_that_panics_ends_all_promises
);

#[test]
fn a_home_without_batches_is_refused_by_name() {
    for store in [RamStore::new(1 << 20), RamStore::new(1 << 20).with_batches(255 * BLOCK as u64)] {
        let (client, env) = (Arc::new(TestClient::default()), Arc::new(Fixed::new(Timestamp::default(), 1)));
        assert!(!batch::is_possible(&store, BLOCK as u32));
        let ground = ondol_journal::Ground { store: Arc::new(store), block_size: BLOCK, client, env, config: config() };
        let refused = open(ground, Journal::Batch).err().unwrap();
        assert!(matches!(&refused, JournalError::Unsupported(what) if what.contains("memory")), "{refused}");
        assert!(refused.to_string().contains("journal=batch needs a home that takes batches"), "{refused}");
    }
}

#[test]
fn a_checkpoint_finds_nothing() {
    let b = bench(&Batch);
    b.fill(HOME, 3);
    b.sync();
    b.fill(HOME, 4);
    assert!(!b.engine.checkpoint().unwrap());
    assert_eq!((byte_at(&*b.store, HOME), b.engine.stats().commits), (3, 1));
    b.engine.checkpoint_all().unwrap();
    assert_eq!((byte_at(&*b.store, HOME), b.engine.stats().commits), (4, 2));
}

/// A transaction is one batch, with what it frees; and nothing else is written.
#[test]
fn a_transaction_is_one_batch() {
    let b = bench(&Batch);
    b.fill(HOME, 1);
    b.fill(HOME + 1, 1);
    b.sync();
    let mut h = b.handle(2);
    h.write(HOME, META, 0, &[2; BLOCK]).unwrap();
    h.new_data(HOME + 9, 0, &[3; BLOCK]).unwrap();
    h.free(Extent { start: HOME + 1, len: 1 }, META);
    h.close();
    b.sync();
    let block = |n: u64| n * BLOCK as u64;
    let events = b.domain.take();
    let [_, Event::Settled { number: 1, .. }, Event::Batch { writes, discards, number: 2, .. }, last] = &events[..]
    else {
        panic!("{events:?}");
    };
    let written: Vec<(u64, u8)> = writes.iter().map(|(at, bytes)| (*at, bytes[0])).collect();
    assert_eq!(written, [(block(HOME), 2), (block(HOME + 9), 3)]);
    assert_eq!(**discards, [(block(HOME + 1), BLOCK as u64)]);
    assert_eq!(*last, Event::Settled { medium: 0, number: 2 });
}

/// A sync that covers what was written beside batches flushes once, and that settles the batches, too.
#[test]
fn a_flush_settles_batches() {
    let b = bench(&Batch);
    b.fill(HOME, 1);
    b.engine.write_data(HOME + 5, 0, &[2; BLOCK]).unwrap();
    let before = b.store.stats().flushes;
    b.sync();
    assert_eq!((b.store.stats().flushes - before, b.engine.stats().uncommitted_bytes), (1, 0));
    let before = b.store.stats().flushes;
    b.sync();
    assert_eq!(b.store.stats().flushes, before);
}

/// Each of the rules that make it safe, broken, is seen in some state.
#[test]
fn broken_rules_are_seen() {
    for defect in [Defect::UnsettledBatch, Defect::SplitBatch, Defect::EarlyDiscard, Defect::EarlyReuse] {
        let wrong = |defect: Option<Defect>| {
            let _planted = defect.map(|defect| ondol_faults::set(Some(defect)).unwrap());
            let wrong = Mutex::new(0);
            let b = bench(&Batch);
            reuse(&b);
            b.explore(&Batch, Sampling::default(), |after, synced| {
                // Block HOME says which block has the data of that number.
                let (n, at) = (byte_at(after, HOME), byte_at(after, HOME + 1));
                let data = if n == 0 { 0 } else { byte_at(after, HOME + 10 + u64::from(at)) };
                *wrong.lock() += u32::from(u64::from(n) < synced || data != n);
            });
            wrong.into_inner()
        };
        assert_eq!(wrong(None), 0);
        assert!(wrong(Some(defect)) > 0, "{defect}");
    }
}

/// Data moves from block to block; each time its place is freed and, once that may be, taken again.
fn reuse(b: &Bench) {
    let mut free: Vec<u64> = vec![1, 0];
    let mut place: Option<u64> = None;
    for n in 1..=6u8 {
        let at = free.pop().unwrap_or(2 + u64::from(n));
        let mut h = b.handle(3);
        h.new_data(HOME + 10 + at, 0, &[n; BLOCK]).unwrap();
        h.write(HOME, META, 0, &[n; BLOCK]).unwrap();
        h.write(HOME + 1, META, 0, &[at as u8; BLOCK]).unwrap();
        if let Some(old) = place.replace(at) {
            h.free(Extent { start: HOME + 10 + old, len: 1 }, Kind::DATA);
        }
        h.close();
        if n % 3 == 0 {
            b.sync();
            b.domain.mark(u64::from(n));
        }
        let released = std::mem::take(&mut *b.client.released.lock());
        free.extend(released.iter().map(|extent| extent.start - HOME - 10));
    }
}

/// After the first error nothing is submitted any more, whoever asks.
#[test]
fn nothing_is_submitted_after_an_error() {
    for plan in
        [FaultPlan { flushes: Some(0), ..FaultPlan::default() }, FaultPlan { writes: Some(0), ..FaultPlan::default() }]
    {
        let b = bench(&Batch);
        b.fill(HOME, 1);
        b.sync();
        b.fill(HOME, 2);
        b.store.arm(FaultPlan { once: true, ..plan });
        assert!(b.engine.wait(b.engine.tid()).is_err());
        b.domain.take();
        b.env.advance(60_000_000_000);
        assert!(b.engine.wait(b.engine.tid()).is_err() && b.engine.checkpoint_all().is_err());
        assert!(b.engine.write_data(HOME + 5, 0, &[1]).is_err());
        assert!(b.engine.discard(Extent { start: HOME + 7, len: 1 }).is_err());
        let ended = b.engine.steps().iter().all(|step| !matches!(step.step(), Ok(Progress::Worked)));
        assert!(ended && b.domain.take().is_empty());
    }
}

/// Operations wait when more than twice `dirty` is not durable, and submit what has no room in a batch any more.
#[test]
fn what_is_not_durable_is_bounded() {
    let b = bench_with(&Batch, Config { dirty_bytes: 64 << 10, ..config() });
    for n in 0..100u64 {
        let mut h = b.handle(10);
        (0..10).for_each(|i| h.new_data(HOME + (n * 10 + i) % 900, 0, &[n as u8; BLOCK]).unwrap());
        h.close();
        assert!(b.engine.stats().uncommitted_bytes <= 2 * (64 << 10) + 10 * BLOCK as u64);
    }
    let stats = b.engine.stats();
    assert!(stats.foreground_commits >= 5 && stats.commits >= 5, "{stats:?}");
    let b = bench_with(&Batch, Config { dirty_bytes: 8 << 20, cache_bytes: 16 << 20, ..config() });
    for n in 0..3 {
        let mut h = b.handle(600);
        (0..600).for_each(|i| h.new_data(HOME + i, 0, &[n + 1; BLOCK]).unwrap());
        h.close();
    }
    // Blocks that both have are in the batch once; what was promised for them was not.
    assert!(b.engine.stats().commits >= 1);
    b.sync();
    assert_eq!(byte_at(&*b.store, HOME + 599), 3);
}

/// A store whose settling takes until it is told to end.
struct Slow {
    inner: Recorder<RamStore>,
    held: Mutex<bool>,
    ended: Condvar,
    settling: AtomicBool,
    settled: AtomicU64,
}

impl Slow {
    fn hold(&self, held: bool) {
        *self.held.lock() = held;
        self.ended.notify_all();
    }

    fn wait_for_settling(&self) {
        while !self.settling.load(SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl BlockStore for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> ondol_block::Result<()> {
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> ondol_block::Result<()> {
        self.inner.write_vectored(offset, bufs)
    }

    fn flush(&self) -> ondol_block::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> ondol_block::Result<bool> {
        self.inner.discard(offset, len)
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> ondol_block::Result<u64> {
        self.inner.submit(writes, discards)
    }

    fn settle(&self, number: u64) -> ondol_block::Result<()> {
        self.settling.store(true, SeqCst);
        let mut held = self.held.lock();
        while *held {
            self.ended.wait(&mut held);
        }
        drop(held);
        self.settling.store(false, SeqCst);
        self.settled.fetch_add(1, SeqCst);
        self.inner.settle(number)
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}

fn slow() -> (Arc<Slow>, Arc<dyn Engine>) {
    let inner = Recorder::new(RamStore::new(BLOCK * BLOCKS as usize).with_batches(MOST), 0, PowerDomain::new());
    let (held, settling) = (Mutex::new(true), AtomicBool::new(false));
    let store = Arc::new(Slow { inner, held, ended: Condvar::new(), settling, settled: AtomicU64::new(0) });
    let (client, env) = (Arc::new(TestClient::default()), Arc::new(Fixed::new(Timestamp::default(), 1)));
    let ground = Ground { store: store.clone(), pool: None, client, env };
    (store, Arc::from(ground.open(Journal::Batch, config())))
}

fn fill(engine: &dyn Engine, block: u64, byte: u8) {
    let mut h = Handle::begin(engine, 1).unwrap();
    h.write(block, META, 0, &[byte; BLOCK]).unwrap();
    h.close();
}

/// While one waits for its batch, all others gather, and one settle serves them.
#[test]
fn a_settle_serves_all_who_came_during_the_one_before() {
    let (store, engine) = slow();
    let waits = |block: u64| {
        let engine = engine.clone();
        thread::spawn(move || {
            fill(&*engine, block, 1);
            engine.wait(engine.tid()).unwrap();
        })
    };
    let first = waits(HOME);
    store.wait_for_settling();
    let others: Vec<_> = (1..=8).map(|n| waits(HOME + n)).collect();
    // All have closed their handles; what they wait for is one transaction.
    while engine.stats().uncommitted_bytes < 9 * BLOCK as u64 {
        std::thread::yield_now();
    }
    assert_eq!((engine.stats().commits, byte_at(&store.inner, HOME + 1)), (1, 0));
    store.hold(false);
    first.join().unwrap();
    others.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((engine.stats().commits, store.settled.load(SeqCst)), (2, 2));
    assert_eq!(byte_at(&store.inner, HOME + 8), 1);
}

/// What nobody waits for is submitted while a settle is under way, and readers have it from the home.
#[test]
fn a_large_transaction_is_submitted_beside_a_settle() {
    let (store, engine) = slow();
    fill(&*engine, HOME, 1);
    let first = {
        let engine = engine.clone();
        thread::spawn(move || engine.wait(engine.tid()).unwrap())
    };
    store.wait_for_settling();
    let mut h = Handle::begin(&*engine, 1000).unwrap();
    (0..900).for_each(|i| h.write(HOME + i, META, 0, &[2; BLOCK]).unwrap());
    h.close();
    let steps = engine.steps();
    assert_eq!(steps[0].step().unwrap(), Progress::Worked);
    assert_eq!((engine.stats().commits, byte_at(&store.inner, HOME + 899)), (2, 2));
    store.hold(false);
    first.join().unwrap();
    assert_eq!((steps[1].step().unwrap(), steps[1].step().unwrap()), (Progress::Worked, Progress::Idle));
    assert_eq!(store.settled.load(SeqCst), 2);
}
