//! `ondol bench paper N`: the figures of a paper as a fixed list of runs, with the paper's own beside them.

mod five;
mod four;
mod frame;
mod one;
mod summary;
#[cfg(test)]
mod tests;
mod three;
mod two;

use crate::BenchError;
use crate::args::PaperArgs;
use crate::series::{Alone, Book, Places};

/// Runs the list of a paper and writes what came out. Files hold after each part what was measured so far.
pub(crate) fn run(args: &PaperArgs) -> Result<(), BenchError> {
    let stem = format!("paper{}", args.number);
    let places = Places { json: args.json.as_deref(), report: args.report.as_deref(), stem: &stem };
    let book = &mut Alone::new(format!("paper {}", args.number), places);
    book.check()?;
    draw(args, book)
}

/// A model of NVM is of use to a paper.
pub(crate) fn has_nvm(number: u32) -> bool {
    matches!(number, 1 | 5)
}

/// A paper's ideas can be switched off.
pub(crate) fn has_ablations(number: u32) -> bool {
    !matches!(number, 2 | 4)
}

/// Runs the list of a paper, part after part, and lets `book` keep what comes out. Files of `args` are not written.
pub(crate) fn draw<B: Book>(args: &PaperArgs, book: &mut B) -> Result<(), BenchError> {
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
