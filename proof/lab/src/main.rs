//! `ondol-lab`: measures Ondol and tries to break it. `ondol bench` and `ondol crash` start it.
//!
//! An error is one line on standard error: what, where, and what to do.
#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The allocator is the one of `ondol`, so that a volume in this process is as fast as in that one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line makes no sense.
const USAGE: u8 = 2;
/// The command did not work.
const FAILED: u8 = 1;

/// Measures Ondol and tries to break it
///
/// `ondol bench` and `ondol crash` start this program. The program `ondol` that it mounts with is the one that the
/// variable ONDOL names, else the one beside it, else the one in PATH.
#[derive(Debug, Parser)]
#[command(name = "ondol-lab", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure against other file systems
    Bench(ondol_bench::BenchArgs),
    // What it does, its arguments say.
    Crash(ondol_laboratory::CrashArgs),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual's pages into a directory
    Manual {
        /// The directory, below which `man1` is made
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Bench(args) => {
            ondol_bench::main(args).map_err(|e| (if e.is_usage() { USAGE } else { FAILED }, e.to_string()))
        }
        Command::Crash(args) => ondol_laboratory::main(args).map_err(|e| (USAGE, e.to_string())),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut offered(), "ondol-lab", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Manual { dir } => pages(&dir.join("man1")).map_err(|e| (FAILED, format!("{}: {e}", dir.display()))),
    };
    done.unwrap_or_else(|(code, what)| {
        eprintln!("ondol-lab: {}", ondol::line(&what));
        ExitCode::from(code)
    })
}

/// The program without the commands that it starts itself: shells would offer hidden ones, too.
fn offered() -> clap::Command {
    Arguments::command().mut_subcommand("bench", |bench| {
        let about = bench.get_about().cloned().unwrap_or_default();
        let commands = bench.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        clap::Command::new("bench").about(about).args(bench.get_arguments().cloned()).subcommands(commands)
    })
}

fn pages(dir: &Path) -> std::io::Result<ExitCode> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(offered(), dir)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_agree_with_themselves() {
        Arguments::command().debug_assert();
    }

    /// The synopsis, which is one of both programs.
    #[test]
    fn the_synopsis_has_options_of_the_program() {
        let text = include_str!("../../../docs/commands.md");
        let program = Arguments::command();
        let mut compared = 0;
        for call in text.lines().filter_map(|line| line.strip_prefix("ondol ")) {
            let name = call.split(' ').next().unwrap_or_default();
            let Some(command) = program.find_subcommand(name).filter(|_| ["bench", "crash"].contains(&name)) else {
                continue;
            };
            let all = std::iter::once(command).chain(command.get_subcommands());
            let longs = all.flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long);
            let known: Vec<String> = longs.map(|name| format!("--{name}")).collect();
            let shown = call.split_whitespace().map(|word| word.trim_matches(['[', ']', '.']));
            for option in shown.filter(|word| word.starts_with('-')) {
                assert!(known.iter().any(|name| name == option), "{name} {option}");
                compared += 1;
            }
        }
        assert!(compared > 5, "only {compared} options");
    }

    /// The pages are there, and completions offer nothing that the bench starts itself.
    #[test]
    fn manual_and_completions_are_of_what_is_called() {
        let dir = tempfile::tempdir().expect("a directory");
        pages(dir.path()).expect("pages");
        for page in ["ondol-lab.1", "ondol-lab-crash.1", "ondol-lab-bench-mount.1"] {
            assert!(dir.path().join(page).is_file(), "{page}");
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut offered(), "ondol-lab", &mut script);
            let script = String::from_utf8_lossy(&script).into_owned();
            assert!(script.contains("compare") && !script.contains("passthrough"), "{shell}");
        }
    }

    /// What documents show in blocks for a shell, this program understands.
    #[test]
    fn calls_in_documents_are_calls() {
        let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
        let entries = [docs.to_owned(), docs.join("design")].map(|dir| std::fs::read_dir(dir).expect("documents"));
        let pages = entries.into_iter().flatten().map(|entry| entry.expect("an entry").path());
        let mut calls = 0;
        for page in pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
            let text = std::fs::read_to_string(&page).expect("a document");
            for block in text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()) {
                for line in block.replace("\\\n", " ").lines() {
                    let call = line.split(['#', '|', '>', ';']).next().unwrap_or_default();
                    let words: Vec<&str> = call.split_whitespace().collect();
                    if let ["ondol", "bench" | "crash", ..] = words[..] {
                        Arguments::try_parse_from(&words).unwrap_or_else(|e| panic!("{}: {line}: {e}", page.display()));
                        calls += 1;
                    }
                }
            }
        }
        assert!(calls > 10, "only {calls} calls");
    }
}
