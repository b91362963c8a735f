//! Every state that a power cut could leave, by the crash laboratory: all single calls, then random sequences.
//!
//! `ONDOL_SEED` makes it different, `ONDOL_CASES` longer; `ondol crash` is the same as a command.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::explore::{Limits, Violation, Watch};
use ondol_laboratory::hunt::{Budget, Phase, hunt};
use ondol_laboratory::workload::{self, Workload};
use ondol_laboratory::{Prey, data_word};
use ondol_power::Sampling;
use ondol_tests::{depth, hunting, parameter};
use std::collections::BTreeSet;

/// How a volume is mounted.
type Mode = (JournalEngine, DataMode);

const CLASSIC: JournalEngine = JournalEngine::Classic;
const COMPRESSED: JournalEngine = JournalEngine::Compressed;

/// Explores workloads and says how far it came. Panics with the smallest violation.
fn none_is_violated(
    (engine, data): Mode,
    limits: Limits,
    workloads: impl Iterator<Item = Workload> + Send,
    least: u64,
) {
    let seed = parameter("ONDOL_SEED", 1);
    let sampling = Sampling { seed, ..limits.sampling };
    let prey = Prey {
        engine,
        data,
        plant: None,
        seed,
        limits: Limits { sampling, ..limits },
        fault: None,
        domain: Domain::Adr,
        store: None,
    };
    let phases = vec![Phase::once("workloads", workloads)];
    let preys = [prey];
    let found = hunt(&preys, phases, Budget::default(), &Watch::default()).unwrap();
    let report = &found.report;
    println!(
        "journal={}, data={}, seed {seed}: {} workloads, {} distinct states, {} in crashed recoveries, {} by e2fsck \
         too",
        engine.name(),
        data_word(data),
        found.workloads,
        found.distinct(),
        report.nested,
        report.second_opinions
    );
    if let Some(violation) = report.violations.first() {
        panic!("{violation}");
    }
    assert!(found.distinct() >= least && report.nested > 0, "too little was tried");
}

fn single_calls(mode: Mode) {
    // In a hunt all of it, and more of it judged by e2fsck and crashed again.
    let (torn, samples, rarer, least) = match hunting() {
        true => (24, Sampling::default().samples, 1, 2_000),
        false => (4, 4, 8, 500),
    };
    let sampling = Sampling { torn, samples, ..Sampling::default() };
    let (second_opinion_every, recrash_every) = (40 * rarer, 100 * rarer);
    let limits = Limits { sampling, second_opinion_every, recrash_every, ..Limits::default() };
    none_is_violated(mode, limits, workload::exhaustive_1(), least);
}

/// On images whose files are mapped in other ways, or whose log is on another disk: random sequences; in a hunt every
/// call before them.
fn other_forms(mode: Mode) {
    let on = |kind: ondol_laboratory::Image| move |workload: Workload| Workload { image: kind, ..workload };
    for kind in ondol_laboratory::Image::FORMS {
        if hunting() {
            let sampling = Sampling { torn: 12, samples: 12, ..Sampling::default() };
            let limits = Limits { sampling, second_opinion_every: 60, recrash_every: 150, ..Limits::default() };
            none_is_violated(mode, limits, workload::exhaustive_1().map(on(kind)), 1_000);
        }
        let count = depth("ONDOL_CASES", 6, 60) as usize;
        let seed = parameter("ONDOL_SEED", 1);
        let limits = Limits { recrash_every: if hunting() { 50 } else { 20 }, ..sparse() };
        none_is_violated(mode, limits, workload::random(seed).take(count).map(on(kind)), 10 * count as u64);
    }
}

/// For many longer runs.
fn sparse() -> Limits {
    let sampling = Sampling { samples: 6, torn: 6, ..Sampling::default() };
    Limits { sampling, second_opinion_every: 150, recrash_every: 200, ..Limits::default() }
}

fn sequences(mode: Mode) {
    let count = depth("ONDOL_CASES", 8, 150) as usize;
    none_is_violated(mode, sparse(), workload::random(parameter("ONDOL_SEED", 1)).take(count), 10 * count as u64);
}

/// Two or three threads in interleavings from seeds.
fn several_threads(mode: Mode) {
    let count = depth("ONDOL_CASES", 5, 40) as usize;
    none_is_violated(mode, sparse(), workload::threads(parameter("ONDOL_SEED", 1)).take(count), 10 * count as u64);
}

/// All these runs begin with equal states.
#[test]
fn a_budget_of_states_comes_to_an_end() {
    let limits = Limits { second_opinion_every: 0, recrash_every: 0, ..Limits::default() };
    let prey = Prey {
        engine: JournalEngine::Classic,
        data: DataMode::Journal,
        plant: None,
        seed: 1,
        limits,
        fault: None,
        domain: Domain::Adr,
        store: None,
    };
    let budget = Budget { states: Some(300), ..Budget::default() };
    let phases = vec![Phase::once("threads", workload::threads(1))];
    let preys = [prey];
    let found = hunt(&preys, phases, budget, &Watch::default()).unwrap();
    assert!((300..2000).contains(&found.distinct()) && found.workloads > 1, "{} states", found.distinct());
}

#[test]
fn other_forms_in_journal() {
    other_forms((CLASSIC, DataMode::Journal));
}

#[test]
fn other_forms_in_ordered() {
    other_forms((CLASSIC, DataMode::Ordered));
}

/// From its first workloads on a hunt looks at everything.
#[test]
fn a_hunt_of_all_phases_begins_everywhere() {
    let seed = parameter("ONDOL_SEED", 1);
    for engine in JournalEngine::ALL {
        let modes = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback];
        let preys = modes.map(|data| Prey {
            engine,
            data,
            plant: None,
            seed,
            limits: sparse(),
            fault: None,
            domain: Domain::Adr,
            store: None,
        });
        let budget = Budget { states: Some(parameter("ONDOL_CASES", 60) * 50), threads: 2, ..Budget::default() };
        let found = hunt(&preys, Phase::all(engine, seed), budget, &Watch::default()).unwrap();
        if let Some(violation) = found.report.violations.first() {
            panic!("{violation}");
        }
        assert!(found.modes.iter().all(|(_, distinct)| *distinct > 0), "{:?}", found.modes);
        assert!(found.phases.len() >= 5 && found.phases.iter().all(|share| share.workloads > 1), "{:?}", found.phases);
    }
}

/// A mistake that every workload shows is made small and told once, and counted then.
#[test]
fn the_like_of_a_violation_is_counted() {
    let plant = Some(Defect::MissingFlushAfterCommit);
    let prey = Prey {
        engine: JournalEngine::Classic,
        data: DataMode::Journal,
        plant,
        seed: 1,
        limits: sparse(),
        fault: None,
        domain: Domain::Adr,
        store: None,
    };
    let budget = Budget { violations: 100, ..Budget::default() };
    let phases = vec![Phase::once("scenarios", workload::scenarios().take(12))];
    let preys = [prey];
    let found = hunt(&preys, phases, budget, &Watch::default()).unwrap();
    let violations = &found.report.violations;
    let kinds: BTreeSet<String> = violations.iter().map(Violation::kind).collect();
    assert_eq!(kinds.len(), violations.len());
    assert!(violations.iter().any(|violation| violation.times > 1), "{violations:?}");
    assert_eq!(violations.iter().map(|violation| violation.times).sum::<u64>(), 12);
}

/// The scenes of one kind of volume, more of them judged by e2fsck and crashed again.
fn scenes_on(mode: Mode, kind: ondol_laboratory::Image) {
    let (second_opinion_every, recrash_every) = if hunting() { (20, 40) } else { (200, 200) };
    let limits = Limits { second_opinion_every, recrash_every, ..Limits::default() };
    none_is_violated(mode, limits, workload::scenes().filter(|workload| workload.image == kind), 100);
}

#[test]
fn clusters_in_ordered() {
    scenes_on((CLASSIC, DataMode::Ordered), ondol_laboratory::Image::Clusters);
}

#[test]
fn values_in_journal() {
    scenes_on((CLASSIC, DataMode::Journal), ondol_laboratory::Image::Values);
}

#[test]
fn values_in_ordered() {
    scenes_on((CLASSIC, DataMode::Ordered), ondol_laboratory::Image::Values);
}

#[test]
fn threads_in_journal() {
    several_threads((CLASSIC, DataMode::Journal));
}

#[test]
fn threads_in_ordered() {
    several_threads((CLASSIC, DataMode::Ordered));
}

#[test]
fn threads_in_writeback() {
    several_threads((CLASSIC, DataMode::Writeback));
}

#[test]
fn single_calls_in_journal() {
    single_calls((CLASSIC, DataMode::Journal));
}

#[test]
fn single_calls_in_ordered() {
    single_calls((CLASSIC, DataMode::Ordered));
}

#[test]
fn single_calls_in_writeback() {
    single_calls((CLASSIC, DataMode::Writeback));
}

#[test]
fn sequences_in_journal() {
    sequences((CLASSIC, DataMode::Journal));
}

#[test]
fn sequences_in_ordered() {
    sequences((CLASSIC, DataMode::Ordered));
}

#[test]
fn sequences_in_writeback() {
    sequences((CLASSIC, DataMode::Writeback));
}

#[test]
fn compressed_single_calls_in_journal() {
    single_calls((COMPRESSED, DataMode::Journal));
}

#[test]
fn compressed_single_calls_in_ordered() {
    single_calls((COMPRESSED, DataMode::Ordered));
}

#[test]
fn compressed_sequences_in_journal() {
    sequences((COMPRESSED, DataMode::Journal));
}

#[test]
fn compressed_sequences_in_ordered() {
    sequences((COMPRESSED, DataMode::Ordered));
}

#[test]
fn compressed_other_forms_in_journal() {
    other_forms((COMPRESSED, DataMode::Journal));
}

#[test]
fn compressed_other_forms_in_ordered() {
    other_forms((COMPRESSED, DataMode::Ordered));
}

#[test]
fn compressed_threads_in_journal() {
    several_threads((COMPRESSED, DataMode::Journal));
}
