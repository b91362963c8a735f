//! The laboratory is not blind: the workloads that every hunt begins with come to each place that matters, and power is lost around it.
//!
//! `ONDOL_SHOW=1` prints what each workload adds, `ONDOL_ONLY=word` picks those with this word in their names.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_env::reach::Place;
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::reach::Tally;
use ondol_laboratory::workload::{Others, Schedules, Workload, scenarios, scenes_of};
use ondol_laboratory::{Image, Prey};
use ondol_power::{Layer, Sampling};
use ondol_testkit::op::Op;
use std::collections::BTreeMap;

/// Few states of each run: what counts here is where they are.
fn limits(engine: JournalEngine, round: u64) -> Limits {
    let states = if engine == JournalEngine::Remap { STATES / 3 } else { STATES };
    let sampling = Sampling { all_of: 4, samples: 1, torn: 1, extremes: 2, one_of: 1, seed: round };
    let (recrash_every, about) = (12 >> round.min(3), Some(states << round));
    Limits { sampling, depth: 1, recrash_every, about, second_opinion_every: 0, use_every: 0, ..Limits::default() }
}

/// States of each run in the first round, about; fewer with `remap`, where each takes longer.
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
        let prey = Prey {
            engine,
            data,
            plant: None,
            seed: 1 + turn,
            limits: limits(engine, turn),
            fault,
            domain: Domain::Adr,
            store: None,
        };
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

/// Every place that an engine can come to is crashed around, but for `left`.
fn everything_is_reached(engine: JournalEngine, left: &[Place]) {
    if let Some(tool) = ondol_testkit::image::missing(&["mke2fs"]) {
        eprintln!("reach: skipped: {tool}");
        return;
    }
    let only = std::env::var("ONDOL_ONLY").unwrap_or_default();
    let mut hunt = Hunt { engine, images: BTreeMap::new(), tally: Tally::default() };
    let all: Vec<Workload> = scenarios().chain(scenes_of(engine)).filter(|w| w.name.contains(&only)).collect();
    let mut in_order: Vec<&Workload> = all.iter().collect();
    for round in 0..ROUNDS {
        if round == 0 {
            // What one thread comes to is soon told then.
            in_order.sort_by_key(|workload| workload.others.is_some());
        } else {
            in_order = all.iter().collect();
        }
        for (i, workload) in (0..).zip(in_order.iter().copied()) {
            let data = [DataMode::Ordered, DataMode::Journal][(round + i) as usize % 2];
            hunt.visit(round, data, &again(workload, round), None);
            // What only a medium that fails comes to.
            if brings_home(workload) && hunt.tally.missed(engine).contains(&Place::HomeFailed) {
                hunt.visit(round, data, workload, Some(Faults::Search { seed: round ^ i, count: 6 }));
            }
            if hunt.tally.missed(engine).iter().all(|place| left.contains(place)) {
                return;
            }
        }
    }
    let missed = hunt.tally.missed(engine).into_iter().filter(|place| !left.contains(place));
    let missed: Vec<&str> = missed.map(Place::name).collect();
    panic!("no crash around {}\n{}", missed.join(", "), hunt.tally.told(engine));
}

#[test]
fn every_place_in_classic() {
    everything_is_reached(JournalEngine::Classic, &[]);
}

#[test]
fn every_place_in_compressed() {
    everything_is_reached(JournalEngine::Compressed, &[]);
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn every_place_in_scalable() {
    everything_is_reached(JournalEngine::Scalable, &[]);
}

/// Indices of directories of 5,600 long names and more: to make one takes longer than a hunt has for a workload.
const LARGE_INDICES: [Place; 2] = [Place::HtreeRaised, Place::HtreeNodeSplit];

/// What scenes do not come to yet in pools with `swap`: transactions of more blocks, and steps over more groups, than these volumes have.
const LEFT_IN_SWAP: [Place; 9] = [
    Place::ForegroundCheckpoint,
    Place::ManyRevokes,
    Place::SeveralDescriptors,
    Place::CopiedForRoom,
    Place::OrphanTruncated,
    Place::DeletedInSteps,
    Place::WriteStopped,
    Place::TransactionRetried,
    Place::ReusedSymlink,
];

/// What scenes do not come to yet in pools with `remap`: file data goes to pages, so the log and what waits for a flush hardly fill up.
const LEFT_IN_REMAP: [Place; 5] =
    [Place::BackgroundFlush, Place::NvmLogFull, Place::NoFreePage, Place::OrphanTruncated, Place::TruncatedInSteps];

/// Images in pools, whose blocks are pages.
#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn places_in_swap() {
    everything_is_reached(JournalEngine::Swap, &[&LEFT_IN_SWAP[..], &LARGE_INDICES].concat());
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn places_in_remap() {
    everything_is_reached(JournalEngine::Remap, &[&LEFT_IN_REMAP[..], &LARGE_INDICES].concat());
}
