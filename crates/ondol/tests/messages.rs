//! What libraries say is for all who use them: it names no command and no option of a command line. `Error::remedy`
//! says what helps, and programs say how.

use std::path::{Path, PathBuf};

/// Crates whose messages reach users of the library: those that `ondol` consists of.
const LIBRARIES: [&str; 12] = [
    "block",
    "env",
    "format",
    "journal",
    "medium",
    "nvm-log",
    "object-home",
    "ondol",
    "page-table",
    "power",
    "run-log",
    "volume",
];

/// Words of the program's command line. mount options (`nvm=POOL`) are the library's own: it reads them.
const COMMANDS: [&str; 15] = [
    "bench", "check", "crash", "exchange", "export", "import", "info", "mkfs", "mount", "pool", "recover", "run",
    "sync", "tune", "umount",
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_name().is_some_and(|n| n != "tests.rs") {
            found.push(path);
        }
    }
}

/// The words between quotes of a line of code. What lines of text go over several lines is taken as it stands.
fn texts(line: &str) -> &str {
    let line = line.trim_start();
    let is_comment = line.starts_with("//") || line.starts_with("#[doc");
    if is_comment { "" } else { line }
}

fn fault(text: &str) -> Option<&'static str> {
    let of_ondol = COMMANDS.iter().any(|command| text.contains(&format!("`ondol {command}")));
    let option = text.match_indices("--").any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + 2..]);
        before.ends_with([' ', '(', '`']) && after.starts_with(|c: char| c.is_ascii_lowercase())
    });
    let short = [" -F", "`-F", "(-F", "mount -o"].iter().any(|words| text.contains(words));
    let number = ["inode {0} is", "inode {0} has", "directory {0} is"].iter().any(|words| text.contains(words));
    match (of_ondol, option || short, number) {
        (true, ..) => Some("a command"),
        (_, true, _) => Some("an option of a command"),
        (.., true) => Some("a bare inode number"),
        _ => None,
    }
}

#[test]
fn what_libraries_say_names_no_command_line() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a directory above").to_owned();
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    LIBRARIES.iter().for_each(|library| sources(&crates.join(library).join("src"), &mut files));
    assert!(files.len() > 200, "{} sources are not all of them", files.len());
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source");
        // Tests of a module come last in it, and speak to nobody.
        let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let found = fault(texts(line));
            faults.extend(found.map(|what| format!("{}:{}: {what}: {}", file.display(), number + 1, line.trim())));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_scan_finds_what_it_is_for() {
    for text in [
        r#"what("it was not closed: run `ondol recover` first")"#,
        r#""say how large it shall be (--size)""#,
        r#""-F makes a pool over it: say -F""#,
        r#""`mount -o nvm=POOL` names the pool""#,
        r#"#[error("inode {0} is not a directory")]"#,
    ] {
        assert!(fault(texts(text)).is_some(), "{text}");
    }
    for text in ["/// `ondol recover` does this.", r#"state("name it with `nvm=POOL`")"#, "let a = b - -c;", "a -- b"] {
        assert!(fault(texts(text)).is_none(), "{text}");
    }
}
