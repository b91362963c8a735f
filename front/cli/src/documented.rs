//! What is written about the program's calls is what the program takes: examples of the manual, and the documents'
//! shell blocks.

use crate::args::{self, Arguments};
use crate::manual::all_sections;
use clap::{CommandFactory, Parser};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What stands between two commands of one line.
const BETWEEN: [&str; 4] = ["|", "&&", "||", ";"];

/// Of a line for a shell, the calls that are the program's, each of which must be understood; how many they are.
fn understood(line: &str) -> usize {
    let words = shlex::split(line).unwrap_or_else(|| panic!("a quotation has no end: {line}"));
    let calls = words.split(|word| BETWEEN.contains(&word.as_str())).filter_map(call);
    calls.map(|words| parsed(&words).unwrap_or_else(|e| panic!("{line}: {e}"))).count()
}

/// The words of a command that is the program's.
fn call(command: &[String]) -> Option<Vec<String>> {
    let redirected = command.iter().position(|word| [">", "<", ">>"].contains(&word.as_str()));
    let command = &command[..redirected.unwrap_or(command.len())];
    let known = ["ondol", "mount.ondol", "umount.ondol", "fsck.ondol", "mkfs.ondol"];
    let begin = command.iter().position(|word| known.contains(&word.as_str()));
    match command.first().map(String::as_str)? {
        // In place of a program that is installed: the newly built one.
        "cargo" => {
            let words = command.iter().any(|word| word == "ondol" || word == "ondol-cli").then_some(command)?;
            let options = words.iter().position(|word| word == "--")?;
            Some([&["ondol".to_owned()], &words[options + 1..]].concat())
        }
        // What xargs(1) adds, one argument stands for.
        "xargs" => Some([&command[begin?..], &["/x".to_owned()]].concat()),
        first if known.contains(&first) => Some(command.to_vec()),
        _ => None,
    }
}

fn parsed(words: &[String]) -> Result<(), clap::Error> {
    match words[0].as_str() {
        "mount.ondol" => args::MountHelper::try_parse_from(words).map(drop),
        "umount.ondol" => args::UmountHelper::try_parse_from(words).map(drop),
        "fsck.ondol" => args::Fsck::try_parse_from(words).map(drop),
        "mkfs.ondol" => args::MkfsHelper::try_parse_from(words).map(drop),
        _ => Arguments::try_parse_from(words).map(drop),
    }
}

/// The documents, as paths below the project's directory.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("README.md")];
    for dir in ["docs", "docs/design"] {
        let entries = std::fs::read_dir(root.join(dir)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    found
}

/// The lines of a document's blocks for a shell; one that goes on is one line.
fn shell_lines(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.trim_start() == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut() {
            Some(last) if goes_on => last.push_str(part),
            _ => lines.push(part.to_owned()),
        }
        goes_on = more;
    }
    lines
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn examples_of_the_manual_are_calls() {
    let calls: usize = all_sections().flat_map(|page| page.examples).map(|(line, _)| understood(line)).sum();
    assert!(calls > 50, "only {calls} calls");
}

#[test]
fn shell_blocks_of_documents_are_calls() {
    let documents = documents(root());
    let texts = documents.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let calls: usize = texts.map(|text| shell_lines(&text).iter().map(|line| understood(line)).sum::<usize>()).sum();
    assert!(calls > 30, "only {calls} calls");
}

#[test]
fn the_synopsis_has_every_command() {
    let text = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let begins = |line: &str| line.strip_prefix("ondol ").map(str::to_owned);
    let mut said = BTreeSet::new();
    for line in text.lines().filter_map(begins) {
        // `ls | cat` are two commands; what follows two spaces says what they do.
        let calls = line.split("  ").next().unwrap_or_default();
        let names = calls.split(" | ").map(|call| call.split(' ').next().unwrap_or_default().to_owned());
        let names: Vec<String> = names.filter(|name| name.starts_with(char::is_alphabetic)).collect();
        said.extend(if line.starts_with("ls ") { names } else { names.into_iter().take(1).collect() });
    }
    let mut commands: BTreeSet<String> =
        Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    // They stand beside their like, in the text behind them.
    for beside in ["import", "manual"] {
        assert!(text.contains(&format!("`ondol {beside} ")), "{beside}");
        commands.remove(beside);
    }
    assert_eq!(said, commands);
}

/// What `cargo xtask prose` takes as the options that there are.
#[test]
fn the_synopsis_has_options_of_the_program() {
    let text = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let block = text.split("\n```\n").nth(1).unwrap().replace("\n ", " ");
    let program = Arguments::command();
    let mut compared = 0;
    for call in block.lines().flat_map(|line| line.split('`')).filter_map(|call| call.strip_prefix("ondol ")) {
        let name = call.split(' ').next().unwrap();
        // These are another program's, whose tests look at them.
        if ["bench", "crash"].contains(&name) {
            continue;
        }
        let command = program.find_subcommand(name).unwrap_or_else(|| panic!("{call}"));
        let options: BTreeSet<String> =
            std::iter::once(command).chain(command.get_subcommands()).flat_map(options).collect();
        let shown = call.split_whitespace().map(|word| word.trim_matches(['[', ']', '.']));
        for option in shown.take_while(|word| *word != "--").filter(|word| word.starts_with('-')) {
            assert!(options.contains(option), "{name} {option}: {options:?}");
            compared += 1;
        }
    }
    assert!(compared > 40, "only {compared} options");
}

fn options(command: &clap::Command) -> Vec<String> {
    let names = |arg: &clap::Arg| {
        let long = arg.get_long_and_visible_aliases().unwrap_or_default().into_iter().map(|name| format!("--{name}"));
        let short = arg.get_short_and_visible_aliases().unwrap_or_default().into_iter().map(|name| format!("-{name}"));
        long.chain(short).collect::<Vec<String>>()
    };
    command.get_arguments().flat_map(names).collect()
}

#[test]
fn a_wrong_call_in_a_line_is_found() {
    let _ = understood("ls | sort && make");
    assert_eq!(understood("ondol cat disk.img /log | less  # ondol sparkle"), 1);
    assert_eq!(understood("mkdir -p mnt && cargo run --release --bin ondol -- umount mnt"), 1);
    for wrong in ["ondol sparkle", "true && ondol mount --sparkle a b", "cargo run --bin ondol -- sparkle"] {
        assert!(std::panic::catch_unwind(|| understood(wrong)).is_err(), "{wrong}");
    }
}
