//! One run of tests: the descendants of one process of cargo, or of this project's own runner.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What the names of processes that run tests begin with: cargo becomes `xtask` when it has built that.
const RUNNERS: [&str; 2] = ["cargo", "xtask"];

/// Between test and reason in a run's file.
const BETWEEN: char = '\t';

/// A test, or a part of one, that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Test binary and test.
    pub test: String,
    /// What is missing, in one line.
    pub reason: String,
}

impl Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.test, self.reason)
    }
}

/// The skips of one run.
#[derive(Debug)]
pub struct Run {
    file: PathBuf,
}

impl Run {
    /// The run that this process belongs to.
    ///
    /// # Errors
    /// `/proc` or the directory for build results cannot be read.
    pub fn current() -> io::Result<Self> {
        Ok(Self::of(&directory()?, Process::running_tests()?))
    }

    fn of(dir: &Path, process: Process) -> Self {
        Self { file: dir.join(format!("{}-{}", process.pid, process.start)) }
    }

    /// Adds a skip. Processes may do so at the same time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&self, skip: &Skip) -> io::Result<()> {
        if let Some(dir) = self.file.parent() {
            fs::create_dir_all(dir)?;
        }
        let line = format!("{}{BETWEEN}{}\n", skip.test, skip.reason);
        OpenOptions::new().create(true).append(true).open(&self.file)?.write_all(line.as_bytes())
    }

    /// What this run skipped so far, each once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn skips(&self) -> io::Result<Vec<Skip>> {
        let text = match fs::read_to_string(&self.file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        let split = lines.iter().filter_map(|line| line.split_once(BETWEEN));
        Ok(split.map(|(test, reason)| Skip { test: test.to_owned(), reason: reason.to_owned() }).collect())
    }

    /// What this run skipped, by reason; for the end of a run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> io::Result<String> {
        Ok(listed(&self.skips()?))
    }

    /// Removes this run's file, and those of runs that are over.
    ///
    /// # Errors
    /// The directory cannot be read, or a file not removed.
    pub fn forget(&self) -> io::Result<()> {
        let dir = self.file.parent().unwrap_or(Path::new("."));
        let entries = match fs::read_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path == self.file || !is_live(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn listed(skips: &[Skip]) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skip in skips {
        reasons.entry(&skip.reason).or_default().push(&skip.test);
    }
    if reasons.is_empty() {
        return "Nothing was skipped.\n".to_owned();
    }
    let parts = reasons.iter().map(|(reason, tests)| {
        let tests: String = tests.iter().map(|test| format!("    {test}\n")).collect();
        format!("  {reason}:\n{tests}")
    });
    format!("SKIPPED, so not proved on this machine: {}\n{}", skips.len(), parts.collect::<String>())
}

/// Whether the process that a run's file is named after lives.
fn is_live(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
    let named = name.and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    named.is_some_and(|(pid, start): (u32, u64)| Process::read(pid).is_ok_and(|process| process.start == start))
}

/// `target/skipped`, in the directory for build results that this program lies in.
fn directory() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    results(&program).map(|dir| dir.join("skipped")).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{} is not below a target directory", program.display()))
    })
}

/// The directory for build results: cargo puts tests into `PROFILE/deps` below it. Its mark, `CACHEDIR.TAG`, is missing
/// where somebody else has made the directory.
fn results(program: &Path) -> Option<&Path> {
    program.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "deps"))?.parent()?.parent()
}

/// A process, told from a later one with its number by when it began.
#[derive(Clone, Debug)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    /// Ticks since the machine started.
    start: u64,
}

impl Process {
    fn read(pid: u32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let parsed = || {
            // The name stands in parentheses, and may hold some itself.
            let (head, tail) = text.rsplit_once(") ")?;
            let name = head.split_once(" (")?.1.to_owned();
            let fields: Vec<&str> = tail.split(' ').collect();
            let (parent, start) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
            Some(Self { pid, parent, name, start })
        };
        parsed().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat: {text}")))
    }

    /// Whether it runs tests, and is none.
    fn is_runner(&self) -> bool {
        RUNNERS.iter().any(|runner| self.name.starts_with(runner))
    }

    /// The nearest process above this one that runs tests, or else its parent.
    fn running_tests() -> io::Result<Self> {
        let parent = Self::read(Self::read(std::process::id())?.parent)?;
        let mut at = parent.clone();
        while !at.is_runner() {
            match Self::read(at.parent) {
                Ok(above) => at = above,
                Err(_) => return Ok(parent),
            }
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(test: &str, reason: &str) -> Skip {
        Skip { test: test.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn a_run_lists_its_own_skips_and_no_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let me = Process::read(std::process::id()).expect("this process");
        let over = Run::of(dir.path(), Process { start: me.start + 1, ..me.clone() });
        let other = Run::of(dir.path(), Process::read(me.parent).expect("the parent"));
        let run = Run::of(dir.path(), me);
        assert_eq!(run.list().expect("a list"), "Nothing was skipped.\n");
        for run in [&over, &other] {
            run.note(&skip("a: elsewhere", "no reason")).expect("a note");
        }
        for (test, reason) in
            [("b: two", "needs root"), ("a: one", "needs root"), ("a: one", "no FUSE"), ("a: one", "no FUSE")]
        {
            run.note(&skip(test, reason)).expect("a note");
        }
        let expected = "SKIPPED, so not proved on this machine: 3\n  needs root:\n    a: one\n    b: two\n  no \
                        FUSE:\n    a: one\n";
        assert_eq!(run.list().expect("a list"), expected);
        run.forget().expect("forgotten");
        assert_eq!(run.skips().expect("no skips"), []);
        assert!(!over.file.exists(), "its process is not there any more");
        assert_eq!(other.skips().expect("skips").len(), 1, "its process lives");
    }

    #[test]
    fn the_directory_for_results_is_known_by_where_tests_lie() {
        let of = |program: &str| results(Path::new(program)).map(|dir| dir.display().to_string());
        assert_eq!(of("/here/target/debug/deps/a-1"), Some("/here/target".to_owned()));
        assert_eq!(of("/here/deps/target/debug/deps/a-1"), Some("/here/deps/target".to_owned()));
        assert_eq!(of("/usr/bin/a"), None);
    }

    #[test]
    fn the_run_is_the_process_that_runs_tests() {
        let found = Process::running_tests().expect("a process");
        let under_cargo = std::env::var_os("CARGO").is_some();
        assert!(found.is_runner() || !under_cargo, "{found:?}");
    }
}
