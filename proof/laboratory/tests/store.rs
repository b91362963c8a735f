//! Volumes in object storage, cut between any two requests of the store, and their logs on this machine: what is left
//! is taken over by the code that ships.
#![cfg(feature = "object")]

use ondol::{DataMode, Durable, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::coverage::{Tally, is_executed};
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::plants::{IN_STORE, life};
use ondol_laboratory::workload::{Mount, Workload, random};
use ondol_medium::Domain;

/// States of each run, about; `ONDOL_STATES` says how many.
fn about(usual: u64) -> Option<u64> {
    Some(std::env::var("ONDOL_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual))
}

fn limits(states: u64) -> Limits {
    Limits { about: about(states), depth: 1, second_opinion_every: 100, recrash_every: 200, ..Limits::default() }
}

fn explore(durable: Durable, data: DataMode, plant: Option<Defect>, limits: Limits, workload: &Workload) -> Report {
    let (engine, store) = (JournalEngine::Batch, Some(durable));
    let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr, store };
    prey.explore(&workload.image.make().unwrap(), workload, &Watch::default()).unwrap()
}

/// States that were tried, and those of crashed openings, with nothing wrong.
fn nothing_is_found(durable: Durable, limits: Limits, workload: &Workload, data: DataMode) -> Report {
    let report = explore(durable, data, None, limits, workload);
    let found = report.violations.first().map(ToString::to_string);
    assert_eq!(found, None, "{}", workload.name);
    report
}

fn a_life_leaves_prefixes(durable: Durable) {
    let (mut reached, mut distinct, mut nested, mut asked) = (Tally::default(), 0, 0, 0);
    let mounts =
        [(Mount::Tight, DataMode::Ordered), (Mount::Roomy, DataMode::Journal), (Mount::Dirty, DataMode::Writeback)];
    for (mount, data) in mounts {
        let report = nothing_is_found(durable, limits(60), &life(mount), data);
        distinct += report.distinct;
        nested += report.nested;
        asked += report.second_opinions;
        reached.add(&report.coverage);
    }
    println!("{distinct} states, {nested} of crashed openings, {asked} judged by e2fsck");
    assert!(distinct > 60 && nested > 5, "{distinct} states, {nested} of crashed openings");
    // What the store is asked runs on threads of its own, which are not heard.
    is_executed(&reached, "crates/object-home/src/home", 5);
}

#[test]
fn whatever_is_cut_of_a_store_a_prefix_is_left() {
    a_life_leaves_prefixes(Durable::Remote);
}

#[test]
fn whatever_is_cut_of_a_store_and_a_log_a_prefix_is_left() {
    a_life_leaves_prefixes(Durable::Local);
}

#[test]
fn random_calls_leave_prefixes() {
    for (n, workload) in random(7).take(4).enumerate() {
        let durable = [Durable::Remote, Durable::Local][n % 2];
        nothing_is_found(durable, limits(30), &workload, DataMode::Ordered);
    }
}

/// Each shows at its workload, and nothing shows without.
#[test]
fn each_planted_defect_is_found_and_nothing_without() {
    for one in IN_STORE {
        let limits = Limits { second_opinion_every: 0, recrash_every: 0, ..limits(40) };
        let workload = one.planted.workload().unwrap();
        let found = |plant, limits| explore(one.durable, one.planted.data, plant, limits, &workload);
        let without = found(None, limits).violations;
        assert!(without.is_empty(), "without {}: {}", one.planted.defect, without[0]);
        let report = found(Some(one.planted.defect), Limits { about: None, ..limits });
        assert!(!report.violations.is_empty(), "{} is not found", one.planted.defect);
        println!("{}: {} states, {}", one.planted.defect, report.distinct, report.violations[0].what);
    }
}
