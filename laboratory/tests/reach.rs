//! The laboratory is not blind: the workloads that every hunt begins with come to each place that matters, and power is lost around it.
//!
//! `ONDOL_SHOW=1` prints what each workload adds, `ONDOL_ONLY=word` picks those with this word in their names.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_env::reach::Place;
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::reach::{Tally, places};
use ondol_laboratory::workload::{Others, Schedules, Workload, scenarios, scenes};
use ondol_laboratory::{Image, Prey};
use ondol_power::{Layer, Sampling};
use ondol_testkit::op::Op;
use std::collections::BTreeMap;

/// Few states of each run: what counts here is where they are.
fn limits(round: u64) -> Limits {
    let sampling = Sampling { all_of: 4, samples: 1, torn: 1, extremes: 2, one_of: 1, seed: round };
    let (recrash_every, about) = (12 >> round.min(3), Some(STATES << round));
    Limits { sampling, depth: 1, recrash_every, about, second_opinion_every: 0, use_every: 0, ..Limits::default() }
}

/// States of each run in the first round, about.
const STATES: u64 = 100;

/// How often all workloads are gone through, in other data modes and interleavings, as long as something is missing.
const ROUNDS: u64 = 4;

/// Whether one thread has a checkpoint written in the midst of its calls.
fn brings_home(workload: &Workload) -> bool {
    workload.others.is_none() && workload.calls.iter().any(|op| matches!(op, Op::BringHome | Op::Idle { .. }))
}

struct Hunt {
    engine: JournalEngine,
    images: BTreeMap<Image, Vec<Layer>>,
    tally: Tally,
}

impl Hunt {
    /// Whether a workload of one thread comes to no place that is missing: without any crash that is soon told. Of several threads nobody knows.
    fn is_nothing_new(prey: &Prey, image: &[Layer], workload: &Workload, missed: &[Place]) -> bool {
        workload.others.is_none()
            && prey.record(image, workload).is_ok_and(|run| run.hits.iter().all(|hit| !missed.contains(&hit.place)))
    }

    fn visit(&mut self, turn: u64, data: DataMode, workload: &Workload, fault: Option<Faults>) {
        let engine = self.engine;
        let prey = Prey { engine, data, plant: None, seed: 1 + turn, limits: limits(turn), fault, domain: Domain::Adr };
        let image = self.images.entry(workload.image).or_insert_with(|| workload.image.make().unwrap());
        // What recovery comes to depends on where it is cut: in the first round, what came before it is enough.
        if turn == 0 && fault.is_none() && Self::is_nothing_new(&prey, image, workload, &self.tally.missed(engine)) {
            return;
        }
        let report: Report = prey.explore(image, workload, &Watch::default()).unwrap();
        if let Some(violation) = report.violations.first() {
            panic!("{violation}");
        }
        if std::env::var_os("ONDOL_SHOW").is_some() {
            let new = self.tally.missed(engine).into_iter().filter(|place| report.reach.of(*place).crashed > 0);
            let new: Vec<&str> = new.map(Place::name).collect();
            println!("{} {data:?} {}: {} states; {}", engine.name(), workload.name, report.distinct, new.join(" "));
            println!(
                "  missed: {}",
                self.tally.missed(engine).into_iter().map(Place::name).collect::<Vec<_>>().join(" ")
            );
        }
        self.tally.add(&report.reach);
    }
}

/// In other interleavings than in the round before.
fn again(workload: &Workload, round: u64) -> Workload {
    let mut workload = workload.clone();
    if let Some(Others { schedules: Schedules::One(schedule), .. }) = &mut workload.others {
        schedule.seed += 1000 * round;
    }
    workload
}

fn everything_is_reached(engine: JournalEngine) {
    if let Some(tool) = ondol_testkit::image::missing(&["mke2fs"]) {
        eprintln!("reach: skipped: {tool}");
        return;
    }
    let only = std::env::var("ONDOL_ONLY").unwrap_or_default();
    let mut hunt = Hunt { engine, images: BTreeMap::new(), tally: Tally::default() };
    let all: Vec<Workload> = scenarios().chain(scenes()).filter(|w| w.name.contains(&only)).collect();
    for round in 0..ROUNDS {
        for (i, workload) in (0..).zip(&all) {
            let data = [DataMode::Ordered, DataMode::Journal][(round + i) as usize % 2];
            hunt.visit(round, data, &again(workload, round), None);
            // What only a medium that fails comes to.
            if brings_home(workload) && hunt.tally.missed(engine).contains(&Place::HomeFailed) {
                hunt.visit(round, data, workload, Some(Faults::Search { seed: round ^ i, count: 6 }));
            }
            if hunt.tally.missed(engine).is_empty() {
                return;
            }
        }
    }
    let missed: Vec<&str> = hunt.tally.missed(engine).into_iter().map(Place::name).collect();
    panic!("no crash around {}\n{}", missed.join(", "), hunt.tally.told(engine));
}

#[test]
fn every_place_in_classic() {
    everything_is_reached(JournalEngine::Classic);
}

#[test]
fn every_place_in_compressed() {
    everything_is_reached(JournalEngine::Compressed);
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn every_place_in_scalable() {
    everything_is_reached(JournalEngine::Scalable);
}

/// Places that the scenes do not come to where blocks are pages, beside those of each engine: that takes longer files and directories, or more states of each run than are looked at
/// here.
const NOT_IN_PAGES: &[Place] = &[
    Place::OrphanDeleted,
    Place::OrphanTruncated,
    Place::DeletedInSteps,
    Place::TruncatedInSteps,
    Place::WrittenInSteps,
    Place::WriteStopped,
    Place::AllocatedInSteps,
    Place::TransactionRetried,
    Place::ReusedExtentNode,
    Place::LeafSplit,
    Place::DirectoryGrows,
    Place::IndexMade,
    Place::HtreeNodeSplit,
    Place::HtreeRaised,
    Place::DirectoryPacked,
    Place::IndexedRemoved,
    Place::IndexedDeleted,
];

/// Images in pools: every place is executed but [`NOT_IN_PAGES`] and `own`, in a few states of each run.
fn all_but_few_are_reached_in_a_pool(engine: JournalEngine, own: &[Place]) {
    if let Some(tool) = ondol_testkit::image::missing(&["mke2fs"]) {
        eprintln!("reach: skipped: {tool}");
        return;
    }
    let limits = Limits { about: Some(3), recrash_every: 0, depth: 0, ..limits(0) };
    let mut tally = Tally::default();
    for (i, workload) in scenarios().chain(scenes()).enumerate() {
        let data = [DataMode::Ordered, DataMode::Journal][i % 2];
        let prey = Prey { engine, data, plant: None, seed: 1, limits, fault: None, domain: Domain::Adr };
        let report = prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap();
        if let Some(violation) = report.violations.first() {
            panic!("{violation}");
        }
        tally.add(&report.reach);
    }
    let is_never = |place: &Place| tally.of(*place).executed == 0;
    let never = places(engine).filter(is_never).filter(|place| !NOT_IN_PAGES.contains(place) && !own.contains(place));
    let never: Vec<&str> = never.map(Place::name).collect();
    assert!(never.is_empty(), "never executed: {}\n{}", never.join(", "), tally.told(engine));
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn places_in_swap() {
    let own = [
        Place::LogWraps,
        Place::ForegroundCheckpoint,
        Place::ManyRevokes,
        Place::SeveralDescriptors,
        Place::ReadFromLog,
        Place::SplitCheckpoint,
        Place::CopiedForRoom,
        Place::LookalikeAtHome,
        Place::ReplayWrapped,
    ];
    all_but_few_are_reached_in_a_pool(JournalEngine::Swap, &own);
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn places_in_remap() {
    let own = [Place::BackgroundFlush, Place::NvmLogFull, Place::NoFreePage, Place::OverwrittenLate];
    all_but_few_are_reached_in_a_pool(JournalEngine::Remap, &own);
}
