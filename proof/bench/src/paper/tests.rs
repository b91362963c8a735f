//! The lists can be run, their tables say what the papers say, and what was measured is kept.

use super::frame::{Ablation, Chosen, Contender, Drawing, Drawn, List, Panel, chosen, run_args};
use super::summary::{self, Shows};
use super::{five, one, three};
use crate::BenchError;
use crate::args::{PaperArgs, RunArgs};
use crate::contents::Payload;
use crate::counters::Device;
use crate::machine::{Machine, commit};
use crate::measure::{Asked, Sample};
use crate::report::{self, Report, Turns, cells};
use crate::run;
use crate::series::Book;
use crate::target::Target;
use crate::workload::{self, Params};
use hdrhistogram::Histogram;
use ondol::{EngineStats, NvmStats, Options};
use serde_json::Map;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

static LISTS: [List; 3] = [one::LIST, three::LIST, five::LIST];

fn args(quick: bool) -> PaperArgs {
    let dir = "/dev/shm".into();
    PaperArgs {
        number: 3,
        quick,
        ablate: false,
        figure: None,
        rounds: None,
        nvm_model: None,
        ratio: 2.5,
        dir,
        json: None,
    }
}

/// With all ablations.
fn panel_args(panel: &Panel, quick: bool) -> RunArgs {
    run_args(&LISTS[0], panel, true, &PaperArgs { ablate: true, ..args(quick) }, Path::new("/dev/shm"))
}

#[test]
fn every_panel_is_a_valid_run() {
    for panel in LISTS.iter().flat_map(|list| list.panels) {
        for quick in [false, true] {
            let run = panel_args(panel, quick);
            let definition = workload::find(&run.workload).expect("workload");
            let params = Params::new(definition, &run.params).expect("params");
            (definition.build)(&params).expect("build");
            assert_eq!(run.on.len(), panel.contenders.len() + panel.ablations.len());
            for target in &run.on {
                target.parse::<Target>().expect("target");
                assert!(!target.contains(['{', '}']), "{target}");
            }
            let files = params.number("files");
            let threads = run.threads.unwrap_or(definition.threads);
            assert!(files == 0 || definition.name == "postmark" || files >= 10 * u64::from(threads), "{panel:?}");
            assert!(run.ops > Some(0) && run.rounds == if quick { 1 } else { 5 });
        }
    }
}

#[test]
fn our_options_are_the_librarys() {
    for panel in LISTS.iter().flat_map(|list| list.panels) {
        let all = panel.taking_part(true);
        let ours = all.iter().filter(|contender| !contender.target.starts_with("kernel:"));
        for Contender { name, .. } in ours {
            let target = panel.target_of(name).expect("a target");
            let (_, options) = target.split_once(',').expect("options");
            let benchs = ["on=", "pool=", "journal=fg"];
            let passed_on: Vec<_> =
                options.split(',').filter(|option| !benchs.iter().any(|word| option.starts_with(word))).collect();
            Options::parse(&passed_on.join(",")).expect(&target);
        }
    }
}

#[test]
fn ours_come_first_and_columns_name_who_takes_part() {
    for list in &LISTS {
        for panel in list.panels {
            let all = panel.taking_part(true);
            let fronts: Vec<_> = all.iter().map(|one| one.target.split(':').next().unwrap_or_default()).collect();
            let order = |front: &str| ["lib", "fuse", "kernel"].iter().position(|one| *one == front);
            assert!(fronts.is_sorted_by_key(|front| order(front)), "{fronts:?}");
            let names: BTreeSet<_> = all.iter().map(|one| one.name).collect();
            assert_eq!(names.len(), all.len());
            for Ablation { without, full } in panel.ablations {
                assert!(without.target.starts_with("lib:") && panel.contenders.iter().any(|one| one.name == *full));
                assert_eq!(panel.taking_part(false), panel.contenders);
            }
        }
        for column in list.columns {
            let named = match column.shows {
                Shows::Ratio(of, to) => vec![of, to],
                Shows::Result(of, _) => vec![of],
                Shows::Said(_) => vec![],
            };
            let full = list.panels.first().expect("a panel").contenders;
            assert!(named.iter().all(|name| full.iter().any(|one| one.name == *name)), "{}", column.head);
        }
    }
}

#[test]
fn figures_are_the_papers() {
    let figures = |list: &List| -> Vec<(u32, usize)> {
        let all: BTreeSet<u32> = list.panels.iter().flat_map(|panel| panel.figures).copied().collect();
        all.into_iter().map(|n| (n, list.panels.iter().filter(|panel| panel.figures.contains(&n)).count())).collect()
    };
    assert_eq!(figures(&one::LIST), [(3, 6), (4, 6)]);
    assert_eq!(figures(&three::LIST), [(1, 4), (4, 2), (5, 2), (6, 2), (7, 2)]);
    assert_eq!(figures(&five::LIST), [(4, 4), (5, 4)]);
    assert_eq!(chosen(&LISTS[2], Some(5)).expect("a figure").len(), 4);
    assert_eq!(chosen(&LISTS[2], None).expect("all").len(), 8);
    for (list, text) in LISTS.iter().zip(["figures 3 and 4", "figures 1, 4, 5, 6 and 7", "figures 4 and 5"]) {
        let refusal = chosen(list, Some(99)).expect_err("no such figure");
        assert!(refusal.is_usage() && refusal.to_string().ends_with(text), "{refusal}");
    }
}

/// What panels ask for, but little of it, on what needs no mount: all engines open what they are given, and nothing is
/// left.
#[test]
fn every_library_target_of_the_papers_is_made_and_taken_away() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let mut seen = BTreeSet::new();
    for panel in LISTS.iter().flat_map(|list| list.panels).filter(|panel| panel.run == "varmail") {
        let mut small = run_args(&LISTS[0], panel, false, &PaperArgs { ablate: true, ..args(true) }, dir.path());
        if !seen.insert(small.on.clone()) {
            continue;
        }
        (small.ops, small.threads) = (Some(100), Some(2));
        small.params.extend(["files=40".into(), "size=4k".into()]);
        let report = run::report(&small).expect("a run");
        let here: Vec<_> = panel.taking_part(true).into_iter().filter(|one| one.target.starts_with("lib:")).collect();
        assert_eq!(report.targets.len(), 3 + panel.ablations.len());
        for (target, contender) in report.targets.iter().zip(&here) {
            assert_eq!(Some(&target.target), panel.target_of(contender.name).as_ref());
            assert!(target.counters.ops >= 100, "{}", target.target);
            if contender.target.contains("nvm:") || contender.target.contains("pool=") {
                assert!(target.counters.device.nvm_reached() > Some(0), "{}", target.target);
            }
        }
        let left = std::fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(left, 0, "{}", panel.heading());
    }
    assert_eq!(seen.len(), 8);
}

#[test]
fn who_may_not_mount_is_told_who_takes_no_part() {
    let panel = five::LIST.panels.first().expect("a panel");
    let run = run_args(&LISTS[0], panel, false, &args(true), Path::new("/dev/shm"));
    assert!(run.on.len() == 3 && run.on.iter().all(|target| target.starts_with("lib:")), "{:?}", run.on);
    let (_, json, text) = drawn(&LISTS[2], false, || Ok(report(&LISTS[2], false)));
    let missing = ["mount classic", "mount scalable", "kernel"].map(|name| format!("{name}: needs root, which mounts"));
    assert_eq!(json["missing"], serde_json::json!(missing));
    assert!(text.contains("Not here: kernel: needs root"), "{text}");
}

/// With a model, what has NVM has it in the run and in the table alike, and the kernel's memory is nobody's peer.
#[test]
fn a_model_of_nvm_is_given_to_all_that_have_one() {
    let list = &LISTS[0];
    let slow = PaperArgs { nvm_model: Some("pcm"), ..args(true) };
    let panel = list.panels.first().expect("a panel");
    let run = run_args(&LISTS[0], panel, true, &slow, Path::new("/dev/shm"));
    assert!(run.nvm_model == Some("pcm") && run.on.len() == 5 && run.on.iter().all(|target| target.contains(":nvm:")));
    let run = run_args(&LISTS[0], five::LIST.panels.first().expect("a panel"), true, &slow, Path::new("/dev/shm"));
    assert!(run.on.iter().any(|target| target.starts_with("kernel:")), "its disk is not modelled");
    let mut report = report(list, false);
    report.targets.pop();
    for target in &mut report.targets {
        target.target = crate::nvm::modelled(&target.target, Some("pcm"));
    }
    let mut out = Vec::new();
    let mut book = Book::new("paper 1".into(), None, &mut out);
    let mut shown = String::new();
    let chosen = Chosen { list, panels: vec![panel], root: true };
    chosen
        .draw(&slow, &mut book, |_| {
            let drawn = Drawn { panel, scale: "", result: report.clone() };
            let missing = vec!["kernel: slow".to_owned()];
            let (machine, commit) = (Machine::here(), commit());
            let drawing = Drawing {
                list,
                name: list.name,
                title: list.title,
                quick: true,
                partial: false,
                machine,
                commit,
                ablate: false,
                nvm_model: Some("pcm"),
                missing,
                readings: &[],
                panels: vec![drawn],
            };
            shown = cells(&summary::terminal(&drawing));
            Ok(report.clone())
        })
        .expect("drawn");
    assert!(shown.contains("modelled as `pcm`") && shown.contains("| 2.00 | 1.25 | 3.00 | -"), "{shown}");
    for (number, why) in [(2, "`ondol run`"), (3, "no NVM"), (4, "lent page")] {
        let refusal = super::run(&PaperArgs { number, ..slow.clone() }).expect_err("no model");
        assert!(refusal.is_usage() && refusal.to_string().contains(why), "{refusal}");
    }
}

/// What is off by itself stands beside the full system, and what cannot be is named.
#[test]
fn ablations_are_in_multiples_of_the_full_system() {
    let rows = [
        "3: fileserver, ordered, memory | 0.50",
        "1, 4: varmail, ssd | 0.50 | 0.50",
        "4: varmail, 1 thread, memory | 0.50 | 0.50",
    ];
    for (list, row) in LISTS.iter().zip(rows) {
        let panel = list.panels.first().expect("a panel");
        let mut report = report(list, false);
        for Ablation { without, full } in panel.ablations {
            let full = panel.target_of(full).expect("a target");
            let mut half = report.targets.iter().find(|target| target.target == full).expect("full").clone();
            half.rates.iter_mut().for_each(|rate| *rate /= 2.0);
            half.target = panel.target_of(without.name).expect("a target");
            report.targets.push(half);
        }
        let (machine, commit) = (Machine::here(), commit());
        let panels = vec![Drawn { panel, scale: "", result: report }];
        let mut drawing = Drawing {
            list,
            name: list.name,
            title: list.title,
            quick: true,
            partial: false,
            machine,
            commit,
            ablate: true,
            nvm_model: None,
            missing: Vec::new(),
            readings: &[],
            panels,
        };
        let text = cells(&summary::terminal(&drawing));
        assert!(text.contains(row) && text.contains("Ablations: "), "{text}");
        assert!(!list.fixed.is_empty() && list.fixed.iter().all(|fixed| text.contains(fixed)), "{text}");
        drawing.ablate = false;
        assert!(!cells(&summary::terminal(&drawing)).contains("Ablations: "));
    }
    for (number, why) in [(2, "no option"), (4, "beside what is without it")] {
        let refusal = super::run(&PaperArgs { number, ablate: true, ..args(true) }).expect_err("no ablations");
        assert!(refusal.is_usage() && refusal.to_string().contains(why), "{refusal}");
    }
}

fn turns(ops: u64, engine: Option<EngineStats>) -> Turns {
    let latency = Histogram::new(3).expect("histogram");
    let elapsed = Duration::from_secs(1);
    let sample = Sample {
        asked: Asked::default(),
        ops,
        user_bytes: ops << 20,
        fsyncs: 0,
        elapsed,
        latency: latency.clone(),
        sync: latency,
    };
    let nvm = Some(NvmStats { copied_bytes: ops << 21, ..NvmStats::default() });
    Turns { guarantee: String::new(), samples: vec![(sample, Device { engine, nvm, ..Device::default() })] }
}

/// What came out of the first panel of a list, in which the n-th contender did 50 n operations a second.
fn report(list: &List, partial: bool) -> Report {
    let panel = list.panels.first().expect("a panel");
    let names: Vec<_> = panel.contenders.iter().filter_map(|contender| panel.target_of(contender.name)).collect();
    let engine = EngineStats {
        commits: 10,
        compress_ns: 500_000,
        compress_in_bytes: 30,
        compress_out_bytes: 10,
        ..EngineStats::default()
    };
    let turns: Vec<_> = (1..=names.len() as u64).map(|n| turns(50 * n, Some(engine))).collect();
    Report {
        workload: "varmail",
        params: Map::new(),
        contents: Payload { ratio: 2.5, lz4_ratio: 2.51 },
        machine: Machine::here(),
        commit: commit(),
        rounds: 1,
        partial,
        targets: report::targets(&names, &turns),
    }
}

/// The first row of each list's table with such a report.
const ROWS: [&str; 3] = [
    "3: fileserver, ordered, memory | 2.00 | 1.25 | 3.00 | 0.33 | 0.83 | 2.00 | 2.00 | 1.02 to 1.54",
    "1, 4: varmail, ssd | 2.00 | 3.00 | 0.50 | 1.17 | 8.3 | 50 (3.00) | 107",
    "4: varmail, 1 thread, memory | 1.50 | 3.00 | 1.25 | 0.50 | 0.83 | 150 | 300 | - | not stated | -",
];

/// Draws two panels, of which the second ends as it is said, into files: the outcome, and both files.
fn drawn(
    list: &'static List,
    root: bool,
    second: impl Fn() -> Result<Report, BenchError>,
) -> (Result<(), BenchError>, serde_json::Value, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, mut out) = (dir.path().join("paper.json"), Vec::new());
    let mut book = Book::new(list.name.into(), Some(&file), &mut out);
    let mut first = true;
    let chosen = Chosen { list, panels: list.panels.iter().take(2).collect(), root };
    let done = chosen
        .draw(&args(true), &mut book, |_| if std::mem::take(&mut first) { Ok(report(list, false)) } else { second() });
    let json = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    (done, json, cells(&String::from_utf8(out).expect("text")))
}

#[test]
fn what_was_measured_is_kept_and_marked() {
    for (list, row) in LISTS.iter().zip(ROWS) {
        let (done, json, text) = drawn(list, true, || Ok(report(list, false)));
        assert!(done.is_ok() && !text.contains("PARTIAL") && text.contains(row), "{text}");
        assert_eq!((&json["partial"], json["panels"].as_array().map(Vec::len)), (&false.into(), Some(2)));
        // A signal before the first round of a panel, and after it; and a panel that fails.
        let lost = || BenchError::Unfit("no such disk".into());
        type Second<'a> = &'a dyn Fn() -> Result<Report, BenchError>;
        let ends: [(Second<'_>, bool, usize); 3] = [
            (&|| Err(BenchError::Interrupted), true, 1),
            (&|| Ok(report(list, true)), true, 2),
            (&|| Err(lost()), false, 1),
        ];
        for (second, interrupted, panels) in ends {
            let (done, json, text) = drawn(list, true, second);
            assert_eq!(matches!(done, Err(BenchError::Interrupted)), interrupted);
            assert!(done.is_err() && text.contains("PARTIAL") && text.contains(row), "{text}");
            assert_eq!((&json["partial"], json["panels"].as_array().map(Vec::len)), (&true.into(), Some(panels)));
        }
    }
}

#[test]
fn what_the_paper_says_and_why_it_differs_stand_beside() {
    for list in &LISTS {
        let (_, json, text) = drawn(list, true, || Ok(report(list, false)));
        let (panel, first) = (list.panels.first().expect("a panel"), &json["panels"][0]);
        assert_eq!(first["paper"]["ratio"], panel.paper.ratio);
        assert_eq!(first["scale"], panel.quick.scale);
        for said in [panel.why, panel.quick.scale].iter().chain(list.readings) {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert_eq!(first["figures"], serde_json::json!(panel.figures));
        assert!(first["result"]["targets"].is_array() && first.get("contenders").is_none(), "{first}");
    }
}

#[test]
fn several_rounds_show_what_a_ratio_lies_between() {
    let list = &LISTS[1];
    let mut report = report(list, false);
    report.targets[0].rates = vec![50.0, 100.0, 50.0];
    report.targets[1].rates = vec![100.0, 100.0, 150.0];
    let panel = list.panels.first().expect("a panel");
    let drawing = Drawing {
        list,
        name: list.name,
        title: list.title,
        quick: false,
        partial: false,
        machine: Machine::here(),
        commit: commit(),
        ablate: false,
        nvm_model: None,
        missing: Vec::new(),
        readings: &[],
        panels: vec![Drawn { panel, scale: "", result: report }],
    };
    {
        let text = cells(&summary::terminal(&drawing));
        assert!(text.contains("2.00 (1.00 .. 3.00)") && !text.contains("QUICK"), "{text}");
    }
}
