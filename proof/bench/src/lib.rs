//! The bench runner: one workload over many file systems.
//!
//! Machines are noisy and absolute figures age, so targets take turns within every round and what counts is the ratio
//! of each target to the first one in the same round. Every figure stands beside the guarantee that it was bought with.
//!
//! A run goes through four parts: `target` makes and mounts what is measured and takes it away again, `workload`
//! says what to do, `measure` does it on threads and keeps the latencies, `report` writes JSON and tables.
#![deny(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench measures by the real clock")]

mod args;
mod background;
mod command;
mod compare;
mod contents;
mod counters;
mod error;
mod fs;
mod guarantee;
mod interrupt;
mod list;
mod machine;
mod measure;
mod nvm;
mod paper;
mod processes;
mod report;
mod rng;
mod run;
mod series;
mod serve;
mod stats;
mod target;
mod units;
mod workload;
mod writer;

pub use args::{
    BenchArgs, BenchCommand, CompareArgs, MountArgs, PaperArgs, RunArgs, ServeArgs, Served, Settle, WriteArgs,
};
pub use error::BenchError;

use std::process::ExitCode;

/// Exit code after SIGINT or SIGTERM, as shells report SIGINT.
const INTERRUPTED: u8 = 130;

/// Runs `ondol bench`. `fuse:` targets are mounted by the program `ondol` ([`ondol_skips::ondol`]); the servers
/// of `null` and `passthrough` and paper 2's program are this command of the current executable.
///
/// After SIGINT or SIGTERM everything that was made is taken away and the exit code is 130.
///
/// # Errors
/// Names that do not exist, values that make no sense, targets that cannot be made, and failures of the file system
/// under test. Everything that was made is taken away first.
pub fn main(args: BenchArgs) -> Result<ExitCode, BenchError> {
    let done = match args.command {
        BenchCommand::List => list::print(),
        BenchCommand::Run(args) => run::run(&args),
        BenchCommand::Paper(args) => paper::run(&args),
        BenchCommand::Mount(args) => paper::mount(&args),
        BenchCommand::Compare(args) => compare::run(&args),
        BenchCommand::Serve(args) => serve::run(&args),
        BenchCommand::Write(args) => writer::run(&args),
    };
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(BenchError::Interrupted) => {
            eprintln!("ondol bench: interrupted");
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error),
    }
}
