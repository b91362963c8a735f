//! An image on a store that takes batches: each is one event, cut anywhere, and what is left is opened by the code that
//! ships.

use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::coverage::{Tally, is_executed};
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::plants::BATCH;
use ondol_laboratory::workload::{Mount, Workload, from_text};
use ondol_laboratory::{Image, Prey};
use ondol_medium::Domain;

/// Blocks of all kinds are changed again and again, freed and used by others; some is not synced before the next is,
/// and one write is more than a batch, or than the cache, has room for.
const LIFE: &str = "write /a 0 9000 #1 ; fsync /a ; write /a 4096 9000 #2 ; mkdir /d 0755 ; create /d/b 0644 ; sync
write /d/b 0 8192 #3 ; fsync /d/b ; write /d/b 0 8192 #4 ; bring-home ; fsync /d/b ; remount
unlink /a ; sync ; create /c 0644 ; write /c 0 20000 #5 ; fsync /c ; rename /c /d/c ; truncate /d/b 100 ; sync
write /big 0 1500K #6 ; sync ; write /big 0 1500K #7 ; write /big 100 100 #8 ; chmod /big 0600 ; sync
unlink /d/c ; unlink /big ; create /e 0644 ; write /e 0 300K #9 ; fsync /e ; remount";

fn explore(data: DataMode, plant: Option<Defect>, limits: Limits, workload: &Workload) -> Report {
    let engine = JournalEngine::Batch;
    let prey = Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr, store: None };
    prey.explore(&workload.image.make().unwrap(), workload, &Watch::default()).unwrap()
}

#[test]
fn whatever_is_cut_a_prefix_is_left() {
    let limits = Limits { second_opinion_every: 20, recrash_every: 2, ..Limits::default() };
    let mut workload = from_text("life", LIFE, Image::Small).unwrap();
    workload.before = from_text("before", "create /a 0644 ; create /big 0644", Image::Small).unwrap().calls;
    let (mut reached, mut distinct, mut nested) = (Tally::default(), 0, 0);
    for mount in [Mount::Tight, Mount::Roomy, Mount::Dirty] {
        workload.mount = mount;
        for data in [DataMode::Ordered, DataMode::Journal, DataMode::Writeback] {
            let report = explore(data, None, limits, &workload);
            let found = report.violations.first().map(ToString::to_string);
            assert_eq!(found, None, "{data:?}");
            (distinct, nested) = (distinct + report.distinct, nested + report.nested);
            reached.add(&report.coverage);
        }
    }
    println!("{distinct} states, {nested} of crashed recoveries");
    assert!(distinct > 100 && nested > 10, "{distinct} states, {nested} of crashed recoveries");
    is_executed(&reached, "crates/journal/src/batch", 24);
}

/// Each shows at its workload, and nothing shows without.
#[test]
fn each_planted_defect_is_found_and_nothing_without() {
    for planted in BATCH {
        let limits = Limits { second_opinion_every: 0, recrash_every: 0, ..Limits::default() };
        let workload = planted.workload().unwrap();
        let found = |plant| explore(planted.data, plant, limits, &workload);
        let without = found(None).violations;
        assert!(without.is_empty(), "without {}: {}", planted.defect, without[0]);
        let report = found(Some(planted.defect));
        assert!(!report.violations.is_empty(), "{} is not found", planted.defect);
        println!("{}: {} states, {}", planted.defect, report.distinct, report.violations[0].what);
    }
}
