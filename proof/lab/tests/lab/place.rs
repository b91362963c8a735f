//! What the tests of the program share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Why a test that needs root cannot run here.
pub(crate) fn needs_root() -> Option<&'static str> {
    (!rustix::process::geteuid().is_root()).then_some("needs root")
}

/// A directory in memory, where there is one.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The program that is measured, of this source.
pub(crate) fn program() -> &'static Path {
    ondol_tests::program().unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn ondol() -> Command {
    quiet(program().to_owned())
}

pub(crate) fn lab() -> Command {
    let mut command = quiet(PathBuf::from(env!("CARGO_BIN_EXE_ondol-lab")));
    command.env("ONDOL", program());
    command
}

fn quiet(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Standard output of a command that must succeed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.success(), "{command:?}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The one line that a command says which must fail with `code`.
pub(crate) fn fails(command: &mut Command, code: i32) -> String {
    let out = output(command);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{command:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    said
}

/// Waits, long enough for a slow machine, until something holds.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
