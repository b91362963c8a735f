//! Paper 4, access to files in storage-class memory: what a page fault costs, and what reading a file takes by copying
//! it, by its pages, and by the processor's table.
//!
//! Everything lies in memory. What the kernel's own fault-around does is a line of its own: a fault of a mapping enters
//! up to 16 pages, where they lie side by side. It is excluded by a file whose pages lie apart, each of which is a
//! mapping.

mod access;
mod commits;
mod figure;
mod figures;
mod rig;
#[cfg(test)]
mod tests;

use super::frame::rounds;
use crate::BenchError;
use crate::args::PaperArgs;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, commit};
use crate::series::{self, Book, Outcome, Parts};
use figure::Figure;
use rig::{Rig, Sizes};
use serde::Serialize;

/// All figures, for the JSON.
#[derive(Debug, Serialize)]
struct Drawing {
    paper: u32,
    quick: bool,
    /// Figures are missing: the run was interrupted, or one failed.
    partial: bool,
    machine: Machine,
    commit: &'static str,
    /// Systems that could not be had here, and why.
    missing: Vec<String>,
    figures: Vec<Figure>,
}

pub(super) fn run(args: &PaperArgs, book: &mut Book<'_>) -> Result<(), BenchError> {
    let figures: Vec<_> =
        figures::FIGURES.iter().filter(|figure| args.figure.is_none_or(|n| figure.number == n)).collect();
    if figures.is_empty() {
        return Err(BenchError::Usage(
            "bench paper 4: there are figures 1 to 6, and 7 and 8 for what the paper has not".into(),
        ));
    }
    let interrupt = Interrupt::catch()?;
    let rig = Rig::make(&Sizes::of(args), &args.dir, &interrupt)?;
    let mut drawing = Drawing {
        paper: args.number,
        quick: args.quick,
        partial: true,
        machine: Machine::here(),
        commit: commit(),
        missing: rig.missing().to_vec(),
        figures: Vec::new(),
    };
    let rounds = rounds(args);
    series::run(
        book,
        &Parts {
            called: "figure",
            all: &figures,
            head: &|figure| format!("figure {}: {}", figure.number, figure.title),
        },
        &mut drawing,
        |figure| (figure.draw)(&rig, rounds, &interrupt),
        |drawing, _, figure, partial| {
            drawing.figures.push(figure);
            drawing.partial = partial;
        },
    )
}

impl Outcome for Drawing {
    /// Each was shown when it was drawn.
    fn terminal(&self) -> String {
        self.missing.iter().map(|what| format!("not here: {what}\n")).collect()
    }

    fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }
}
