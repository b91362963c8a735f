//! Volumes that get another size in the laboratory: nothing breaks the contract, and each place of a resize is come to.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_env::reach::Place;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::hunt::hunt_resizes;
use ondol_laboratory::reach::places_of_resizes;
use ondol_testkit::{image, resizing};

/// Files of more blocks than a step moves, and volumes in use, have tests of their own.
const ELSEWHERE: [Place; 3] = [Place::ResizeInSteps, Place::ResizeExtendedInUse, Place::ResizeAddedInUse];

#[test]
fn every_place_is_reached_and_nothing_is_found() {
    if let Some(tool) = image::missing(&["mke2fs", "e2fsck"]) {
        eprintln!("resize: skipped: {tool}");
        return;
    }
    let names: Vec<&str> = resizing::names().collect();
    let limits = Limits { about: Some(120), use_every: 100, ..Limits::default() };
    let prey = Prey {
        engine: JournalEngine::Classic,
        data: DataMode::Ordered,
        plant: None,
        seed: 1,
        limits,
        fault: None,
        domain: Domain::Adr,
        store: None,
    };
    let found = hunt_resizes(&prey, &names, &Watch::default()).expect("a hunt");
    let report = found.report;
    assert!(report.violations.is_empty(), "{}", report.violations[0]);
    assert_eq!(found.workloads, names.len() as u64);
    assert!(report.nested > 0 && report.used > 0 && report.second_opinions > 0, "{report:?}");
    let unseen = |place: &Place| report.reach.of(*place).executed == 0 && !ELSEWHERE.contains(place);
    let missed: Vec<Place> = places_of_resizes().into_iter().filter(unseen).collect();
    assert!(missed.is_empty(), "nothing comes to {missed:?}\n{}", report.reach.told_of(&places_of_resizes()));
}
