//! Power cuts of logs: what was committed is there, nothing else appears, and a log that goes on after one has none of
//! what was given up.

use ondol_medium::{AreaKind, Domain, Nvm, PAGE, Pool};
use ondol_power::Sampling;
use ondol_testkit::nvm_log::rig::{LINES, Op, run_alone};

fn explore(domain: Domain, lines: u64, ops: &[Op], sampling: Sampling, again: usize) -> usize {
    let run = run_alone(domain, lines, ops);
    let cuts = run.explore(sampling, again, 30_000);
    assert!(cuts.wrong.is_empty(), "{} of {} states: {}; {ops:?}", cuts.wrong.len(), cuts.states, cuts.wrong[0]);
    assert!(cuts.states > run.events.len() / 2, "{} states of {} events", cuts.states, run.events.len());
    cuts.states
}

#[test]
fn every_cut_of_short_scenes() {
    use Op::{Append, Commit, Finish, GiveUp, Hold, Release};
    let scenes: [&[Op]; 7] = [
        &[Append(20), Commit, Append(48), Append(49), Commit, Append(300)],
        &[Append(20), Append(300), Commit, Release, Append(100), Commit],
        // What a commit has voided comes after it.
        &[Hold(60), Append(20), Commit, Finish, Commit, Append(10), Commit],
        &[Hold(60), Append(20), Hold(10), Append(9), Commit, Finish, Finish, Commit],
        // Twice, then it is waited for.
        &[Hold(60), Append(20), Commit, Finish, Append(9), Hold(9), Commit, Append(10), Finish, Commit],
        &[Hold(100), Append(20), GiveUp, Commit, Append(9), Commit],
        // Around the end of the ring, twice.
        &[Append(300), Commit, Release, Append(400), Commit, Append(200), Commit, Release, Append(400), Commit],
    ];
    let mut states = 0;
    for domain in [Domain::Adr, Domain::Eadr, Domain::Msync] {
        for ops in scenes {
            states += explore(domain, LINES, ops, Sampling { all_of: 512, ..Sampling::default() }, 11);
        }
    }
    println!("{states} states");
    assert!(states > 3_000, "{states}");
}

/// Cuts of the recovery from a state in which one copy of the tail is torn.
pub(crate) fn recoveries_with_a_torn_tail() -> ondol_testkit::nvm_log::rig::Cuts {
    use Op::{Append, Commit, Release};
    let run = run_alone(Domain::Adr, LINES, &[Append(20), Commit, Release, Append(48), Commit]);
    let mut all = ondol_testkit::nvm_log::rig::Cuts::default();
    for copy in [0, PAGE] {
        let mut torn = run.end();
        let pool = Pool::open(Nvm::from_bytes(&torn).unwrap()).unwrap();
        let tail = (pool.area(AreaKind::JOURNAL_LOG).unwrap().start + copy + PAGE / 2) as usize;
        torn[tail + 8] ^= 1;
        let cuts = run.explore_recovery(&torn);
        all.states += cuts.states;
        all.wrong.extend(cuts.wrong);
    }
    all
}

#[test]
fn a_torn_copy_of_the_tail_is_mended_before_the_other_is_written() {
    let cuts = recoveries_with_a_torn_tail();
    assert!(cuts.wrong.is_empty() && cuts.states > 20, "{} states: {:?}", cuts.states, cuts.wrong);
}

#[test]
fn cuts_of_any_operations() {
    let seeds = std::env::var("LOG_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut states = 0;
    for seed in 0..seeds {
        let shown = ondol_testkit::nvm_log::operations(seed, 30_000);
        assert_eq!(shown.wrong, None, "seed {seed}");
        states += shown.states;
    }
    println!("{states} states");
}
