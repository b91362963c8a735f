//! What a run of tests left out, and why.
//!
//! ```text
//!   a test without root, FUSE, a program ──▶ skip(reason) ──▶ a line on standard error, past libtest's capture
//!                                                        └──▶ target/skipped/RUN ──▶ the list at the run's end
//! ```
//!
//! libtest knows no test that decides by itself not to run, and shows what a test prints only when it fails. So a test
//! that lacks something calls [`skip`] and returns. `skipped.rs`, the last test binary of either workspace, prints
//! [`Run::list`]. All test binaries of a run descend from one process of cargo: that is how they know each other.
#![forbid(unsafe_code)]

mod run;
mod tools;

pub use run::{Run, Skip};
pub use tools::{find, missing, ondol};

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;

/// Notes that the calling test, or a part of it, is not run here, and why: one line on standard error, and one in this
/// run's list.
///
/// The test is known by its thread, which libtest names after it.
#[track_caller]
pub fn skip(reason: impl Display) {
    let skip = Skip { test: test_name(Location::caller()), reason: one_line(&reason.to_string()) };
    // Straight to the stream: what macros print is shown for tests that fail only.
    let _ = writeln!(std::io::stderr().lock(), "skipped: {skip}");
    if let Err(e) = Run::current().and_then(|run| run.note(&skip)) {
        let _ = writeln!(std::io::stderr().lock(), "skipped tests cannot be listed: {e}");
    }
}

/// Notes a reason, if there is one: `if skips(no_root()) { return; }`.
#[track_caller]
pub fn skips(reason: Option<impl Display>) -> bool {
    reason.map(skip).is_some()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The binary and the test, or the place of the call where a test has no thread of its own.
fn test_name(place: &Location<'_>) -> String {
    let exe = std::env::current_exe().ok();
    let stem = exe.as_deref().and_then(|path| path.file_stem()).and_then(|stem| stem.to_str()).unwrap_or("?");
    // Cargo adds a hash to the names of test binaries.
    let binary = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
    let thread = std::thread::current();
    match thread.name().filter(|name| *name != "main") {
        Some(test) => format!("{binary}: {test}"),
        None => format!("{binary}: {}:{}", place.file(), place.line()),
    }
}
