//! A medium that fails under several threads, or under writes in place: what only shows there is found, and nothing
//! where nothing is planted.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::workload::{Workload, apart, in_place};
use ondol_power::Sampling;

/// Programs that are tried, each with faults of its own.
const PROGRAMS: usize = 80;

/// What is planted, and the first program: the error of a tail shows in one of 300 only.
const PLANTED: [(Defect, Programs, usize); 5] = [
    (Defect::UnheardHomeError, Programs::Apart, 0),
    (Defect::UnheardFlushError, Programs::Apart, 0),
    (Defect::UnheardTailError, Programs::Apart, 2115),
    (Defect::FirstWriter, Programs::Apart, 0),
    (Defect::FailedWriteUncounted, Programs::InPlace, 0),
];

/// What is done.
#[derive(Clone, Copy)]
enum Programs {
    /// By several threads.
    Apart,
    InPlace,
}

impl Programs {
    fn all(self) -> Box<dyn Iterator<Item = Workload>> {
        match self {
            Self::Apart => Box::new(apart(1)),
            Self::InPlace => Box::new(in_place(1)),
        }
    }
}

/// What is wrong with one of the programs from number `from` on, if anything.
fn look(engine: JournalEngine, plant: Option<Defect>, programs: Programs, from: usize) -> Option<String> {
    let sampling = Sampling::default().at_most(16);
    let limits = Limits { sampling, depth: 0, recrash_every: 0, second_opinion_every: 0, ..Limits::default() };
    let limits = Limits { use_every: 0, about: Some(100), ..limits };
    let (data, domain) = (DataMode::Ordered, Domain::Adr);
    let mut programs =
        programs.all().filter(|workload| workload.image.is_possible()).enumerate().skip(from).take(PROGRAMS);
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
        assert_eq!(look(engine, None, Programs::Apart, 0), None);
        assert_eq!(look(engine, None, Programs::InPlace, 0), None);
    }
}

#[test]
fn what_shows_where_others_work_is_found() {
    for (defect, programs, from) in PLANTED.into_iter().filter(|_| ondol_faults::AVAILABLE) {
        let found = look(JournalEngine::Classic, Some(defect), programs, from);
        println!("{defect}: {}", found.as_deref().unwrap_or("-").lines().next().unwrap_or_default());
        assert!(found.is_some(), "{defect} is not found");
    }
}
