//! What is durable when a call returns (`chattr +S` and `+D`, `fsync=file`), for every kind of call on every kind of
//! volume, in each engine.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::workload::{Workload, scenes};
use ondol_laboratory::{Image, Prey};
use ondol_power::Sampling;
use std::collections::BTreeMap;

/// Those scenes.
fn promised() -> impl Iterator<Item = Workload> {
    let is_one = |name: &str| ["-at-once", "-by-file"].iter().any(|end| name.ends_with(end));
    scenes().filter(move |workload| is_one(&workload.name) && workload.image.is_possible())
}

/// Where power is lost around each call; in which ways, others look at.
fn limits(seed: u64) -> Limits {
    let sampling = Sampling { all_of: 2, samples: 1, torn: 1, extremes: 2, one_of: 1, seed };
    Limits {
        sampling,
        depth: 0,
        recrash_every: 0,
        about: Some(60),
        second_opinion_every: 0,
        use_every: 0,
        ..Limits::default()
    }
}

/// Times without parts of a second: an inode does not change with its contents.
#[test]
fn a_promise_that_asks_the_inode_is_found_out() {
    let here = |workload: &Workload| workload.image == Image::WholeSeconds && workload.name == "contents-at-once";
    if let Some(tool) = ondol_testkit::image::missing(&["mke2fs"]) {
        return eprintln!("promised: skipped: {tool}");
    }
    assert!(promised().any(|workload| here(&workload)));
    for engine in [JournalEngine::Classic, JournalEngine::Remap] {
        for workload in promised().filter(here) {
            let (data, plant) = (DataMode::Journal, Some(Defect::UnsyncedContents));
            let prey =
                Prey { engine, data, plant, seed: 1, limits: limits(1), fault: None, domain: Domain::Adr, store: None };
            let report = prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap();
            assert!(!report.violations.is_empty(), "{}", engine.name());
        }
    }
}

fn holds(engine: JournalEngine) {
    // In pools these are the same volume as others.
    let in_pool = matches!(engine, JournalEngine::Swap | JournalEngine::Remap);
    let is_same = |image| in_pool && matches!(image, Image::OrphanFile | Image::JournalDevice);
    let (mut found, mut images) = (Vec::new(), BTreeMap::new());
    for (i, workload) in (0..).zip(promised().filter(|workload| !is_same(workload.image))) {
        let data = [DataMode::Journal, DataMode::Ordered][i as usize % 2];
        let prey = Prey {
            engine,
            data,
            plant: None,
            seed: 1 + i,
            limits: limits(i),
            fault: None,
            domain: Domain::Adr,
            store: None,
        };
        let image = images.entry(workload.image).or_insert_with(|| workload.image.make().unwrap());
        let report = prey.explore(image, &workload, &Watch::default()).unwrap();
        assert!(report.states > 5 || !report.violations.is_empty(), "{}: {} states", workload.name, report.states);
        found.extend(report.violations.into_iter().map(|violation| format!("{}: {violation}", workload.name)));
    }
    assert!(found.is_empty(), "{} violations, of which the first\n{}", found.len(), found[0]);
}

#[test]
fn in_classic() {
    holds(JournalEngine::Classic);
}

#[test]
fn in_compressed() {
    holds(JournalEngine::Compressed);
}

#[test]
fn in_scalable() {
    holds(JournalEngine::Scalable);
}

#[test]
fn in_swap() {
    holds(JournalEngine::Swap);
}

#[test]
fn in_remap() {
    holds(JournalEngine::Remap);
}
