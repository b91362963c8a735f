//! Threads on a volume: whatever the schedule, their calls are in some order, and a crash leaves a beginning of it.
//! Random programs are crashed by the tests of the whole laboratory; here is what those do not show.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::explore::{Limits, Watch, explore};
use ondol_laboratory::threads::ThreadsRun;
use ondol_laboratory::workload::handed_on;
use ondol_laboratory::{Description, Image, Prey};
use ondol_power::Sampling;
use ondol_schedule::{Policy, Schedule};
use ondol_testkit::image;
use ondol_testkit::op::text;
use ondol_testkit::threads::{Program, Setup, random, record};

fn setup(data: DataMode) -> Setup {
    Setup {
        disks: Image::Small.make().unwrap(),
        options: image::options(data),
        before: random::before(),
        seed: 7,
        background: Some(2),
    }
}

fn schedule(seed: u64) -> Schedule {
    let priorities = Policy::Priorities { depth: 4, steps: 1500 };
    Schedule::new(if seed.is_multiple_of(2) { Policy::Random } else { priorities }, seed)
}

/// Number of distinct states after a crash, none of which breaks the contract.
fn crash(setup: &Setup, program: &Program, seed: u64) -> Result<u64, String> {
    let run = ThreadsRun::record(setup, program, schedule(seed), Description::default())?;
    let sampling = Sampling { all_of: 16, samples: 4, torn: 2, extremes: 2, ..Sampling::default() };
    let limits = Limits { sampling, recrash_every: 0, second_opinion_every: 0, ..Limits::default() };
    let report = explore(&run, &limits, &Watch::default());
    report.violations.first().map_or(Ok(report.distinct), |violation| Err(violation.to_string()))
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
    let mut states = 0;
    for seed in 0..400 {
        states += crash(&setup, &program, seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(states > 900, "{states}");
}

/// The second thread writes in place while the first one's flush is under way, and makes that durable by a flush of
/// its own alone.
#[test]
fn a_flush_that_covers_later_writes_is_found() {
    let ops = |lines| text::parse(lines).unwrap();
    let before = ops("create /a 0644\nwrite /a 0 9000 #1\ncreate /b 0644\nwrite /b 0 9000 #2");
    let setup = Setup { before, background: None, ..setup(DataMode::Ordered) };
    let calls = ["write-back /a 0 600 #3\nfdatasync /a", "write-back /b 1024 600 #4\nfdatasync /b"];
    let program = Program::new(calls.map(ops).to_vec()).unwrap();
    let wrong = || (0..300).find_map(|seed| crash(&setup, &program, seed).err());
    assert_eq!(wrong(), None);
    if ondol_faults::AVAILABLE {
        let _planted = ondol_faults::set(Some(Defect::FlushCoversLater)).unwrap();
        assert!(wrong().is_some());
    }
}

/// The number of programs it takes until a planted defect is seen.
fn hunt(defect: Defect, data: DataMode, programs: u64) -> Option<u64> {
    let _planted = ondol_faults::set(Some(defect)).unwrap();
    let setup = setup(data);
    (0..programs).find(|seed| crash(&setup, &random::random(*seed, 3, 5), *seed).is_err())
}

#[test]
fn a_handle_that_joins_a_transaction_in_two_steps_is_found() {
    assert!(hunt(Defect::TornPublish, DataMode::Journal, 100).is_some());
}

#[test]
fn a_sync_that_returns_too_early_is_found() {
    assert!(hunt(Defect::MissingFlushAfterCommit, DataMode::Journal, 10).is_some());
}

/// Where contents are not journaled, bytes of other calls may be found alone, and those of a map's commit may not.
#[test]
fn a_commit_of_which_a_part_is_found_is_wrong_in_every_data_mode() {
    for data in [DataMode::Ordered, DataMode::Writeback] {
        let found = hunt(Defect::StoredInPlace, data, 100);
        assert!(found.is_some(), "{data:?}");
    }
}

/// The number of programs in which blocks are handed on that it takes until something is found on `scalable`.
fn hand_on(plant: Option<Defect>, programs: usize) -> Option<usize> {
    let sampling = Sampling { all_of: 16, samples: 2, torn: 1, extremes: 2, ..Sampling::default() };
    let limits =
        Limits { sampling, depth: 0, second_opinion_every: 0, use_every: 0, about: Some(40), ..Limits::default() };
    let (engine, data) = (JournalEngine::Scalable, DataMode::Ordered);
    let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr, store: None };
    handed_on(4).take(programs).position(|workload| {
        let report = prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap();
        assert!(plant.is_some() || report.violations.is_empty(), "{}", report.violations[0]);
        !report.violations.is_empty()
    })
}

/// The second thread gives back and hands on a block while the first one has yet to tell what its own record frees.
#[test]
fn a_block_that_is_handed_on_beside_a_late_word_is_found() {
    let found = hand_on(Some(Defect::OlderRelease), 60);
    assert!(found.is_some());
    println!("found in program {}", found.unwrap_or_default() + 1);
    assert_eq!(hand_on(None, 12), None);
}
