//! Power may fail anywhere while a volume grows or shrinks: it is whole afterwards, of a size between the old one and the new one, holds what it held, and
//! goes on from there. Planted defects are found so.

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_stores::{FaultPlan, Faulty, Recorder};
use ondol_testkit::image;
use ondol_testkit::resizing::{Resizing, names, on};
use std::collections::HashSet;

fn case(name: &str) -> Resizing {
    Resizing::make(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What an image cut short comes to; says how many blocks it has.
fn judge(case: &Resizing, bytes: &[u8], to_the_end: bool) -> Result<u64, String> {
    let store = on(bytes);
    case.recover(store.clone())?;
    let found = case.judge(&store)?;
    if to_the_end {
        case.goes_on(&store)?;
    }
    Ok(found)
}

/// Cuts the power everywhere; what is wrong, if anything is, and the sizes that were found.
fn explore(case: &Resizing, sampling: &Sampling, defect: Option<Defect>) -> (usize, Vec<u64>, Option<String>) {
    let (media, events) = record(&case.bytes, defect, &|store| {
        case.run(store, &mut |_| ()).expect("a resize");
    });
    let (mut n, mut sizes, mut wrong) = (0u64, Vec::new(), None);
    // Of short runs all.
    let few = if ondol_tests::hunting() { 1 } else { 5 };
    let one_of = if events.len() < 150 { 1 } else { few * sampling.one_of };
    let sampling = Sampling { one_of, ..*sampling };
    let mut met = HashSet::new();
    let states = sampling.each(&media, &events, |layers, _| {
        if wrong.is_some() || !met.insert(layers[0].clone().fingerprint()) {
            return;
        }
        n += 1;
        let _planted = ondol_faults::set(defect).expect("a build with defects");
        let left = layers[0].to_bytes();
        match judge(case, &left, n.is_multiple_of(16)) {
            Ok(found) => sizes.push(found),
            Err(e) => wrong = Some(format!("{}, state {n}: {e}", case.name)),
        }
        if wrong.is_none() && n.is_multiple_of(8) {
            wrong = case.by_e2fsck(&left).map_err(|e| format!("{}, state {n}, by e2fsck: {e}", case.name)).err();
        }
        if wrong.is_none() && n.is_multiple_of(24) {
            wrong = again(case, &left, n).err();
        }
    });
    sizes.sort_unstable();
    sizes.dedup();
    (states, sizes, wrong)
}

/// Power fails a second time, while that is recovered.
fn again(case: &Resizing, left: &[u8], n: u64) -> Result<(), String> {
    let (media, events) = record(left, None, &|store| {
        let opened = Volume::open_stepped(store, &Options::default(), image::clock(1));
        opened.and_then(Volume::close).expect("recovery");
    });
    let few = Sampling { all_of: 4, samples: 1, torn: 1, extremes: 2, one_of: 2, seed: n };
    let mut wrong = Ok(());
    few.each(&media, &events, |layers, _| {
        if wrong.is_ok() {
            let judged = judge(case, &layers[0].to_bytes(), false);
            wrong = judged.map(drop).map_err(|e| format!("{}, state {n}, again: {e}", case.name));
        }
    });
    wrong
}

/// What a run over an image leaves on its way to the medium.
fn record(
    bytes: &[u8],
    defect: Option<Defect>,
    run: &dyn Fn(Arc<dyn BlockStore>),
) -> ([Medium; 1], Vec<ondol_power::Event>) {
    let _planted = ondol_faults::set(defect).expect("a build with defects");
    let domain = PowerDomain::new();
    run(Arc::new(Recorder::new(RamStore::from_bytes(bytes.to_vec()), 0, domain.clone())));
    ([Medium { base: Layer::new(bytes.to_vec()), kind: Kind::Block, whole: Some(1024..2048) }], domain.take())
}

#[test]
fn power_may_fail_anywhere_in_a_resize() {
    // Outside of hunts the test of the laboratory has the others.
    let most = if ondol_tests::hunting() { usize::MAX } else { 3 };
    for (seed, case) in (0..).zip(names().take(most).map(case)) {
        let sampling = Sampling { all_of: 8, samples: 2, torn: 2, extremes: 2, one_of: 4, seed };
        let (states, sizes, wrong) = explore(&case, &sampling, None);
        assert_eq!(wrong, None);
        assert!(states > 50, "{}: {states} states", case.name);
        assert!(sizes.first() != sizes.last(), "{}: {sizes:?}", case.name);
    }
}

#[test]
fn planted_defects_of_a_resize_are_found() {
    let planted = [
        (Defect::ResizeEarlySize, "grown-into-meta-bg"),
        (Defect::ResizeReused, "shrunk-in-many-groups"),
        (Defect::ResizeForgotten, "shrunk-in-turn"),
        (Defect::ResizeOneLog, "shrunk-with-orphans"),
    ];
    assert_eq!(planted.len(), Defect::ALL.iter().filter(|d| d.subject() == ondol_faults::Subject::Resize).count());
    for (defect, name) in planted {
        let sampling = Sampling { all_of: 8, samples: 3, torn: 3, extremes: 3, one_of: 1, seed: 7 };
        assert!(explore(&case(name), &sampling, Some(defect)).2.is_some(), "{defect} is not found");
    }
}

/// A medium that fails for good at any write leaves the same.
#[test]
fn every_write_of_a_resize_may_be_the_last() {
    for case in ["grown", "shrunk-in-many-groups", "shrunk-with-orphans", "shrunk-past-its-journal"].map(case) {
        every_write_may_be_the_last(&case);
    }
}

fn every_write_may_be_the_last(case: &Resizing) {
    let mut writes = 0;
    loop {
        let faulty = Arc::new(Faulty::new(RamStore::from_bytes(case.bytes.clone())));
        faulty.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
        let store: Arc<dyn BlockStore> = faulty.clone();
        let done = case.run(store, &mut |_| ()).is_ok();
        let judged = judge(case, &faulty.inner().to_bytes(), writes % 5 == 0);
        assert!(judged.is_ok(), "{}, {writes} writes: {judged:?}", case.name);
        if done {
            assert!(writes > 20, "{}: nothing was cut short", case.name);
            break;
        }
        writes += 1 + writes / 16;
    }
}

/// What a transaction frees is not used again before it is durable, not even by what the same transaction moves afterwards.
#[test]
fn blocks_are_not_used_again_within_a_transaction() {
    every_write_may_be_the_last(&case("shrunk-in-turn"));
}
