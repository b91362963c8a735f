//! Planted defects that only a second thread shows are found, and where none is planted nothing is: two threads in
//! interleavings that seeds decide, and then a crash at every event of theirs.
//!
//! `ONDOL_PLANT=name` picks one, `ONDOL_SCHEDULES=20000` tries more schedules, `ONDOL_SHOW=1` prints how it was found.

use ondol::JournalEngine;
use ondol::pool::Domain;
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::{Limits, Violation, Watch};
use ondol_laboratory::plants::{Threaded, threaded};
use ondol_power::Sampling;
use ondol_tests::parameter;

/// Interleavings that are searched together: the best of them are crashed.
const TOGETHER: u32 = 100;

/// What is wrong in these interleavings, if anything.
fn look(threaded: &Threaded, plant: Option<Defect>, seed: u64) -> Option<Violation> {
    let workload = threaded.workload(seed, TOGETHER).unwrap();
    let sampling = Sampling { all_of: 64, samples: 4, torn: 2, extremes: 4, ..Sampling::default() };
    let limits = Limits { sampling, depth: 0, second_opinion_every: 0, use_every: 0, ..Limits::default() };
    let prey = Prey {
        engine: threaded.engine,
        data: threaded.data,
        plant,
        seed: 1,
        limits,
        fault: None,
        domain: Domain::Adr,
        store: None,
    };
    prey.explore(&workload.image.make().unwrap(), &workload, &Watch::default()).unwrap().violations.pop()
}

#[test]
fn each_and_nothing_else() {
    let only = std::env::var("ONDOL_PLANT").ok();
    let of_images = JournalEngine::OF_IMAGES.into_iter().flat_map(threaded);
    // What engines share is shown in those.
    let own = threaded(JournalEngine::Scalable).into_iter().filter(|t| t.defect == Defect::OlderRelease);
    let all: Vec<Threaded> = of_images.chain(own).collect();
    for threaded in all.iter().filter(|t| only.as_deref().is_none_or(|o| o == t.defect.name())) {
        let defect = threaded.defect;
        let searches = (0..parameter("ONDOL_SCHEDULES", 4000)).step_by(TOGETHER as usize);
        let found = searches.clone().find_map(|seed| Some((seed, look(threaded, Some(defect), seed)?)));
        let (seed, violation) = found.unwrap_or_else(|| panic!("{defect} is not found in {}", threaded.engine.name()));
        if parameter("ONDOL_SHOW", 0) > 0 {
            println!("{defect} in {}, interleavings from {seed} on: {violation}", threaded.engine.name());
        }
        if let Some(violation) = look(threaded, None, seed) {
            panic!("without {defect}: {violation}");
        }
    }
}
