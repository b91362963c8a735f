//! Paper 3, the compressed journal. Its figures show Filebench and Postmark on one solid-state and one hard disk; here
//! both are modelled, and under us and the kernel alike.

mod figures;
mod summary;
#[cfg(test)]
mod tests;

use crate::BenchError;
use crate::args::{PaperArgs, RunArgs, Settle};
use crate::interrupt::Interrupt;
use crate::report::Report;
use crate::run;
use crate::series::{self, Outcome, Places};
use figures::{Panel, Paper};
use serde::Serialize;

/// A panel of a figure, measured.
#[derive(Clone, Debug, Serialize)]
struct Drawn {
    /// The paper's figures that it belongs to.
    figures: &'static [u32],
    /// The modelled disk.
    device: &'static str,
    /// What it shows.
    workload: &'static str,
    /// What the paper says.
    paper: Paper,
    /// What came out here.
    result: Report,
}

/// All panels, for the JSON.
#[derive(Debug, Serialize)]
struct Drawing {
    paper: u32,
    quick: bool,
    /// Panels or rounds are missing: the run was interrupted, or a panel failed.
    partial: bool,
    panels: Vec<Drawn>,
}

pub(super) fn run(args: &PaperArgs) -> Result<(), BenchError> {
    let panels: Vec<&Panel> =
        figures::PANELS.iter().filter(|panel| args.figure.is_none_or(|n| panel.figures.contains(&n))).collect();
    if panels.is_empty() {
        return Err(BenchError::Usage("bench paper 3: there are figures 1, 4, 5, 6 and 7".into()));
    }
    let targets = figures::targets();
    // Between the panels, too.
    let interrupt = Interrupt::catch()?;
    draw(&panels, args, |panel| interrupt.check().and_then(|()| run::report(&run_args(panel, &targets, args))))
}

/// Measures panel after panel and keeps what was measured, whatever becomes of the rest.
fn draw(
    panels: &[&Panel],
    args: &PaperArgs,
    mut measure: impl FnMut(&Panel) -> Result<Report, BenchError>,
) -> Result<(), BenchError> {
    let mut drawing = Drawing { paper: args.number, quick: args.quick, partial: true, panels: Vec::new() };
    let (json, report) = (args.json.as_deref(), args.report.as_deref());
    let name = format!("paper {}", args.number);
    let places = Places { name: &name, part: "panel", json, report, stem: "paper3" };
    let head = |panel: &&Panel| format!("figure {}", heading(panel.figures, panel.workload, panel.device));
    series::run(
        places,
        panels,
        &mut drawing,
        head,
        |panel| measure(panel),
        |drawing, panel, result, partial| {
            let Panel { figures, device, workload, paper, .. } = **panel;
            drawing.panels.push(Drawn { figures, device, workload, paper, result });
            drawing.partial = partial;
        },
    )
}

impl Outcome for Drawing {
    fn terminal(&self) -> String {
        summary::terminal(self)
    }

    fn markdown(&self) -> String {
        summary::markdown(self)
    }

    fn is_empty(&self) -> bool {
        self.panels.is_empty()
    }
}

fn heading(figures: &[u32], workload: &str, device: &str) -> String {
    let figures: Vec<_> = figures.iter().map(u32::to_string).collect();
    format!("{}: {workload}, {device}", figures.join(", "))
}

/// The run that measures a panel.
fn run_args(panel: &Panel, targets: &[String], args: &PaperArgs) -> RunArgs {
    let size = if args.quick { &panel.quick } else { &panel.full };
    RunArgs {
        workload: panel.run.to_owned(),
        on: targets.iter().map(|target| target.replace("DISK", panel.device)).collect(),
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 3 }),
        threads: None,
        clients: None,
        seconds: None,
        ops: Some(size.ops),
        class: args.class,
        settle: Some(Settle::Close),
        setting: None,
        params: size.params.iter().chain(panel.params).map(|&param| param.to_owned()).collect(),
        dir: args.dir.clone(),
        json: None,
        report: None,
    }
}
