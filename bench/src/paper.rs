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

/// Runs the list of a paper and writes what came out. Files hold after each part what was measured so far.
pub(crate) fn run(args: &PaperArgs) -> Result<(), BenchError> {
    match args.number {
        1 => frame::run(&one::LIST, args),
        2 => two::run(args),
        4 => four::run(args),
        5 => frame::run(&five::LIST, args),
        _ => frame::run(&three::LIST, args),
    }
}
