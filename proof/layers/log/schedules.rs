//! Appenders, committers and who writes home, in interleavings that a seed decides, and power cuts of those.

use crate::rig::{Id, LINES, Rig, record};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_power::{Kind, Sampling};
use ondol_schedule::{Schedule, Task};

/// Appends records one after the other; commits after each `every`-th.
fn appender(rig: &Arc<Rig>, who: u8, count: u32, every: u32, len: usize) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        let mut open: Vec<Id> = Vec::new();
        for n in 0..count {
            let id = (who, n);
            let bytes = record(id, len + n as usize * 13);
            let promise = rig.promise(bytes.len() as u64);
            rig.appends(id);
            let position = promise.claim(bytes.len() as u64).complete(&bytes).unwrap();
            open.push(id);
            if n % every == every - 1 {
                rig.commit(position, &std::mem::take(&mut open));
            }
        }
    })
}

/// Commits whatever there is.
fn committer(rig: &Arc<Rig>, times: u32) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        for _ in 0..times {
            rig.log.commit_all().unwrap();
            ondol_env::sync::thread::yield_now();
        }
    })
}

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
fn run(number: u64, steps: u64, lines: u64, patience: u32) -> Rig {
    let rig = Arc::new(Rig::new(Kind::Nvm, lines, patience));
    if let Err(e) = Schedule::fitted(steps, number).run(crowd(&rig)) {
        panic!("{e}");
    }
    Arc::into_inner(rig).expect("no task has it any more")
}

fn steps(lines: u64, patience: u32) -> u64 {
    let rig = Arc::new(Rig::new(Kind::Nvm, lines, patience));
    Schedule::in_turn(0).run(crowd(&rig)).unwrap().steps
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
        let steps = steps(lines, patience);
        for number in 0..250 {
            let rig = run(number, steps, lines, patience);
            let stats = rig.log.stats();
            voided += stats.voided;
            // Ten of the appenders' steps ask for a commit, and the committer for three.
            shared += u64::from(stats.commits < 9);
            is_whole(&rig);
        }
    }
    println!("{voided} voided, commits shared in {shared} interleavings");
    assert!(voided > 100 && shared > 50, "{voided} {shared}");
}

#[test]
fn cuts_of_interleavings() {
    let count = std::env::var("LOG_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut states = 0;
    for (lines, patience) in [(LINES, 0), (256, 1)] {
        let steps = steps(lines, patience);
        for number in 0..count {
            let run = run(number, steps, lines, patience).run(Kind::Nvm);
            let cuts = run.explore(Sampling { seed: number, ..Sampling::default().at_most(16) }, 41);
            assert!(
                cuts.wrong.is_empty(),
                "interleaving {number}: {} of {}: {}",
                cuts.wrong.len(),
                cuts.states,
                cuts.wrong[0]
            );
            states += cuts.states;
        }
    }
    println!("{states} states");
}

/// Rules that only matter where others are under way.
#[test]
fn defects_between_threads_are_found() {
    let steps = steps(256, 0);
    for defect in [None, Some(Defect::LogImpatientCommit), Some(Defect::LogUnnamedVoid), Some(Defect::LogUnseenVoid)] {
        let mut wrong = 0;
        for number in 0..60 {
            let _planted = ondol_faults::set(defect).unwrap();
            let run = run(number, steps, 256, 0).run(Kind::Nvm);
            wrong += run.explore(Sampling::default().at_most(8), 1000).wrong.len();
        }
        println!("{defect:?}: {wrong} wrong states");
        assert_eq!(wrong > 0, defect.is_some(), "{defect:?}: {wrong} wrong states");
    }
}
