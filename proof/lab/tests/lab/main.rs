//! The program `ondol-lab`, run as a user runs it, beside the program `ondol`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod bench;
#[cfg(feature = "object")]
mod bucket_bench;
mod kills;
mod paper_two;
#[allow(dead_code, reason = "the tests of the product use all of it")]
#[path = "../../../../front/cli/tests/program/place.rs"]
mod place;
mod wrong;

use std::path::Path;
use std::process::{Command, Stdio};

/// The program that is measured, of this source.
fn program() -> &'static Path {
    ondol_tests::program().unwrap_or_else(|e| panic!("{e}"))
}

fn lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ondol-lab"));
    command.stdin(Stdio::null()).env("ONDOL", program());
    command
}

/// A directory in memory, where there is one.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
