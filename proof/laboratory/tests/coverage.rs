//! The laboratory is not blind: the workloads that every hunt begins with execute most of what changes a volume, and
//! power is lost around it.
//!
//! `ONDOL_SHOW=1` prints what each workload adds, `ONDOL_ONLY=word` picks those with this word in their names.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_laboratory::coverage::{Share, Tally};
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::workload::{Workload, scenarios, scenes_of};
use ondol_laboratory::{Image, Prey};
use ondol_power::{Layer, Sampling};
use ondol_testkit::op::Op;
use std::collections::BTreeMap;

/// Few states of each run: what counts here is where they are.
fn limits(engine: JournalEngine) -> Limits {
    let states = if engine == JournalEngine::Remap { STATES / 3 } else { STATES };
    let sampling = Sampling { all_of: 4, samples: 1, torn: 1, extremes: 2, one_of: 1, seed: 0 };
    let (recrash_every, about) = (12, Some(states));
    Limits { sampling, depth: 1, recrash_every, about, second_opinion_every: 0, use_every: 0, ..Limits::default() }
}

/// States of each run, about; fewer with `remap`, where each takes longer.
const STATES: u64 = 100;

/// Whether one thread has a checkpoint written in the midst of its calls.
fn brings_home(workload: &Workload) -> bool {
    workload.others.is_none() && workload.calls.iter().any(|op| matches!(op, Op::BringHome | Op::Idle { .. }))
}

struct Hunt {
    engine: JournalEngine,
    images: BTreeMap<Image, Vec<Layer>>,
    tally: Tally,
}

/// Parts of the product, and how many percent of their edges are to be crashed around.
type Parts<'a> = &'a [(&'a str, u64)];

impl Hunt {
    fn visit(&mut self, data: DataMode, workload: &Workload, fault: Option<Faults>) {
        let engine = self.engine;
        let prey = Prey {
            engine,
            data,
            plant: None,
            seed: 1,
            limits: limits(engine),
            fault,
            domain: Domain::Adr,
            store: None,
        };
        let image = self.images.entry(workload.image).or_insert_with(|| workload.image.make().unwrap());
        let report = prey.explore(image, workload, &Watch::default()).unwrap();
        if let Some(violation) = report.violations.first() {
            panic!("{violation}");
        }
        self.tally.add(&report.coverage);
        if std::env::var_os("ONDOL_SHOW").is_some() {
            let Share { edges, crashed, .. } = self.tally.share("crates/journal");
            let volume = self.tally.share("crates/volume");
            println!(
                "{} {data:?} {}: {} states; {crashed} of {edges}, {} of {}",
                engine.name(),
                workload.name,
                report.distinct,
                volume.crashed,
                volume.edges
            );
        }
    }

    /// The parts of which less was crashed around, with how much it was.
    fn missed<'a>(&self, parts: Parts<'a>) -> Vec<(&'a str, Share)> {
        let shares = parts.iter().map(|(path, percent)| (*path, *percent, self.tally.share(path)));
        let missed =
            shares.filter(|(_, percent, share)| 100 * share.crashed < percent * share.edges || share.edges == 0);
        missed.map(|(path, _, share)| (path, share)).collect()
    }
}

/// So much of these parts is crashed around with an engine.
fn is_crashed_around(engine: JournalEngine, parts: Parts<'_>) {
    if let Some(tool) = ondol_testkit::image::missing(&["mke2fs"]) {
        eprintln!("coverage: skipped: {tool}");
        return;
    }
    let only = std::env::var("ONDOL_ONLY").unwrap_or_default();
    let mut hunt = Hunt { engine, images: BTreeMap::new(), tally: Tally::default() };
    // What one thread does comes first: of it more is new.
    let (one, several): (Vec<Workload>, Vec<Workload>) = scenarios()
        .chain(scenes_of(engine))
        .filter(|workload| workload.name.contains(&only))
        .partition(|workload| workload.others.is_none());
    for (i, workload) in (0..).zip(one.iter().chain(&several)) {
        let data = [DataMode::Ordered, DataMode::Journal][i as usize % 2];
        hunt.visit(data, workload, None);
        // What only a medium that fails comes to.
        if brings_home(workload) && i % 8 == 0 {
            hunt.visit(data, workload, Some(Faults::Search { seed: i, count: 6 }));
        }
        if hunt.missed(parts).is_empty() {
            return;
        }
    }
    panic!(
        "of parts not enough is crashed around: {:#?}\n{}",
        hunt.missed(parts),
        hunt.tally.told().unwrap_or_default()
    );
}

/// What changes volumes with every engine. More than half of all edges are those of unwinding and of inlined code that
/// is never used there: so a third is much.
const VOLUME: [(&str, u64); 6] = [
    ("crates/volume/src/alloc", 33),
    ("crates/volume/src/dir", 28),
    ("crates/volume/src/file", 31),
    ("crates/volume/src/op", 37),
    ("crates/volume/src/orphan", 28),
    ("crates/volume/src/xattr", 32),
];

fn with_volume(own: Parts<'static>) -> Vec<(&'static str, u64)> {
    [own, &VOLUME].concat()
}

#[test]
fn what_classic_does() {
    is_crashed_around(
        JournalEngine::Classic,
        &with_volume(&[("crates/journal/src/jbd2", 20), ("crates/journal/src/block_engine", 22)]),
    );
}

#[test]
fn what_compressed_does() {
    is_crashed_around(JournalEngine::Compressed, &with_volume(&[("crates/journal/src/compressed", 27)]));
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn what_scalable_does() {
    is_crashed_around(JournalEngine::Scalable, &with_volume(&[("crates/journal/src/scalable", 20)]));
}

/// Images in pools, whose blocks are pages.
#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn what_swap_does() {
    is_crashed_around(JournalEngine::Swap, &with_volume(&[("crates/page-table", 12)]));
}

#[test]
#[ignore = "takes minutes: `cargo xtask hunt` runs it"]
fn what_remap_does() {
    is_crashed_around(
        JournalEngine::Remap,
        &with_volume(&[("crates/journal/src/scalable", 18), ("crates/page-table", 12)]),
    );
}
