//! Test binaries, several at a time: many wait for disks and other processes, or have one test that takes long, and
//! cargo would run them one after the other.

use cargo_metadata::{Artifact, Message};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The binary that lists what all others skipped.
const LAST: &str = "/skipped";

/// What is written behind all that a binary prints.
const END: &[u8] = b"\0\0the end\0\0";

/// So a line ends about a test that failed.
const FAILED: &str = " ... FAILED";

/// Of a binary that fails so many of its last lines are said again at the end.
const AGAIN: usize = 100;

/// One test binary.
struct Binary {
    name: String,
    file: PathBuf,
    /// Where cargo would run it: the folder of its package.
    dir: PathBuf,
    bytes: u64,
}

impl Binary {
    fn of(artifact: Artifact) -> Option<Self> {
        let file = artifact.executable.filter(|_| artifact.profile.test)?.into_std_path_buf();
        let dir = artifact.manifest_path.parent()?.as_std_path().to_owned();
        let package = dir.file_name()?.to_string_lossy();
        let bytes = file.metadata().map_or(0, |found| found.len());
        Some(Self { name: format!("{package}/{}", artifact.target.name), file, dir, bytes })
    }

    /// Runs it to its end, in the environment of `cargo`, and says before each line that it prints whose that is.
    fn run(&self, cargo: &Command, threads: usize) -> Result<(), String> {
        let mut lines = Vec::new();
        let run = |lines: &mut Vec<String>| {
            let (output, into) = io::pipe()?;
            let mut command = Command::new(&self.file);
            command.envs(cargo.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.current_dir(&self.dir).env("RUST_TEST_THREADS", threads.to_string());
            command.stdin(Stdio::null()).stdout(into.try_clone()?).stderr(into.try_clone()?);
            let mut child = command.spawn()?;
            std::thread::scope(|scope| {
                // What a test has left running may hold the other end: nobody waits for that.
                let ended = scope.spawn(move || {
                    let status = child.wait();
                    (&into).write_all(&[END, b"\n"].concat()).and(status)
                });
                for line in BufReader::new(output).split(b'\n') {
                    let line = line?;
                    let rest = line.strip_suffix(END);
                    let text = String::from_utf8_lossy(rest.unwrap_or(&line));
                    println!("{}: {text}", self.name);
                    lines.push(text.into_owned());
                    if rest.is_some() {
                        break;
                    }
                }
                ended.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            })
        };
        match run(&mut lines) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let (before, last) = lines.split_at(lines.len().saturating_sub(AGAIN));
                let failed = before.iter().filter(|line| line.ends_with(FAILED));
                let again: Vec<&str> = failed.chain(last).map(String::as_str).collect();
                Err(format!("{}: {status}\n{}", self.name, again.join("\n")))
            }
            Err(e) => Err(format!("{}: {e}", self.file.display())),
        }
    }
}

/// Builds what `cargo` tests, which is a command `cargo test`, and runs it: as many binaries at a time as there are
/// processors.
///
/// # Errors
/// Those that failed, once all have run.
pub(crate) fn run(cargo: &mut Command) -> Result<(), String> {
    let fail = |e: io::Error| format!("cargo: {e}");
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]).stdout(Stdio::piped());
    let mut child = cargo.spawn().map_err(fail)?;
    let output = child.stdout.take().ok_or("cargo says nothing")?;
    let mut binaries = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message.map_err(fail)? {
            binaries.extend(Binary::of(artifact));
        }
    }
    let status = child.wait().map_err(fail)?;
    if !status.success() || binaries.is_empty() {
        return Err(format!("cargo test --no-run: {status}, and {} binaries", binaries.len()));
    }
    // The largest have the most tests. What takes longest does not begin last.
    binaries.sort_by_key(|binary| std::cmp::Reverse(binary.bytes));
    let (last, others): (Vec<_>, Vec<_>) = binaries.into_iter().partition(|binary| binary.name.ends_with(LAST));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = std::iter::from_fn(|| others.get(next.fetch_add(1, Relaxed)));
        mine.filter_map(|binary| binary.run(cargo, threads).err()).collect::<Vec<_>>()
    };
    let mut failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|_| vec!["a thread".into()])).collect()
    });
    failed.extend(last.iter().filter_map(|binary| binary.run(cargo, threads).err()));
    if failed.is_empty() { Ok(()) } else { Err(format!("these failed:\n{}", failed.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_fails_names_its_tests_and_ends_with_what_it_said_last() {
        let dir = tempfile::tempdir().unwrap();
        let (text, file) = (dir.path().join("text"), dir.path().join("script"));
        let script =
            "#!/bin/sh\necho 'test one ... ok'\necho 'test two ... FAILED'\nseq 200\necho 'the reason' >&2\nexit 101\n";
        std::fs::write(&text, script).unwrap();
        // What this process has open for writing, a child of another test may hold, and then it cannot be run.
        assert!(Command::new("install").args(["-m", "755"]).args([&text, &file]).status().unwrap().success());
        let binary = Binary { name: "of/this".into(), file, dir: dir.path().to_owned(), bytes: 0 };
        let told = binary.run(&Command::new("cargo"), 1).unwrap_err();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!((lines[0], lines[1]), ("of/this: exit status: 101", "test two ... FAILED"));
        assert!(lines.contains(&"the reason") && lines.contains(&"200") && !lines.contains(&"50"), "{told}");
    }
}
