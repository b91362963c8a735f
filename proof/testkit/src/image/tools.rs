//! Programs of others, and a place for their files.

use ondol_skips::find;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A program of others could not be run, or failed where it must not.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: std::io::Error,
    },
    /// It said no.
    #[error("{command} ended with {code:?}:\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit code, if it was not killed.
        code: Option<i32>,
        /// What it printed.
        output: String,
    },
    /// A scratch file could not be read or written.
    #[error("scratch file: {0}")]
    Scratch(#[from] std::io::Error),
}

/// A directory in memory (or where temporary files live) that is removed when dropped.
///
/// # Errors
/// It cannot be made.
pub fn scratch_dir() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let builder = || {
        let mut b = tempfile::Builder::new();
        b.prefix("ondol-test-");
        b
    };
    if memory.is_dir() { builder().tempdir_in(memory) } else { builder().tempdir() }
}

/// The first of these programs that is not installed.
pub fn missing<'p>(programs: &[&'p str]) -> Option<&'p str> {
    programs.iter().find(|p| find(p).is_none()).copied()
}

/// Runs a program without input and in the C locale, and waits for it, whatever its exit code.
///
/// # Errors
/// It cannot be started.
pub fn run<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> Result<Output, ToolError> {
    run_with(program, args, &[])
}

/// As [`run`], with these variables of the environment.
pub(crate) fn run_with<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    environment: &[(&str, &str)],
) -> Result<Output, ToolError> {
    let start = |source| ToolError::Start { program: program.to_owned(), source };
    let path = find(program).ok_or_else(|| start(std::io::ErrorKind::NotFound.into()))?;
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null()).env("LC_ALL", "C").env("MKE2FS_SYNC", "0");
    command.envs(environment.iter().copied()).output().map_err(start)
}

/// What a program printed, both streams.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a program that must succeed.
///
/// # Errors
/// It cannot be started, or its exit code is not 0.
pub(crate) fn must(program: &str, args: &[&OsStr]) -> Result<Output, ToolError> {
    let output = run(program, args)?;
    if output.status.success() {
        return Ok(output);
    }
    let args: Vec<_> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    Err(ToolError::Failed {
        command: format!("{program} {}", args.join(" ")),
        code: output.status.code(),
        output: text(&output),
    })
}
