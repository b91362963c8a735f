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
    /// The file for JSON; `-` is standard output.
    pub(crate) json: Option<&'a Path>,
    /// The directory for a JSON and a Markdown file, and for the page and its charts.
    pub(crate) report: Option<&'a Path>,
    /// Their name without its ending.
    pub(crate) stem: &'a str,
}

/// The next part of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// What a part is called: `panel`.
    pub(crate) part: &'static str,
    /// How many parts are done.
    pub(crate) done: usize,
    /// How many there are.
    pub(crate) of: usize,
    /// The name of the next one.
    pub(crate) head: &'a str,
}

/// Who is told how a series goes, and keeps what it comes to.
pub(crate) trait Book {
    /// Standard output is for JSON alone.
    fn is_silent(&self) -> bool;
    /// Says what is measured next.
    fn begin(&mut self, step: Step<'_>);
    /// Keeps the outcome so far.
    ///
    /// # Errors
    /// A file cannot be written; the error names it.
    fn keep<O: Outcome>(&mut self, outcome: &O) -> Result<(), BenchError>;
    /// Shows an outcome to which nothing is added any more.
    ///
    /// # Errors
    /// Standard output cannot be written.
    fn end<O: Outcome>(&mut self, outcome: &O) -> Result<(), BenchError>;
}

/// A series by itself: its outcome is what the files hold.
#[derive(Debug)]
pub(crate) struct Alone<'a> {
    /// What is run, as it is called on the command line: `paper 3`.
    name: String,
    places: Places<'a>,
    begun: Instant,
}

impl<'a> Alone<'a> {
    /// One that begins now.
    pub(crate) fn new(name: String, places: Places<'a>) -> Self {
        Self { name, places, begun: Instant::now() }
    }

    /// As [`check`].
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        check(self.places)
    }
}

impl Book for Alone<'_> {
    fn is_silent(&self) -> bool {
        self.places.has_stdout()
    }

    fn begin(&mut self, Step { part, done, of, head }: Step<'_>) {
        let passed = so_far(self.begun.elapsed(), done as f64, of as f64);
        eprintln!("ondol bench {}: {part} {} of {of}, {head}; {passed}", self.name, done + 1);
    }

    fn keep<O: Outcome>(&mut self, outcome: &O) -> Result<(), BenchError> {
        save(self.places, outcome)
    }

    fn end<O: Outcome>(&mut self, outcome: &O) -> Result<(), BenchError> {
        show(&if self.is_silent() { json(outcome)? } else { outcome.terminal() })
    }
}

impl Places<'_> {
    /// Standard output is for JSON alone.
    pub(crate) fn has_stdout(self) -> bool {
        self.json == Some(Path::new("-"))
    }
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

/// Measures one after the other of `parts`, each named by `head` and called `part`, and keeps what was measured, whatever becomes of the rest. `keep` is told of
/// each, and whether the outcome is still partial.
pub(crate) fn run<B: Book, P, O: Outcome, R: Part>(
    book: &mut B,
    (part, parts): (&'static str, &[P]),
    outcome: &mut O,
    head: impl Fn(&P) -> String,
    mut measure: impl FnMut(&P) -> Result<R, BenchError>,
    mut keep: impl FnMut(&mut O, &P, R, bool),
) -> Result<(), BenchError> {
    let of = parts.len();
    let mut failed = None;
    for (done, one) in parts.iter().enumerate() {
        let head = head(one);
        book.begin(Step { part, done, of, head: &head });
        let result = match measure(one) {
            Ok(result) => result,
            Err(e) => {
                failed = Some(e);
                break;
            }
        };
        if !book.is_silent() {
            show(&format!("== {head}\n{}\n", result.terminal()))?;
        }
        let cut = result.is_partial();
        keep(outcome, one, result, cut || done + 1 < of);
        book.keep(outcome)?;
        if cut {
            failed = Some(BenchError::Interrupted);
            break;
        }
    }
    if !outcome.is_empty() {
        book.end(outcome)?;
    }
    failed.map_or(Ok(()), Err)
}

/// Prints a text.
pub(crate) fn show(text: &str) -> Result<(), BenchError> {
    io::stdout().lock().write_all(text.as_bytes()).context(|| "standard output")
}

/// How long what is `done` took, and how long the rest of `of` will at that rate.
pub(crate) fn so_far(passed: Duration, done: f64, of: f64) -> String {
    if done <= 0.0 {
        return "just begun".to_owned();
    }
    let left = passed.as_secs_f64() / done * (of - done).max(0.0);
    format!("{} so far, about {} left", span(passed.as_secs()), span(left.ceil() as u64))
}

/// Seconds as people say them.
fn span(seconds: u64) -> String {
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

/// An outcome as it stands in files.
pub(crate) fn json(outcome: &impl Outcome) -> Result<String, BenchError> {
    let json = serde_json::to_string_pretty(outcome).map_err(io::Error::from).context(|| "JSON")?;
    Ok(json + "\n")
}

/// Whether the files that were asked for can be written: it is said before anything is measured for hours. What they hold stays.
///
/// # Errors
/// The system's, with the path.
pub(crate) fn check(places: Places<'_>) -> Result<(), BenchError> {
    let may_write = |path: &Path| {
        let new = !path.exists();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened
            .and_then(|_| if new { std::fs::remove_file(path) } else { Ok(()) })
            .context(|| path.display().to_string())
    };
    if let Some(file) = places.json.filter(|file| *file != Path::new("-")) {
        may_write(file)?;
    }
    if let Some(dir) = places.report {
        std::fs::create_dir_all(dir).context(|| dir.display().to_string())?;
        may_write(&dir.join(places.stem).with_extension("json"))?;
    }
    Ok(())
}

/// Writes the files that were asked for.
pub(crate) fn save(places: Places<'_>, outcome: &impl Outcome) -> Result<(), BenchError> {
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
    fn what_cannot_be_written_is_said_first() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new.json"), dir.path().join("old.json"));
        std::fs::write(&old, "kept").unwrap();
        let checked = |json: Option<&Path>, report: Option<&Path>| {
            check(Places { json, report, stem: "old" }).map_err(|e| e.to_string())
        };
        assert_eq!(checked(Some(&new), Some(dir.path())), Ok(()));
        assert!(!new.exists() && std::fs::read(&old).unwrap() == b"kept");
        assert!(checked(Some(&old.join("below")), None).unwrap_err().contains("below"));
        assert!(checked(None, Some(&old)).unwrap_err().contains("old.json"));
        assert_eq!(checked(Some(Path::new("-")), None), Ok(()));
    }

    #[test]
    fn what_is_left_follows_from_what_is_done() {
        let after = |seconds, done| so_far(Duration::from_secs(seconds), f64::from(done), 8.0);
        assert_eq!(after(0, 0), "just begun");
        assert_eq!(after(10, 2), "10 s so far, about 30 s left");
        assert_eq!(after(121, 1), "3 min so far, about 15 min left");
        assert_eq!(after(90, 8), "90 s so far, about 0 s left");
    }
}
