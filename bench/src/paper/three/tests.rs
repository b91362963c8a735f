//! The list can be run, and its table says what the paper says.

use super::figures::{COMPRESSED, KERNEL, OURS, PANELS, targets};
use super::{Drawing, draw, run_args, summary};
use crate::BenchError;
use crate::args::PaperArgs;
use crate::contents::{Class, Payload};
use crate::counters::{Device, Engine};
use crate::machine::{Machine, commit};
use crate::measure::{Asked, Sample};
use crate::report::{self, Report, Turns};
use crate::target::Target;
use crate::workload::{self, Params};
use hdrhistogram::Histogram;
use serde_json::Map;
use std::time::{Duration, Instant};

fn args(quick: bool) -> PaperArgs {
    let dir = "/dev/shm".into();
    PaperArgs { number: 3, quick, figure: None, rounds: None, class: Class::Text, dir, json: None, report: None }
}

#[test]
fn every_panel_is_a_valid_run() {
    let list: Vec<String> = [OURS, COMPRESSED, KERNEL].map(str::to_owned).into();
    for panel in &PANELS {
        for quick in [false, true] {
            let run = run_args(panel, &list, &args(quick));
            let definition = workload::find(&run.workload).expect("workload");
            let params = Params::new(definition, None, &run.params).expect("params");
            (definition.build)(&params).expect("build");
            for target in &run.on {
                target.parse::<Target>().expect("target");
                assert!(target.contains(panel.device) && !target.contains("DISK"), "{target}");
            }
            assert!(run.ops > Some(0) && run.rounds == if quick { 1 } else { 3 });
        }
    }
    assert_eq!(targets().first().map(String::as_str), Some(OURS));
}

fn turns(ops: u64, engine: Option<Engine>) -> Turns {
    let latency = Histogram::new(3).expect("histogram");
    let elapsed = Duration::from_secs(1);
    let sample = Sample {
        asked: Asked::default(),
        begin: Instant::now(),
        ops,
        user_bytes: 0,
        fsyncs: 0,
        elapsed,
        latency: latency.clone(),
        sync: latency,
    };
    Turns { guarantee: String::new(), samples: vec![(sample, Device { engine, ..Device::default() })] }
}

/// What came out of the first panel, after `rounds` rounds.
fn report(partial: bool) -> Report {
    let names = [OURS, COMPRESSED, KERNEL].map(|target| target.replace("DISK", PANELS[0].device));
    let engine = Engine {
        commits: 10,
        compress_ns: 500_000,
        compress_bytes_in: 30,
        compress_bytes_out: 10,
        ..Engine::default()
    };
    Report {
        workload: "varmail",
        params: Map::new(),
        contents: Payload { class: "text".into(), lz4_ratio: 2.5 },
        machine: Machine::here(),
        commit: commit(),
        rounds: 1,
        partial,
        targets: report::targets(&names, &[turns(100, None), turns(250, Some(engine)), turns(50, None)]),
    }
}

const ROW: &str = "| 1, 4: varmail, ssd | - | 2.50 | 5.00 | - | 8.3 | 50 (3.00) | 107 |";

/// Draws two panels, of which the second ends as it is said, into files: the outcome, and both files.
fn drawn(second: impl Fn() -> Result<Report, BenchError>) -> (Result<(), BenchError>, serde_json::Value, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let args = PaperArgs { report: Some(dir.path().to_owned()), ..args(true) };
    let mut first = true;
    let done =
        draw(
            &[&PANELS[0], &PANELS[1]],
            &args,
            |_| {
                if std::mem::take(&mut first) { Ok(report(false)) } else { second() }
            },
        );
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("a file");
    (done, serde_json::from_str(&read("paper3.json")).expect("JSON"), read("paper3.md"))
}

#[test]
fn what_was_measured_is_kept_and_marked() {
    let (done, json, text) = drawn(|| Ok(report(false)));
    assert!(done.is_ok() && !text.contains("PARTIAL"), "{text}");
    assert_eq!((&json["partial"], json["panels"].as_array().map(Vec::len)), (&false.into(), Some(2)));
    // A signal before the first round of a panel, and after it; and a panel that fails.
    let lost = || BenchError::Unfit("no such disk".into());
    type Second<'a> = &'a dyn Fn() -> Result<Report, BenchError>;
    let ends: [(Second<'_>, bool, usize); 3] =
        [(&|| Err(BenchError::Interrupted), true, 1), (&|| Ok(report(true)), true, 2), (&|| Err(lost()), false, 1)];
    for (second, interrupted, panels) in ends {
        let (done, json, text) = drawn(second);
        assert_eq!(matches!(done, Err(BenchError::Interrupted)), interrupted);
        assert!(done.is_err() && text.contains("PARTIAL") && text.contains(ROW), "{text}");
        assert_eq!((&json["partial"], json["panels"].as_array().map(Vec::len)), (&true.into(), Some(panels)));
    }
}

#[test]
fn the_table_has_ratios_beside_the_papers() {
    let panel = PANELS[0];
    let drawn = super::Drawn {
        figures: panel.figures,
        device: panel.device,
        workload: panel.workload,
        paper: panel.paper,
        result: report(false),
    };
    let text = summary::markdown(&Drawing { paper: 3, quick: false, partial: false, panels: vec![drawn] });
    assert!(text.contains(ROW), "{text}");
}
