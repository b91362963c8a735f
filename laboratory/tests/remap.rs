//! An image in an NVM pool with the log of engine `remap`: every layer of it is recorded in memory, cut, and recovered by the code that ships.

use ondol::{DataMode, JournalEngine};
use ondol_env::plant::Defect;
use ondol_env::reach::Engines;
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::plants::{Planted, REMAP};
use ondol_laboratory::reach::{Tally, places};
use ondol_laboratory::workload::{Mount, Workload, from_text};
use ondol_laboratory::{Image, Prey};
use ondol_medium::Domain;

const MODES: [DataMode; 3] = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback];

fn explore(
    engine: JournalEngine,
    data: DataMode,
    plant: Option<Defect>,
    limits: Limits,
    workload: &Workload,
) -> Report {
    let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr };
    prey.explore(&workload.image.make().unwrap(), workload, &Watch::default()).unwrap()
}

fn some(about: u64) -> Limits {
    Limits { about: Some(about), second_opinion_every: 60, recrash_every: 10, ..Limits::default() }
}

/// Blocks of all kinds are changed again and again, freed, used by others, escaped; checkpoints come in between, and one has more than can be swapped at once.
const LIFE: &str = "write /a 0 9000 #1 ; fsync /a ; write /a 4096 9000 #2 ; mkdir /d 0755 ; create /d/b 0644 ; sync
write /d/b 0 8192 jbd2#3 ; fsync /d/b ; remount ; write /d/b 0 8192 #4 ; fsync /d/b ; remount
unlink /a ; sync ; create /c 0644 ; write /c 0 20000 #5 ; fsync /c ; rename /c /d/c ; truncate /d/b 100 ; sync
write /big 0 200K #6 ; sync ; write /big 200K 200K #7 ; sync ; write /big 400K 100K #8 ; chmod /big 0600 ; remount
write /big 0 500K #9 ; remount ; unlink /d/c ; sync";

#[test]
fn whatever_is_cut_a_prefix_is_left() {
    let mut workload = from_text("life", LIFE, Image::Pool).unwrap();
    workload.before = from_text("before", "create /a 0644 ; create /big 0644", Image::Pool).unwrap().calls;
    let (mut reached, mut nested) = (Tally::default(), 0);
    let engine = JournalEngine::Remap;
    for mount in [Mount::Tight, Mount::Roomy] {
        workload.mount = mount;
        for data in MODES {
            let report = explore(engine, data, None, some(50), &workload);
            let found = report.violations.first().map(ToString::to_string);
            assert_eq!(found, None, "{} {data:?}", engine.name());
            assert!(report.distinct > 35, "{} {data:?}: {}", engine.name(), report.distinct);
            nested += report.nested;
            reached.add(&report.reach);
        }
    }
    assert!(nested > 20, "{nested} states of crashed recoveries");
    let own = places(engine).filter(|place| place.engines() == Engines::Remap);
    for place in own {
        assert!(reached.of(place).executed > 0, "{place} is not reached");
    }
}

#[test]
fn each_planted_defect_is_found_and_nothing_without() {
    for planted in REMAP {
        let Planted { defect, data, .. } = *planted;
        let limits = Limits { second_opinion_every: 0, recrash_every: 0, ..some(160) };
        let workload = planted.workload().unwrap();
        let found = |plant| explore(JournalEngine::Remap, data, plant, limits, &workload).violations;
        assert!(found(None).is_empty(), "without {defect}: {}", found(None)[0]);
        let report = explore(JournalEngine::Remap, data, Some(defect), limits, &workload);
        assert!(!report.violations.is_empty(), "{defect} is not found: {}", report.reach.told(JournalEngine::Remap));
    }
}
