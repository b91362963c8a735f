//! ENOSPC at every allocation: workloads on volumes that have exactly so many free blocks, or inodes, left, from none
//! up to as many as they need. Each call succeeds as the model says, or fails for lack of space and has changed
//! nothing.
//!
//! `ONDOL_FSCK_EVERY` says how often e2fsck judges a closed volume, `ONDOL_CRASH_EVERY` how often a run is crashed
//! everywhere.

use crate::common::{self, store_of};
use ondol::DataMode;
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_laboratory::explore::{Limits, Watch, explore};
use ondol_laboratory::run::{Setup, record};
use ondol_laboratory::workload::{self, Workload};
use ondol_power::{Layer, Sampling};
use ondol_testkit::Fail;
use ondol_testkit::image::{self, Spec};
use ondol_testkit::op::Op;
use ondol_testkit::target::{Library, Lockstep};
use ondol_tests::parameter;
use std::sync::OnceLock;

/// What is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scarce {
    Blocks,
    Inodes,
}

/// Blocks that a call may ask for beyond what it takes: the worst case of every tree and directory that may have to
/// grow.
const SLACK: u64 = 24;

struct Prepared {
    lockstep: Lockstep<Library>,
    store: Arc<LayerStore>,
}

fn step(lockstep: &mut Lockstep<Library>, line: &str) -> Result<(), Fail> {
    let op: Op = line.parse().unwrap();
    lockstep.step(&op).unwrap_or_else(|e| panic!("{e}")).map(|_| ())
}

fn free(lockstep: &mut Lockstep<Library>, what: Scarce) -> u64 {
    let stat = lockstep.target().volume().unwrap().statfs();
    match what {
        Scarce::Blocks => stat.available,
        Scarce::Inodes => stat.files_free,
    }
}

/// A small volume that keeps nothing back for root.
fn fresh() -> Layer {
    static FRESH: OnceLock<Layer> = OnceLock::new();
    let make = || Layer::new(Spec::new(4 << 20, 1024).journal(1).with("-N 128 -m 0").make().unwrap());
    FRESH.get_or_init(make).clone()
}

/// A volume on which the calls before were made, and of which `left` blocks or inodes are free; with `None`, nearly
/// all.
fn prepare(workload: &Workload, data: DataMode, what: Scarce, left: Option<u64>) -> Prepared {
    let (store, dynamic) = store_of(&fresh());
    let mut lockstep = Lockstep::new(Library::open(dynamic, &image::options(data), 1).unwrap()).unwrap();
    for op in workload.before.clone() {
        lockstep.step(&op).unwrap().unwrap_or_else(|e| panic!("{op}: {e:?}"));
    }
    if let Some(left) = left {
        match what {
            Scarce::Blocks => hog_blocks(&mut lockstep, left),
            Scarce::Inodes => hog_inodes(&mut lockstep, left),
        }
    }
    step(&mut lockstep, "remount").unwrap();
    assert!(left.is_none_or(|left| free(&mut lockstep, what) == left));
    Prepared { lockstep, store }
}

/// Two files take all blocks but these: one most of them, the other what is missing, one by one. The last ones, which
/// are held back from files whose extent tree might have to grow, go to symbolic links.
fn hog_blocks(lockstep: &mut Lockstep<Library>, left: u64) {
    for hog in ["/hog", "/small-hog"] {
        step(lockstep, &format!("create {hog} 0644")).unwrap();
    }
    let most = free(lockstep, Scarce::Blocks) - left - 40;
    for (i, piece) in (0..).zip((0..24).rev().map(|bit| most & 1 << bit).filter(|piece| *piece > 0)) {
        step(lockstep, &format!("fallocate-keep /hog {}M {piece}K", i * 8)).unwrap();
    }
    let mut at = 0;
    while free(lockstep, Scarce::Blocks) > left {
        let piece = step(lockstep, &format!("fallocate-keep /small-hog {at}K 1K"));
        let other = format!("symlink /hog{at} {}", "x".repeat(100));
        piece
            .or_else(|_| step(lockstep, &other))
            .unwrap_or_else(|e| panic!("{} free, not {left}: {e:?}", free(lockstep, Scarce::Blocks)));
        at += 1;
    }
}

fn hog_inodes(lockstep: &mut Lockstep<Library>, left: u64) {
    step(lockstep, "mkdir /hogs 0755").unwrap();
    for i in 0..free(lockstep, Scarce::Inodes) - left {
        step(lockstep, &format!("create /hogs/{i} 0644")).unwrap();
    }
}

/// Counts of what was tried.
#[derive(Default)]
struct Total {
    runs: u64,
    refusals: u64,
    fsck: u64,
    crashed: u64,
    states: u64,
}

impl Total {
    /// How many calls found no space.
    fn one(&mut self, workload: &Workload, data: DataMode, what: Scarce, left: u64) -> u64 {
        let calls = workload.calls.clone();
        let Prepared { mut lockstep, store } = prepare(workload, data, what, Some(left));
        let mut refusals = 0;
        for op in &calls {
            let outcome = lockstep.step(op).unwrap_or_else(|e| panic!("{left} left: {e}"));
            refusals += u64::from(outcome == Err(Fail::NoSpace));
            lockstep.compare().unwrap_or_else(|e| panic!("{left} left: {e}"));
        }
        lockstep.into_target().close().unwrap();
        self.runs += 1;
        self.refusals += refusals;
        let closed: Arc<dyn BlockStore> = store.clone();
        common::must_be_clean(&closed).unwrap_or_else(|e| panic!("{}, {left} left: {e}", workload.name));
        let every = parameter("ONDOL_FSCK_EVERY", 5);
        if every > 0 && self.runs.is_multiple_of(every) {
            self.fsck += 1;
            let verdict = image::check(&store.layer().to_bytes()).unwrap();
            assert!(verdict.is_clean(), "{}, {left} left: e2fsck -fn: {}", workload.name, verdict.output);
        }
        let every = parameter("ONDOL_CRASH_EVERY", 8);
        if every > 0 && self.runs.is_multiple_of(every) {
            self.crash(workload, data, what, left);
        }
        refusals
    }

    /// The same run, crashed everywhere.
    fn crash(&mut self, workload: &Workload, data: DataMode, what: Scarce, left: u64) {
        let Prepared { lockstep, store } = prepare(workload, data, what, Some(left));
        lockstep.into_target().close().unwrap();
        let setup = Setup {
            disks: vec![store.layer()],
            options: image::options(data),
            ops: Vec::new(),
            remount: false,
            seed: 1,
        };
        // An allocation that found no space is taken back behind its back.
        let calls = workload.calls.clone();
        let calls: Vec<Op> = calls.into_iter().filter(|op| !matches!(op, Op::Fallocate { .. })).collect();
        let run = record(&setup, &calls).unwrap_or_else(|e| panic!("{}, {left} left: {e}", workload.name));
        let sampling = Sampling { all_of: 32, samples: 6, torn: 6, extremes: 8, ..Sampling::default() };
        let limits = Limits { sampling, depth: 1, ..Limits::default() };
        let report = explore(&run, &limits, &Watch::default());
        if let Some(violation) = report.violations.first() {
            panic!("{}, {data:?}, {left} of {what:?} left: {violation}", workload.name);
        }
        self.crashed += 1;
        self.states += report.distinct;
    }

    /// From nothing left to enough.
    fn workload(&mut self, workload: &Workload, data: DataMode, what: Scarce) {
        let most = needs(workload, data, what) + if what == Scarce::Blocks { SLACK } else { 0 };
        let mut left = 0;
        while self.one(workload, data, what, left) > 0 {
            assert!(left <= most, "{}, {data:?}: no space with {left} of {what:?} left", workload.name);
            left += 1;
        }
    }
}

/// The most blocks or inodes that the workload takes at any time, where there are plenty.
fn needs(workload: &Workload, data: DataMode, what: Scarce) -> u64 {
    let Prepared { mut lockstep, .. } = prepare(workload, data, what, None);
    let before = free(&mut lockstep, what);
    let mut least = before;
    for op in workload.calls.clone() {
        let _outcome = lockstep.step(&op).unwrap_or_else(|e| panic!("{e}"));
        least = least.min(free(&mut lockstep, what));
    }
    before - least
}

fn all(data: DataMode) {
    for what in [Scarce::Blocks, Scarce::Inodes] {
        let mut total = Total::default();
        workload::short().for_each(|workload| total.workload(&workload, data, what));
        let Total { runs, refusals, fsck, crashed, states } = total;
        println!(
            "{data:?}, few {what:?}: {} workloads, {runs} runs, {refusals} calls without space, {fsck} closed volumes \
             by e2fsck too, {crashed} runs crashed in {states} distinct states",
            workload::short().count()
        );
        assert!(refusals > 0);
    }
}

#[test]
fn journal() {
    all(DataMode::Journal);
}

#[test]
fn ordered() {
    all(DataMode::Ordered);
}
