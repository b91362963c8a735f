//! `cargo xtask plants`: every planted defect against the default hunt of its engine.
//!
//! A hunt ends with the first that is found. Its time is that of processors, so that it means the same on a busy
//! machine: a minute of two of them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds of processors that a hunt has.
const SECONDS: u64 = 120;

/// What is planted in all engines that have a log, and also shows in the one that has none.
const ALSO_IN_BATCH: [&str; 6] =
    ["early-discard", "early-reuse", "split-exchange", "split-stores", "lost-orphan", "unnoted-name"];

const HEAD: &str = "| defect | in | found by | processor seconds | states | workloads |\n|---|---|---|--:|--:|--:|";

/// What is asked for.
struct Wanted {
    /// Names of defects; all if there are none.
    names: Vec<String>,
    /// Where they are hunted; everywhere if this is empty.
    subjects: Vec<String>,
    /// A program that is built already.
    program: Option<PathBuf>,
    seconds: u64,
    seed: u64,
}

/// A defect, and where it is hunted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Trial {
    defect: String,
    /// An engine, `pool`, `resize`, `tools`, `run`, `buffer`, `store` or `redo`.
    subject: String,
}

/// Builds the program, hunts, and prints a table.
///
/// # Errors
/// The program cannot be built or run; a defect is not found.
pub(crate) fn run(words: impl Iterator<Item = String>) -> Result<(), String> {
    let wanted = parse(words)?;
    let program = match &wanted.program {
        Some(program) => program.clone(),
        None => crate::lab_with_faults()?,
    };
    let mut trials = trials(&program, &wanted.names)?;
    trials.retain(|trial| wanted.subjects.is_empty() || wanted.subjects.contains(&trial.subject));
    println!("{HEAD}");
    let mut missed = Vec::new();
    for trial in &trials {
        let (row, is_found) = hunt(&program, trial, &wanted)?;
        println!("{row}");
        if !is_found {
            missed.push(format!("{} in {}", trial.defect, trial.subject));
        }
    }
    println!("{} of {} found", trials.len() - missed.len(), trials.len());
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", "))) }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let (names, subjects, program) = (Vec::new(), Vec::new(), None);
    let mut wanted = Wanted { names, subjects, program, seconds: SECONDS, seed: 1 };
    while let Some(word) = words.next() {
        let number = |next: Option<String>| {
            let usage = "usage: cargo xtask plants [DEFECT]... [--in ENGINE]... [--program FILE] [--processor-seconds \
                         N] [--seed N]";
            next.and_then(|n| n.parse().ok()).ok_or_else(|| usage.to_owned())
        };
        match word.as_str() {
            "--processor-seconds" => wanted.seconds = number(words.next())?,
            "--in" => wanted.subjects.extend(words.next()),
            "--program" => wanted.program = words.next().map(PathBuf::from),
            "--seed" => wanted.seed = number(words.next())?,
            flag if flag.starts_with('-') => return number(None).map(|_| wanted),
            _ => wanted.names.push(word),
        }
    }
    Ok(wanted)
}

/// What the program has planted, by its own list: a name, where it is, and what it does.
fn trials(program: &Path, names: &[String]) -> Result<Vec<Trial>, String> {
    let list = output(Command::new(program).args(["crash", "--plant", "list"]))?;
    let mut trials = Vec::new();
    for line in list.lines() {
        let mut words = line.split_whitespace();
        let (Some(defect), Some(subject)) = (words.next(), words.next()) else { continue };
        let subjects: &[&str] = match subject {
            "all" if ALSO_IN_BATCH.contains(&defect) => &["classic", "compressed", "batch"],
            "all" => &["classic", "compressed"],
            "log" => &["log", "scalable", "remap"],
            "table" => &["table", "swap", "remap"],
            // Its own tests hunt them: the laboratory has no workload of it.
            "home" => &[],
            other => &[other],
        };
        let trial = |subject: &&str| Trial { defect: defect.to_owned(), subject: (*subject).to_owned() };
        trials.extend(subjects.iter().map(trial));
    }
    if let Some(unknown) = names.iter().find(|name| trials.iter().all(|trial| trial.defect != **name)) {
        return Err(format!("no planted defect: {unknown}"));
    }
    trials.retain(|trial| names.is_empty() || names.contains(&trial.defect));
    Ok(trials)
}

/// The row of one trial, and whether the defect was found.
fn hunt(program: &Path, trial: &Trial, wanted: &Wanted) -> Result<(String, bool), String> {
    let Trial { defect, subject } = trial;
    let mut command = Command::new(program);
    command.args(["crash", "--as-found", "--json", "--plant", defect, "--seed", &wanted.seed.to_string()]);
    match subject.as_str() {
        whole @ ("pool" | "resize" | "tools") => command.args(["--workload", whole]),
        part @ ("run" | "buffer" | "log" | "table") => {
            command.args(["--workload", part, "--processor-seconds", &wanted.seconds.to_string()])
        }
        kept @ ("store" | "redo") => command.args([
            "--store",
            if kept == "redo" { "local" } else { "remote" },
            "--processor-seconds",
            &wanted.seconds.to_string(),
        ]),
        engine => command.args(["--engine", engine, "--processor-seconds", &wanted.seconds.to_string()]),
    };
    let told = output(&mut command)?;
    let found: Value = serde_json::from_str(&told).map_err(|e| format!("{command:?}: {e}"))?;
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let spent = |found: &Value| {
        let phases = found["phases"].as_array().into_iter().flatten();
        phases.map(|phase| number(&phase["processor_seconds"])).sum::<f64>()
    };
    let is_found = number(&found["violations"]) > 0.0;
    let first = &found["first"];
    let cells = if is_found && !first.is_null() {
        let phase = first["phase"].as_str().unwrap_or_default();
        let (seconds, states, workloads) = (&first["processor_seconds"], &first["recovered"], &first["workloads"]);
        format!("{phase} | {:.1} | {} | {}", number(seconds), number(states), number(workloads))
    } else {
        let phase = if is_found { "its life" } else { "**not found**" };
        let seconds = spent(&found).max(if matches!(subject.as_str(), "pool" | "resize" | "tools") {
            number(&found["seconds"])
        } else {
            0.0
        });
        format!("{phase} | {seconds:.1} | {} | {}", number(&found["recovered"]), number(&found["workloads"]))
    };
    Ok((format!("| `{defect}` | {subject} | {cells} |"), is_found))
}

/// What a program has printed; it may end as it likes, since what it finds is a failure to it.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.stdout.is_empty() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?}: {e}"))
}
