//! Power may fail anywhere while a volume grows or shrinks: it is whole afterwards, of a size between the old one and
//! the new one, holds what it held, and goes on from there. Planted defects are found so.

use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_stores::{FaultPlan, Faulty, Recorder};
use ondol_testkit::resizing::{make, names};
use ondol_testkit::tooled::{Place, Tooled};
use ondol_testkit::{disks, image};
use std::collections::HashSet;

fn case(name: &str) -> Tooled {
    make(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What an image cut short comes to; says after which step it is.
fn judge(case: &Tooled, left: &[Layer], to_the_end: bool) -> Result<usize, String> {
    let stores = disks::stores(left);
    Place::on(&stores).recover()?;
    let found = case.judge(&stores.layers(), &case.any())?.ok_or("refused")?;
    if to_the_end {
        case.ends_well(&stores.layers(), found)?;
    }
    Ok(found)
}

/// Cuts the power everywhere; what is wrong, if anything is, and the steps that were found.
fn explore(case: &Tooled, sampling: &Sampling, defect: Option<Defect>) -> (usize, Vec<usize>, Option<String>) {
    let (media, events) = record(&case.disks[0], defect, &|place| case.run(0, place, &mut |_| ()).expect("a resize"));
    let (mut n, mut steps, mut wrong) = (0u64, Vec::new(), None);
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
        match judge(case, layers, n.is_multiple_of(16)) {
            Ok(found) => steps.push(found),
            Err(e) => wrong = Some(format!("{}, state {n}: {e}", case.name)),
        }
        if wrong.is_none() && n.is_multiple_of(8) {
            wrong = by_e2fsck(case, &layers[0]).map_err(|e| format!("{}, state {n}, by e2fsck: {e}", case.name)).err();
        }
    });
    steps.sort_unstable();
    steps.dedup();
    (states, steps, wrong)
}

/// What a crash left is left to e2fsck, which knows nothing of resizing, and is whole and holds all.
fn by_e2fsck(case: &Tooled, left: &Layer) -> Result<(), String> {
    match image::judge_left(&left.to_bytes()).map_err(|e| e.to_string())?? {
        Some(mut after) => judge(case, &[Layer::new(after.swap_remove(0))], false).map(drop),
        None => Ok(()),
    }
}

/// What a run over an image leaves on its way to the medium.
fn record(image: &Layer, defect: Option<Defect>, run: &dyn Fn(&Place)) -> ([Medium; 1], Vec<ondol_power::Event>) {
    let _planted = ondol_faults::set(defect).expect("a build with defects");
    let domain = PowerDomain::new();
    let store: Arc<dyn BlockStore> = Arc::new(Recorder::new(LayerStore::new(image.clone()), 0, domain.clone()));
    run(&store.into());
    ([Medium { base: image.clone(), kind: Kind::Block, whole: Some(1024..2048) }], domain.take())
}

#[test]
fn power_may_fail_anywhere_in_a_resize() {
    // Outside of hunts the test of the laboratory has the others.
    let most = if ondol_tests::hunting() { usize::MAX } else { 3 };
    for (seed, case) in (0..).zip(names().take(most).map(case)) {
        let sampling = Sampling { all_of: 8, samples: 2, torn: 2, extremes: 2, one_of: 4, seed };
        let (states, steps, wrong) = explore(&case, &sampling, None);
        assert_eq!(wrong, None);
        assert!(states > 50, "{}: {states} states", case.name);
        assert!(steps.first() != steps.last(), "{}: {steps:?}", case.name);
    }
}

#[test]
fn planted_defects_of_a_resize_are_found() {
    let planted = [
        (Defect::ResizeEarlySize, "grown-into-meta-bg"),
        (Defect::ResizeReused, "shrunk-in-many-groups"),
        (Defect::ResizeForgotten, "shrunk-in-turn"),
        (Defect::ResizeOneLog, "shrunk-with-orphans"),
        (Defect::SpaceBeforeHome, "grown-in-use"),
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

fn every_write_may_be_the_last(case: &Tooled) {
    let mut writes = 0;
    loop {
        let faulty = Arc::new(Faulty::new(LayerStore::new(case.disks[0].clone())));
        faulty.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
        let store: Arc<dyn BlockStore> = faulty.clone();
        let done = case.run(0, &store.into(), &mut |_| ()).is_ok();
        let judged = judge(case, &[faulty.inner().layer()], writes % 5 == 0);
        assert!(judged.is_ok(), "{}, {writes} writes: {judged:?}", case.name);
        if done {
            assert!(writes > 20, "{}: nothing was cut short", case.name);
            break;
        }
        writes += 1 + writes / 16;
    }
}

/// What a transaction frees is not used again before it is durable, not even by what the same transaction moves
/// afterwards.
#[test]
fn blocks_are_not_used_again_within_a_transaction() {
    every_write_may_be_the_last(&case("shrunk-in-turn"));
}
