//! Random sequences of calls, crashed everywhere: what single calls cannot show, such as blocks that change their owner,
//! journals that wrap, and checkpoints between commits.
//!
//! `ONDOL_CASES`, `ONDOL_MAX_LEN` and `ONDOL_SEED` make it longer and different.

use ondol_env::sync::Arc;
use ondol_testkit::crash::{self, Limits, RecordError, Setup};
use ondol_testkit::image::{self, Spec};
use ondol_testkit::op::Op;
use ondol_testkit::strategy::{self, Mix};
use ondol_tests::{hunt, parameter};
use ondol_volume::DataMode;
use std::cell::Cell;

/// Calls before the recording; the others are crashed.
const BEFORE: usize = 10;

fn crash_everywhere(image: &Arc<[u8]>, data: DataMode, ops: &[Op], states: &Cell<u64>) -> Result<(), String> {
    let (before, calls) = ops.split_at(ops.len().min(BEFORE));
    let setup =
        Setup { image: image.clone(), options: image::options(data), ops: before.to_vec(), remount: false, seed: 1 };
    let run = match crash::record(&setup, calls) {
        Ok(run) => run,
        Err(e @ (RecordError::Open(_) | RecordError::Read(_) | RecordError::Disagreement(_))) => {
            return Err(e.to_string());
        }
    };
    let limits = Limits {
        subsets_of: 5,
        samples: 4,
        torn: 3,
        fsck_every: parameter("ONDOL_FSCK_EVERY", 150),
        seed: parameter("ONDOL_SEED", 1),
        ..Limits::default()
    };
    let report = crash::explore(&run, &limits).map_err(|e| e.to_string())?;
    states.set(states.get() + report.distinct);
    report.violations.first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

fn explore(spec: &Spec, data: DataMode) {
    let image: Arc<[u8]> = spec.make().unwrap().into();
    let mix = Mix { max_len: parameter("ONDOL_MAX_LEN", 20_000), ..Mix::default() };
    let states = Cell::new(0);
    let ops = strategy::ops_of(mix, 5..40);
    hunt(parameter("ONDOL_CASES", 200), ops, |ops| crash_everywhere(&image, data, ops, &states));
    println!("{data:?}: {} distinct states", states.get());
}

#[test]
fn journal() {
    explore(&Spec::small(), DataMode::Journal);
}

#[test]
fn journal_with_pages_and_orphan_file() {
    explore(&Spec::new(16 << 20, 4096).journal(4).with("-N 512 -O orphan_file"), DataMode::Journal);
}

#[test]
fn ordered() {
    explore(&Spec::small(), DataMode::Ordered);
}

#[test]
fn ordered_with_orphan_file() {
    explore(&Spec::small().with("-O orphan_file"), DataMode::Ordered);
}

#[test]
fn writeback() {
    explore(&Spec::small(), DataMode::Writeback);
}
