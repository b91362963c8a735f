//! Volumes that get another size in the laboratory: nothing breaks the contract, and much of the code is executed.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_laboratory::Prey;
use ondol_laboratory::coverage::is_executed;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::hunt::hunt_resizes;
use ondol_testkit::{image, resizing};

#[test]
fn much_is_executed_and_nothing_is_found() {
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
    is_executed(&report.coverage, "crates/volume/src/resize", 29);
}
