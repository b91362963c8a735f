//! What shells and man(1) are told.

use crate::place::{fails, ondol, output, succeeds};
use std::fs;
use std::process::Command;

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = succeeds(ondol().args(["completions", shell]));
        assert!(script.contains("recover") && script.contains("umount") && script.contains("bench"), "{shell}");
    }
    assert!(fails(ondol().args(["completions", "abacus"]), 2).contains("abacus"));
}

#[test]
fn pages_are_written_for_commands_and_helpers() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    succeeds(ondol().arg("manual").arg(&pages));
    for (page, word) in [
        ("man1/ondol.1", "Crash"),
        ("man1/ondol-mount.1", "data="),
        ("man1/ondol-check.1", "Exit code"),
        ("man8/mount.ondol.8", "remount"),
        ("man8/umount.ondol.8", "clean"),
        ("man8/fsck.ondol.8", "journal"),
        ("man8/mkfs.ondol.8", "Label"),
    ] {
        let text = fs::read_to_string(pages.join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.to_lowercase().contains(&word.to_lowercase()), "{page}");
        if !ondol_skips::skips(ondol_skips::missing(&["groff"])) {
            let out = output(Command::new("groff").args(["-man", "-Tascii", "-ww"]).arg(pages.join(page)));
            assert!(out.status.success() && out.stderr.is_empty(), "{page}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
    // Each section holds its own pages, and nothing lies beside them.
    let names = |dir: &std::path::Path| -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&pages).len(), 2);
    for (section, ending) in [("man1", ".1"), ("man8", ".8")] {
        let found = names(&pages.join(section));
        assert!(!found.is_empty() && found.iter().all(|name| name.ends_with(ending)), "{section}: {found:?}");
    }
}
