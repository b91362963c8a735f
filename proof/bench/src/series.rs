//! A series of runs with one outcome: each is shown when it is done, and a file holds after each what was measured so
//! far.

use crate::BenchError;
use crate::error::Context;
use crate::report::{Report, terminal};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Who is told how a series goes, and keeps what it comes to.
pub(crate) struct Book<'a> {
    /// What is run, as it is called on the command line: `paper 3`.
    name: String,
    /// The file for JSON; `-` is the output.
    json: Option<&'a Path>,
    out: &'a mut dyn Write,
    begun: Instant,
}

impl<'a> Book<'a> {
    /// One that begins now, and shows on `out`.
    pub(crate) fn new(name: String, json: Option<&'a Path>, out: &'a mut dyn Write) -> Self {
        Self { name, json, out, begun: Instant::now() }
    }

    /// The file that was asked for, if it is one.
    fn file(&self) -> Option<&'a Path> {
        self.json.filter(|file| *file != Path::new("-"))
    }

    /// The output is for JSON alone.
    fn is_silent(&self) -> bool {
        self.json.is_some() && self.file().is_none()
    }

    /// Whether the file can be written: it is said before anything is measured for hours. What it holds stays.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let Some(path) = self.file() else { return Ok(()) };
        let new = !path.exists();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened
            .and_then(|_| if new { std::fs::remove_file(path) } else { Ok(()) })
            .context(|| path.display().to_string())
    }

    fn keep(&self, outcome: &impl Outcome) -> Result<(), BenchError> {
        let Some(path) = self.file() else { return Ok(()) };
        std::fs::write(path, json(outcome)?).context(|| path.display().to_string())
    }

    fn show(&mut self, text: &str) -> Result<(), BenchError> {
        self.out.write_all(text.as_bytes()).context(|| "standard output")
    }
}

/// The outcome so far.
pub(crate) trait Outcome: Serialize {
    /// For the terminal.
    fn terminal(&self) -> String;
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

/// What is measured part by part.
pub(crate) struct Parts<'a, P> {
    /// What one is called.
    pub(crate) called: &'static str,
    pub(crate) all: &'a [P],
    /// The heading of one.
    pub(crate) head: &'a dyn Fn(&P) -> String,
}

/// Measures one part after the other and keeps what was measured, whatever becomes of the rest. `keep` is told of each,
/// and whether the outcome is still partial.
pub(crate) fn run<P, O: Outcome, R: Part>(
    book: &mut Book<'_>,
    parts: &Parts<'_, P>,
    outcome: &mut O,
    mut measure: impl FnMut(&P) -> Result<R, BenchError>,
    mut keep: impl FnMut(&mut O, &P, R, bool),
) -> Result<(), BenchError> {
    let of = parts.all.len();
    let mut failed = None;
    for (done, one) in parts.all.iter().enumerate() {
        let (part, head) = (parts.called, (parts.head)(one));
        let passed = so_far(book.begun.elapsed(), done, of);
        eprintln!("ondol bench {}: {part} {} of {of}, {head}; {passed}", book.name, done + 1);
        let result = match measure(one) {
            Ok(result) => result,
            Err(e) => {
                failed = Some(e);
                break;
            }
        };
        if !book.is_silent() {
            book.show(&format!("== {head}\n{}\n", result.terminal()))?;
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
        let text = if book.is_silent() { json(outcome)? } else { outcome.terminal() };
        book.show(&text)?;
    }
    failed.map_or(Ok(()), Err)
}

/// How long what is `done` took, and how long the rest of `of` will at that rate.
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

/// An outcome as it stands in files.
fn json(outcome: &impl Outcome) -> Result<String, BenchError> {
    let json = serde_json::to_string_pretty(outcome).map_err(io::Error::from).context(|| "JSON")?;
    Ok(json + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_said_first() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new.json"), dir.path().join("old.json"));
        std::fs::write(&old, "kept").unwrap();
        let checked = |json: &Path| Book::new(String::new(), Some(json), &mut Vec::new()).check();
        checked(&new).unwrap();
        checked(&old).unwrap();
        assert!(!new.exists() && std::fs::read(&old).unwrap() == b"kept");
        assert!(checked(&old.join("below")).unwrap_err().to_string().contains("below"));
        checked(Path::new("-")).unwrap();
    }

    #[test]
    fn what_is_left_follows_from_what_is_done() {
        let after = |seconds, done| so_far(Duration::from_secs(seconds), done, 8);
        assert_eq!(after(0, 0), "just begun");
        assert_eq!(after(10, 2), "10 s so far, about 30 s left");
        assert_eq!(after(121, 1), "3 min so far, about 15 min left");
        assert_eq!(after(90, 8), "90 s so far, about 0 s left");
    }
}
