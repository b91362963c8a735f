//! Threads on a volume: whatever the schedule, their calls are in some order, and a crash leaves a beginning of it.

use ondol::{DataMode, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_format::FormatError;
use ondol_format::mkfs::{Chunk, Options, Plan};
use ondol_power::{Cut, Keep, Kind, Layer, Medium};
use ondol_testkit::op::text;
use ondol_testkit::schedule::{Policy, Schedule};
use ondol_testkit::threads::{Program, Setup, Threads, random, record};
use ondol_testkit::{dump, image};

/// 4 MiB in blocks of 1 KiB with a journal of 1,024 blocks.
fn fresh() -> Layer {
    let mut options = Options::new(*b"ondol laboratory", *b"ondol hash seed.", 1_600_000_000);
    (options.block_size, options.inodes, options.journal_blocks) = (Some(1024), Some(128), Some(1024));
    options.zeroed = true;
    let mut bytes = vec![0; 4 << 20];
    let place = |chunk: Chunk<'_>| {
        if let Chunk::Bytes { offset, bytes: content } = chunk {
            bytes[offset as usize..][..content.len()].copy_from_slice(content);
        }
        Ok::<(), FormatError>(())
    };
    Plan::new(&options, 4 << 20).unwrap().emit(place).unwrap();
    Layer::new(bytes)
}

fn setup(data: DataMode) -> Setup {
    Setup { image: fresh(), options: image::options(data), before: random::before(), seed: 7, background: Some(2) }
}

fn schedule(seed: u64) -> Schedule {
    let priorities = Policy::Priorities { depth: 4, steps: 1500 };
    Schedule::new(if seed.is_multiple_of(2) { Policy::Random } else { priorities }, seed)
}

/// Crash states after every `stride`-th event and after every mark: none, all and some of what is not durable survives.
/// How many there were, and the first that breaks the contract.
fn crash(setup: &Setup, run: &Threads, data: DataMode, stride: usize) -> (u32, Option<String>) {
    let media = [Medium { base: run.base.clone(), kind: Kind::Block, whole: Some(1024..2048) }];
    let mut cut = Cut::new(&media);
    let (mut states, mut random) = (0, 0x1234_5678_u64);
    for (at, event) in run.events.iter().enumerate() {
        cut.advance(event);
        if !at.is_multiple_of(stride) {
            continue;
        }
        let items = cut.items().len();
        let mut some = || -> Vec<Keep> {
            let mut bit = |_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if random >> 63 == 0 { Keep::None } else { Keep::All }
            };
            (0..items).map(&mut bit).collect()
        };
        let sets = [Vec::new(), vec![Keep::All; items], some(), some()];
        for keep in sets.iter().take(if items == 0 { 1 } else { sets.len() }) {
            states += 1;
            let bytes = cut.build(keep).remove(0).to_bytes();
            if let Err(what) = judge(setup, run, data, at + 1, bytes) {
                return (states, Some(what));
            }
        }
    }
    (states, None)
}

fn judge(setup: &Setup, run: &Threads, data: DataMode, events: usize, bytes: Vec<u8>) -> Result<(), String> {
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes));
    ondol::recover_store(&store).map_err(|e| format!("cannot be recovered: {e}"))?;
    let checked = ondol::check_store(&store).map_err(|e| e.to_string())?;
    if !checked.is_clean() {
        return Err(format!("our check finds {:?}", checked.problems));
    }
    let volume = Volume::open_stepped(store, &setup.options, image::clock(1)).map_err(|e| e.to_string())?;
    let found = dump::of_volume(volume.inodes()).map_err(|e| e.to_string())?;
    run.orders.judge(data, events, &found).map(|_| ()).map_err(|what| format!("after {events} events: {what}"))
}

#[test]
fn equal_seeds_give_equal_runs() {
    let setup = setup(DataMode::Journal);
    for seed in 0..6 {
        let program = random::random(seed, 3, 5);
        let one = record(&setup, &program, schedule(seed)).unwrap();
        let again = record(&setup, &program, schedule(seed)).unwrap();
        assert_eq!(one.stats, again.stats);
        assert_eq!(one.calls, again.calls);
        assert_eq!(one.events, again.events);
        let other = record(&setup, &program, schedule(seed + 100)).unwrap();
        assert_ne!(one.events, other.events);
    }
}

#[test]
fn crashed_threads_leave_a_beginning_of_an_order() {
    let mut states = 0;
    for data in [DataMode::Journal, DataMode::Ordered, DataMode::Writeback] {
        let setup = setup(data);
        for seed in 0..6 {
            let program = random::random(seed, 2 + seed as usize % 2, 5);
            let run = record(&setup, &program, schedule(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let (tried, violation) = crash(&setup, &run, data, 1);
            assert_eq!(violation, None, "{data:?} seed {seed}:\n{program}");
            states += tried;
        }
    }
    assert!(states > 500, "{states}");
}

#[test]
fn in_no_schedule_do_threads_do_what_no_order_explains() {
    for seed in 0..200_u64 {
        let data = [DataMode::Journal, DataMode::Ordered, DataMode::Writeback][seed as usize % 3];
        let setup = Setup { background: (!seed.is_multiple_of(4)).then_some(2), ..setup(data) };
        let program = random::random(seed, 2 + seed as usize % 3, 5);
        record(&setup, &program, schedule(seed)).unwrap_or_else(|e| panic!("{data:?} seed {seed}: {e}\n{program}"));
    }
}

#[test]
fn a_block_freed_while_the_transaction_that_made_it_commits_is_in_that_transaction() {
    let ops = |lines| text::parse(lines).unwrap();
    let setup = Setup { before: ops("create /a 0644"), background: None, ..setup(DataMode::Journal) };
    let program =
        Program::new(vec![ops("setxattr /a user.x 98 #1\nunlink /a"), ops("sync"), ops("sync\nsync")]).unwrap();
    for seed in 0..400 {
        let run = record(&setup, &program, schedule(seed)).unwrap();
        let (_, violation) = crash(&setup, &run, DataMode::Journal, 1);
        assert_eq!(violation, None, "seed {seed}");
    }
}

/// The number of programs it takes until a planted defect is seen.
fn hunt(defect: Defect, programs: u64) -> Option<u64> {
    let _planted = plant::set(Some(defect)).unwrap();
    let setup = setup(DataMode::Journal);
    (0..programs).find(|seed| {
        let run = record(&setup, &random::random(*seed, 3, 5), schedule(*seed));
        run.map_or(true, |run| crash(&setup, &run, DataMode::Journal, 1).1.is_some())
    })
}

#[test]
fn a_handle_that_joins_a_transaction_in_two_steps_is_found() {
    assert!(hunt(Defect::TornPublish, 100).is_some());
}

#[test]
fn a_sync_that_returns_too_early_is_found() {
    assert!(hunt(Defect::MissingFlushAfterCommit, 10).is_some());
}
