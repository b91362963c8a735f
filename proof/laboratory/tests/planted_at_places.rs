//! Planted defects that the workloads of single places show: each is found by the workload that is named here, in the
//! data mode in which it shows, and where none is planted nothing is.
//!
//! `ONDOL_PLANT=name` picks one; with `ONDOL_SEARCH=1` it is searched for through all workloads, and what shows it
//! first is printed.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::workload::{Workload, scenarios, scenes};
use ondol_power::Sampling;

const CLASSIC: JournalEngine = JournalEngine::Classic;
const SCALABLE: JournalEngine = JournalEngine::Scalable;
const COMPRESSED: JournalEngine = JournalEngine::Compressed;
const ORDERED: DataMode = DataMode::Ordered;
const JOURNAL: DataMode = DataMode::Journal;

/// What is planted, and the engine, data mode and workload that show it.
const PLANTED: &[(Defect, JournalEngine, DataMode, &str)] = &[
    (Defect::XattrFreedAsData, CLASSIC, ORDERED, "xattr"),
    (Defect::NodeFreedAsData, CLASSIC, ORDERED, "extent-node"),
    (Defect::DirectoryFreedAsData, CLASSIC, ORDERED, "trim-what-was-metadata"),
    (Defect::SymlinkFreedAsData, CLASSIC, ORDERED, "symlink"),
    (Defect::PointersFreedAsData, CLASSIC, ORDERED, "indirect"),
    (Defect::RevokeForever, CLASSIC, ORDERED, "revoke"),
    (Defect::HalfRevoked, CLASSIC, ORDERED, "journaled-data"),
    (Defect::RevokedImageKept, CLASSIC, ORDERED, "kept-where-the-log-had-data"),
    (Defect::MisreadWrap, CLASSIC, ORDERED, "log-wraps"),
    (Defect::WaitForOlder, CLASSIC, ORDERED, "create"),
    (Defect::ForgottenFlag, CLASSIC, ORDERED, "journaled-file"),
    (Defect::OverwrittenStaging, COMPRESSED, ORDERED, "new-and-changed-much"),
    (Defect::StagedSumOfFreed, COMPRESSED, ORDERED, "new-data-deleted"),
    (Defect::StagedFirstForgotten, COMPRESSED, ORDERED, "long-over-long"),
    (Defect::UnseenFirstOnly, CLASSIC, ORDERED, "unseen-at-home-and-new"),
    (Defect::LogShortScan, SCALABLE, ORDERED, "full-log"),
    (Defect::StagingSumOfFirst, COMPRESSED, JOURNAL, "new-and-changed"),
    (Defect::StaleOrphanLink, CLASSIC, ORDERED, "orphans"),
    (Defect::KeptSlot, CLASSIC, ORDERED, "orphans-in-file"),
    (Defect::ZeroedTooFar, CLASSIC, ORDERED, "wide-log-zeroing"),
    (Defect::UnstagedInode, CLASSIC, ORDERED, "create"),
    (Defect::RevokesOfOneBlock, CLASSIC, ORDERED, "journaled-much"),
    (Defect::UnlistedValue, CLASSIC, ORDERED, "value-replaced-beside-commit"),
    (Defect::PromiseTwice, CLASSIC, JOURNAL, "much-lives-much-dies"),
    (Defect::SweptAlive, CLASSIC, JOURNAL, "little-lives-much-dies"),
    (Defect::SweptAlive, COMPRESSED, JOURNAL, "little-lives-much-dies"),
    (Defect::UnrevokedDead, CLASSIC, ORDERED, "revoke-of-what-dies"),
    (Defect::KeptUnwritten, CLASSIC, ORDERED, "kept-cut"),
    (Defect::KeptAfterCommitBlock, CLASSIC, ORDERED, "kept-cut"),
    (Defect::KeptOverNewer, CLASSIC, ORDERED, "kept-written-over"),
    (Defect::StaleHome, COMPRESSED, JOURNAL, "early-written-over"),
    (Defect::KeptTruncate, CLASSIC, ORDERED, "truncated-in-steps"),
    (Defect::StaleCached, CLASSIC, ORDERED, "write-overwrite"),
    (Defect::TableInUse, CLASSIC, ORDERED, "much-lives-much-dies"),
    (Defect::TableTaken, SCALABLE, ORDERED, "inodes-of-the-dead"),
    (Defect::TrustedTail, CLASSIC, ORDERED, "unlink-open"),
    (Defect::LastUser, CLASSIC, ORDERED, "attributes-left-by-two"),
    (Defect::EvictedNewest, CLASSIC, ORDERED, "evicted-before-its-fsync"),
];

/// What is wrong with a run of this workload, crash or not, if anything.
fn look(workload: &Workload, engine: JournalEngine, data: DataMode, plant: Option<Defect>) -> Option<String> {
    let sampling = Sampling::default().at_most(16);
    let limits = Limits { sampling, depth: 1, recrash_every: 12, second_opinion_every: 0, ..Limits::default() };
    let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr, store: None };
    let report = prey.explore(&workload.image.make().unwrap(), workload, &Watch::default()).unwrap();
    report.violations.first().map(ToString::to_string)
}

fn search(defect: Defect, engine: JournalEngine) {
    for (i, workload) in scenarios().chain(scenes()).enumerate() {
        for data in [ORDERED, JOURNAL] {
            if let Some(what) = look(&workload, engine, data, Some(defect)) {
                let line = what.lines().next().unwrap_or_default();
                println!("FOUND {defect} {data:?} workload {i}: {}: {line}", workload.name);
                return;
            }
        }
    }
    println!("MISSED {defect}");
}

#[test]
fn each_by_its_workload_and_nothing_else() {
    every_second(0);
}

#[test]
fn each_other_by_its_workload_and_nothing_else() {
    every_second(1);
}

/// Half of them, so that two processors have something to do.
fn every_second(half: usize) {
    if let Some(tool) = ondol_testkit::image::missing(&["mke2fs"]) {
        eprintln!("planted_at_places: skipped: {tool}");
        return;
    }
    let only = std::env::var("ONDOL_PLANT").ok();
    let mut missed = Vec::new();
    let is_wanted =
        |defect: Defect| only.as_deref().is_none_or(|only| only.split(',').any(|name| name == defect.name()));
    let these = PLANTED.iter().skip(half).step_by(2);
    for &(defect, engine, data, name) in these.filter(|(defect, ..)| is_wanted(*defect)) {
        if std::env::var_os("ONDOL_SEARCH").is_some() {
            search(defect, engine);
            continue;
        }
        // Of several threads there is one for each schedule.
        let is_it = |w: &Workload| w.name.split(", schedule ").next() == Some(name);
        let workloads: Vec<Workload> = scenarios().chain(scenes()).filter(is_it).collect();
        assert!(!workloads.is_empty(), "{defect}: there is no workload {name}");
        let found = workloads.iter().find(|workload| look(workload, engine, data, Some(defect)).is_some());
        let Some(workload) = found else {
            missed.push(format!("{defect} by {name}"));
            continue;
        };
        assert_eq!(look(workload, engine, data, None), None, "without {defect}");
    }
    assert!(missed.is_empty(), "not found: {}", missed.join(", "));
}
