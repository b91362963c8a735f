//! Each planted defect is found by power cuts, and nothing is where none is planted. Those that need damage are in
//! `hostile`, that of views in `views`, those of pins and of memory in `pins` and `memory`.

use crate::power::SCENES;
use crate::rig::run;
use ondol_faults::{Defect, Subject};
use ondol_medium::Domain;
use ondol_power::Sampling;

/// Wrong states of the scenes up to the first that has any, with a rule broken while they run and while tables are
/// attached.
fn found(defect: Option<Defect>) -> usize {
    let _planted = ondol_faults::set(defect).unwrap();
    let domain = if defect == Some(Defect::TableMsyncMixed) { Domain::Msync } else { Domain::Adr };
    let wrong = |ops| run(domain, ops).explore(Sampling::default().at_most(16), 5, 6_000).wrong.len();
    SCENES.into_iter().map(wrong).find(|wrong| *wrong > 0).unwrap_or(0)
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(found(None), 0);
}

#[test]
fn each_is_found() {
    let elsewhere = [
        Defect::TableUncheckedEntry,
        Defect::TableUncheckedRecord,
        Defect::TableShownTooLong,
        Defect::TablePinnedReuse,
        Defect::TableOwnsLent,
    ];
    let planted = |d: &&Defect| d.subject() == Subject::Table && !elsewhere.contains(d);
    let mut missed = Vec::new();
    for defect in Defect::ALL.iter().filter(planted) {
        let wrong = found(Some(*defect));
        println!("{defect}: {wrong}");
        if wrong == 0 {
            missed.push(*defect);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
