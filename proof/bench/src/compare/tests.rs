//! What has changed is shown, what has not is not, and what cannot be compared is named.

use super::{Judged, compare};
use crate::results::Results;
use serde_json::{Value, json};

const STEADY: [f64; 5] = [100.0, 102.0, 98.0, 101.0, 99.0];

fn target(name: &str, rates: &[f64], flushes: u64) -> Value {
    json!({
        "target": name, "guarantee": "", "floor": false, "ops_per_s": {"median": 0.0, "min": 0.0, "max": 0.0}, "rates": rates,
        "ratio": {"median": 1.0, "low": 1.0, "high": 1.0}, "latency_us": {"p50": 1.0, "p99": 1.0, "p999": 1.0, "max": 1.0}, "fsync_us": null,
        "counters": {"ops": 10, "user_bytes": 100, "fsyncs": 100, "client": {"calls": 20, "voluntary": 10 * flushes, "involuntary": 0}, "device_flushes": flushes},
    })
}

fn run(workload: &str, targets: &[Value]) -> Value {
    json!({
        "workload": workload, "params": {"threads": 2}, "contents": {"class": "text", "lz4_ratio": 2.5},
        "machine": {"cpu": "a", "cores": 2, "kernel": "6.18", "memory_bytes": 1}, "commit": "abc", "rounds": 5, "partial": false, "targets": targets,
    })
}

fn times(factor: f64) -> Vec<f64> {
    STEADY.iter().rev().map(|rate| rate * factor).collect()
}

fn found(old: &Value, new: &Value) -> super::Findings {
    compare(&Results::of(old), &Results::of(new))
}

#[test]
fn only_what_changed_is_shown() {
    let old = run(
        "varmail",
        &[
            target("kernel:ext4", &STEADY, 200),
            target("lib:a.img", &times(3.0), 100),
            target("lib:b.img", &STEADY, 100),
        ],
    );
    // All is half as fast as it was, and the second target a third slower than that.
    let new = run(
        "varmail",
        &[
            target("kernel:ext4", &times(0.5), 203),
            target("lib:a.img", &times(1.0), 100),
            target("lib:b.img", &times(0.5), 150),
        ],
    );
    let findings = found(&old, &new);
    let shown: Vec<[&str; 2]> =
        findings.changes.iter().map(|[name, what, ..]| [name.as_str(), what.as_str()]).collect();
    let expected = [
        ["varmail: kernel:ext4", "ops/s"],
        ["varmail: lib:a.img", "ratio to the first"],
        ["varmail: lib:b.img", "device flushes / fsync"],
    ];
    assert_eq!(shown, expected);
    assert_eq!(findings.rates, Judged { changed: 2, compared: 3, left: 0 });
    assert_eq!((findings.counters.changed, findings.remarks.len()), (1, 0));
    assert_eq!(findings.changes[2][2..], ["1", "1.50", "+50.0 %"]);
    let text = findings.text();
    for part in ["-50.0 % (", "-33.", "Rates: 2 of 3 changed", "differs by more than 5 % of the larger", "Welch"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let same = found(&old, &old);
    assert!(same.changes.is_empty() && same.text().contains("No significant change."));
}

#[test]
fn one_round_decides_nothing() {
    let files = [100.0, 500.0].map(|rate| run("varmail", &[target("tmpfs", &[rate], 0)]));
    let findings = found(&files[0], &files[1]);
    assert_eq!((findings.rates, findings.changes.len()), (Judged { changed: 0, compared: 0, left: 1 }, 0));
    assert!(findings.text().contains("Not judged: 1 rate with fewer than two rounds"));
}

#[test]
fn another_first_target_leaves_rates() {
    let old = run("varmail", &[target("tmpfs", &STEADY, 0), target("lib:a.img", &STEADY, 0)]);
    let new = run("varmail", &[target("kernel:ext4", &times(9.0), 0), target("lib:a.img", &times(2.0), 0)]);
    let findings = found(&old, &new);
    let shown: Vec<&String> = findings.changes.iter().flatten().take(2).collect();
    assert_eq!(shown, ["varmail: lib:a.img", "ops/s"]);
    assert_eq!(findings.remarks, ["varmail: tmpfs: only in OLD", "varmail: kernel:ext4: only in NEW"]);
}

#[test]
fn what_was_measured_otherwise_is_not_compared() {
    let panels = |panels: &[&Value]| json!({"panels": panels});
    let (one, other) =
        (run("varmail", &[target("tmpfs", &STEADY, 0)]), run("fileserver", &[target("tmpfs", &STEADY, 0)]));
    let mut threads = run("varmail", &[target("tmpfs", &times(5.0), 0)]);
    threads["params"] = json!({"threads": 4, "ops": 1});
    threads["contents"]["class"] = "zero".into();
    threads["machine"]["cores"] = 8.into();
    let findings = found(&panels(&[&one, &other]), &panels(&[&threads]));
    assert!(findings.changes.is_empty() && findings.rates == Judged::default());
    let why = "varmail: not compared: threads is 2 in OLD and 4 in NEW, ops is nothing in OLD and 1 in NEW, contents are text in OLD and zero in NEW";
    assert_eq!(findings.remarks[1..], [why, "fileserver: only in OLD"]);
    assert!(findings.remarks[0].starts_with("The machines differ"));
}

#[test]
fn values_of_tables_need_ranges_that_do_not_touch() {
    let table = |values: [Value; 4]| json!({"number": 1, "title": "t", "unit": "ms", "columns": ["a", "b", "c", "d"], "rows": [{"name": "row", "values": values}]});
    let value = |low: f64, median: f64, high: f64| json!({"low": low, "median": median, "high": high});
    let old = table([value(1.0, 2.0, 3.0), value(1.0, 2.0, 3.0), value(7.0, 7.0, 7.0), Value::Null]);
    let new = table([value(3.0, 4.0, 5.0), value(3.1, 4.0, 5.0), value(9.0, 9.0, 9.0), value(1.0, 2.0, 3.0)]);
    let findings = found(&old, &new);
    assert_eq!(
        findings.changes,
        [["Figure 1: t: row", "b", "2 (1 .. 3)", "4 (3.10 .. 5)", "+100.0 %"].map(str::to_owned)]
    );
    assert_eq!(findings.values, Judged { changed: 1, compared: 2, left: 1 });
    assert!(
        findings.text().contains("once in 126 with five rounds each")
            && findings.text().contains("Not judged: 1 value")
    );
}
