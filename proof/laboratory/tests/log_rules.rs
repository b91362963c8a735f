//! The judge of the log finds what breaks an order without any crash: by the rule and in the workload that are named
//! here. Where nothing is planted it says nothing (other tests run all workloads so).
//!
//! `ONDOL_SEARCH=name,name` prints in which workload the judge refuses these, `ONDOL_ENGINE=name` only with this
//! engine.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::Limits;
use ondol_laboratory::workload::{Workload, scenarios, scenes};

const CLASSIC: JournalEngine = JournalEngine::Classic;
const COMPRESSED: JournalEngine = JournalEngine::Compressed;
const SCALABLE: JournalEngine = JournalEngine::Scalable;
const SWAP: JournalEngine = JournalEngine::Swap;
const REMAP: JournalEngine = JournalEngine::Remap;
const ORDERED: DataMode = DataMode::Ordered;
const JOURNAL: DataMode = DataMode::Journal;

const RULES: &str = "the rules of the log";

/// What the judge says of a run with a planted defect, if anything.
fn judged(workload: &Workload, engine: JournalEngine, data: DataMode, plant: Defect) -> Option<String> {
    let limits = Limits::default();
    let prey =
        Prey { engine, data, plant: Some(plant), seed: 1, limits, fault: None, domain: Domain::Adr, store: None };
    let _planted = ondol_faults::set(Some(plant)).unwrap();
    let recorded = prey.record(&workload.image.make().unwrap(), workload);
    recorded.err().filter(|what| what.starts_with(RULES))
}

/// What is planted, the engine, data mode and workload that show it, and the rule that is broken.
const PLANTED: &[(Defect, JournalEngine, DataMode, &str, &str)] = &[
    (Defect::DirectoryFreedAsData, CLASSIC, ORDERED, "rmdir", "freed"),
    (Defect::FreedImage, CLASSIC, JOURNAL, "new-deleted", "freed"),
    (Defect::HalfRevoked, CLASSIC, JOURNAL, "unlink", "freed"),
    (Defect::HalfRevoked, COMPRESSED, ORDERED, "unlink", "freed"),
    (Defect::SkippedRevoke, COMPRESSED, JOURNAL, "unlink", "freed"),
    (Defect::UnrevokedDead, CLASSIC, ORDERED, "revoke-of-what-dies", "freed"),
    (Defect::MissingFlushBeforeTail, CLASSIC, ORDERED, "remount", "tail"),
    (Defect::MissingFlushBeforeTail, COMPRESSED, JOURNAL, "remount", "tail"),
    (Defect::MissingFlushBeforeTail, SCALABLE, ORDERED, "remount", "tail"),
    (Defect::TailTooFar, CLASSIC, JOURNAL, "wide-log-crowded", "tail"),
    (Defect::RingOverrun, CLASSIC, ORDERED, "log-wraps-small", "room"),
    (Defect::MissingFlushAfterTail, COMPRESSED, ORDERED, "log-wraps-zeroing", "room"),
    (Defect::LogMissingFence, SCALABLE, ORDERED, "create", "commit"),
    (Defect::LogMissingWriteBack, SCALABLE, JOURNAL, "create", "commit"),
    (Defect::EarlyReuse, CLASSIC, ORDERED, "tree-grows-and-goes", "before"),
    (Defect::ForgottenFlag, CLASSIC, ORDERED, "journaled-file", "before"),
    (Defect::TableChangeBeforeUndo, SWAP, ORDERED, "remount", "twice"),
    (Defect::TableCommitBeforeChange, SWAP, ORDERED, "remount", "closed"),
    (Defect::TableEarlyReuse, SWAP, JOURNAL, "create", "over"),
    (Defect::TableMissingWriteBack, SWAP, ORDERED, "remount", "open"),
    (Defect::TableOpenBeforeUndo, SWAP, JOURNAL, "write-much", "open"),
    (Defect::TablePublishBeforeData, SWAP, ORDERED, "create", "page"),
];

#[test]
fn what_breaks_an_order_is_found_without_a_crash() {
    if let Ok(names) = std::env::var("ONDOL_SEARCH") {
        return names.split(',').for_each(|name| search(name.parse().unwrap()));
    }
    for (defect, engine, data, name, rule) in PLANTED.iter().filter(|_| ondol_faults::AVAILABLE) {
        let mut named = workloads().filter(|workload| workload.name == *name);
        let what = named.find_map(|workload| judged(&workload, *engine, *data, *defect));
        let what = what.unwrap_or_else(|| panic!("{defect} is not found"));
        assert!(what.contains(&format!(": {rule}: ")), "{defect}: {what}");
    }
}

fn workloads() -> impl Iterator<Item = Workload> {
    scenarios().chain(scenes()).filter(|workload| workload.others.is_none())
}

/// Prints which workloads show a planted defect.
fn search(defect: Defect) {
    let only = std::env::var("ONDOL_ENGINE").ok();
    let engines = [CLASSIC, COMPRESSED, SCALABLE, SWAP, REMAP].into_iter();
    for engine in engines.filter(|engine| only.as_deref().is_none_or(|only| only == engine.name())) {
        for data in [ORDERED, JOURNAL] {
            let shown =
                workloads().find_map(|workload| Some((judged(&workload, engine, data, defect)?, workload.name)));
            println!("{defect} {} {data:?}: {shown:?}", engine.name());
        }
    }
}
