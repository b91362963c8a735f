//! The engine contract as tests. An engine passes when every function here does, given a [`Rig`] that makes it.

mod new_data;

pub(crate) use new_data::{
    new_data_fits_when_nobody_else_has_been_promised_anything, new_data_is_not_bound_by_the_ring,
    new_data_is_there_when_it_is_named, new_data_that_goes_home_early_is_there_when_it_is_named,
};

use ondol_block::{BlockStore, FaultPlan, Faulty, RamStore, Recorder};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_format::jbd2::JournalSuperblock;
use ondol_journal::{Client, Config, Corrupt, Engine, Extent, Handle, Images, Kind, LogMap, Patches, Ranges};
use ondol_power::{Layer, Medium, PowerDomain, Sampling};

pub(crate) const BLOCK: usize = 1024;
/// Blocks of the medium: journal first, then home.
pub(crate) const BLOCKS: u64 = 2048;
/// First block that tests use as home.
pub(crate) const HOME: u64 = 1100;
pub(crate) const META: Kind = Kind { class: 1, owner: 7, salt: 0 };
/// Blocks of this kind keep the sum of their first half in their last byte.
pub(crate) const SUMMED: Kind = Kind { class: 2, owner: 0, salt: 0 };

pub(crate) type Store = Arc<Recorder<Faulty<RamStore>>>;

/// A client that seals a checksum byte and notes what may be reused.
#[derive(Default)]
pub(crate) struct TestClient {
    pub(crate) released: Mutex<Vec<Extent>>,
    /// Whether sealing panics.
    pub(crate) broken: ondol_env::sync::atomic::AtomicBool,
}

impl Client for TestClient {
    fn load(&self, block: u64, kind: Kind, bytes: &mut [u8]) -> Result<(), Corrupt> {
        if kind == SUMMED && bytes.iter().any(|b| *b != 0) && bytes[BLOCK - 1] != sum(bytes) {
            return Err(Corrupt { structure: "summed block".into(), block, what: "wrong sum".into() });
        }
        Ok(())
    }

    fn seal(&self, _block: u64, kind: Kind, image: &[u8], _dirty: &Ranges, _tx: &dyn Images, out: &mut Patches) {
        assert!(!self.broken.load(ondol_env::sync::atomic::Ordering::SeqCst), "a defect");
        if kind == SUMMED {
            out.put(BLOCK - 1, &[sum(image)]);
        }
    }

    fn release(&self, freed: &[Extent]) {
        self.released.lock().extend_from_slice(freed);
    }
}

pub(crate) fn sum(bytes: &[u8]) -> u8 {
    bytes[..BLOCK / 2].iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// One engine under test: how to lay out an empty log, open it, and recover bytes after a crash.
pub(crate) trait Rig {
    fn empty(&self) -> Vec<u8>;
    fn open(
        &self,
        store: Arc<dyn BlockStore>,
        client: Arc<TestClient>,
        env: Arc<dyn Env>,
        c: Config,
    ) -> Box<dyn Engine>;
    fn recover(&self, store: &dyn BlockStore);
    /// Flushes that one commit needs, alone.
    fn flushes_per_commit(&self) -> u64;
}

/// A journal in two pieces, so that the ring crosses from one to the other.
pub(crate) fn map() -> LogMap {
    LogMap::new(BLOCK as u32, [(40, 24), (70, 1000)])
}

/// A medium with an empty journal where [`map`] says.
pub(crate) fn empty_journal() -> Vec<u8> {
    let mut bytes = vec![0; BLOCK * BLOCKS as usize];
    let sb = JournalSuperblock::new(BLOCK as u32, 1024, [9; 16]);
    bytes[40 * BLOCK..40 * BLOCK + 1024].copy_from_slice(&sb.encode());
    bytes
}

pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) domain: Arc<PowerDomain>,
    pub(crate) client: Arc<TestClient>,
    pub(crate) env: Arc<Fixed>,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) base: Vec<u8>,
}

pub(crate) fn config() -> Config {
    Config {
        commit_interval: 5,
        dirty_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        pending_bytes: 1 << 20,
        journaled_data: true,
        discard: false,
        zeroing: false,
    }
}

pub(crate) fn bench(rig: &dyn Rig) -> Bench {
    bench_with(rig, config())
}

pub(crate) fn bench_with(rig: &dyn Rig, config: Config) -> Bench {
    let domain = PowerDomain::new();
    let base = rig.empty();
    let ram = RamStore::from_bytes(base.clone());
    let store = Arc::new(Recorder::new(Faulty::new(ram), 0, domain.clone()));
    let client = Arc::new(TestClient::default());
    let env = Arc::new(Fixed::new(Timestamp { sec: 1_000_000, nsec: 0 }, 1));
    let engine = rig.open(store.clone(), client.clone(), env.clone(), config);
    Bench { store, domain, client, env, engine, base }
}

impl Bench {
    pub(crate) fn handle(&self, blocks: u32) -> Handle<'_> {
        Handle::begin(&*self.engine, blocks).expect("journal space")
    }

    /// Closes a handle that fills `block` with `byte`.
    pub(crate) fn fill(&self, block: u64, byte: u8) {
        let mut h = self.handle(1);
        h.write(block, META, 0, &[byte; BLOCK]).unwrap();
        h.close();
    }

    pub(crate) fn sync(&self) {
        self.engine.wait(self.engine.tid()).unwrap();
    }

    pub(crate) fn first_byte(&self, block: u64) -> u8 {
        self.engine.read(block, META).unwrap()[0]
    }

    /// The medium as a crash right now would leave it if everything that was written had arrived.
    pub(crate) fn crashed(&self, rig: &dyn Rig) -> RamStore {
        let after = RamStore::from_bytes(self.store.inner().inner().to_bytes());
        rig.recover(&after);
        after
    }
}

pub(crate) fn byte_at(store: &dyn BlockStore, block: u64) -> u8 {
    let mut b = [0];
    store.read(block * BLOCK as u64, &mut b).unwrap();
    b[0]
}

pub(crate) fn nothing_is_seen_before_close_and_nothing_of_a_dropped_handle(rig: &dyn Rig) {
    let b = bench(rig);
    let mut h = b.handle(2);
    h.write(HOME, META, 0, &[5; 10]).unwrap();
    assert_eq!(h.read(HOME, META).unwrap()[0], 5, "a handle sees its own writes");
    assert_eq!(b.first_byte(HOME), 0, "nobody else does");
    drop(h);
    b.sync();
    assert_eq!(b.first_byte(HOME), 0);
    assert_eq!(byte_at(&b.crashed(rig), HOME), 0);
    b.fill(HOME, 9);
    assert_eq!(b.first_byte(HOME), 9);
}

pub(crate) fn concurrent_changes_of_one_block_merge(rig: &dyn Rig) {
    let b = bench(rig);
    let (mut x, mut y) = (b.handle(1), b.handle(1));
    x.write(HOME, META, 0, &[1; 4]).unwrap();
    y.write(HOME, META, 8, &[2; 4]).unwrap();
    x.set_bits(HOME, META, 128, 12).unwrap();
    y.set_bits(HOME, META, 140, 4).unwrap();
    x.add(HOME, META, 32, 2, 3).unwrap();
    y.add(HOME, META, 32, 2, -1).unwrap();
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
    assert_eq!(byte_at(&b.crashed(rig), HOME), 3, "durable is durable, and the rest is not there");
}

/// A block that does not compress.
fn noise(n: u8, i: u64) -> Vec<u8> {
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
    let media = [Medium { base: Layer::new(b.base), kind: ondol_power::Kind::Block, whole: None }];
    let sampling = Sampling { all_of: 1, samples: 500, torn: 2048, ..Sampling::default() };
    let states = sampling.each(&media, &b.domain.take(), |layers, synced| {
        let after = RamStore::from_bytes(layers[0].to_bytes());
        rig.recover(&after);
        let got = (byte_at(&after, HOME), byte_at(&after, HOME + 50));
        assert_eq!(got.0, got.1, "half of an operation after {synced} was synced");
        assert!(u64::from(got.0) >= synced, "{got:?} although {synced} was synced");
        let mut block = vec![0; BLOCK];
        after.read((HOME + 50) * BLOCK as u64, &mut block).unwrap();
        assert_eq!(block[BLOCK - 1], sum(&block), "a block came home unsealed");
    });
    assert!(states > 150, "only {states} crash states");
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
    assert_eq!(byte_at(&b.crashed(rig), HOME), 77);
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
    assert!(s.used_blocks < s.ring_blocks);
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
        b.store.inner().arm(FaultPlan { once: true, ..plan });
        assert!(b.engine.wait(b.engine.tid()).is_err());
        assert!(b.engine.wait(b.engine.tid()).is_err(), "no later fsync pretends");
        assert!(Handle::begin(&*b.engine, 1).is_err());
        assert!(b.engine.aborted().is_some());
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
        assert_eq!(byte_at(&after, HOME + t), 49);
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
    assert_eq!(byte_at(&b.crashed(rig), HOME), 1);
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
        assert_eq!(byte_at(&b.crashed(rig), HOME), 1);
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

/// What others have been promised and not used is no reason to commit what little there is; what the running transaction itself was promised is.
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
    };
    ($rig:expr; $($name:ident)*) => { $(#[test] fn $name() { crate::contract::$name(&$rig); })* };
}
pub(crate) use engine_contract;
