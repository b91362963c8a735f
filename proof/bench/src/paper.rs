//! `ondol bench paper N`: the figures of a paper as a fixed list of runs, with the paper's own beside them.

mod five;
mod four;
mod frame;
mod mount;
mod one;
mod summary;
#[cfg(test)]
mod tests;
mod three;
mod two;

use crate::BenchError;
use crate::args::{MountArgs, PaperArgs};
use crate::series::Book;
use std::io;

/// Runs the list of a paper and writes what came out. Files hold after each part what was measured so far.
pub(crate) fn run(args: &PaperArgs) -> Result<(), BenchError> {
    let mut out = io::stdout();
    let book = &mut Book::new(format!("paper {}", args.number), args.json.as_deref(), &mut out);
    book.check()?;
    draw(args, book)
}

/// Runs the list of a mount. Files hold after each part what was measured so far.
///
/// # Errors
/// `Unfit` without root, among others.
pub(crate) fn mount(args: &MountArgs) -> Result<(), BenchError> {
    if !rustix::process::geteuid().is_root() {
        return Err(BenchError::Unfit("bench mount needs root: it mounts the kernel's ext4 beside ours".into()));
    }
    let mut out = io::stdout();
    let book = &mut Book::new("mount".into(), args.json.as_deref(), &mut out);
    book.check()?;
    let MountArgs { quick, rounds, dir, json } = args.clone();
    let (number, ablate, figure, nvm_model, ratio) = (0, false, None, None, 1.0);
    frame::run(&mount::LIST, &PaperArgs { number, quick, ablate, figure, rounds, nvm_model, ratio, dir, json }, book)
}

/// A model of NVM is of use to a paper.
fn has_nvm(number: u32) -> bool {
    matches!(number, 1 | 5)
}

/// A paper's ideas can be switched off.
fn has_ablations(number: u32) -> bool {
    !matches!(number, 2 | 4)
}

/// Runs the list of a paper, part after part, and lets `book` keep what comes out. Files of `args` are not written.
fn draw(args: &PaperArgs, book: &mut Book<'_>) -> Result<(), BenchError> {
    if args.nvm_model.is_some() && !has_nvm(args.number) {
        let why = match args.number {
            2 => "the buffer of `ondol run` has no model",
            3 => "it has no NVM",
            _ => "what is read through a lent page does not wait",
        };
        return Err(BenchError::Usage(format!("--nvm-model: not of paper {}: {why}", args.number)));
    }
    if args.ablate && !has_ablations(args.number) {
        let why = match args.number {
            2 => "`ondol run` has no option that switches an idea off",
            _ => "its figures have each idea beside what is without it",
        };
        return Err(BenchError::Usage(format!("--ablate: not of paper {}: {why}", args.number)));
    }
    match args.number {
        1 => frame::run(&one::LIST, args, book),
        2 => two::run(args, book),
        4 => four::run(args, book),
        5 => frame::run(&five::LIST, args, book),
        _ => frame::run(&three::LIST, args, book),
    }
}
