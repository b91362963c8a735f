//! Tables for people, on the terminal.

use super::{Latency, Report, TargetReport};
use ondol::{EngineStats, counted};
use serde_json::Value;
use std::fmt::Write;

const HEAD: [&str; 9] = [
    "target",
    "ops/s (low .. high)",
    "ratio (low .. high)",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "device B/op",
    "flushes/fsync",
];

/// What the media and the journal had to do.
const HEAD_BELOW: [&str; 11] = [
    "target",
    "device B/user B",
    "NVM B/user B",
    "NVM fences/op",
    "fsync p50 µs",
    "fsync p99 µs",
    "fsync p99.9 µs",
    "fsync max µs",
    "foreground checkpoints",
    "stalls ms",
    "compression µs/commit (ratio)",
];

/// What the kernel and the server had to do, for each operation.
const HEAD_AROUND: [&str; 7] = [
    "target",
    "requests/op",
    "client calls/op",
    "client waits/op",
    "client preempted/op",
    "server waits/op",
    "server preempted/op",
];

/// What was asked of object storage; only where something was.
const HEAD_STORE: [&str; 9] = [
    "target",
    "store requests/op",
    "puts/op",
    "gets/op",
    "puts/fsync",
    "up B/op",
    "down B/op",
    "up B/user B",
    "repeated",
];

/// The tables, aligned, with the guarantees below them.
pub(crate) fn terminal(report: &Report) -> String {
    let mut out = format!("{}\n\n", title(report));
    aligned(&mut out, &HEAD, &report.targets.iter().map(row).collect::<Vec<_>>());
    out.push('\n');
    aligned(&mut out, &HEAD_BELOW, &report.targets.iter().map(row_below).collect::<Vec<_>>());
    out.push('\n');
    aligned(&mut out, &HEAD_AROUND, &report.targets.iter().map(row_around).collect::<Vec<_>>());
    out.push('\n');
    let stores: Vec<_> = report.targets.iter().filter_map(row_store).collect();
    if !stores.is_empty() {
        aligned(&mut out, &HEAD_STORE, &stores);
        out.push('\n');
    }
    for target in &report.targets {
        let _ = writeln!(out, "{}: {}", target.target, target.guarantee);
    }
    out
}

/// Adds a table whose columns stand below each other.
pub(crate) fn aligned<H: AsRef<str>, R: AsRef<[String]>>(out: &mut String, head: &[H], rows: &[R]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|head| head.as_ref().chars().count())).max().unwrap_or(0)
    };
    let mut line = |cells: &[String]| {
        for (column, cell) in cells.iter().enumerate() {
            let width = width(column);
            // Writing to a string cannot fail.
            let _ = if column == 0 { write!(out, "{cell:<width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    };
    line(&head.iter().map(|head| head.as_ref().to_owned()).collect::<Vec<_>>());
    for row in rows {
        line(row.as_ref());
    }
}

fn title(report: &Report) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let params: Vec<_> = report.params.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    let contents = &report.contents;
    let ratio = contents.lz4_ratio;
    let rounds = counted(report.rounds.into(), "round");
    let partial = if report.partial { ", PARTIAL: interrupted" } else { "" };
    format!("{} ({}), LZ4 {ratio:.2}, {rounds}{partial}", report.workload, params.join(" "))
}

fn row(target: &TargetReport) -> [String; 9] {
    let TargetReport { ops_per_s: rate, ratio, latency_us: latency, counters, .. } = target;
    [
        target.target.clone(),
        format!("{:.0} ({:.0} .. {:.0})", rate.median, rate.low, rate.high),
        format!("{:.2} ({:.2} .. {:.2})", ratio.median, ratio.low, ratio.high),
        format!("{:.1}", latency.p50),
        format!("{:.1}", latency.p99),
        format!("{:.1}", latency.p999),
        format!("{:.1}", latency.max),
        per(counters.device.device.map(|device| device.written_bytes), counters.ops),
        per(counters.device.device.map(|device| device.flushes), counters.fsyncs),
    ]
}

fn per(count: Option<u64>, of: u64) -> String {
    match count {
        Some(count) if of > 0 => format!("{:.2}", count as f64 / of as f64),
        _ => "-".to_owned(),
    }
}

fn row_below(target: &TargetReport) -> [String; 11] {
    let counters = &target.counters;
    let sync = |get: fn(&Latency) -> f64| target.fsync_us.as_ref().map_or("-".to_owned(), |l| format!("{:.1}", get(l)));
    let engine = |get: &dyn Fn(&EngineStats) -> String| counters.device.engine.as_ref().map_or("-".to_owned(), get);
    [
        target.target.clone(),
        per(counters.device.device.map(|device| device.written_bytes), counters.user_bytes),
        per(counters.device.nvm_reached(), counters.user_bytes),
        per(counters.device.nvm.map(|nvm| nvm.fences), counters.ops),
        sync(|l| l.p50),
        sync(|l| l.p99),
        sync(|l| l.p999),
        sync(|l| l.max),
        engine(&|e| e.foreground_checkpoints.to_string()),
        engine(&|e| format!("{:.1}", e.stall_ns as f64 / 1e6)),
        engine(&compression),
    ]
}

fn row_around(target: &TargetReport) -> [String; 7] {
    let counters = &target.counters;
    let (client, server) = (&counters.client, &counters.device.server);
    [
        target.target.clone(),
        per(counters.device.fuse_requests, counters.ops),
        per(Some(client.calls), counters.ops),
        per(Some(client.switches.voluntary), counters.ops),
        per(Some(client.switches.involuntary), counters.ops),
        per(server.map(|server| server.switches.voluntary), counters.ops),
        per(server.map(|server| server.switches.involuntary), counters.ops),
    ]
}

fn row_store(target: &TargetReport) -> Option<[String; 9]> {
    let (counters, store) = (&target.counters, target.counters.device.store?);
    Some([
        target.target.clone(),
        per(Some(store.requests()), counters.ops),
        per(Some(store.puts), counters.ops),
        per(Some(store.gets), counters.ops),
        per(Some(store.puts), counters.fsyncs),
        per(Some(store.up), counters.ops),
        per(Some(store.down), counters.ops),
        per(Some(store.up), counters.user_bytes),
        store.repeated.to_string(),
    ])
}

/// The time of a commit and what it was good for; nothing where nothing was compressed.
pub(crate) fn compression(engine: &EngineStats) -> String {
    if engine.compress_in_bytes == 0 {
        return "-".to_owned();
    }
    let each = engine.compress_ns as f64 / 1000.0 / engine.commits.max(1) as f64;
    format!("{each:.0} ({:.2})", engine.compress_in_bytes as f64 / engine.compress_out_bytes.max(1) as f64)
}
