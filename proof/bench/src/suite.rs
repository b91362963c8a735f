//! `ondol bench suite mount`: programs on a mount as one command and one table.
//!
//! Every workload of the list runs on the kernel's ext4, on mounts of ours over each transport that there is, and on the two floors of
//! each, all taking turns in one run. A table compares them with the kernel, a second one with the pass-through server on the same
//! transport, a third one says what an operation costs in requests and context switches.

mod list;
mod table;
#[cfg(test)]
mod tests;

use crate::BenchError;
use crate::args::{RunArgs, SuiteArgs, SuiteMedium};
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, commit};
use crate::report::Report;
use crate::run;
use crate::series::{self, Alone, Book, Outcome, Places};
use list::{LIST, Row};
use ondol_fuse::Transport;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;

/// Rows that were measured, and how.
#[derive(Debug, Serialize)]
struct Table {
    suite: String,
    quick: bool,
    /// Rows or rounds are missing: the run was interrupted, or a row failed.
    partial: bool,
    machine: Machine,
    commit: &'static str,
    /// What was asked for, as far as it changes figures.
    how: Map<String, Value>,
    rows: Vec<Measured>,
}

/// One row, measured.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    /// Its name in the list.
    row: String,
    /// The kernel's rate should be reached so many times.
    aim: f64,
    /// A result as `bench run` writes it.
    result: Value,
}

impl Outcome for Table {
    fn terminal(&self) -> String {
        table::terminal(self)
    }

    fn markdown(&self) -> String {
        table::markdown(self)
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Runs the list and writes what came out. Files hold after each row what was measured so far.
pub(crate) fn run(args: &SuiteArgs) -> Result<(), BenchError> {
    let book = &mut alone(args);
    book.check()?;
    draw(args, book)
}

/// The suite by itself, into its files.
fn alone(args: &SuiteArgs) -> Alone<'_> {
    let places = Places { json: args.json.as_deref(), report: args.report.as_deref(), stem: &args.name };
    Alone::new(format!("suite {}", args.name), places)
}

/// Runs the list, row after row, and lets `book` keep what comes out. Files of `args` are read to go on with, and not written.
///
/// # Errors
/// `Unfit` without root, among others.
pub(crate) fn draw<B: Book>(args: &SuiteArgs, book: &mut B) -> Result<(), BenchError> {
    if !rustix::process::geteuid().is_root() {
        return Err(BenchError::Unfit("bench suite mount needs root: it mounts the kernel's ext4 beside ours".into()));
    }
    let rows = chosen(args)?;
    let rings = match Transport::Rings.refusal() {
        None => true,
        Some(why) => {
            eprintln!("ondol bench suite {}: without io_uring: {why}", args.name);
            false
        }
    };
    let targets = list::targets(args.on, rings);
    // Between the rows, too.
    let interrupt = Interrupt::catch()?;
    measure(args, &rows, book, |row| interrupt.check().and_then(|()| run::report(&run_args(row, &targets, args))))
}

/// The rows that were asked for.
fn chosen(args: &SuiteArgs) -> Result<Vec<&'static Row>, BenchError> {
    let known = |name: &String| LIST.iter().any(|row| row.name == name);
    if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = LIST.iter().map(|row| row.name).collect();
        return Err(BenchError::Usage(format!("--only {unknown}: unknown; there are {}", names.join(", "))));
    }
    Ok(LIST.iter().filter(|row| args.only.is_empty() || args.only.iter().any(|name| name == row.name)).collect())
}

/// Measures row after row, but for those that the file holds that is to be gone on with.
fn measure<B: Book>(
    args: &SuiteArgs,
    rows: &[&'static Row],
    book: &mut B,
    mut measure: impl FnMut(&Row) -> Result<Report, BenchError>,
) -> Result<(), BenchError> {
    let mut table = Table {
        suite: args.name.clone(),
        quick: args.quick,
        partial: true,
        machine: Machine::here(),
        commit: commit(),
        how: how(args),
        rows: Vec::new(),
    };
    if let Some(file) = args.json.as_deref().filter(|_| args.resume) {
        table.rows = kept(file, &table)?;
    }
    let missing: Vec<_> =
        rows.iter().copied().filter(|row| !table.rows.iter().any(|kept| kept.row == row.name)).collect();
    if missing.is_empty() {
        table.partial = false;
    }
    let order = |name: &str| LIST.iter().position(|row| row.name == name);
    let keep = |table: &mut Table, row: &&'static Row, result: Report, partial| {
        // Numbers and texts are JSON whatever they are.
        let result = serde_json::to_value(result).unwrap_or(Value::Null);
        table.rows.push(Measured { row: row.name.to_owned(), aim: row.aim, result });
        table.rows.sort_by_key(|kept| order(&kept.row));
        table.partial = partial;
    };
    series::run(book, ("workload", &missing), &mut table, |row| row.name.to_owned(), |row| measure(row), keep)
}

/// What makes figures of one run comparable with another's.
fn how(args: &SuiteArgs) -> Map<String, Value> {
    let pairs = [
        ("rounds", json!(rounds(args))),
        ("ops", json!(args.ops)),
        ("on", json!(format!("{:?}", args.on).to_lowercase())),
        ("class", json!(format!("{:?}", args.class).to_lowercase())),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn rounds(args: &SuiteArgs) -> u32 {
    args.rounds.unwrap_or(if args.quick { 1 } else { 5 })
}

/// The whole rows of a file that an earlier run has left; none without one. It must have measured the same, in the same way.
fn kept(file: &Path, now: &Table) -> Result<Vec<Measured>, BenchError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).context(|| file.display().to_string()),
    };
    let place = file.display();
    let before: Value = serde_json::from_str(&text).map_err(io::Error::from).context(|| place.to_string())?;
    let now = serde_json::to_value(now).map_err(io::Error::from).context(|| "JSON")?;
    for what in ["suite", "quick", "machine", "commit", "how"] {
        if before.get(what) != now.get(what) {
            let shown = |value: &Value| value.get(what).map_or_else(|| "nothing".to_owned(), Value::to_string);
            let (before, now) = (shown(&before), shown(&now));
            let why = format!("--resume: {place} has {what} {before}, this run {now}; measure anew without --resume");
            return Err(BenchError::Usage(why));
        }
    }
    let rows = before.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let whole = |row: &&Value| row.pointer("/result/partial") == Some(&Value::Bool(false));
    let kept = rows.iter().filter(whole).filter_map(|row| {
        let (name, aim) = (row.get("row")?.as_str()?.to_owned(), row.get("aim")?.as_f64()?);
        Some(Measured { row: name, aim, result: row.get("result")?.clone() })
    });
    Ok(kept.collect())
}

/// The run that measures a row.
fn run_args(row: &Row, targets: &[String], args: &SuiteArgs) -> RunArgs {
    let size = if args.quick { &row.quick } else { &row.full };
    RunArgs {
        workload: row.run.to_owned(),
        on: targets.to_vec(),
        rounds: rounds(args),
        threads: row.threads,
        clients: row.clients,
        seconds: None,
        ops: Some(args.ops.unwrap_or(size.ops)),
        class: args.class,
        // What a turn leaves to be done later is compared on a disk.
        settle: (args.on != SuiteMedium::Ram).then_some(crate::args::Settle::Sync),
        nvm_model: None,
        setting: row.setting.map(str::to_owned),
        params: size.params.iter().map(|&param| param.to_owned()).collect(),
        dir: args.dir.clone(),
        json: None,
        report: None,
    }
}
