//! Several threads on a medium that fails: what only shows where a transfer fails while others work is found, and
//! nothing where nothing is planted.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::workload::apart;
use ondol_power::Sampling;

/// Programs in which nothing is to be found, and those in which something is, at most.
const PROGRAMS: usize = 40;
const UNTIL_FOUND: usize = 400;

const PLANTED: [Defect; 2] = [Defect::UnheardHomeError, Defect::UnheardFlushError];

/// What is wrong with one of some programs, if anything.
fn look(engine: JournalEngine, plant: Option<Defect>) -> Option<String> {
    let programs = if plant.is_some() { UNTIL_FOUND } else { PROGRAMS };
    let sampling = Sampling::default().at_most(16);
    let limits = Limits { sampling, depth: 0, recrash_every: 0, second_opinion_every: 0, ..Limits::default() };
    let limits = Limits { use_every: 0, about: Some(100), ..limits };
    let (data, domain) = (DataMode::Ordered, Domain::Adr);
    apart(1).filter(|workload| workload.image.is_possible()).take(programs).enumerate().find_map(|(n, workload)| {
        let fault = Some(Faults::Search { seed: n as u64, count: 5 });
        let prey = Prey { engine, data, plant, seed: 1, limits, fault, domain, store: None };
        let report = prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap();
        report.violations.first().map(|violation| format!("{}: {violation}", workload.name))
    })
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    for engine in [JournalEngine::Classic, JournalEngine::Compressed, JournalEngine::Scalable] {
        assert_eq!(look(engine, None), None);
    }
}

#[test]
fn what_shows_where_others_work_is_found() {
    for defect in PLANTED.into_iter().filter(|_| ondol_faults::AVAILABLE) {
        let found = look(JournalEngine::Classic, Some(defect));
        println!("{defect}: {}", found.as_deref().unwrap_or("-").lines().next().unwrap_or_default());
        assert!(found.is_some(), "{defect} is not found");
    }
}
