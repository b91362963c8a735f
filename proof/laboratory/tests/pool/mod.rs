//! What the tests of engines that need their image in an NVM pool share: a life of such an image, and how its crashes
//! are looked at.

use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::coverage::{Tally, is_executed};
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::plants::Planted;
use ondol_laboratory::workload::{Mount, Workload, from_text};
use ondol_laboratory::{Image, Prey};
use ondol_medium::Domain;

const MODES: [DataMode; 3] = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback];

/// Blocks of all kinds are changed again and again, freed, used by others, escaped; checkpoints come in between, one of
/// them has more than can be swapped at once, and one leaves what is not committed alone.
const LIFE: &str = "write /a 0 9000 #1 ; fsync /a ; write /a 4096 9000 #2 ; mkdir /d 0755 ; create /d/b 0644 ; sync
write /d/b 0 8192 jbd2#3 ; fsync /d/b ; remount ; write /d/b 0 8192 #4 ; fsync /d/b ; remount
unlink /a ; sync ; create /c 0644 ; write /c 0 20000 #5 ; fsync /c ; rename /c /d/c ; truncate /d/b 100 ; sync
write /big 0 200K #6 ; sync ; write /big 200K 200K #7 ; sync ; write /big 400K 100K #8 ; chmod /big 0600 ; remount
write /big 0 500K #9 ; remount ; write /big 100 100 #10 ; fsync /big ; write /big 0 3000 #11 ; write /big 0 3000 #12 \
                    ; bring-home
unlink /d/c ; sync";

fn explore(
    engine: JournalEngine,
    data: DataMode,
    plant: Option<Defect>,
    limits: Limits,
    workload: &Workload,
) -> Report {
    let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr, store: None };
    prey.explore(&workload.image.make().unwrap(), workload, &Watch::default()).unwrap()
}

fn some(about: u64) -> Limits {
    Limits { about: Some(about), second_opinion_every: 60, recrash_every: 10, ..Limits::default() }
}

/// What is to come of many crashes, at least.
pub(crate) struct Wanted {
    /// States of each that differ.
    pub(crate) distinct: u64,
    /// Crashed recoveries of all.
    pub(crate) nested: u64,
    /// So many percent of this module are executed.
    pub(crate) module: &'static str,
    pub(crate) percent: u64,
}

/// Crashes the life of an image under each of these engines, mounted so, in all data modes, at about so many
/// states. Nothing is found.
pub(crate) fn a_life_leaves_prefixes(
    how: &[(JournalEngine, Mount)],
    about: u64,
    Wanted { distinct, nested, module, percent }: Wanted,
) {
    let mut workload = from_text("life", LIFE, Image::Pool).unwrap();
    workload.before = from_text("before", "create /a 0644 ; create /big 0644", Image::Pool).unwrap().calls;
    let (mut reached, mut recrashed) = (Tally::default(), 0);
    for (engine, mount) in how {
        workload.mount = *mount;
        for data in MODES {
            let report = explore(*engine, data, None, some(about), &workload);
            let found = report.violations.first().map(ToString::to_string);
            assert_eq!(found, None, "{} {data:?}", engine.name());
            assert!(report.distinct > distinct, "{} {data:?}: {}", engine.name(), report.distinct);
            recrashed += report.nested;
            reached.add(&report.coverage);
        }
    }
    assert!(recrashed > nested, "{recrashed} states of crashed recoveries");
    is_executed(&reached, module, percent);
}

/// Each of these shows at its workload, of which about so many states are looked at, and nothing shows without.
pub(crate) fn each_planted_defect_is_found(all: &[Planted], about: u64) {
    for planted in all {
        let Planted { defect, data, engine, .. } = *planted;
        let limits = Limits { second_opinion_every: 0, recrash_every: 0, ..some(about) };
        let workload = planted.workload().unwrap();
        let found = |plant| explore(engine, data, plant, limits, &workload);
        let without = found(None).violations;
        assert!(without.is_empty(), "without {defect}: {}", without[0]);
        let report = found(Some(defect));
        assert!(!report.violations.is_empty(), "{defect} is not found");
    }
}
