//! A series of runs with one outcome: each is shown when it is done, and files hold after each what was measured so far.

use crate::BenchError;
use crate::error::Context;
use crate::html;
use crate::report::{Report, terminal};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the outcome goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    /// What is run, as it is called on the command line: `paper 3`.
    pub(crate) name: &'a str,
    /// What one run of it is called: `panel`.
    pub(crate) part: &'a str,
    /// The file for JSON; `-` is standard output.
    pub(crate) json: Option<&'a Path>,
    /// The directory for a JSON and a Markdown file, and for the page and its charts.
    pub(crate) report: Option<&'a Path>,
    /// Their name without its ending.
    pub(crate) stem: &'a str,
}

/// The outcome so far.
pub(crate) trait Outcome: Serialize {
    /// For the terminal.
    fn terminal(&self) -> String;
    /// As Markdown.
    fn markdown(&self) -> String;
    /// Nothing has been measured.
    fn is_empty(&self) -> bool;
}

/// What one run of a series comes to.
pub(crate) trait Part {
    /// For the terminal.
    fn terminal(&self) -> String;
    /// Whether it has ended early.
    fn is_partial(&self) -> bool;
}

impl Part for Report {
    fn terminal(&self) -> String {
        terminal(self)
    }

    fn is_partial(&self) -> bool {
        self.partial
    }
}

/// Measures one after the other of `parts`, each named by `head`, and keeps what was measured, whatever becomes of the rest. `keep` is told of
/// each, and whether the outcome is still partial.
pub(crate) fn run<P, O: Outcome, R: Part>(
    places: Places<'_>,
    parts: &[P],
    outcome: &mut O,
    head: impl Fn(&P) -> String,
    mut measure: impl FnMut(&P) -> Result<R, BenchError>,
    mut keep: impl FnMut(&mut O, &P, R, bool),
) -> Result<(), BenchError> {
    let Places { name, part, .. } = places;
    let begun = Instant::now();
    let to_stdout = places.json == Some(Path::new("-"));
    let mut failed = None;
    for (n, one) in parts.iter().enumerate() {
        let (passed, of, head) = (so_far(begun.elapsed(), n, parts.len()), parts.len(), head(one));
        let n = n + 1;
        eprintln!("ondol bench {name}: {part} {n} of {of}, {head}; {passed}");
        let result = match measure(one) {
            Ok(result) => result,
            Err(e) => {
                failed = Some(e);
                break;
            }
        };
        if !to_stdout {
            let text = format!("== {head}\n{}\n", result.terminal());
            io::stdout().lock().write_all(text.as_bytes()).context(|| "standard output")?;
        }
        let cut = result.is_partial();
        keep(outcome, one, result, cut || n < of);
        save(places, outcome)?;
        if cut {
            failed = Some(BenchError::Interrupted);
            break;
        }
    }
    if !outcome.is_empty() {
        let shown = if to_stdout { json(outcome)? } else { outcome.terminal() };
        io::stdout().lock().write_all(shown.as_bytes()).context(|| "standard output")?;
    }
    failed.map_or(Ok(()), Err)
}

/// How long `done` of `of` parts took, and how long the rest will at that rate.
fn so_far(passed: Duration, done: usize, of: usize) -> String {
    if done == 0 {
        return "just begun".to_owned();
    }
    let left = passed.as_secs_f64() / done as f64 * of.saturating_sub(done) as f64;
    format!("{} so far, about {} left", span(passed.as_secs()), span(left.ceil() as u64))
}

/// Seconds as people say them.
fn span(seconds: u64) -> String {
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

fn json(outcome: &impl Outcome) -> Result<String, BenchError> {
    let json = serde_json::to_string_pretty(outcome).map_err(io::Error::from).context(|| "JSON")?;
    Ok(json + "\n")
}

/// Writes the files that were asked for.
fn save(places: Places<'_>, outcome: &impl Outcome) -> Result<(), BenchError> {
    let json = json(outcome)?;
    let save = |path: &Path, text: &str| std::fs::write(path, text).context(|| path.display().to_string());
    if let Some(file) = places.json.filter(|file| *file != Path::new("-")) {
        save(file, &json)?;
    }
    if let Some(dir) = places.report {
        std::fs::create_dir_all(dir).context(|| dir.display().to_string())?;
        save(&dir.join(places.stem).with_extension("json"), &json)?;
        let markdown = outcome.markdown();
        save(&dir.join(places.stem).with_extension("md"), &markdown)?;
        html::write(dir, places.stem, &json, &markdown)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_done() {
        let after = |seconds, done| so_far(Duration::from_secs(seconds), done, 8);
        assert_eq!(after(0, 0), "just begun");
        assert_eq!(after(10, 2), "10 s so far, about 30 s left");
        assert_eq!(after(121, 1), "3 min so far, about 15 min left");
        assert_eq!(after(90, 8), "90 s so far, about 0 s left");
    }
}
