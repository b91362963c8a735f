//! `ondol bench compare`: what has changed from one result to another by more than chance.
//!
//! Rates, or ratios to the first target if it is the same in both files, are judged by Welch's interval of the
//! logarithms of their rounds (Student's t at 99 %; it takes two rounds in each). So one of a hundred values that have
//! not changed is shown all the same. Counters have no spread in a file: they are shown if they differ by 5 %. Values
//! of tables are shown if their ranges do not touch, which comes by chance once in 126 with five rounds each, once in
//! 10 with three. Latencies are not judged: files have their quantiles over all rounds. Parts whose parameters,
//! contents or units differ are named and not compared.

#[cfg(test)]
mod tests;
mod welch;

use crate::BenchError;
use crate::args::CompareArgs;
use crate::error::Context;
use crate::report::{TargetReport, aligned};
use crate::results::{COSTS, Cost, Middle, Part, Results, Row, Run, Table, What};
use crate::units::short;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// By such a part of the larger a counter must differ to be shown.
const COUNTERS: f64 = 0.05;

/// What was found.
#[derive(Debug, Default)]
struct Findings {
    /// Circumstances that differ, and what was not compared.
    remarks: Vec<String>,
    /// Name, value, before, after, change.
    changes: Vec<[String; 5]>,
    rates: Judged,
    counters: Judged,
    values: Judged,
}

/// How many values there were of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Judged {
    changed: u64,
    compared: u64,
    /// In both files, but without a spread.
    left: u64,
}

/// Reads both files and prints what has changed.
pub(crate) fn run(args: &CompareArgs) -> Result<(), BenchError> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let mut text = [("OLD", &args.old, &old), ("NEW", &args.new, &new)]
        .map(|(name, path, results)| format!("{name} {}: {}\n", path.display(), origin(results)))
        .concat();
    text += &compare(&old, &new).text();
    io::stdout().lock().write_all(text.as_bytes()).context(|| "standard output")
}

fn read(path: &Path) -> Result<Results, BenchError> {
    let text = std::fs::read(path).context(|| format!("cannot read {}", path.display()))?;
    let refusal = |why: String| {
        let place = path.display();
        BenchError::Unfit(format!(
            "{place}: {why}; name a JSON file that `ondol bench` has written with --json or --report"
        ))
    };
    let json: Value = serde_json::from_slice(&text).map_err(|e| refusal(format!("no JSON: {e}")))?;
    let results = Results::of(&json);
    if results.parts.is_empty() { Err(refusal("no run and no table in it".into())) } else { Ok(results) }
}

fn origin(results: &Results) -> String {
    let machine = results.machine.as_ref().map(|m| format!("{}, {} cores, Linux {}", m.cpu, m.cores, m.kernel));
    let commit = results.commit.as_ref().map(|commit| format!("commit {commit}"));
    let marks = [(results.quick, "quick"), (results.partial, "PARTIAL")];
    let marks = marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark.to_owned());
    commit.into_iter().chain(machine).chain(marks).collect::<Vec<_>>().join(", ")
}

fn compare(old: &Results, new: &Results) -> Findings {
    let mut findings = Findings::default();
    if old.machine != new.machine {
        findings
            .remarks
            .push("The machines differ: only ratios to the first target of a run may mean something.".into());
    }
    let mut rest: Vec<&Part> = new.parts.iter().collect();
    for part in &old.parts {
        let title = &part.title;
        let Some(at) = rest.iter().position(|other| other.title == *title) else {
            findings.remarks.push(format!("{title}: only in OLD"));
            continue;
        };
        match (&part.what, &rest.remove(at).what) {
            (What::Run(old), What::Run(new)) => findings.runs(title, old, new),
            (What::Table(old), What::Table(new)) => findings.tables(title, old, new),
            _ => findings.remarks.push(format!("{title}: not compared: a run in one file and a table in the other")),
        }
    }
    findings.remarks.extend(rest.iter().map(|part| format!("{}: only in NEW", part.title)));
    findings
}

/// What makes two runs different measurements, if anything does.
fn difference(old: &Run, new: &Run) -> Option<String> {
    let names = old.params.keys().chain(new.params.keys().filter(|name| !old.params.contains_key(*name)));
    let shown = |run: &Run, name: &str| run.params.get(name).map_or_else(|| "nothing".to_owned(), Value::to_string);
    let params = names.filter(|name| old.params.get(*name) != new.params.get(*name));
    let params = params.map(|name| format!("{name} is {} in OLD and {} in NEW", shown(old, name), shown(new, name)));
    let contents = (old.contents.class != new.contents.class)
        .then(|| format!("contents are {} in OLD and {} in NEW", old.contents.class, new.contents.class));
    let all: Vec<String> = params.chain(contents).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A target's rates in multiples of the first target's, by round.
fn ratios(first: &TargetReport, target: &TargetReport) -> Vec<f64> {
    target.rates.iter().zip(&first.rates).map(|(rate, first)| rate / first).collect()
}

impl Findings {
    fn runs(&mut self, title: &str, old: &Run, new: &Run) {
        if let Some(why) = difference(old, new) {
            self.remarks.push(format!("{title}: not compared: {why}"));
            return;
        }
        let firsts = old.targets.first().zip(new.targets.first()).filter(|(old, new)| old.target == new.target);
        for before in &old.targets {
            let name = format!("{title}: {}", before.target);
            let Some(after) = new.targets.iter().find(|after| after.target == before.target) else {
                self.remarks.push(format!("{name}: only in OLD"));
                continue;
            };
            match firsts.filter(|(first, _)| first.target != before.target) {
                Some((first_old, first_new)) => {
                    self.rates(&name, "ratio to the first", &ratios(first_old, before), &ratios(first_new, after));
                }
                None => self.rates(&name, "ops/s", &before.rates, &after.rates),
            }
            for Cost { name: what, of, .. } in COSTS.into_iter().filter(|cost| cost.is_steady) {
                if let Some((before, after)) = of(&before.counters).zip(of(&after.counters)) {
                    self.counter(&name, what, before, after);
                }
            }
        }
        let is_new = |target: &&TargetReport| old.targets.iter().all(|known| known.target != target.target);
        let added = new.targets.iter().filter(is_new).map(|target| format!("{title}: {}: only in NEW", target.target));
        self.remarks.extend(added);
    }

    fn rates(&mut self, name: &str, what: &str, before: &[f64], after: &[f64]) {
        let Some(factor) = welch::factor(before, after) else {
            self.rates.left += 1;
            return;
        };
        self.rates.compared += 1;
        if factor.is_significant() {
            self.rates.changed += 1;
            let (low, high) = (percent(factor.low), percent(factor.high));
            let change = format!("{} ({low} .. {high})", percent(factor.new / factor.old));
            self.changes.push([name.into(), what.into(), short(factor.old), short(factor.new), change]);
        }
    }

    fn counter(&mut self, name: &str, what: &str, before: f64, after: f64) {
        self.counters.compared += 1;
        if (after - before).abs() > COUNTERS * before.abs().max(after.abs()) {
            self.counters.changed += 1;
            let change = if before > 0.0 { percent(after / before) } else { "from none".into() };
            self.changes.push([name.into(), what.into(), short(before), short(after), change]);
        }
    }

    fn tables(&mut self, title: &str, old: &Table, new: &Table) {
        if (&old.unit, &old.columns) != (&new.unit, &new.columns) {
            self.remarks.push(format!("{title}: not compared: unit or columns differ"));
            return;
        }
        for before in &old.rows {
            match new.rows.iter().find(|after| after.name == before.name) {
                Some(after) => self.rows(title, &old.columns, before, after),
                None => self.remarks.push(format!("{title}: {}: only in OLD", before.name)),
            }
        }
        let is_new = |row: &&Row| old.rows.iter().all(|known| known.name != row.name);
        let added = new.rows.iter().filter(is_new).map(|row| format!("{title}: {}: only in NEW", row.name));
        self.remarks.extend(added);
    }

    fn rows(&mut self, title: &str, columns: &[String], before: &Row, after: &Row) {
        for (column, values) in columns.iter().zip(before.values.iter().zip(&after.values)) {
            let (Some(old), Some(new)) = values else { continue };
            if old.low == old.high || new.low == new.high {
                self.values.left += 1;
                continue;
            }
            self.values.compared += 1;
            if new.low > old.high || new.high < old.low {
                self.values.changed += 1;
                let shown =
                    |value: &Middle| format!("{} ({} .. {})", short(value.median), short(value.low), short(value.high));
                let change = if old.median > 0.0 { percent(new.median / old.median) } else { "from none".into() };
                let name = format!("{title}: {}", before.name);
                self.changes.push([name, column.clone(), shown(old), shown(new), change]);
            }
        }
    }

    fn text(&self) -> String {
        let mut out: String = self.remarks.iter().map(|remark| format!("{remark}\n")).collect();
        out.push('\n');
        if self.changes.is_empty() {
            out += "No significant change.\n";
        } else {
            aligned(&mut out, &["what", "value", "old", "new", "change"], &self.changes);
        }
        out + "\n" + &self.how()
    }

    /// How it was decided, of what there was to decide.
    fn how(&self) -> String {
        let Self { rates, counters, values, .. } = self;
        let mut out = String::new();
        if rates.compared + rates.left > 0 {
            out += &format!(
                "Rates: {} of {} changed. Shown is what the 99 % interval of Welch's test, over the logarithms of the rounds, sets apart from no change: one in a hundred that has not \
                 changed is shown all the same. The first target has operations a second, in which the machine's own load shows; the others have their ratio to it in the same \
                 round. Old and new are geometric means.\n",
                rates.changed, rates.compared
            );
        }
        if rates.left > 0 {
            out += &format!(
                "Not judged: {} with fewer than two rounds in a file; measure with --rounds 5.\n",
                ondol::counted(rates.left, "rate")
            );
        }
        if counters.compared > 0 {
            out += &format!(
                "Counters: {} of {} changed. Files have totals and no spread: shown is what differs by more than {:.0} % of the larger. Waits, which depend on how busy the machine is, are left out.\n",
                counters.changed,
                counters.compared,
                COUNTERS * 100.0
            );
        }
        if values.compared + values.left > 0 {
            out += &format!(
                "Values of tables: {} of {} changed. Shown are those whose ranges of rounds do not touch, which comes by chance once in 126 with five rounds each, once in 10 with three, and \
                 once in 3 with two.\n",
                values.changed, values.compared
            );
        }
        if values.left > 0 {
            out += &format!(
                "Not judged: {} of tables without a spread: counted, derived, or of one round.\n",
                ondol::counted(values.left, "value")
            );
        }
        out
    }
}

/// A factor as a change.
fn percent(factor: f64) -> String {
    if factor >= 10.0 { format!("{} times", short(factor)) } else { format!("{:+.1} %", (factor - 1.0) * 100.0) }
}
