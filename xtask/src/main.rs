//! `cargo xtask check`: everything that must hold before a change lands, as one command; each part can be run alone.
//! `cargo xtask proof`: the tests of `proof/`, a workspace of its own. `cargo xtask hunt`: the tests that take long, at
//! full depth; with `--short` those that nothing else runs; with `--states N` the crash laboratory, until it has seen
//! so many states of each engine. `cargo xtask lab`: `ondol-lab` with the faults of `proof/faults` in it. `cargo xtask
//! plants`: each of these against the laboratory's default hunt. `cargo xtask mutants`: mistakes that a machine makes
//! up, hunted likewise. `cargo xtask programs`: programs and test suites of others on a mount. `cargo xtask fuzz`: the
//! fuzzer. `cargo xtask count`: lines of code by package, without comments, blank lines and tests. `cargo xtask
//! fsck-images DIR`: our check beside e2fsck, on the images of e2fsprogs' tests. `cargo xtask capi DIR`: `libondol`, as
//! an installation. `cargo xtask header --write`: the C header, made anew from the source. `cargo xtask picture`: the
//! picture in the README, from what the program prints. `cargo xtask site`: the documents as a book. `cargo xtask s3`,
//! `cargo xtask azure`: the program's tests of object storage on a real S3 server, and on Azurite; `s3 --bench`:
//! figures beside that server; `s3 --peers`: beside other programs on it. `cargo xtask dist`: the tarball and the
//! Debian packages; with `--check` they are installed, too, and tried.
#![forbid(unsafe_code)]

mod azure;
mod beside;
mod capi;
mod circles;
mod count;
mod dist;
mod fsck_images;
mod fuzz;
mod header;
mod layers;
mod licences;
mod mutants;
mod picture;
mod plants;
mod programs;
mod prose;
mod publish;
mod s3;
mod site;
mod sizes;
mod tree;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// One check: its name and what it does.
type Check = (&'static str, fn() -> Result<(), String>);

const CHECKS: [Check; 12] = [
    ("fmt", || both(&["fmt", "--all", "--check"])),
    ("layers", layers::check),
    ("sizes", sizes::check),
    ("prose", prose::check),
    ("licences", licences::check),
    ("publish", publish::check),
    ("header", header::check),
    ("clippy", || clippy(&["--all-targets", "--all-features"])),
    // What is built without features: no object storage, no other crates to compare with.
    ("plain", || clippy(&[])),
    ("docs", docs),
    // The tests of this program, which the README's command leaves out.
    ("own", || cargo(&["test", "--quiet", "--package", "xtask"])),
    ("test", || cargo(&TEST)),
];

/// How all is called that is no check.
const OWN: &str = "check [--skip=NAME]... | proof [CARGO TEST ARGUMENT]... | hunt [CARGO TEST ARGUMENT]... | hunt --states N [--seed N] | lab [ONDOL-LAB ARGUMENT]... | plants [DEFECT]... [--in ENGINE]... | mutants [--seed N] [--count N] [--only PATHPART] [--seconds N] | fuzz [TARGET] [--seconds N] | fsck-images DIR | programs [--list] [--on ENGINE] [NAME]... | dist [--check] | capi DIR | header --write | picture | site | count | s3 [NAME OF A TEST]... | s3 --bench [--rounds N] [MKFS ARGUMENT]... | s3 --peers [--rounds N] [WORKLOAD OR FILE SYSTEM]... | azure [NAME OF A TEST]...";

/// The README's command for the tests.
const TEST: [&str; 1] = ["test"];

/// Packages of the product whose tests need what only `cargo xtask proof` builds, and those whose features of others'
/// crates make its build share these with [`TEST`].
const BESIDE: [&str; 6] = ["ondol-object-home", "ondol-schedule", "ondol-skips", "ondol", "ondol-cli", "ondol-fuse"];

fn main() -> ExitCode {
    if tree::is_wrapper() {
        return fail(tree::wrap());
    }
    let mut words = std::env::args().skip(1);
    let wanted = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let done = match wanted.as_str() {
        "programs" => return programs::run(words.into_iter()),
        "proof" => tests_of_proof(&words, false),
        "hunt" => hunt(words),
        "plants" => plants::run(words.into_iter()),
        "mutants" => mutants::run(&words),
        "lab" => lab_with_faults().and_then(|lab| run(Command::new(lab).args(words))),
        "dist" => dist::run(&words),
        "capi" => capi::run(&words),
        "s3" => s3::run(&words),
        "azure" => azure::run(&words),
        "header" if words == ["--write"] => header::write(),
        "picture" if words.is_empty() => picture::run(),
        "count" if words.is_empty() => count::print(),
        "site" if words.is_empty() => site::run(),
        "fsck-images" => fsck_images::run(&words),
        "fuzz" => fuzz::run(&words),
        _ => check(&wanted, &words),
    };
    done.map_or_else(fail, |()| ExitCode::SUCCESS)
}

/// The checks that are asked for: one, or all but some.
fn check(wanted: &str, words: &[String]) -> Result<(), String> {
    let skipped: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("--skip=")).collect();
    let known = skipped.len() == words.len() && skipped.iter().all(|s| CHECKS.iter().any(|(name, _)| name == s));
    let chosen: Vec<&Check> =
        CHECKS.iter().filter(|(name, _)| (wanted == "check" && !skipped.contains(name)) || wanted == *name).collect();
    if chosen.is_empty() || !known {
        let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        return Err(format!("usage: cargo xtask {OWN} | {}", names.join(" | ")));
    }
    chosen.iter().try_for_each(|(name, check)| {
        println!("xtask: {name}");
        check().map_err(|why| format!("{name} failed: {why}"))
    })
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

/// A command of cargo for the workspace in `proof/`.
fn of_proof(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(&args[..1]).arg("--manifest-path").arg(proof()).args(&args[1..]);
    command
}

/// The manifest of the workspace in `proof/`.
fn proof() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../proof/Cargo.toml"))
}

/// A command of cargo for both workspaces.
fn both(args: &[&str]) -> Result<(), String> {
    cargo(args)?;
    run(&mut of_proof(args))
}

fn clippy(words: &[&str]) -> Result<(), String> {
    both(&[&["clippy", "--workspace", "--quiet"], words, &["--", "-D", "warnings"]].concat())
}

/// The program, built for speed.
fn release(features: &[&str]) -> Result<PathBuf, String> {
    let build = ["build", "--profile=fast", "--quiet", "-p", "ondol-cli"];
    cargo(&[&build, features].concat())?;
    Ok(metadata()?.target_directory.into_std_path_buf().join("fast/ondol"))
}

/// The program that measures and breaks, built for speed, with the one that it mounts beside it.
fn lab(features: &[&str]) -> Result<PathBuf, String> {
    release(features)?;
    run(&mut of_proof(&[&["build", "--profile=fast", "--quiet", "-p", "ondol-lab"], features].concat()))?;
    Ok(metadata()?.target_directory.into_std_path_buf().join("fast/ondol-lab"))
}

/// As [`lab`], from the copy that has the faults in it, with object storage. What the product asserts of itself is a
/// judge, too.
fn lab_with_faults() -> Result<PathBuf, String> {
    let packages = ["-p", "ondol-cli", "-p", "ondol-lab", "--features", "ondol-cli/object,ondol-lab/object"];
    let mut build = tree::Tree::new()?.cargo(&[&["build", "--profile=fast", "--quiet"], &packages[..]].concat())?;
    run(build.env("CARGO_PROFILE_FAST_DEBUG_ASSERTIONS", "true"))?;
    Ok(metadata()?.target_directory.into_std_path_buf().join("fast/ondol-lab"))
}

/// The tests of the product; `words` go on to `cargo test`.
fn tests(words: &[String]) -> Result<(), String> {
    run(Command::new(env!("CARGO")).args(TEST).args(words).env("ONDOL_HUNT", "1"))
}

/// The tests of `proof/`; `words` go on to `cargo test`.
fn tests_of_proof(words: &[String], is_hunt: bool) -> Result<(), String> {
    let mut tests = tests_in_tree()?;
    if words.is_empty() && !is_hunt {
        return beside::run(tests.args(tests_in_proof()?));
    }
    run(tests.args(words).envs(is_hunt.then_some(("ONDOL_HUNT", "1"))))
}

/// `cargo test` for `proof/`, with the program that is mounted built before.
fn tests_in_tree() -> Result<Command, String> {
    let tree = tree::Tree::new()?;
    let packages = packages_in_proof()?;
    let packages: Vec<&str> = packages.iter().flat_map(|name| ["-p", name]).collect();
    let words = [&["test", "--all-features"], &packages[..]].concat();
    run(tree.cargo(&words)?.args(["--no-run", "--test", "program"]))?;
    let mut tests = tree.cargo(&words)?;
    tests.env("ONDOL", metadata()?.target_directory.join("debug/ondol"));
    Ok(tests)
}

/// The packages of `proof/`, and what is tested beside them.
fn packages_in_proof() -> Result<Vec<String>, String> {
    let metadata = metadata_of_proof()?;
    let own = metadata.workspace_packages().into_iter().map(|package| package.name.to_string());
    Ok(own.chain(BESIDE.map(str::to_owned)).collect())
}

/// The arguments by which cargo tests `proof/` and what is beside it, and not the product once more.
fn tests_in_proof() -> Result<Vec<String>, String> {
    let metadata = metadata_of_proof()?;
    let packages = metadata.workspace_packages();
    let targets = || packages.iter().flat_map(|package| &package.targets);
    let tests = targets().filter(|target| target.is_test()).map(|target| target.name.clone());
    // What the library does only with object storage, and what measures the server from inside.
    let tests: BTreeSet<String> = tests.chain(["buckets", "floor", "single"].map(str::to_owned)).collect();
    let programs = targets().filter(|target| target.is_bin()).map(|target| target.name.clone());
    let tests = tests.into_iter().flat_map(|name| ["--test".to_owned(), name]);
    let programs = programs.flat_map(|name| ["--bin".to_owned(), name]);
    Ok(std::iter::once("--lib".to_owned()).chain(programs).chain(tests).collect())
}

/// The whole-stack tests at their full depth; `words` go on to `cargo test`, as in `--test crash`. With `--short` only
/// what no other test runs, with `--states` the laboratory instead.
fn hunt(words: Vec<String>) -> Result<(), String> {
    if words.first().is_some_and(|word| word == "--states") {
        let states = words.get(1).and_then(|n| n.parse::<u64>().ok()).ok_or("--states needs a number")?;
        return run(Command::new(lab(&[])?).args(["crash", "--states", &states.to_string()]).args(&words[2..]));
    }
    let is_short = words.first().is_some_and(|word| word == "--short");
    if !words.is_empty() && !is_short {
        return tests_of_proof(&words, true);
    }
    let named = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    tests(&named(&["--test", "program", "everything_works_over_io_uring"]))?;
    // Where threads meet, counted.
    cargo(&["build", "--example", "shared_lines"])?;
    let counts = metadata()?.target_directory.into_std_path_buf().join("debug/examples/shared_lines");
    run(Command::new(counts).args(["scalable", "create", "4", "8"]))?;
    if is_short {
        return Ok(());
    }
    // Power cuts of programs under `ondol run`.
    tests(&named(&["--test", "run", "after_a_power_cut"]))?;
    // Its log in interleavings, killed anywhere, with power cuts.
    tests_of_proof(&named(&["--test", "run_log"]), true)?;
    // The images of e2fsprogs' tests, where they are.
    if let Ok(dir) = std::env::var("E2FSPROGS_TESTS") {
        fsck_images::run(&[dir])?;
    }
    // Whether scenes execute, and crash, what the larger engines do.
    tests_of_proof(&named(&["--test", "coverage", "--", "--ignored"]), true)?;
    let metadata = metadata_of_proof()?;
    let package = metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == "ondol-tests");
    let found = package.into_iter().flat_map(|package| &package.targets).filter(|target| target.is_test());
    let whole: Vec<String> = found.flat_map(|target| ["--test".into(), target.name.clone()]).collect();
    if whole.is_empty() {
        return Err("the whole-stack tests are not there".into());
    }
    tests_of_proof(&whole, true)?;
    // What a program says that was built without features.
    run(&mut of_proof(&["test", "-p", "ondol-bench", "--test", "targets", "--", "come_into_the_program"]))
}

fn docs() -> Result<(), String> {
    let words = ["doc", "--workspace", "--all-features", "--no-deps", "--quiet"];
    run(Command::new(env!("CARGO")).args(words).env("RUSTDOCFLAGS", "-D warnings"))?;
    run(of_proof(&words).env("RUSTDOCFLAGS", "-D warnings"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// What cargo knows of the workspace and its dependencies.
fn metadata() -> Result<cargo_metadata::Metadata, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    cargo_metadata::MetadataCommand::new().manifest_path(manifest).exec().map_err(|e| e.to_string())
}

/// What cargo knows of the workspace in `proof/`.
fn metadata_of_proof() -> Result<cargo_metadata::Metadata, String> {
    cargo_metadata::MetadataCommand::new().manifest_path(proof()).exec().map_err(|e| e.to_string())
}

/// As [`metadata`], with what only builds with features have, without what only other systems than Linux have.
fn metadata_of_all(manifest: Option<PathBuf>) -> Result<cargo_metadata::Metadata, String> {
    let mut command = cargo_metadata::MetadataCommand::new();
    if let Some(manifest) = manifest {
        command.manifest_path(manifest);
    }
    let platforms = ["x86_64", "aarch64"].map(|processor| format!("--filter-platform={processor}-unknown-linux-gnu"));
    command.features(cargo_metadata::CargoOpt::AllFeatures).other_options(platforms);
    command.exec().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    /// Cargo runs packages by name, and a package's integration tests by name after its unit tests. (That of `proof/`
    /// is put last by what runs its tests.)
    #[test]
    fn the_list_of_skipped_tests_comes_last() {
        let metadata = super::metadata().expect("metadata");
        let last = metadata.workspace_default_packages().into_iter().max_by_key(|package| package.name.to_string());
        let tests = last.into_iter().flat_map(|package| &package.targets).filter(|target| target.is_test());
        assert_eq!(tests.map(|target| &*target.name).max(), Some("skipped"));
    }
}
