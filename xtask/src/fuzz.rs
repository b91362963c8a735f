//! `cargo xtask fuzz`: libFuzzer on the targets in `proof/fuzz/`, with the limits that a finding is measured by.
//!
//! New inputs go to `target/inputs` there, crashes to `artifacts`; what the repository keeps is only read.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long each target runs unless it is said, in seconds.
const SECONDS: u64 = 60;

/// Limits: seconds an input may take, MiB of memory in all and at once, bytes of an input.
const LIMITS: [&str; 4] = ["-timeout=20", "-rss_limit_mb=768", "-malloc_limit_mb=128", "-max_len=2048"];

/// Runs the target that `words` name, or all of them in turn.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let root = crate::metadata()?.workspace_root.into_std_path_buf().join("proof/fuzz");
    let targets = targets(&root)?;
    let usage = || format!("usage: cargo xtask fuzz [TARGET] [--seconds N], TARGET one of {}", targets.join(", "));
    let (mut chosen, mut seconds) = (targets.clone(), SECONDS);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            seconds = words.next().and_then(|n| n.parse().ok()).ok_or_else(usage)?;
        } else if targets.contains(word) {
            chosen = vec![word.clone()];
        } else {
            return Err(usage());
        }
    }
    require_tools()?;
    chosen.iter().try_for_each(|target| fuzz(&root, target, seconds))
}

/// The names of the targets, from their files.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let dir = root.join("fuzz_targets");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let stem = |path: PathBuf| path.file_stem().and_then(|s| s.to_str()).map(str::to_owned);
    let mut names: Vec<String> = entries.flatten().filter_map(|e| stem(e.path())).collect();
    names.sort();
    Ok(names)
}

fn require_tools() -> Result<(), String> {
    let runs = |args: &[&str]| {
        let status = Command::new("rustup").args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|s| s.success())
    };
    if !runs(&["run", "nightly", "cargo", "--version"]) {
        return Err("fuzzing needs a nightly toolchain: rustup toolchain install nightly".into());
    }
    if !runs(&["run", "nightly", "cargo", "fuzz", "--version"]) {
        return Err("fuzzing needs cargo-fuzz: cargo install cargo-fuzz".into());
    }
    Ok(())
}

fn fuzz(root: &Path, target: &str, seconds: u64) -> Result<(), String> {
    let found = root.join("target/inputs").join(target);
    std::fs::create_dir_all(&found).map_err(|e| format!("{}: {e}", found.display()))?;
    println!("xtask: fuzz {target} for {seconds} seconds");
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir"]).arg(root).arg(target).arg(&found);
    for kept in ["corpus", "regressions"].map(|kind| root.join(kind).join(target)) {
        if kept.is_dir() {
            command.arg(kept);
        }
    }
    command.arg("--").args(LIMITS).arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    let dict = root.join("dictionaries").join(target);
    if dict.is_file() {
        command.arg(format!("-dict={}", dict.display()));
    }
    crate::run(&mut command)
}
