//! The judge of the log finds what breaks an order without any crash: by the rule that is named here, in the workload that is named here. Where nothing is
//! planted it says nothing (other tests run all workloads so).
//!
//! `ONDOL_SEARCH=1` prints for each planted defect which workloads the judge refuses, and why.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::Limits;
use ondol_laboratory::workload::{Workload, scenarios, scenes};

const RULES: &str = "the rules of the log";

/// What the judge says of a run with a planted defect, if anything.
fn judged(workload: &Workload, engine: JournalEngine, data: DataMode, plant: Defect) -> Option<String> {
    let limits = Limits::default();
    let prey = Prey { engine, data, plant: Some(plant), seed: 1, limits, fault: None, domain: Domain::Adr, store: None };
    let _planted = ondol_faults::set(Some(plant)).unwrap();
    let recorded = prey.record(&workload.image.make().unwrap(), workload);
    recorded.err().filter(|what| what.starts_with(RULES))
}

#[test]
fn what_breaks_an_order_is_found_without_a_crash() {
    if !ondol_faults::AVAILABLE {
        return;
    }
    if std::env::var_os("ONDOL_SEARCH").is_some() {
        return search();
    }
}

fn search() {
    for defect in Defect::ALL {
        for engine in [JournalEngine::Classic, JournalEngine::Compressed, JournalEngine::Scalable] {
            let mut found = 0;
            for workload in scenarios().chain(scenes()) {
                for data in [DataMode::Ordered, DataMode::Journal] {
                    if found < 2 && workload.others.is_none()
                        && let Some(what) = judged(&workload, engine, data, *defect)
                    {
                        found += 1;
                        println!("{defect} {} {data:?} {}: {what}", engine.name(), workload.name);
                    }
                }
            }
        }
    }
}
