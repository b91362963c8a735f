//! The list can be run, and its table says what the paper says.

use super::figures::{COMPRESSED, KERNEL, OURS, PANELS, targets};
use super::{Drawn, run_args, summary};
use crate::args::PaperArgs;
use crate::contents::{Class, Payload};
use crate::counters::{Device, Engine};
use crate::machine::{Machine, commit};
use crate::measure::Sample;
use crate::report::{self, Report, Turns};
use crate::target::Target;
use crate::workload::{self, Params};
use hdrhistogram::Histogram;
use serde_json::Map;
use std::time::Duration;

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
            let params = Params::new(definition.name, definition.params, &run.params).expect("params");
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
    let sample = Sample { ops, user_bytes: 0, fsyncs: 0, elapsed, latency: latency.clone(), sync: latency };
    Turns { guarantee: String::new(), samples: vec![(sample, Device { engine, ..Device::default() })] }
}

#[test]
fn the_table_has_ratios_beside_the_papers() {
    let panel = PANELS[0];
    let names = [OURS, COMPRESSED, KERNEL].map(|target| target.replace("DISK", panel.device));
    let engine = Engine {
        commits: 10,
        compress_ns: 500_000,
        compress_bytes_in: 30,
        compress_bytes_out: 10,
        ..Engine::default()
    };
    let drawn = Drawn {
        figures: panel.figures,
        device: panel.device,
        workload: panel.workload,
        paper: panel.paper,
        result: Report {
            workload: "varmail",
            params: Map::new(),
            contents: Payload { class: "text".into(), lz4_ratio: 2.5 },
            machine: Machine::here(),
            commit: commit(),
            rounds: 1,
            targets: report::targets(&names, &[turns(100, None), turns(250, Some(engine)), turns(50, None)]),
        },
    };
    let text = summary::markdown(&[drawn]);
    assert!(text.contains("| 1, 4: varmail, ssd | - | 2.50 | 5.00 | - | 8.3 | 50 (3.00) | 107 |"), "{text}");
}
