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

/// Programs that are tried, each with faults of its own.
const PROGRAMS: usize = 80;

/// What is planted, and the first program: the error of a tail shows in one of 300 only.
const PLANTED: [(Defect, usize); 4] = [
    (Defect::UnheardHomeError, 0),
    (Defect::UnheardFlushError, 0),
    (Defect::UnheardTailError, 2115),
    (Defect::FirstWriter, 0),
];

/// What is wrong with one of the programs from number `from` on, if anything.
fn look(engine: JournalEngine, plant: Option<Defect>, from: usize) -> Option<String> {
    let sampling = Sampling::default().at_most(16);
    let limits = Limits { sampling, depth: 0, recrash_every: 0, second_opinion_every: 0, ..Limits::default() };
    let limits = Limits { use_every: 0, about: Some(100), ..limits };
    let (data, domain) = (DataMode::Ordered, Domain::Adr);
    let mut programs = apart(1).filter(|workload| workload.image.is_possible()).enumerate().skip(from).take(PROGRAMS);
    programs.find_map(|(n, workload)| {
        let fault = Some(Faults::Search { seed: n as u64, count: 5 });
        let prey = Prey { engine, data, plant, seed: 1, limits, fault, domain, store: None };
        let report = prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap();
        report.violations.first().map(|violation| format!("{}: {violation}", workload.name))
    })
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    for engine in [JournalEngine::Classic, JournalEngine::Compressed, JournalEngine::Scalable] {
        assert_eq!(look(engine, None, 0), None);
    }
}

#[test]
fn what_shows_where_others_work_is_found() {
    for (defect, from) in PLANTED.into_iter().filter(|_| ondol_faults::AVAILABLE) {
        let found = look(JournalEngine::Classic, Some(defect), from);
        println!("{defect}: {}", found.as_deref().unwrap_or("-").lines().next().unwrap_or_default());
        assert!(found.is_some(), "{defect} is not found");
    }
}
