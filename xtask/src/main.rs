//! `cargo xtask check`: everything that must hold before a change lands, as one command; each part can be run alone.
//! `cargo xtask hunt`: the tests that take long, at full depth; with `--short` those that nothing else runs; with `--states N` the crash laboratory, until it has seen so many states of each engine.
//! `cargo xtask plants`: every planted defect against the laboratory's default hunt. `cargo xtask lines`: what that hunt executes.
//! `cargo xtask programs`: programs and test suites of others on a mount. `cargo xtask fuzz`: the fuzzer.
//! `cargo xtask fsck-images DIR`: our check beside e2fsck, on the images of e2fsprogs' tests.
//! `cargo xtask capi DIR`: `libondol`, as an installation. `cargo xtask header --write`: the C header, made anew from the source.
//! `cargo xtask picture`: the picture in the README, from what the program prints. `cargo xtask site`: the documents as
//! a book.
//! `cargo xtask s3`, `cargo xtask azure`: the program's tests of object storage on a real S3 server, and on Azurite; `s3 --bench`: figures beside that server; `s3 --peers`: beside other programs on it.
//! `cargo xtask dist`: the tarball and the Debian packages; with `--check` they are installed, too, and tried.
#![forbid(unsafe_code)]

mod azure;
mod capi;
mod dist;
mod fsck_images;
mod fuzz;
mod header;
mod layers;
mod licences;
mod lines;
mod picture;
mod plant;
mod plants;
mod programs;
mod prose;
mod publish;
mod s3;
mod site;
mod sizes;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// One check: its name and what it does.
type Check = (&'static str, fn() -> Result<(), String>);

const CHECKS: [Check; 12] = [
    ("fmt", || cargo(&["fmt", "--all", "--check"])),
    ("layers", layers::check),
    ("sizes", sizes::check),
    ("prose", prose::check),
    ("licences", licences::check),
    ("publish", publish::check),
    ("plant", plant::check),
    ("header", header::check),
    ("clippy", || clippy(&["--all-targets", "--all-features"])),
    // What is built without features: no object storage, no other crates to compare with, no planted defects.
    ("plain", || clippy(&[])),
    ("docs", docs),
    ("test", || cargo(&TEST)),
];

/// How all is called that is no check.
const OWN: &str = "check [--skip=NAME]... | hunt [CARGO TEST ARGUMENT]... | hunt --states N [--seed N] | plants [DEFECT]... [--in ENGINE]... | lines [--processor-seconds N] [--list] | fuzz [TARGET] [--seconds N] | fsck-images DIR | programs [--list] [--on ENGINE] [NAME]... | dist [--check] | capi DIR | header --write | picture | site | s3 [NAME OF A TEST]... | s3 --bench [--rounds N] [MKFS ARGUMENT]... | s3 --peers [--rounds N] [WORKLOAD OR FILE SYSTEM]... | azure [NAME OF A TEST]...";

/// The README's command for the tests, which is one build of everything.
const TEST: [&str; 3] = ["test", "--workspace", "--all-features"];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let wanted = words.next().unwrap_or_default();
    if wanted == "programs" {
        return programs::run(words);
    }
    if wanted == "hunt" {
        return hunt(words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "plants" {
        return plants::run(words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "lines" {
        return lines::run(words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "dist" {
        return dist::run(&words.collect::<Vec<_>>()).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    let words: Vec<String> = words.collect();
    if wanted == "capi" {
        return capi::run(&words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "s3" {
        return s3::run(&words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "azure" {
        return azure::run(&words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "header" && words == ["--write"] {
        return header::write().map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "picture" && words.is_empty() {
        return picture::run().map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "site" && words.is_empty() {
        return site::run().map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "fsck-images" {
        return fsck_images::run(&words).map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    if wanted == "fuzz" {
        let result = fuzz::run(&words);
        return result.map_or_else(fail, |()| ExitCode::SUCCESS);
    }
    let skipped: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("--skip=")).collect();
    let known = skipped.len() == words.len() && skipped.iter().all(|s| CHECKS.iter().any(|(name, _)| name == s));
    let chosen: Vec<&Check> =
        CHECKS.iter().filter(|(name, _)| (wanted == "check" && !skipped.contains(name)) || wanted == *name).collect();
    if chosen.is_empty() || !known {
        let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: cargo xtask {OWN} | {}", names.join(" | "));
        return ExitCode::from(2);
    }
    for (name, check) in chosen {
        println!("xtask: {name}");
        if let Err(why) = check() {
            return fail(format!("{name} failed: {why}"));
        }
    }
    ExitCode::SUCCESS
}

/// What this program can be told to do.
fn names() -> BTreeSet<&'static str> {
    let own = OWN.split(" | ").filter_map(|call| call.split(' ').next());
    own.chain(CHECKS.iter().map(|(name, _)| *name)).collect()
}

fn fail(why: String) -> ExitCode {
    eprintln!("xtask: {why}");
    ExitCode::FAILURE
}

fn cargo(args: &[&str]) -> Result<(), String> {
    run(Command::new(env!("CARGO")).args(args))
}

fn clippy(words: &[&str]) -> Result<(), String> {
    cargo(&[&["clippy", "--workspace", "--quiet"], words, &["--", "-D", "warnings"]].concat())
}

/// The program, built for speed.
fn release(features: &[&str]) -> Result<PathBuf, String> {
    let build = ["build", "--release", "--quiet", "-p", "ondol-cli"];
    cargo(&[&build, features].concat())?;
    Ok(metadata()?.target_directory.into_std_path_buf().join("release/ondol"))
}

/// The whole-stack tests at their full depth; `words` go on to `cargo test`, as in `--test crash`. With `--short` only what no other test runs, with `--states` the laboratory instead.
fn hunt(words: impl Iterator<Item = String>) -> Result<(), String> {
    let words: Vec<String> = words.collect();
    if words.first().is_some_and(|word| word == "--states") {
        let states = words.get(1).and_then(|n| n.parse::<u64>().ok()).ok_or("--states needs a number")?;
        return run(Command::new(release(&[])?).args(["crash", "--states", &states.to_string()]).args(&words[2..]));
    }
    // As a part of the workspace: alone, packages are built with other features of what they share, and so once more.
    let test = |words: &[String]| run(Command::new(env!("CARGO")).args(TEST).args(words).env("ONDOL_HUNT", "1"));
    let is_short = words.first().is_some_and(|word| word == "--short");
    if !words.is_empty() && !is_short {
        return test(&words);
    }
    test(&["--test", "program", "everything_works_over_io_uring"].map(String::from))?;
    // Where threads meet, counted.
    cargo(&["build", "--workspace", "--all-features", "--example", "shared_lines"])?;
    let counts = metadata()?.target_directory.into_std_path_buf().join("debug/examples/shared_lines");
    run(Command::new(counts).args(["scalable", "create", "4", "8"]))?;
    if is_short {
        return Ok(());
    }
    // Power cuts of programs under `ondol run`.
    test(&["--test", "run", "after_a_power_cut"].map(String::from))?;
    // Its log in interleavings, killed anywhere, with power cuts.
    test(&["--lib", "schedules::what_"].map(String::from))?;
    // The images of e2fsprogs' tests, where they are.
    if let Ok(dir) = std::env::var("E2FSPROGS_TESTS") {
        fsck_images::run(&[dir])?;
    }
    // Whether scenes come to all places of the engine with the most of them.
    test(&["--test", "reach", "--", "--ignored"].map(String::from))?;
    let metadata = metadata()?;
    let package = metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == "ondol-tests");
    let tests = package.into_iter().flat_map(|package| &package.targets).filter(|target| target.is_test());
    let tests: Vec<String> = tests.flat_map(|target| ["--test".into(), target.name.clone()]).collect();
    if tests.is_empty() {
        return Err("the whole-stack tests are not there".into());
    }
    test(&tests)?;
    // What a program says that was built without features.
    let plain = ["test", "-p", "ondol-cli", "-p", "ondol-bench", "--test", "program", "--test", "run"];
    cargo(&[&plain[..], &["--", "a_build_without", "come_into_the_program"]].concat())
}

fn docs() -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["doc", "--workspace", "--all-features", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    run(&mut command)
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// What cargo knows of the workspace and its dependencies.
fn metadata() -> Result<cargo_metadata::Metadata, String> {
    cargo_metadata::MetadataCommand::new().exec().map_err(|e| e.to_string())
}

/// As [`metadata`], with what only builds with features have, without what only other systems than Linux have.
fn metadata_of_all() -> Result<cargo_metadata::Metadata, String> {
    let mut command = cargo_metadata::MetadataCommand::new();
    let platforms = ["x86_64", "aarch64"].map(|processor| format!("--filter-platform={processor}-unknown-linux-gnu"));
    command.features(cargo_metadata::CargoOpt::AllFeatures).other_options(platforms);
    command.exec().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    /// Cargo runs packages by name, and a package's integration tests by name after its unit tests.
    #[test]
    fn the_list_of_skipped_tests_comes_last() {
        let metadata = super::metadata().expect("metadata");
        let last = metadata.workspace_packages().into_iter().max_by_key(|package| package.name.to_string());
        let tests = last.into_iter().flat_map(|package| &package.targets).filter(|target| target.is_test());
        assert_eq!(tests.map(|target| &*target.name).max(), Some("skipped"));
    }
}
