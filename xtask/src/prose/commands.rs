//! Commands that documents name exist: `ondol SUBCOMMAND` with its options, and `cargo xtask NAME`.
//!
//! What the program has is known from the synopsis in docs/commands.md and from blocks for a shell: the program's own
//! tests compare both with it.

use super::Document;
use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};

const SYNOPSIS: &str = "docs/commands.md";

/// Options of every subcommand, which the synopsis leaves out.
const EVERYWHERE: [&str; 7] = ["--help", "-h", "--version", "--log-level", "-v", "-vv", "-vvv"];

/// The subcommands, and the options of each where the synopsis shows them: it has none of commands that share a line.
type Known = BTreeMap<String, Option<BTreeSet<String>>>;

/// A command of a document.
struct Call {
    line: usize,
    /// It stands in a code span, not in a block.
    is_span: bool,
    /// It stands in a block for a shell.
    is_shell: bool,
    words: Vec<String>,
}

/// Takes the documents and the names that `cargo xtask` knows.
pub(super) fn faults(documents: &[&Document], xtask: &BTreeSet<&str>) -> Result<Vec<String>, String> {
    let calls: Vec<(&Document, Call)> =
        documents.iter().flat_map(|page| calls(page).into_iter().map(|call| (*page, call))).collect();
    let synopsis = documents.iter().find(|page| page.name == SYNOPSIS).and_then(|page| synopsis(page));
    let mut known = synopsis.ok_or(format!("{SYNOPSIS} has no block that begins with `ondol`"))?;
    for (_, call) in calls.iter().filter(|(_, call)| call.is_shell) {
        if let Some(shown) = program(&call.words).and_then(|(name, rest)| known.get_mut(name)?.as_mut().zip(Some(rest)))
        {
            shown.0.extend(options(shown.1).map(str::to_owned));
        }
    }
    let wrong = |(page, call): (&Document, Call)| Some(page.fault(call.line, &wrong(&call, &known, xtask)?));
    Ok(calls.into_iter().filter_map(wrong).collect())
}

/// What is wrong with a call, and what to write instead.
fn wrong(call: &Call, known: &Known, xtask: &BTreeSet<&str>) -> Option<String> {
    if let ["cargo", "xtask", name, ..] = call.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let is_wrong = is_name(name) && !xtask.contains(&name);
        return is_wrong.then(|| format!("`cargo xtask {name}` does not exist; there are {}", list(xtask)));
    }
    let (name, rest) = program(&call.words)?;
    let Some(shown) = known.get(name) else {
        return is_name(name).then(|| format!("`ondol {name}` does not exist; there are {}", list(known.keys())));
    };
    let shown = shown.as_ref().filter(|_| call.is_span)?;
    let option = options(rest).find(|option| !shown.contains(*option) && !EVERYWHERE.contains(option))?;
    Some(format!("`ondol {name}` has no `{option}` in the synopsis of {SYNOPSIS}; there are {}", list(shown)))
}

fn list(names: impl IntoIterator<Item: AsRef<str>>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Whether a word is a name, and not what stands for one.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Of a call of the program, also by cargo, the subcommand and what follows.
fn program(words: &[String]) -> Option<(&str, &[String])> {
    let mut rest = match words.first()?.as_str() {
        "ondol" => &words[1..],
        "cargo" if words.iter().any(|word| ["ondol", "ondol-cli", "ondol-lab"].contains(&word.as_str())) => {
            &words[words.iter().position(|word| word == "--")? + 1..]
        }
        _ => return None,
    };
    while rest.first()?.starts_with('-') {
        rest = &rest[if rest[0] == "--log-level" { 2.min(rest.len()) } else { 1 }..];
    }
    Some((&rest[0], &rest[1..]))
}

/// The options among words of a call or a synopsis.
fn options(words: &[String]) -> impl Iterator<Item = &str> {
    let words = words.iter().take_while(|word| *word != "--").map(|word| word.trim_matches(['[', ']', '.', ',', ')']));
    let options = words.filter(|word| word.strip_prefix('-').is_some_and(|name| !name.is_empty()));
    options.filter_map(|word| word.split('=').next())
}

/// The calls in code spans, and on the lines of blocks.
fn calls(document: &Document) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut block = None;
    for (line, event) in document.events() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                block = Some(matches!(kind, CodeBlockKind::Fenced(language) if &*language == "sh"));
            }
            Event::End(TagEnd::CodeBlock) => block = None,
            Event::Text(text) if block.is_some() => {
                let is_shell = block == Some(true);
                for (n, text) in text.lines().enumerate() {
                    calls.extend(split(text).map(|words| Call { line: line + n, is_span: false, is_shell, words }));
                }
            }
            Event::Code(text) => {
                calls.extend(split(&text).map(|words| Call { line, is_span: true, is_shell: false, words }));
            }
            _ => {}
        }
    }
    calls
}

/// The commands of a line, without comments, and without what only starts a command.
fn split(line: &str) -> impl Iterator<Item = Vec<String>> {
    let line = format!(" {line}").replace([';', '`'], " ; ").replace("$(", " ; ");
    let words: Vec<String> =
        line.split_once(" #").map_or(&*line, |(line, _)| line).split_whitespace().map(str::to_owned).collect();
    let commands = words.split(|word| ["|", "||", "&&", ";", "do", "then"].contains(&word.as_str()));
    let starts = |word: &String| ["$", "sudo", "xargs", "-0"].contains(&word.as_str()) || word.contains('=');
    let commands = commands.map(|words| words.iter().skip_while(|word| starts(word)).cloned().collect());
    commands.collect::<Vec<Vec<String>>>().into_iter()
}

/// What the first block of calls shows. A call goes on in an indented line; what stands in backquotes is one, too.
fn synopsis(page: &Document) -> Option<Known> {
    let block = page.events().find_map(|(_, event)| match event {
        Event::Text(text) if text.starts_with("ondol ") && text.contains('\n') => Some(text),
        _ => None,
    })?;
    let mut known = Known::new();
    for call in block.replace("\n ", " ").lines().flat_map(|line| line.split('`')) {
        let Some(call) = call.strip_prefix("ondol ") else { continue };
        let words: Vec<String> = call.split_whitespace().map(str::to_owned).collect();
        let pairs = words.get(1..).unwrap_or_default().chunks(2).take_while(|pair| pair[0] == "|");
        let names: Vec<&String> = words.first().into_iter().chain(pairs.filter_map(|pair| pair.get(1))).collect();
        let is_alone = names.len() == 1;
        for name in names {
            known.insert(name.clone(), is_alone.then(|| options(&words).map(str::to_owned).collect()));
        }
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose::document;

    const BLOCK: &str = "
```
ondol mkfs   [--size 1G] [-b 4096] TARGET    makes -x
ondol ls | cat    files
ondol pool   create | info [--json]
             | dump [--raw] POOL
ondol sync DIR    and `ondol undo [-n] DIR`
```
";

    fn found(text: &str) -> Vec<String> {
        let [synopsis, page] = [document(SYNOPSIS, BLOCK), document("a.md", text)];
        faults(&[&synopsis, &page], &BTreeSet::from(["check", "dist"])).unwrap()
    }

    #[test]
    fn calls_that_exist_are_left_alone() {
        let text = r"
`ondol mkfs --size=1G -b`, `ondol -v --log-level info pool --raw --json`, `ondol ls -l`, `ondol undo -n`, `ondol`
`ondol COMMAND --help`, `mount -t ondol a b`, `ondol cat x | less`, `cargo xtask NAME`, `cargo xtask dist --y`

```sh
ondol sync --rare /mnt # ondol none
for i in ondol fuse.ondol; do true; done
```

`ondol sync --rare`, ondol none
";
        assert_eq!(found(text), [""; 0]);
    }

    #[test]
    fn calls_that_do_not_exist_are_found() {
        let text = "\
`cargo xtask none`, `sudo ondol nothing`

```
$ A=b ondol mk
x && ondol a; ondol b | xargs -0 ondol c
for a in b; do ondol d; done
cargo run --bin ondol -- e; cargo xtask f
```

| a |
|---|
| `ondol sync -f` |

`ondol sync --hard --json`
`ondol pool info --all`
";
        let there = "does not exist; there are";
        let commands = "cat, ls, mkfs, pool, sync, undo";
        let program = |line: usize, name: &str| format!("a.md:{line}: `ondol {name}` {there} {commands}");
        let option = |line: usize, call: &str, shown: &str| {
            format!("a.md:{line}: {call} in the synopsis of docs/commands.md; there are {shown}")
        };
        let wanted = [
            format!("a.md:1: `cargo xtask none` {there} check, dist"),
            program(1, "nothing"),
            program(4, "mk"),
            program(5, "a"),
            program(5, "b"),
            program(5, "c"),
            program(6, "d"),
            program(7, "e"),
            format!("a.md:7: `cargo xtask f` {there} check, dist"),
            option(12, "`ondol sync` has no `-f`", "none"),
            option(14, "`ondol sync` has no `--hard`", "none"),
            option(15, "`ondol pool` has no `--all`", "--json, --raw"),
        ];
        assert_eq!(found(text), wanted);
    }

    #[test]
    fn without_a_synopsis_nothing_can_be_said() {
        assert!(faults(&[&document(SYNOPSIS, "`ondol mkfs`\n")], &BTreeSet::new()).is_err());
    }
}
