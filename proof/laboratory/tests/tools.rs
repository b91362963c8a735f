//! Volumes that tools change in the laboratory: nothing breaks the contract, and much of the code is executed.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::{Defect, Subject};
use ondol_laboratory::Prey;
use ondol_laboratory::coverage::is_executed;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::hunt::{Budget, Found, Members, hunt_tools};
use ondol_laboratory::tools::Family;
use ondol_testkit::image;

fn prey(plant: Option<Defect>, about: u64) -> Prey {
    let limits = Limits { about: Some(about), use_every: 100, ..Limits::default() };
    let (engine, data, domain) = (JournalEngine::Classic, DataMode::Ordered, Domain::Adr);
    Prey { engine, data, plant, seed: 1, limits, fault: None, domain, store: None }
}

fn is_possible() -> bool {
    let missing = image::missing(&["mke2fs", "e2fsck"]);
    if let Some(tool) = &missing {
        eprintln!("tools: skipped: {tool}");
    }
    missing.is_none()
}

fn nothing_in(family: Family, about: u64) -> Found {
    let names = family.names();
    let members = Members { family, names: &names };
    let hunted = hunt_tools(&prey(None, about), members, Budget::default(), false, &Watch::default());
    let found = hunted.expect("a hunt");
    let report = &found.report;
    assert!(report.violations.is_empty(), "{}", report.violations[0]);
    assert_eq!(found.workloads, names.len() as u64);
    assert!(report.nested > 0 && report.used > 0 && report.second_opinions > 0, "{report:?}");
    found
}

#[test]
fn resizes_are_executed_and_nothing_is_found() {
    if is_possible() {
        let found = nothing_in(Family::Resize, 120);
        is_executed(&found.report.coverage, "crates/volume/src/resize", 29);
    }
}

#[test]
fn tools_are_tried_and_nothing_is_found() {
    if is_possible() {
        nothing_in(Family::Tools, 60);
    }
}

#[test]
fn planted_defects_are_found() {
    let planted = [
        (Defect::MkfsKeptSuperblock, "mkfs-orphans"),
        (Defect::MkfsKeptSuperblock, "mkfs-file-full"),
        (Defect::MkfsEarlySuperblock, "mkfs-crashed"),
        (Defect::ExportEarlySuperblock, "export-crashed"),
        (Defect::ForceUnmarked, "force-log"),
        (Defect::ForceUnmarked, "force-units"),
        (Defect::TuneOneLog, "tune-journal-orphans"),
        (Defect::DiscardUnmarked, "discard-full"),
        (Defect::TableFlatUncopied, "flatten-full"),
        (Defect::FastTid, "recover-fast"),
        (Defect::OneAhead, "mismatched-image"),
    ];
    if !is_possible() {
        return;
    }
    for defect in Defect::ALL.iter().filter(|defect| defect.subject() == Subject::Tools) {
        assert!(planted.iter().any(|(one, _)| one == defect), "{defect} is not tried");
    }
    for (defect, name) in planted {
        let members = Members { family: Family::Tools, names: &[name.to_owned()] };
        let hunted = hunt_tools(&prey(Some(defect), 200), members, Budget::default(), false, &Watch::default());
        assert!(!hunted.expect("a build with defects").report.violations.is_empty(), "{defect}: not found in {name}");
    }
}
