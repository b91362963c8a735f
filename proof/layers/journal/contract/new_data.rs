//! Contents of blocks that a transaction has allocated, which an engine may write home at once.

use super::{BLOCK, HOME, META, Rig, bench, bench_with, byte_at, config, noise};
use ondol_block::{BlockStore, DeviceClass};
use ondol_journal::{Before, Config, EngineStats, Extent, Kind, Placement, Run};
use ondol_power::Sampling;
use ondol_testkit::put_data::PutData;

/// Slots of newly allocated runs, each as long as the engine needs to write it home at once if it does such a thing.
const SLOTS: u64 = 6;
const RUN: u64 = 64;

fn slot(n: u8) -> Extent {
    Extent { start: HOME + 100 + u64::from(n) % SLOTS * RUN, len: RUN as u32 }
}

/// Contents of new blocks are there when the block that names them is, however often the slots are used again, and
/// whether they compress or not, and pass or not; and what was written over them later is there with what names that.
pub(crate) fn new_data_is_there_when_it_is_named(rig: &dyn Rig) {
    let (slow, none) = write_new_data(rig, config());
    assert!(!none && slow.staged_early_blocks + slow.early_flushes + slow.passed_bytes == 0, "{slow:?}");
    let (stats, passed) = write_new_data(rig, Config { device: DeviceClass::Memory, ..config() });
    assert_eq!(stats.staged_early_blocks, 0);
    assert_eq!(
        stats.early_flushes > 0,
        passed,
        "what passes, and nothing else, is flushed before it counts: {stats:?}"
    );
    assert_eq!(stats.passed_bytes > 0, passed, "{stats:?}");
    assert!(passed || slow.staged_blocks == 0, "an engine that takes new data lets some of it pass");
}

/// The same where each long run is more than may wait: the next handle writes it home, and its transaction changes it
/// afterwards.
pub(crate) fn new_data_that_goes_home_early_is_there_when_it_is_named(rig: &dyn Rig) {
    let (stats, _) = write_new_data(rig, Config { kept_bytes: Some(48 << 10), ..config() });
    assert!(stats.staged_blocks == 0 || stats.staged_early_blocks > 0 && stats.data_runs > 0, "{stats:?}");
}

/// Also says whether any of it passed.
fn write_new_data(rig: &dyn Rig, config: Config) -> (EngineStats, bool) {
    let b = bench_with(rig, config);
    let mut passed = false;
    let contents = |n: u8, i: u64| if n.is_multiple_of(2) { vec![n; BLOCK] } else { noise(n, i) };
    for n in 1..=14u8 {
        let mut h = b.handle(RUN as u32 + 4);
        // Odd ones are short and do not compress, even ones are long and do.
        let len = if n.is_multiple_of(2) { RUN } else { RUN / 4 };
        let extent = Extent { start: slot(n).start, len: len as u32 };
        let bytes = len as usize * BLOCK;
        let run = Run { extent, bytes, before: Before::New, journaled: true, delayed: 0 };
        let passes = b.engine.place(&run).0 == Placement::InPlace;
        passed |= passes;
        for i in 0..len {
            let (block, bytes) = (slot(n).start + i, contents(n, i));
            if passes {
                assert!(b.engine.write_new(block, &bytes).unwrap());
            } else {
                h.new_data(block, 0, &bytes).unwrap();
            }
        }
        h.write(HOME, META, 0, &[n]).unwrap();
        if n > 1 {
            h.free(slot(n - 1), Kind::DATA);
        }
        h.close();
        // Over what is already committed, and, every third time, over what is not.
        if n.is_multiple_of(3) {
            b.sync();
            b.domain.mark(u64::from(n));
        }
        let mut h = b.handle(2);
        h.data(slot(n).start + 1, 0, &[n; 16]).unwrap();
        h.write(HOME + 1, META, 0, &[n]).unwrap();
        h.close();
        if n % 3 == 1 {
            b.sync();
            b.domain.mark(u64::from(n));
        }
        if n % 5 == 0 {
            b.engine.checkpoint_all().unwrap();
        }
    }
    let sampling = Sampling { all_of: 1, samples: 200, torn: 512, ..Sampling::default() };
    let states = b.explore(rig, sampling, |after, synced| {
        let (n, over) = (byte_at(after, HOME), byte_at(after, HOME + 1));
        assert!(u64::from(n) >= synced && (over == n || over + 1 == n), "{n}, {over} although {synced} was synced");
        let len = if n == 0 {
            0
        } else if n.is_multiple_of(2) {
            RUN
        } else {
            RUN / 4
        };
        for i in 0..len {
            let mut want = contents(n, i);
            if i == 1 && over == n {
                want[..16].fill(n);
            }
            let mut got = vec![0; BLOCK];
            after.read((slot(n).start + i) * BLOCK as u64, &mut got).unwrap();
            assert!(got == want, "block {i} of run {n}, {over} written over");
        }
    });
    assert!(states > rig.least_states(300), "only {states} crash states");
    (b.engine.stats(), passed)
}

/// Contents of new blocks that the ring could not hold, long and scattered, beside others that hold promises:
/// everything that was promised is kept, and nothing is lost.
pub(crate) fn new_data_is_not_bound_by_the_ring(rig: &dyn Rig) {
    let b = bench(rig);
    let max = u64::from(bench(rig).engine.max_blocks());
    for (n, step, count) in [(1u8, 1, max - 8), (2, 2, max - 8), (3, 2, 60)] {
        let place = |i: u64| HOME + 100 + i * step;
        let need = b.engine.new_data_cost(count as u32) + 1;
        if 2 * need > b.engine.max_blocks() {
            // An engine that logs all of it.
            continue;
        }
        // Somebody has been promised nearly all, and will take it.
        let most = b.engine.max_blocks() - 2 * need;
        let mut other = b.handle(most.min(80));
        let mut h = b.handle(need);
        for i in 0..count {
            h.new_data(place(i), 0, &noise(n, i)).unwrap();
        }
        h.write(HOME, META, 0, &[n]).unwrap();
        assert!(h.write(HOME + 1, META, 0, &[n]).is_err(), "a handle kept to its promise");
        h.close();
        b.sync();
        for i in 0..u64::from(most.min(80)) {
            other.write(HOME + 2 + i, META, 0, &noise(n, i)).unwrap();
        }
        other.close();
        b.sync();
        let after = b.crashed(rig);
        assert_eq!(byte_at(&*after, HOME), n);
        for i in 0..count {
            let mut got = vec![0; BLOCK];
            after.read(place(i) * BLOCK as u64, &mut got).unwrap();
            assert!(got == noise(n, i), "block {i} of round {n}");
        }
        let mut h = b.handle(1);
        for i in 0..count {
            h.free(Extent { start: place(i), len: 1 }, Kind::DATA);
        }
        h.write(HOME, META, 0, &[n]).unwrap();
        h.close();
        b.sync();
    }
    let stats = b.engine.stats();
    assert!(stats.journal_used_blocks < stats.journal_ring_blocks || rig.batch().is_some());
    assert!(b.engine.aborted().is_none());
}

pub(crate) fn new_data_fits_when_nobody_else_has_been_promised_anything(rig: &dyn Rig) {
    let b = bench(rig);
    // Most of the ring holds transactions that no checkpoint has seen.
    for round in 0..7 {
        let mut h = b.handle(100);
        for i in 0..100 {
            h.write(HOME + i, META, 0, &noise(round, i)).unwrap();
        }
        h.close();
        b.sync();
    }
    let place = |n: u64, i: u64| HOME + 110 + 2 * (200 * n + i);
    let need = b.engine.new_data_cost(200) + 1;
    for n in 0..2 {
        let mut h = b.handle(need);
        for i in 0..200 {
            h.new_data(place(n, i), 0, &noise(50 + n as u8, i)).unwrap();
        }
        h.write(HOME, META, 0, &[n as u8 + 1]).unwrap();
        h.close();
    }
    b.sync();
    let after = b.crashed(rig);
    assert_eq!(byte_at(&*after, HOME), 2);
    for (n, i) in (0..2).flat_map(|n| (0..200).map(move |i| (n, i))) {
        let mut got = vec![0; BLOCK];
        after.read(place(n, i) * BLOCK as u64, &mut got).unwrap();
        assert!(got == noise(50 + n as u8, i), "block {i} of {n}");
    }
}
