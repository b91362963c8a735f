//! EIO at every transfer: each read, write and flush of short workloads fails, once or for good, while a volume that
//! has to be recovered is opened, used and closed.
//!
//! Every call then returns what it should or an error; after a failed flush, or a failed write into the journal, no
//! fsync succeeds any more; and power that is lost while it happens, or at its end, leaves what recovers to a state
//! that is allowed: a prefix of the calls, with everything that an fsync has promised.
//!
//! `ONDOL_POINTS` says how many transfers of each kind fail in each workload (0 for all), `ONDOL_FSCK_EVERY` how often
//! e2fsck judges what is left, too.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_laboratory::explore::{Limits, Report, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::workload::{self, Mount, Workload};
use ondol_laboratory::{Image, Prey};
use ondol_testkit::op::{Fallocate, Op, text};
use ondol_tests::{depth, parameter};

/// States of each run.
const STATES: u64 = 3;

/// With a file that is deleted while it is open, which leaves an orphan.
fn with_orphan(image: Image, workload: Workload) -> Workload {
    let orphan = "create /o 0644; write /o 0 2000 #99; open @9 /o; unlink /o; sync";
    let before = [workload.before, text::parse(orphan).unwrap()].concat();
    Workload { image, mount: Mount::Tight, before, ..workload }
}

fn all_on(image: Image, data: DataMode, workloads: impl Iterator<Item = Workload>) {
    let limits = Limits {
        about: Some(STATES),
        recrash_every: 0,
        use_every: 0,
        second_opinion_every: parameter("ONDOL_FSCK_EVERY", 300),
        ..Limits::default()
    };
    let faults = Faults::Spread { points: depth("ONDOL_POINTS", 12, 40), shift: parameter("ONDOL_SEED", 1) };
    let prey = Prey {
        engine: JournalEngine::Classic,
        data,
        plant: None,
        seed: 1,
        limits,
        fault: Some(faults),
        domain: Domain::Adr,
        store: None,
    };
    let layer = image.make().unwrap();
    let (mut sum, mut runs) = (Report::default(), 0);
    for workload in workloads.map(|workload| with_orphan(image, workload)) {
        // What all runs of a workload have is shared among them.
        let tried = prey.faults(&layer, &workload).unwrap_or_else(|violation| panic!("{violation}"));
        runs += tried.len();
        let limits = Limits { about: Some(STATES * tried.len() as u64), ..limits };
        let report = Prey { limits, ..prey.clone() }.explore(&layer, &workload, &Watch::default()).unwrap();
        if let Some(violation) = report.violations.first() {
            panic!("{violation}");
        }
        sum.add(report);
    }
    println!(
        "{data:?}, image {image}: {runs} runs, {} media recovered afterwards, {} by e2fsck too",
        sum.distinct, sum.second_opinions
    );
    assert!(runs > 200 && sum.distinct > runs as u64, "too little was tried");
}

/// Files that are mapped in other ways.
#[test]
fn other_forms() {
    for (image, data) in Image::FORMS.into_iter().zip([DataMode::Journal, DataMode::Ordered].into_iter().cycle()) {
        // Block maps take no space ahead, and clusters move only as a whole.
        let moves = |op: &Op| matches!(op, Op::Fallocate { how, .. } if *how != Fallocate::PunchHole);
        let fits = |w: &Workload| !w.before.iter().chain(&w.calls).any(moves);
        all_on(image, data, workload::short().filter(fits));
    }
}

#[test]
fn journal() {
    all_on(Image::Small, DataMode::Journal, workload::short());
}

#[test]
fn ordered() {
    all_on(Image::Small, DataMode::Ordered, workload::short());
}
