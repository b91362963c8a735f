//! What was measured, as three tables.

use super::list::{OURS, TRANSPORTS, VOLUMES};
use super::{Measured, Table};
use crate::report::{aligned, pipes};
use crate::stats::{ratio, spread};
use ondol::counted;
use serde_json::Value;

type Cells = Vec<Vec<String>>;

/// For the terminal.
pub(super) fn terminal(table: &Table) -> String {
    let mut out = partial(table);
    for (title, head, rows) in tables(table) {
        out.push_str(&format!("{title}\n\n"));
        aligned(&mut out, &head, &rows);
        out.push('\n');
    }
    out
}

/// As Markdown.
pub(super) fn markdown(table: &Table) -> String {
    let mut out = format!("# Suite {}\n\n", table.suite) + &partial(table);
    let machine = &table.machine;
    out.push_str(&format!(
        "{}, {} cores, Linux {}, commit {}.\n",
        machine.cpu, machine.cores, machine.kernel, table.commit
    ));
    for (title, head, rows) in tables(table) {
        out.push_str(&format!("\n{title}:\n\n"));
        pipes(&mut out, &head, &rows);
    }
    out
}

/// Says that something is missing, if so.
fn partial(table: &Table) -> String {
    if !table.partial {
        return String::new();
    }
    format!("PARTIAL: the run has ended early, after {}.\n\n", counted(table.rows.len() as u64, "workload"))
}

/// Each with its title and head.
fn tables(table: &Table) -> Vec<(&'static str, Vec<String>, Cells)> {
    let columns = columns(table);
    let head = |first: &[&str], columns: &[(String, &str, &str)]| {
        let names = columns.iter().map(|(name, ..)| name.clone());
        first.iter().map(|&word| word.to_owned()).chain(names).collect::<Vec<_>>()
    };
    let to_kernel = table.rows.iter().map(|row| {
        let kernel = target(row, |name| name.starts_with("kernel:"));
        let rate = kernel.map_or("-".to_owned(), |kernel| format!("{:.0}", spread(&rates(kernel)).median));
        let others = columns.iter().map(|(_, base, transport)| of(row, kernel, base, transport));
        [row.row.clone(), rate, format!("{:.1}", row.aim)].into_iter().chain(others).collect()
    });
    let mut tables = vec![(
        "Ratio to kernel ext4 ordered, median over rounds (aim: classic ordered)",
        head(&["workload", "kernel ops/s", "aim"], &columns),
        to_kernel.collect(),
    )];
    let volumes: Vec<_> =
        columns.iter().filter(|(_, base, _)| OURS.iter().take(VOLUMES).any(|ours| ours.1 == *base)).cloned().collect();
    if columns.iter().any(|(_, base, _)| *base == "passthrough") {
        let to_floor = table.rows.iter().map(|row| {
            let cells = volumes.iter().map(|(_, base, transport)| {
                let floor = target(row, |name| is(name, "passthrough", transport));
                of(row, floor, base, transport)
            });
            std::iter::once(row.row.clone()).chain(cells).collect()
        });
        let title = "Ratio to the pass-through server on the same transport (aim: 1.2)";
        tables.push((title, head(&["workload"], &volumes), to_floor.collect()));
    }
    let costs = table.rows.iter().map(|row| {
        let cells = columns
            .iter()
            .map(|(_, base, transport)| target(row, |name| is(name, base, transport)).map_or("-".to_owned(), cost));
        std::iter::once(row.row.clone()).chain(cells).collect()
    });
    let title = "For each operation: requests / the clients' context switches / the server's";
    tables.push((title, head(&["workload"], &columns), costs.collect()));
    tables
}

/// Targets that some row has, with their names in the tables.
fn columns(table: &Table) -> Vec<(String, &'static str, &'static str)> {
    let all = OURS.iter().flat_map(|&(name, base)| {
        TRANSPORTS.iter().map(move |&transport| (format!("{name}, {transport}"), base, transport))
    });
    let measured = |base: &str, transport: &str| {
        table.rows.iter().any(|row| target(row, |name| is(name, base, transport)).is_some())
    };
    all.filter(|(_, base, transport)| measured(base, transport)).collect()
}

/// Whether a target is this one over this transport, whatever it lies on.
fn is(name: &str, base: &str, transport: &str) -> bool {
    name.strip_prefix(base).is_some_and(|rest| rest.ends_with(&format!(",transport={transport}")))
}

fn target(row: &Measured, which: impl Fn(&str) -> bool) -> Option<&Value> {
    let targets = row.result.get("targets")?.as_array()?;
    targets.iter().find(|target| target.get("target").and_then(Value::as_str).is_some_and(&which))
}

fn rates(target: &Value) -> Vec<f64> {
    let rates = target.get("rates").and_then(Value::as_array);
    rates.map(|rates| rates.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

/// A target's rate in multiples of another's, by round.
fn of(row: &Measured, other: Option<&Value>, base: &str, transport: &str) -> String {
    match (target(row, |name| is(name, base, transport)), other) {
        (Some(one), Some(other)) => format!("{:.2}", ratio(&rates(other), &rates(one)).median),
        _ => "-".to_owned(),
    }
}

fn cost(target: &Value) -> String {
    let count = |pointer: &str| target.pointer(&format!("/counters/{pointer}")).and_then(Value::as_u64);
    let ops = count("ops").unwrap_or(0).max(1);
    let each = |sum: Option<u64>| sum.map_or("-".to_owned(), |sum| format!("{:.2}", sum as f64 / ops as f64));
    let switches = |who: &str| Some(count(&format!("{who}/voluntary"))? + count(&format!("{who}/involuntary"))?);
    format!("{} / {} / {}", each(count("fuse_requests")), each(switches("client")), each(switches("server")))
}
