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
use crate::interrupt::Interrupt;
use crate::report::{Report, terminal};
use crate::run;
use figures::{Panel, Paper};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

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

/// Runs the list and writes what came out. Files hold after each panel what was measured so far.
pub(crate) fn run(args: &PaperArgs) -> Result<(), BenchError> {
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
    let begun = Instant::now();
    let mut drawing = Drawing { paper: args.number, quick: args.quick, partial: true, panels: Vec::new() };
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let mut failed = None;
    for (n, panel) in panels.iter().enumerate() {
        let head = heading(panel.figures, panel.workload, panel.device);
        let (n, of, minutes) = (n + 1, panels.len(), begun.elapsed().as_secs() / 60);
        eprintln!("ondol bench paper {}: panel {n} of {of}, figure {head}; {minutes} min so far", args.number);
        let result = match measure(panel) {
            Ok(result) => result,
            Err(e) => {
                failed = Some(e);
                break;
            }
        };
        if !to_stdout {
            let text = format!("== figure {head}\n{}\n", terminal(&result));
            io::stdout().lock().write_all(text.as_bytes()).context(|| "standard output")?;
        }
        let Panel { figures, device, workload, paper, .. } = **panel;
        let cut = result.partial;
        drawing.panels.push(Drawn { figures, device, workload, paper, result });
        drawing.partial = cut || n < of;
        save(args, &drawing)?;
        if cut {
            failed = Some(BenchError::Interrupted);
            break;
        }
    }
    if !drawing.panels.is_empty() {
        let shown = if to_stdout { json(&drawing)? } else { summary::terminal(&drawing) };
        io::stdout().lock().write_all(shown.as_bytes()).context(|| "standard output")?;
    }
    failed.map_or(Ok(()), Err)
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

fn json(drawing: &Drawing) -> Result<String, BenchError> {
    let json = serde_json::to_string_pretty(drawing).map_err(io::Error::from).context(|| "JSON")?;
    Ok(json + "\n")
}

/// Writes the files that were asked for.
fn save(args: &PaperArgs, drawing: &Drawing) -> Result<(), BenchError> {
    let json = json(drawing)?;
    let save = |path: &Path, text: &str| std::fs::write(path, text).context(|| path.display().to_string());
    if let Some(file) = args.json.as_deref().filter(|file| *file != Path::new("-")) {
        save(file, &json)?;
    }
    if let Some(dir) = &args.report {
        std::fs::create_dir_all(dir).context(|| dir.display().to_string())?;
        save(&dir.join("paper3.json"), &json)?;
        save(&dir.join("paper3.md"), &summary::markdown(drawing))?;
    }
    Ok(())
}
