//! Tables for people: on the terminal, and as Markdown.

use super::{Report, TargetReport};
use crate::units::GIB;
use serde_json::Value;
use std::fmt::Write;

const HEAD: [&str; 8] = [
    "target",
    "ops/s (min .. max)",
    "ratio (low .. high)",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "device B/op",
    "flushes/fsync",
];

/// The table, aligned, with the guarantees below it.
pub(crate) fn terminal(report: &Report) -> String {
    let rows: Vec<_> = report.targets.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(HEAD.get(column).map(|head| head.chars().count())).max().unwrap_or(0)
    };
    let mut out = format!("{}\n\n", title(report));
    let mut line = |cells: &[String]| {
        for (column, cell) in cells.iter().enumerate() {
            let width = width(column);
            // Writing to a string cannot fail.
            let _ = if column == 0 { write!(out, "{cell:<width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    };
    line(&HEAD.map(str::to_owned));
    for row in &rows {
        line(row);
    }
    out.push('\n');
    for target in &report.targets {
        let _ = writeln!(out, "{}: {}", target.target, target.guarantee);
    }
    out
}

/// The same as Markdown, with the machine.
pub(crate) fn markdown(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!("# {}\n\n", report.workload);
    let _ = writeln!(
        out,
        "{}. {}, {} cores, {:.1} GiB, Linux {}, commit {}.\n",
        title(report),
        machine.cpu,
        machine.cores,
        machine.memory_bytes as f64 / GIB as f64,
        machine.kernel,
        report.commit
    );
    let _ = writeln!(out, "| {} | guarantee |", HEAD.join(" | "));
    let _ = writeln!(out, "|---|{}---|", "--:|".repeat(HEAD.len() - 1));
    for target in &report.targets {
        let cells = row(target).map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(out, "| {} | {} |", cells.join(" | "), target.guarantee.replace('|', "\\|"));
    }
    out.push_str(
        "\nMedians over rounds in which the targets take turns; the ratio is to the first target in the same round.\n",
    );
    out
}

fn title(report: &Report) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let params: Vec<_> = report.params.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    format!("{} ({}), {} rounds", report.workload, params.join(" "), report.rounds)
}

fn row(target: &TargetReport) -> [String; 8] {
    let TargetReport { ops_per_s: rate, ratio, latency_us: latency, counters, .. } = target;
    let per = |count: Option<u64>, of: u64| match count {
        Some(count) if of > 0 => format!("{:.2}", count as f64 / of as f64),
        _ => "-".to_owned(),
    };
    [
        target.target.clone(),
        format!("{:.0} ({:.0} .. {:.0})", rate.median, rate.min, rate.max),
        format!("{:.2} ({:.2} .. {:.2})", ratio.median, ratio.low, ratio.high),
        format!("{:.1}", latency.p50),
        format!("{:.1}", latency.p99),
        format!("{:.1}", latency.p999),
        per(counters.device.device_bytes, counters.ops),
        per(counters.device.device_flushes, counters.fsyncs),
    ]
}
