//! `ondol bench all`: the papers and the suite in one run, with one result and one page.
//!
//! Each is a chapter, measured by the lists of its own command. A chapter that fails is named in `missing`, and the
//! next one begins; then the whole is partial, as after a signal.

#[cfg(test)]
mod tests;

use crate::args::{AllArgs, PaperArgs, SuiteArgs, SuiteMedium};
use crate::contents::Class;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, commit};
use crate::series::{self, Book, Outcome, Places, Step};
use crate::{BenchError, paper, suite, target};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::time::Instant;

/// What is measured in one go: a paper, or the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chapter {
    /// As its command is called: `paper 3`.
    name: &'static str,
    what: What,
    /// Seconds that a `--quick` run of it took on two busy processors: what part of the whole it is.
    weight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Paper(u32),
    Suite,
}

const fn of_paper(name: &'static str, number: u32, weight: u32) -> Chapter {
    Chapter { name, what: What::Paper(number), weight }
}

/// In the order in which they are measured.
const CHAPTERS: [Chapter; 6] = [
    of_paper("paper 1", 1, 150),
    of_paper("paper 2", 2, 80),
    of_paper("paper 3", 3, 630),
    of_paper("paper 4", 4, 10),
    of_paper("paper 5", 5, 170),
    Chapter { name: "suite mount", what: What::Suite, weight: 45 },
];

/// A chapter, measured as far as it went.
#[derive(Debug, Serialize)]
struct Measured {
    chapter: &'static str,
    /// As its own command writes it.
    result: Value,
    #[serde(skip)]
    markdown: String,
}

/// The whole, for the JSON.
#[derive(Debug, Serialize)]
struct Whole {
    quick: bool,
    /// Something is missing: the run was interrupted, or a chapter failed.
    partial: bool,
    machine: Machine,
    commit: &'static str,
    /// Chapters that could not be measured to their end, and why.
    missing: Vec<String>,
    chapters: Vec<Measured>,
}

impl Outcome for Whole {
    /// Each chapter was shown when it was done.
    fn terminal(&self) -> String {
        self.missing.iter().map(|what| format!("not here: {what}\n")).collect()
    }

    fn markdown(&self) -> String {
        let machine = &self.machine;
        let mut out = format!(
            "# The papers and the mount\n\n{}, {} cores, Linux {}, commit {}.\n",
            machine.cpu, machine.cores, machine.kernel, self.commit
        );
        if self.partial {
            out.push_str("\nPARTIAL: the run has ended early, or something has failed.\n");
        }
        out.extend(self.missing.iter().map(|what| format!("\nNot here: {what}\n")));
        for line in self.chapters.iter().flat_map(|chapter| std::iter::once("").chain(chapter.markdown.lines())) {
            // A heading is one of a chapter here. Writing to a string cannot fail.
            let _ = writeln!(out, "{}{line}", if line.starts_with('#') { "#" } else { "" });
        }
        out
    }

    fn is_empty(&self) -> bool {
        self.chapters.is_empty()
    }
}

/// Keeps all chapters together, and knows how far all is.
struct Collection<'a> {
    whole: Whole,
    places: Places<'a>,
    begun: Instant,
    /// What is being measured.
    now: Chapter,
    /// The weights of what has ended, and of all.
    ended: u32,
    all: u32,
}

impl Book for Collection<'_> {
    fn is_silent(&self) -> bool {
        self.places.has_stdout()
    }

    fn begin(&mut self, Step { part, done, of, head }: Step<'_>) {
        let weight = f64::from(self.now.weight) * done as f64 / of.max(1) as f64;
        let passed = series::so_far(self.begun.elapsed(), f64::from(self.ended) + weight, f64::from(self.all));
        eprintln!("ondol bench all: {}, {part} {} of {of}, {head}; {passed}", self.now.name, done + 1);
    }

    fn keep<O: Outcome>(&mut self, outcome: &O) -> Result<(), BenchError> {
        let result = serde_json::to_value(outcome).unwrap_or(Value::Null);
        let measured = Measured { chapter: self.now.name, result, markdown: outcome.markdown() };
        match self.whole.chapters.last_mut().filter(|last| last.chapter == measured.chapter) {
            Some(last) => *last = measured,
            None => self.whole.chapters.push(measured),
        }
        series::save(self.places, &self.whole)
    }

    fn end<O: Outcome>(&mut self, outcome: &O) -> Result<(), BenchError> {
        if self.is_silent() { Ok(()) } else { series::show(&outcome.terminal()) }
    }
}

/// Runs everything and writes what came out. Files hold after each part what was measured so far. What fails is named, and the rest is measured nevertheless.
pub(crate) fn run(args: &AllArgs) -> Result<(), BenchError> {
    if !args.dir.is_dir() {
        return Err(BenchError::Usage(format!("--dir {}: not a directory", args.dir.display())));
    }
    // Between the chapters, too.
    let interrupt = Interrupt::catch()?;
    let (chapters, missing) = chapters(rustix::process::geteuid().is_root());
    draw(args, &chapters, missing, |chapter, collection| {
        interrupt.check()?;
        match chapter.what {
            What::Paper(number) => paper::draw(&paper_args(number, args), collection),
            What::Suite => suite::draw(&suite_args(args)?, collection),
        }
    })
}

/// What can be measured, and what cannot and why. Only root may mount.
fn chapters(root: bool) -> (Vec<Chapter>, Vec<String>) {
    let (here, not): (Vec<_>, Vec<_>) = CHAPTERS.into_iter().partition(|chapter| root || chapter.what != What::Suite);
    (here, not.iter().map(|chapter| format!("{}: needs root, which mounts", chapter.name)).collect())
}

/// Measures chapter after chapter, whatever becomes of the one before, but for a signal.
fn draw(
    args: &AllArgs,
    chapters: &[Chapter],
    missing: Vec<String>,
    mut measure: impl FnMut(Chapter, &mut Collection<'_>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let Some(&first) = chapters.first() else { return Ok(()) };
    let places = Places { json: args.json.as_deref(), report: args.report.as_deref(), stem: "all" };
    series::check(places)?;
    let whole = Whole {
        quick: args.quick,
        partial: true,
        machine: Machine::here(),
        commit: commit(),
        missing,
        chapters: Vec::new(),
    };
    let all = chapters.iter().map(|chapter| chapter.weight).sum();
    let mut collection = Collection { whole, places, begun: Instant::now(), now: first, ended: 0, all };
    let (mut failed, mut interrupted) = (Vec::new(), false);
    for &chapter in chapters {
        collection.now = chapter;
        match measure(chapter, &mut collection) {
            Ok(()) => {}
            Err(BenchError::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(e) => {
                eprintln!("ondol bench all: {}: {e}", chapter.name);
                failed.push(format!("{}: {e}", chapter.name));
            }
        }
        collection.ended += chapter.weight;
    }
    collection.whole.partial = interrupted || !failed.is_empty();
    collection.whole.missing.extend(failed.iter().cloned());
    if !collection.whole.is_empty() {
        series::save(places, &collection.whole)?;
        series::show(&if places.has_stdout() {
            series::json(&collection.whole)?
        } else {
            collection.whole.terminal()
        })?;
    }
    match failed.as_slice() {
        _ if interrupted => Err(BenchError::Interrupted),
        [] => Ok(()),
        _ => Err(BenchError::Unfit(format!("{}; the rest is measured", failed.join("; ")))),
    }
}

fn paper_args(number: u32, args: &AllArgs) -> PaperArgs {
    PaperArgs {
        number,
        quick: args.quick,
        ablate: args.ablate && paper::has_ablations(number),
        figure: None,
        rounds: args.rounds,
        nvm_model: args.nvm_model.filter(|_| paper::has_nvm(number)),
        class: Class::Text,
        dir: args.dir.clone(),
        json: None,
        report: None,
    }
}

fn suite_args(args: &AllArgs) -> Result<SuiteArgs, BenchError> {
    Ok(SuiteArgs {
        name: "mount".into(),
        quick: args.quick,
        only: Vec::new(),
        rounds: args.rounds,
        ops: None,
        on: SuiteMedium::Ram,
        class: Class::Random,
        dir: target::in_memory(&args.dir)?,
        resume: false,
        json: None,
        report: None,
    })
}
