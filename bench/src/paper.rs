//! `ondol bench paper N`: the figures of a paper as a fixed list of runs, with the paper's own beside them.
//!
//! Paper 3 (the compressed journal) is built. Its figures show Filebench and Postmark on one solid-state and one hard disk; here
//! both are modelled, and under us and the kernel alike.

mod figures;
mod summary;
#[cfg(test)]
mod tests;

use crate::BenchError;
use crate::args::{PaperArgs, RunArgs, Settle};
use crate::error::Context;
use crate::report::{Report, terminal};
use crate::run;
use figures::{Panel, Paper};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

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
    panels: Vec<Drawn>,
}

/// Runs the list and writes what came out.
pub(crate) fn run(args: &PaperArgs) -> Result<(), BenchError> {
    if args.number != 3 {
        return Err(BenchError::Usage(format!("bench paper {}: only the figures of paper 3 are built", args.number)));
    }
    let targets = figures::targets();
    let mut drawing = Drawing { paper: args.number, quick: args.quick, panels: Vec::new() };
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    for panel in figures::PANELS.iter().filter(|panel| args.figure.is_none_or(|n| panel.figures.contains(&n))) {
        let result = run::report(&run_args(panel, &targets, args))?;
        if !to_stdout {
            let head = heading(panel.figures, panel.workload, panel.device);
            let text = format!("== figure {head}\n{}\n", terminal(&result));
            io::stdout().lock().write_all(text.as_bytes()).context(|| "standard output")?;
        }
        let Panel { figures, device, workload, paper, .. } = *panel;
        drawing.panels.push(Drawn { figures, device, workload, paper, result });
    }
    if drawing.panels.is_empty() {
        return Err(BenchError::Usage("bench paper 3: there are figures 1, 4, 5, 6 and 7".into()));
    }
    write(args, &drawing)
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
        seconds: None,
        ops: Some(size.ops),
        class: args.class,
        settle: Some(Settle::Close),
        params: size.params.iter().chain(panel.params).map(|&param| param.to_owned()).collect(),
        dir: args.dir.clone(),
        json: None,
        report: None,
    }
}

fn write(args: &PaperArgs, drawing: &Drawing) -> Result<(), BenchError> {
    let mut json = serde_json::to_string_pretty(drawing).map_err(io::Error::from).context(|| "JSON")?;
    json.push('\n');
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let shown = if to_stdout { json.clone() } else { summary::terminal(&drawing.panels) };
    io::stdout().lock().write_all(shown.as_bytes()).context(|| "standard output")?;
    let save = |path: &Path, text: &str| std::fs::write(path, text).context(|| path.display().to_string());
    if let Some(file) = args.json.as_deref().filter(|_| !to_stdout) {
        save(file, &json)?;
    }
    if let Some(dir) = &args.report {
        std::fs::create_dir_all(dir).context(|| dir.display().to_string())?;
        save(&dir.join("paper3.json"), &json)?;
        save(&dir.join("paper3.md"), &summary::markdown(&drawing.panels))?;
    }
    Ok(())
}
