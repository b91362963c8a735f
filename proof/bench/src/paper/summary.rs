//! All panels of a paper in one table, and why they are not the paper's.

use super::frame::{Ablation, Drawing, Drawn, Paper};
use crate::nvm::modelled;
use crate::report::{TargetReport, aligned};
use crate::stats::{Spread, ratio};
use ondol::counted;
use std::fmt::Write;

/// A column of the table.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) shows: Shows,
}

/// What a column shows.
pub(super) enum Shows {
    /// One contender's rate in multiples of another's, in the same round.
    Ratio(&'static str, &'static str),
    /// Something of a contender's result.
    Result(&'static str, fn(&TargetReport) -> Option<String>),
    /// What the paper says.
    Said(fn(&Paper) -> Option<String>),
}

impl Column {
    /// `of` in multiples of `to`, both by name.
    pub(super) const fn ratio(head: &'static str, of: &'static str, to: &'static str) -> Self {
        Self { head, shows: Shows::Ratio(of, to) }
    }

    /// Something of a contender's result.
    pub(super) const fn result(
        head: &'static str,
        of: &'static str,
        result: fn(&TargetReport) -> Option<String>,
    ) -> Self {
        Self { head, shows: Shows::Result(of, result) }
    }

    /// What the paper says.
    pub(super) const fn said(head: &'static str, said: fn(&Paper) -> Option<String>) -> Self {
        Self { head, shows: Shows::Said(said) }
    }

    fn cell(&self, drawn: &Drawn, nvm_model: Option<&str>) -> String {
        let find = |name: &str| found(drawn, name, nvm_model);
        let cell = match self.shows {
            Shows::Ratio(of, to) => find(of).zip(find(to)).map(|(of, to)| multiple(ratio(&to.rates, &of.rates))),
            Shows::Result(of, result) => find(of).and_then(result),
            Shows::Said(said) => said(&drawn.panel.paper),
        };
        cell.unwrap_or_else(|| "-".to_owned())
    }
}

/// What came out for the contender of this name, if it took part.
fn found<'d>(drawn: &'d Drawn, name: &str, nvm_model: Option<&str>) -> Option<&'d TargetReport> {
    let target = modelled(&drawn.panel.target_of(name)?, nvm_model);
    drawn.result.targets.iter().find(move |report| report.target == target)
}

/// The median, and what it lies between if there is more than one round.
fn multiple(Spread { median, low, high }: Spread) -> String {
    if low < high { format!("{median:.2} ({low:.2} .. {high:.2})") } else { format!("{median:.2}") }
}

/// For the terminal.
pub(super) fn terminal(drawing: &Drawing) -> String {
    let mut out = head(drawing);
    aligned(&mut out, &heads(drawing), &rows(drawing));
    out.push('\n');
    if drawing.ablate {
        let (heads, rows) = ablations(drawing);
        out += &format!("{ABLATIONS}\n\n");
        aligned(&mut out, &heads, &rows);
        out.push('\n');
    }
    for line in notes(drawing) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Says what is missing, and what was not run in full.
fn head(drawing: &Drawing) -> String {
    let mut out = format!(
        "{}: {}

",
        drawing.name, drawing.title
    );
    if drawing.partial {
        let panels = counted(drawing.panels.len() as u64, "panel");
        let _ = writeln!(out, "PARTIAL: the run has ended early, after {panels}.\n");
    }
    if drawing.quick {
        out.push_str("QUICK: smaller sets, fewer operations.\n\n");
    }
    if let Some(model) = drawing.nvm_model {
        let _ = writeln!(
            out,
            "NVM is modelled as `{model}` (`ondol bench list` has its parameters), but where a panel's medium says \
             otherwise.\n"
        );
    }
    for what in &drawing.missing {
        let _ = writeln!(out, "Not here: {what}.\n");
    }
    out
}

fn heads(drawing: &Drawing) -> Vec<&'static str> {
    std::iter::once("figure: workload, medium").chain(drawing.list.columns.iter().map(|column| column.head)).collect()
}

fn rows(drawing: &Drawing) -> Vec<Vec<String>> {
    let row = |drawn: &Drawn| {
        let cells = drawing.list.columns.iter().map(|column| column.cell(drawn, drawing.nvm_model));
        std::iter::once(drawn.panel.heading()).chain(cells).collect()
    };
    drawing.panels.iter().map(row).collect()
}

const ABLATIONS: &str =
    "Ablations: rates in multiples of the full system's in the same round; below 1, what is off is worth something";

/// A column for each ablation that some panel has, with the name of the full system.
fn ablations(drawing: &Drawing) -> (Vec<String>, Vec<Vec<String>>) {
    let mut columns: Vec<Ablation> = Vec::new();
    for ablation in drawing.panels.iter().flat_map(|drawn| drawn.panel.ablations) {
        if columns.iter().all(|known| known.without.name != ablation.without.name) {
            columns.push(*ablation);
        }
    }
    let head = |ablation: &Ablation| format!("{} / {}", ablation.without.name, ablation.full);
    let heads = std::iter::once("figure: workload, medium".to_owned()).chain(columns.iter().map(head)).collect();
    let row = |drawn: &Drawn| {
        let cell = |Ablation { without, full }: &Ablation| {
            let find = |name| found(drawn, name, drawing.nvm_model);
            let both = find(without.name).zip(find(full));
            both.map_or_else(|| "-".to_owned(), |(without, full)| multiple(ratio(&full.rates, &without.rates)))
        };
        std::iter::once(drawn.panel.heading()).chain(columns.iter().map(cell)).collect()
    };
    (heads, drawing.panels.iter().map(row).collect())
}

/// How the table is to be read, how much was run, and why it is not the paper's.
fn notes(drawing: &Drawing) -> Vec<String> {
    let how = "Medians over rounds, and what they lie between, of ratios within a round, until everything is home and \
               closed where a paper is run. A library's calls are in this process; a mount's and the kernel's are \
               system calls.";
    let readings = drawing.readings.iter().map(|&reading| reading.to_owned());
    let mut notes: Vec<String> = std::iter::once(how.to_owned()).chain(readings).collect();
    if drawing.ablate {
        notes.extend(drawing.list.fixed.iter().map(|fixed| format!("Not switched off: {fixed}")));
    }
    for (head, said) in [("What was run", scale as fn(&Drawn) -> &'static str), ("Why not as in the paper", why)] {
        let mut seen: Vec<(&str, Vec<String>)> = Vec::new();
        for drawn in &drawing.panels {
            let said = said(drawn);
            if said.is_empty() {
                continue;
            }
            match seen.iter_mut().find(|(text, _)| *text == said) {
                Some((_, headings)) => headings.push(drawn.panel.heading()),
                None => seen.push((said, vec![drawn.panel.heading()])),
            }
        }
        let all = seen.len() == 1;
        notes.extend(seen.into_iter().map(|(text, headings)| {
            let of = if all { "all".to_owned() } else { headings.join("; ") };
            format!("{head} ({of}): {text}.")
        }));
    }
    notes
}

fn scale(drawn: &Drawn) -> &'static str {
    drawn.scale
}

fn why(drawn: &Drawn) -> &'static str {
    drawn.panel.why
}
