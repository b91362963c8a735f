//! `cargo xtask lines`: which lines of journal and volume the crash laboratory's default hunt executes, by file, and on `--list` those that it
//! does not. A second view beside the places that the laboratory counts itself.

use llvm_profparser::{CoverageMapping, CoverageResult};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is looked at.
const CRATES: [&str; 2] = ["crates/journal/src", "crates/volume/src"];

/// Seconds of processors that the hunt of each engine has unless it is said: the default run's, a minute of two.
const SECONDS: u64 = 120;

/// Hunts with a program that counts what it executes, and tells.
///
/// # Errors
/// The program cannot be built; the hunt finds something; its counts cannot be read.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut seconds, mut list) = (SECONDS, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => list = true,
            "--processor-seconds" => {
                seconds = words.next().and_then(|n| n.parse().ok()).ok_or("--processor-seconds needs a number")?;
            }
            _ => return Err("usage: cargo xtask lines [--processor-seconds N] [--list]".into()),
        }
    }
    let metadata = crate::metadata()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.join("lines"));
    let target = target.as_std_path();
    let mut build = crate::of_proof(&["build", "--release", "--quiet", "-p", "ondol-lab"]);
    crate::run(build.env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", "-C instrument-coverage"))?;
    let (program, counts) = (target.join("release/ondol-lab"), target.join("hunt.profraw"));
    let mut hunt = Command::new(&program);
    crate::run(hunt.args(["crash", "--processor-seconds", &seconds.to_string()]).env("LLVM_PROFILE_FILE", &counts))?;
    let files = executed(&program, &counts, root).map_err(|e| format!("{}: {e}", counts.display()))?;
    tell(&files, list);
    Ok(())
}

/// How often each line of a file was executed, of lines that are code.
type Lines = BTreeMap<usize, usize>;

fn executed(program: &Path, counts: &Path, root: &Path) -> Result<BTreeMap<PathBuf, Lines>, String> {
    let profile = llvm_profparser::parse(counts).map_err(|e| e.to_string())?;
    let objects = [program.to_owned()];
    let mapping = CoverageMapping::new(&objects, &profile, true).map_err(|e| e.to_string())?;
    let report = mapping.generate_report().map_err(|e| e.to_string())?;
    let mut files = BTreeMap::new();
    for (path, result) in report.files {
        // Paths of this workspace's sources are relative to it.
        let short = path.strip_prefix(root).unwrap_or(&path).to_owned();
        if CRATES.iter().any(|dir| short.starts_with(dir)) && !short.ends_with("tests.rs") {
            files.insert(short, lines(&result));
        }
    }
    if files.is_empty() { Err("nothing of journal and volume is in it".into()) } else { Ok(files) }
}

/// As LLVM counts: a line has the largest count of the regions that begin on it, and of the innermost that began before.
fn lines(result: &CoverageResult) -> Lines {
    let mut lines = Lines::new();
    let regions = || result.hits.iter().map(|(at, count)| (at.line_start, at.line_end, *count));
    // From the outermost to the innermost.
    let mut inner_last: Vec<_> = regions().collect();
    inner_last.sort_by_key(|(start, end, _)| std::cmp::Reverse(end - start));
    for (start, end, count) in inner_last {
        lines.extend((start + 1..=end).map(|line| (line, count)));
    }
    for (start, _, count) in regions() {
        lines.entry(start).and_modify(|most| *most = count.max(*most)).or_insert(count);
    }
    lines
}

fn tell(files: &BTreeMap<PathBuf, Lines>, list: bool) {
    let share = |done: usize, all: usize| 100.0 * done as f64 / all.max(1) as f64;
    println!("| file | lines | executed | |\n|---|--:|--:|--:|");
    let mut sums: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (path, lines) in files {
        let done = lines.values().filter(|count| **count > 0).count();
        println!("| `{}` | {} | {done} | {:.0} % |", path.display(), lines.len(), share(done, lines.len()));
        let krate = CRATES.into_iter().find(|dir| path.starts_with(dir)).unwrap_or_default();
        let sum = sums.entry(krate).or_default();
        *sum = (sum.0 + lines.len(), sum.1 + done);
    }
    for (krate, (all, done)) in sums {
        println!("| **`{krate}`** | {all} | {done} | {:.1} % |", share(done, all));
    }
    if list {
        println!();
        files.iter().for_each(|(path, lines)| runs(lines).iter().for_each(|run| println!("{}:{run}", path.display())));
    }
}

/// Lines that were not executed, as runs.
fn runs(lines: &Lines) -> Vec<String> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for line in lines.iter().filter(|(_, count)| **count == 0).map(|(line, _)| *line) {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == line => *end = line,
            _ => runs.push((line, line)),
        }
    }
    runs.into_iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use llvm_profparser::SourceLocation;

    #[test]
    fn a_line_has_the_count_of_what_is_innermost() {
        let at = |line_start, line_end| SourceLocation { line_start, column_start: 1, line_end, column_end: 1 };
        let mut result = CoverageResult::default();
        // A function of ten lines; in it a branch that is never taken, and a call of a line within another.
        result.insert("f", at(1, 10), 7);
        result.insert("f", at(3, 5), 0);
        result.insert("f", at(8, 8), 0);
        let lines = lines(&result);
        let counts: Vec<usize> = lines.into_values().collect();
        assert_eq!(counts, [7, 7, 7, 0, 0, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn what_was_not_executed_is_told_in_runs() {
        let lines = [(1, 0), (2, 0), (3, 4), (5, 0), (6, 0), (8, 0)].into_iter().collect();
        assert_eq!(runs(&lines), ["1-2", "5-6", "8"]);
    }
}
