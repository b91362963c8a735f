//! The list can be run; what was measured is put beside what it is compared with, and a run that was cut goes on.

use super::list::{LIST, targets};
use super::{Row, alone, chosen, measure, run_args};
use crate::BenchError;
use crate::args::{SuiteArgs, SuiteMedium};
use crate::contents::{Class, Payload};
use crate::counters::Device;
use crate::machine::{Machine, commit};
use crate::measure::{Asked, Sample};
use crate::processes::{Server, Switches};
use crate::report::{self, Report, Turns};
use crate::target::Target;
use crate::workload::{self, Params};
use hdrhistogram::Histogram;
use serde_json::{Map, Value};
use std::path::Path;
use std::time::{Duration, Instant};

fn args(json: &Path) -> SuiteArgs {
    SuiteArgs {
        name: "mount".into(),
        quick: true,
        only: Vec::new(),
        rounds: Some(2),
        ops: None,
        on: SuiteMedium::Ram,
        class: Class::Random,
        dir: "/dev/shm".into(),
        resume: true,
        json: Some(json.to_owned()),
        report: Some(json.parent().expect("directory").to_owned()),
    }
}

#[test]
fn every_row_is_a_valid_run() {
    for on in [SuiteMedium::Ram, SuiteMedium::Ssd, SuiteMedium::Disk] {
        for rings in [false, true] {
            let all = targets(on, rings);
            let volumes = if rings { 4 } else { 2 };
            assert_eq!(all.len(), 1 + if on == SuiteMedium::Ram { 2 * volumes } else { volumes });
            assert_eq!(all.iter().any(|target| target.contains("uring")), rings);
            for target in &all {
                target.parse::<Target>().expect(target);
            }
        }
    }
    for row in &LIST {
        for quick in [false, true] {
            let args = SuiteArgs { quick, rounds: None, ..args(Path::new("/tmp/x")) };
            let run = run_args(row, &targets(SuiteMedium::Ram, true), &args);
            let definition = workload::find(&run.workload).expect("workload");
            let params = Params::new(definition, run.setting.as_deref(), &run.params).expect("params");
            (definition.build)(&params).expect("build");
            assert_eq!(run.rounds, if quick { 1 } else { 5 });
        }
    }
    let args = SuiteArgs { only: vec!["varmail".into(), "fs-mark 3".into()], ..args(Path::new("/tmp/x")) };
    let refusal = chosen(&args).expect_err("unknown").to_string();
    assert!(refusal.starts_with("--only fs-mark 3: unknown; there are fs-mark 1, fs-mark 4"), "{refusal}");
}

/// What a run of a row says: rates of the kernel, ours and the pass-through server in two rounds.
fn report(row: &Row, partial: bool) -> Report {
    let histogram = || Histogram::new(3).expect("histogram");
    let turns = |rates: [u64; 2]| {
        let sample = |ops| {
            let (begin, elapsed) = (Instant::now(), Duration::from_secs(1));
            let asked = Asked { calls: 1, switches: Switches { voluntary: ops, involuntary: ops } };
            Sample { asked, ops, user_bytes: 0, fsyncs: 0, begin, elapsed, latency: histogram(), sync: histogram() }
        };
        let server = |ops| Server { switches: Switches { voluntary: 3 * ops, involuntary: 0 }, reads_and_writes: 0 };
        let device = |ops| Device { fuse_requests: Some(5 * ops), server: Some(server(ops)), ..Device::default() };
        Turns { guarantee: String::new(), samples: rates.map(|ops| (sample(ops), device(ops))).into() }
    };
    let names =
        ["kernel:ext4", "fuse:classic.img,data=ordered,journal=classic,transport=dev", "passthrough,transport=dev"];
    Report {
        workload: workload::find(row.run).expect("workload").name,
        params: Map::new(),
        contents: Payload { class: "random".into(), lz4_ratio: 1.0 },
        machine: Machine::here(),
        commit: commit(),
        rounds: 2,
        partial,
        targets: report::targets(
            &names.map(str::to_owned),
            &[turns([1000, 100]), turns([1500, 150]), turns([500, 100])],
        ),
    }
}

#[test]
fn a_cut_run_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("out.json");
    let args = args(&file);
    let rows: Vec<_> = LIST.iter().take(3).collect();
    let read = || serde_json::from_slice::<Value>(&std::fs::read(&file).expect("file")).expect("JSON");
    let names =
        |json: &Value| json["rows"].as_array().expect("rows").iter().map(|row| row["row"].clone()).collect::<Vec<_>>();

    // The second is cut short by a signal.
    let mut seen = Vec::new();
    let cut = measure(&args, &rows, &mut alone(&args), |row| {
        seen.push(row.name);
        Ok(report(row, seen.len() == 2))
    });
    assert!(matches!(cut, Err(BenchError::Interrupted)), "{cut:?}");
    assert_eq!((seen, read()["partial"].clone()), (vec!["fs-mark 1", "fs-mark 4"], true.into()));

    let mut seen = Vec::new();
    measure(&args, &rows, &mut alone(&args), |row| {
        seen.push(row.name);
        Ok(report(row, false))
    })
    .expect("the rest");
    assert_eq!(seen, ["fs-mark 4", "fs-mark 16"], "what is whole is not measured again");
    let json = read();
    assert_eq!(
        (&json["partial"], names(&json)),
        (&false.into(), vec!["fs-mark 1".into(), "fs-mark 4".into(), "fs-mark 16".into()])
    );

    // Ratios are of one round: 1.5 and 1.5 to the kernel, 3 and 1.5 to the pass-through server.
    let markdown = std::fs::read_to_string(dir.path().join("mount.md")).expect("Markdown");
    assert!(markdown.contains("| fs-mark 16 | 550 | 1.5 | 1.50 | 0.75 |"), "{markdown}");
    assert!(markdown.contains("| fs-mark 16 | 2.25 |"), "{markdown}");
    assert!(markdown.contains("5.00 / 2.00 / 3.00") && !markdown.contains("uring"), "{markdown}");

    // Another way to measure is another file.
    let other = SuiteArgs { rounds: Some(3), ..args.clone() };
    let refusal =
        measure(&other, &rows, &mut alone(&other), |row| Ok(report(row, false))).expect_err("another number of rounds");
    assert!(refusal.is_usage() && refusal.to_string().contains("--resume: "), "{refusal}");
    // A failure leaves what was there.
    let anew = SuiteArgs { resume: false, ..args };
    measure(&anew, &rows, &mut alone(&anew), |row| match row.name {
        "fs-mark 1" => Ok(report(row, false)),
        _ => Err(BenchError::Unfit("full".into())),
    })
    .expect_err("a failure");
    assert_eq!((read()["partial"].clone(), names(&read())), (true.into(), vec!["fs-mark 1".into()]));
}
