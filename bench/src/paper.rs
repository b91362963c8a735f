//! `ondol bench paper N`: the figures of a paper as a fixed list of runs, with the paper's own beside them.

mod four;
mod three;

use crate::BenchError;
use crate::args::PaperArgs;

/// Runs the list of a paper and writes what came out. Files hold after each part what was measured so far.
pub(crate) fn run(args: &PaperArgs) -> Result<(), BenchError> {
    match args.number {
        4 => four::run(args),
        _ => three::run(args),
    }
}
