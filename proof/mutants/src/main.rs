//! `ondol-mutants`, which `cargo xtask mutants` starts: mistakes in the code that decides what a crash leaves, and
//! what finds them.
//!
//! `weave` puts a sample of mutants into copies of the source's files, each behind a question that is asked at run
//! time: one build is all of them. Where that build fails it is called again, and leaves out what the compiler
//! complains of. `hunt` sets the crash laboratory on each, and the tests of its crate on those that survive.
#![forbid(unsafe_code)]
// A program: nothing schedules it.
#![allow(clippy::disallowed_methods)]

mod find;
mod hunt;
mod process;
mod sample;
#[cfg(test)]
mod tests;
mod weave;

use clap::Parser;
use sample::Chosen;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weave::Woven;

/// Try whether the crash laboratory finds mistakes
///
/// Draws mutants of the code that decides what a crash leaves, builds Ondol once with all of them, and hunts each
/// with the crash laboratory, then with the tests of its crate. A run that was interrupted goes on where it was.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask mutants")]
pub(crate) struct Arguments {
    #[arg(hide = true, value_parser = ["weave", "hunt"])]
    what: String,
    /// Seed of the sample
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// How many are drawn; a larger number begins with the same ones
    #[arg(long, default_value_t = 120, value_name = "NUMBER")]
    count: usize,
    /// Only of files that have this in their names
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Seconds of processors of each hunt of a mutant that survived ten
    #[arg(long, default_value_t = 120, value_name = "NUMBER")]
    seconds: u64,
    /// The source
    #[arg(long, hide = true, default_value = "")]
    root: PathBuf,
    /// Where results are
    #[arg(long, hide = true, default_value = "")]
    dir: PathBuf,
}

fn main() -> ExitCode {
    let args = Arguments::parse();
    let done = match args.what.as_str() {
        "weave" => weave(&args),
        _ => drawn(&args).and_then(|drawn| hunt::run(&args, &drawn)),
    };
    done.map_or_else(
        |why| {
            eprintln!("ondol-mutants: {why}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// The sample without those that do not compile.
fn drawn(args: &Arguments) -> Result<Vec<Chosen>, String> {
    let refused = refused(args);
    let mut drawn = sample::draw(&args.root, args.seed, args.count, args.only.as_deref())?;
    drawn.retain(|chosen| !refused.contains(&chosen.name()));
    Ok(drawn)
}

/// Names of mutants that do not compile.
fn refused(args: &Arguments) -> BTreeSet<String> {
    let text = fs::read_to_string(args.dir.join("refused")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Writes the files that have mutants, after taking out those that the compiler's last messages are about.
fn weave(args: &Arguments) -> Result<(), String> {
    let messages = args.dir.join("messages");
    if let Ok(text) = fs::read_to_string(&messages) {
        let drawn = drawn(args)?;
        let blamed = blamed(&text, &woven(&args.root, &drawn)?);
        let mut refused = refused(args);
        for chosen in drawn.iter().filter(|chosen| blamed.contains(&chosen.number)) {
            println!("{}: does not compile: {}", chosen.number, chosen.name());
            refused.insert(chosen.name());
        }
        if blamed.is_empty() {
            return Err(format!("the compiler complains of nothing that is a mutant: {}", messages.display()));
        }
        write(&args.dir.join("refused"), &(Vec::from_iter(refused).join("\n") + "\n"))?;
        fs::remove_file(&messages).map_err(|e| format!("{}: {e}", messages.display()))?;
    }
    let drawn = drawn(args)?;
    let place = args.dir.join("woven");
    let _ = fs::remove_dir_all(&place);
    for (file, woven) in woven(&args.root, &drawn)? {
        write(&place.join(&file), &woven.text)?;
    }
    println!("{} mutants, seed {}", drawn.len(), args.seed);
    Ok(())
}

/// The files that have mutants, with these.
fn woven(root: &Path, drawn: &[Chosen]) -> Result<BTreeMap<String, Woven>, String> {
    let mut files: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for chosen in drawn {
        files.entry(&chosen.file).or_default().push((chosen.number, &chosen.mutant));
    }
    let one = |(file, mutants): (&str, Vec<_>)| {
        let text = fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        Ok((file.to_owned(), weave::weave(&text, &mutants)))
    };
    files.into_iter().map(one).collect()
}

/// Which mutants messages of the compiler are about.
fn blamed(messages: &str, woven: &BTreeMap<String, Woven>) -> BTreeSet<u32> {
    let lines = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut blamed = BTreeSet::new();
    for message in lines.filter(|line| line["message"]["level"] == "error") {
        let mut spans = message["message"]["spans"].as_array().cloned().unwrap_or_default();
        spans.sort_by_key(|span| span["is_primary"] != true);
        let of = |span: &Value| {
            let woven = woven.get(span["file_name"].as_str()?)?;
            let byte = |name: &str| span[name].as_u64().and_then(|at| usize::try_from(at).ok());
            Some(woven.blamed(&(byte("byte_start")?..byte("byte_end")?))).filter(|found| !found.is_empty())
        };
        blamed.extend(spans.iter().find_map(of).unwrap_or_default());
    }
    blamed
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    file.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| format!("{}: {e}", file.display()))?;
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}
