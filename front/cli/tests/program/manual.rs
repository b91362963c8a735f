//! What shells and man(1) are told.

use crate::place::{fails, ondol, output, succeeds};
use std::fs;
use std::process::Command;

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = succeeds(ondol().args(["completions", shell]));
        assert!(script.contains("recover") && script.contains("umount"), "{shell}");
    }
    assert!(fails(ondol().args(["completions", "abacus"]), 2).contains("abacus"));
}

#[test]
fn pages_are_written_for_commands_and_helpers() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    succeeds(ondol().arg("manual").arg(&pages));
    for (page, word) in [
        ("ondol.1", "Crash"),
        ("ondol-mount.1", "data="),
        ("ondol-check.1", "Exit code"),
        ("mount.ondol.8", "remount"),
        ("umount.ondol.8", "clean"),
        ("fsck.ondol.8", "journal"),
        ("mkfs.ondol.8", "Label"),
    ] {
        let text = fs::read_to_string(pages.join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.to_lowercase().contains(&word.to_lowercase()), "{page}");
        if !ondol_skips::skips(ondol_skips::missing(&["groff"])) {
            let out = output(Command::new("groff").args(["-man", "-Tascii", "-ww"]).arg(pages.join(page)));
            assert!(out.status.success() && out.stderr.is_empty(), "{page}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
    assert!(!pages.join("ondol-export.1").exists());
}
