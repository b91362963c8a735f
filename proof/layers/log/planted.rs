//! Each planted defect is found by power cuts or by damage, and nothing is where none is planted.

use ondol_faults::{Defect, Subject};
use ondol_medium::Domain;
use ondol_power::Sampling;
use ondol_testkit::nvm_log::rig::Op::{self, Append, Commit, Finish, Hold, Release};
use ondol_testkit::nvm_log::rig::{LINES, Run, run_alone};

/// Short scenes in which each rule matters.
fn scenes() -> [&'static [Op]; 4] {
    [
        &[Append(20), Commit, Append(300), Append(30), Commit],
        &[Hold(60), Append(20), Commit, Finish, Commit, Append(10), Commit],
        &[
            Append(300),
            Commit,
            Release,
            Append(400),
            Commit,
            Release,
            Append(400),
            Commit,
            Release,
            Append(400),
            Commit,
        ],
        &[Append(20), Commit, Append(20), Append(20)],
    ]
}

/// Wrong states of each scene, with a rule broken while it runs and while it is recovered.
fn found(defect: Option<Defect>) -> Vec<usize> {
    let _planted = ondol_faults::set(defect).unwrap();
    let explore = |ops: &&[Op]| {
        let run: Run = run_alone(Domain::Adr, LINES, ops);
        run.explore(Sampling::default().at_most(48), 5, 30_000).wrong.len()
    };
    scenes().iter().map(explore).collect()
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(found(None), [0, 0, 0, 0]);
}

#[test]
fn a_tail_that_is_not_mended_is_found() {
    let _planted = ondol_faults::set(Some(Defect::LogUnmendedTail)).unwrap();
    assert!(!crate::power::recoveries_with_a_torn_tail().wrong.is_empty());
}

#[test]
fn each_is_found() {
    // Those need threads, or damage: `schedules` and `hostile` have them.
    let elsewhere = [
        Defect::LogImpatientCommit,
        Defect::LogUnseenVoid,
        Defect::LogUnnamedVoid,
        Defect::LogSilentDamage,
        Defect::LogRepeatedPositions,
        Defect::LogUnawaitedVoid,
        Defect::LogUnmendedTail,
        Defect::LogEarlyRoom,
        Defect::LogShortScan,
    ];
    let planted = |d: &&Defect| d.subject() == Subject::Log && !elsewhere.contains(d);
    let mut missed = Vec::new();
    for defect in Defect::ALL.iter().filter(planted) {
        let wrong = found(Some(*defect));
        println!("{defect}: {wrong:?}");
        if wrong.iter().sum::<usize>() == 0 {
            missed.push(*defect);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
