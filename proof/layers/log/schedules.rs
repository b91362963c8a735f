//! Appenders, committers and who writes home, in interleavings that a seed decides, and power cuts of those.

use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_medium::Domain;
use ondol_schedule::{Schedule, Stats, Task};
use ondol_testkit::nvm_log::rig::{LINES, Rig};
use ondol_testkit::nvm_log::{appender, committer, threads};

fn crowd(rig: &Arc<Rig>) -> Vec<Task> {
    vec![
        appender(rig, 0, 4, 1, 20),
        appender(rig, 1, 4, 2, 90),
        appender(rig, 2, 3, 1, 9),
        appender(rig, 3, 3, 3, 60),
        committer(rig, 3),
    ]
}

/// What one interleaving does.
fn run(number: u64, stats: &Stats, lines: u64, patience: u32) -> Rig {
    let rig = Arc::new(Rig::new(Domain::Adr, lines, patience));
    if let Err(e) = Schedule::fitted_to(stats, number).run(crowd(&rig)) {
        panic!("{e}");
    }
    Arc::into_inner(rig).expect("no task has it any more")
}

fn in_turn(lines: u64, patience: u32) -> Stats {
    let rig = Arc::new(Rig::new(Domain::Adr, lines, patience));
    Schedule::in_turn(0).run(crowd(&rig)).unwrap()
}

/// Afterwards everything can be committed, released and given back: no line is lost, and none is given twice.
fn is_whole(rig: &Rig) {
    rig.log.commit_all().unwrap();
    while rig.release() {}
    let stats = rig.log.stats();
    assert_eq!((stats.used, rig.log.first_batch()), (0, None), "{stats:?}");
    assert_eq!(rig.log.tail(), rig.log.durable());
}

#[test]
fn appenders_and_committers_in_any_order() {
    let (mut voided, mut shared) = (0, 0);
    for (lines, patience) in [(LINES, 0), (LINES, 3), (1024, 0), (1024, 1)] {
        let stats = in_turn(lines, patience);
        for number in 0..250 {
            let rig = run(number, &stats, lines, patience);
            let done = rig.log.stats();
            voided += done.voided;
            // Ten of the appenders' steps ask for a commit, and the committer for three.
            shared += u64::from(done.commits < 9);
            is_whole(&rig);
        }
    }
    println!("{voided} voided, commits shared in {shared} interleavings");
    assert!(voided > 100 && shared > 50, "{voided} {shared}");
}

#[test]
fn cuts_of_interleavings() {
    let count = std::env::var("LOG_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(160);
    let mut states = 0;
    for number in 0..count {
        let shown = threads(number, 1000);
        assert_eq!(shown.wrong, None, "interleaving {number}");
        states += shown.states;
    }
    println!("{states} states");
}

/// Rules that only matter where others are under way.
#[test]
fn defects_between_threads_are_found() {
    let planted = [
        Defect::LogImpatientCommit,
        Defect::LogUnnamedVoid,
        Defect::LogUnseenVoid,
        Defect::LogEarlyRoom,
        Defect::LogShortScan,
    ];
    for defect in planted {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let found = (0..60).find(|number| threads(*number, 300).wrong.is_some());
        println!("{defect}: {found:?}");
        assert!(found.is_some(), "{defect}");
    }
}
