//! The JSON's names and the tables' figures.

use super::{Report, Turns, targets, terminal};
use crate::contents::Payload;
use crate::counters::{Device, Store};
use crate::machine::{Machine, commit};
use crate::measure::{Asked, Sample};
use crate::processes::{Server, Switches};
use hdrhistogram::Histogram;
use ondol::{BlockStats, Counts, EngineStats, NvmStats};
use serde_json::{Map, Value, json};
use std::time::Duration;

fn sample(ops: u64, seconds: u64, nanos: u64) -> Sample {
    let mut latency = Histogram::new(3).expect("histogram");
    latency.record_n(nanos, ops).expect("record");
    let sync = latency.clone();
    Sample {
        asked: Asked::default(),
        ops,
        user_bytes: ops * 4096,
        fsyncs: ops,
        elapsed: Duration::from_secs(seconds),
        latency,
        sync,
    }
}

fn report() -> Report {
    let engine = EngineStats {
        commits: 4,
        compress_ns: 20_000,
        compress_in_bytes: 300,
        compress_out_bytes: 200,
        ..EngineStats::default()
    };
    let switches = Switches { voluntary: 150, involuntary: 50 };
    let server = Server { switches, reads_and_writes: 9 };
    let store = Store { puts: 150, gets: 50, up: 80_000, down: 1000, repeated: 3, ..Store::default() };
    let served = Device { server: Some(server), fuse_requests: Some(700), ..Device::default() };
    let known = Device {
        device: Some(BlockStats { written_bytes: 8000, flushes: 100, ..BlockStats::default() }),
        engine: Some(engine),
        store: Some(store),
        ..served
    };
    let turns = [
        Turns { guarantee: "a".into(), samples: vec![(sample(100, 1, 1000), known), (sample(100, 2, 3000), known)] },
        Turns {
            guarantee: "b".into(),
            samples: vec![(sample(300, 1, 500), Device::default()), (sample(100, 1, 500), Device::default())],
        },
    ];
    Report {
        workload: "create-fsync",
        params: Map::from_iter([("size".to_owned(), json!(4096))]),
        contents: Payload { ratio: 2.5, lz4_ratio: 2.51 },
        machine: Machine::here(),
        commit: commit(),
        rounds: 2,
        partial: false,
        targets: targets(&["kernel:ext4".to_owned(), "tmpfs".to_owned()], &turns),
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn json_has_the_documented_names() {
    let json = serde_json::to_value(report()).expect("json");
    let sorted = |names: &[&'static str]| {
        let mut names = names.to_vec();
        names.sort_unstable();
        names
    };
    let check = |value: &Value, names: &[&'static str]| {
        let mut found = keys(value);
        found.sort_unstable();
        assert_eq!(found, sorted(names));
    };
    check(&json, &["workload", "params", "contents", "machine", "commit", "rounds", "partial", "targets"]);
    let target = json.pointer("/targets/0").expect("a target");
    check(
        target,
        &["target", "guarantee", "floor", "ops_per_s", "rates", "ratio", "latency_us", "fsync_us", "counters"],
    );
    check(&target["ops_per_s"], &["median", "low", "high"]);
    check(&target["ratio"], &["median", "low", "high"]);
    check(&target["latency_us"], &["p50", "p99", "p999", "max"]);
    let own = ["ops", "user_bytes", "fsyncs", "arm_bytes", "fuse_requests", "client", "server", "engine", "store"];
    let media = NvmStats::TABLE.iter().chain(BlockStats::TABLE).map(|row| row.name);
    check(&target["counters"], &media.chain(own).collect::<Vec<_>>());
    check(&target["counters"]["engine"], &EngineStats::TABLE.iter().map(|row| row.name).collect::<Vec<_>>());
    let store = ["puts", "gets", "heads", "lists", "deletes", "copies", "uploads", "up", "down", "repeated", "failed"];
    check(&target["counters"]["store"], &store);
    check(&target["counters"]["client"], &["calls", "voluntary", "involuntary"]);
    check(&target["counters"]["server"], &["voluntary", "involuntary", "reads_and_writes"]);
}

#[test]
fn rounds_are_put_together() {
    let report = report();
    let [first, second] = report.targets.as_slice() else { panic!("two targets") };
    assert_eq!((first.ops_per_s.median, first.ops_per_s.low, first.ops_per_s.high), (75.0, 50.0, 100.0));
    assert_eq!((first.ratio.median, first.ratio.low, first.ratio.high), (1.0, 1.0, 1.0));
    assert_eq!((second.ratio.median, second.ratio.low, second.ratio.high), (2.5, 2.0, 3.0));
    assert_eq!((first.counters.ops, first.counters.user_bytes), (200, 200 * 4096));
    assert_eq!(first.counters.device.device.map(|device| device.written_bytes), Some(16000));
    assert_eq!(second.counters.device.device, None);
    assert!((first.latency_us.p50 - 1.0).abs() < 0.01 && (first.latency_us.p99 - 3.0).abs() < 0.01);
}

#[test]
fn tables_show_every_target() {
    let report = report();
    {
        let text = terminal(&report);
        assert!(text.contains("kernel:ext4") && text.contains("75 (50 .. 100)"), "{text}");
        assert!(text.contains("2.50 (2.00 .. 3.00)"), "{text}");
        assert!(text.contains("requests/op") && text.contains("7.00") && text.contains("1.50"), "{text}");
        assert!(text.contains("80.00") && text.contains("1.00"), "{text}");
        let quantiles = ["p50 µs", "p99 µs", "p99.9 µs", "max µs", "fsync p99.9 µs", "fsync max µs"];
        assert!(
            quantiles.iter().all(|head| text.contains(head))
                && text.contains(&format!("{:.1}", report.targets[0].latency_us.max)),
            "{text}"
        );
        // Two rounds of 200 requests and 80,000 bytes, 100 operations each.
        assert!(text.contains("puts/fsync") && text.contains("2.00") && text.contains("800.00"), "{text}");
        assert!(text.contains("5 (1.50)") && text.contains("LZ4 2.51"), "{text}");
    }
}
