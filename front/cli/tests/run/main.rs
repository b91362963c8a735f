//! `ondol run`, as a user runs it: which syncs end in the pool, what is there after kills, changes by others and power
//! cuts.
//!
//! All but the exit codes needs ext4 with multigrain timestamps (Linux 6.13) and a C compiler; power cuts need root and
//! loop devices. What is missing is said.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod codes;
mod counts;
mod cuts;
mod decisions;
mod durable;
mod forger;
mod given_up;
mod kills;
mod names;
mod past;
mod power;
mod programs;
mod rights;
mod savers;
mod storms;
mod unfit;

use ondol_skips::{missing, skip, skips};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

fn ondol() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ondol"));
    // Where the library is put.
    command.stdin(Stdio::null()).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Standard output of a command that must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let out = output(command);
    let [said, wrong] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(out.status.success(), "{command:?}: {}: {wrong}{said}", out.status);
    String::from_utf8(out.stdout).unwrap()
}

/// Waits, long enough for a slow machine, until something holds.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_secs(60) {
        if holds() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    false
}

/// Builds a C program into `dir`.
fn compiled(dir: &Path, source: &str, words: &[&str]) -> PathBuf {
    let program = dir.join("program");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run").join(source);
    succeeds(Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(file).args(words));
    program
}

/// Builds a C library for `LD_PRELOAD` into `dir`.
fn shared_library(dir: &Path, source: &str) -> PathBuf {
    let library = dir.join("library.so");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run").join(source);
    succeeds(Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(file).arg("-ldl"));
    library
}

/// A directory on a file system where syncs can be fast, with a pool in memory.
struct Place {
    dir: tempfile::TempDir,
    memory: tempfile::TempDir,
}

impl Place {
    /// None, noted as skipped, where there is no such file system.
    #[track_caller]
    fn new() -> Option<Self> {
        // Where cargo builds, and where temporary files are.
        let mine = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let fit = [mine, std::env::temp_dir()].into_iter().find(|dir| ondol::run::why_not(dir).is_none());
        let Some(fit) = fit else {
            skip("neither the build directory nor that for temporary files is on ext4 with multigrain timestamps");
            return None;
        };
        if skips(missing(&["cc"])) {
            return None;
        }
        let memory =
            if Path::new("/dev/shm").is_dir() { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
        Some(Self { dir: tempfile::tempdir_in(fit).unwrap(), memory: memory.unwrap() })
    }

    /// As [`Place::new`], with the pool beside the files, where making it durable is a system call.
    #[track_caller]
    fn on_disk() -> Option<Self> {
        let place = Self::new()?;
        let memory = tempfile::tempdir_in(place.dir.path().parent().unwrap()).unwrap();
        Some(Self { memory, ..place })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pool(&self) -> PathBuf {
        self.memory.path().join("pool")
    }

    /// `ondol run` in the directory.
    fn run(&self) -> Command {
        let mut command = ondol();
        command.args(["run", "-q", "--size", "8M", "--buffer"]).arg(self.pool()).arg("--").current_dir(self.dir.path());
        command
    }

    /// Bytes that only the pool has, by file.
    fn live(&self) -> u64 {
        let said = succeeds(ondol().args(["pool", "info", "--json"]).arg(self.pool()));
        let info: serde_json::Value = serde_json::from_str(&said).unwrap();
        info["run_files"].as_array().unwrap().iter().map(|file| file["bytes"].as_u64().unwrap()).sum()
    }

    fn recover(&self) -> String {
        succeeds(ondol().arg("recover").arg(self.pool()))
    }
}

/// A program that does what it is told, under `ondol run`; killed when dropped.
struct Steps {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Steps {
    fn new(place: &Place, name: &str) -> Self {
        Self::within(place, place.dir.path(), name)
    }

    /// With `dir` as the only directory.
    fn within(place: &Place, dir: &Path, name: &str) -> Self {
        let program = compiled(place.memory.path(), "steps.c", &["-pthread"]);
        let mut command = place.run();
        command.arg(program).arg(dir.join(name)).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    /// What it answers to a call.
    fn ask(&mut self, call: &str) -> String {
        writeln!(self.to.as_mut().unwrap(), "{call}").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer.trim().into()
    }

    /// Calls that succeed.
    #[track_caller]
    fn all(&mut self, calls: &[&str]) {
        for call in calls {
            assert_eq!(self.ask(call), "ok", "{call}");
        }
    }

    /// Ends it, and `ondol run` with it, in peace.
    fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Processes that `ondol run` has started: the program.
    fn program(&self) -> rustix::process::Pid {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let text = std::fs::read_to_string(children).unwrap();
        rustix::process::Pid::from_raw(text.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
