//! No test: prints what the tests of this run skipped, and why.
//!
//! Cargo runs test binaries by the names of their packages, and in a package by the names of targets; this one is the
//! last of all, which a test of `xtask` holds to. Without libtest nothing that it prints is captured.
#![forbid(unsafe_code)]

use ondol_skips::Run;
use std::process::ExitCode;

fn main() -> ExitCode {
    // libtest's flag, by which tools ask for the names of tests.
    if std::env::args().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let listed = Run::current().and_then(|run| {
        println!("\n{}", run.list()?);
        run.forget()
    });
    match listed {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("what was skipped cannot be listed: {e}");
            ExitCode::FAILURE
        }
    }
}
