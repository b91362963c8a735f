//! What is shown of images, and how far something is on a terminal.

use crate::place::{Place, ondol, output, succeeds};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the program shows on a terminal, by script(1).
fn on_terminal(dir: &Path, line: &str) -> String {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_ondol")), "/dev/null"]);
    let out = output(command.current_dir(dir).stdin(Stdio::null()));
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{line}: {shown}");
    shown
}

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    if ondol_skips::skips(ondol_skips::missing(&["script"])) {
        return;
    }
    let Some(mut place) = Place::new() else { return };
    place.lose_server();
    let dir = place.image().parent().unwrap().to_owned();
    fs::copy(place.image(), dir.join("copy.img")).unwrap();
    succeeds(ondol().args(["mkfs", "--size", "16M", "nvm:pool"]).current_dir(&dir));
    // The line is taken away before what is said in the end.
    for (line, progress, end) in [
        ("recover copy.img", "recovering: written ", "clean"),
        ("check copy.img", "checking: inodes, by group ", "in use"),
        ("export nvm:pool out.img", "exporting: copied ", "an image of 16777216 bytes"),
        ("resize copy.img 96M", "resizing: blocks added ", "the file has 100663296 bytes now"),
        ("resize copy.img 40M", "resizing: inodes, by group ", "the file has 41943040 bytes now"),
    ] {
        let shown = on_terminal(&dir, line);
        let (before, after) =
            shown.rsplit_once("\x1b[2K").unwrap_or_else(|| panic!("{line}: no line was taken away: {shown}"));
        assert!(before.contains(progress), "{line}: {shown}");
        assert!(after.contains(end) && !after.contains(progress), "{line}: {shown}");
    }
    fs::copy(place.image(), dir.join("copy.img")).unwrap();
    fs::remove_file(dir.join("out.img")).unwrap();
    for line in ["recover copy.img", "check copy.img", "export nvm:pool out.img", "resize copy.img 96M"] {
        let out = output(ondol().args(line.split(' ')).current_dir(&dir));
        assert!(out.status.success() && out.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// All that the JSON has is in the text, by the same names.
#[test]
fn info_shows_the_same_in_both_forms() {
    let Some(place) = Place::mounted("rw") else { return };
    let shown = |target: &Path| {
        let text = succeeds(ondol().args(["info", "--stats"]).arg(target));
        let json = succeeds(ondol().args(["info", "--stats", "--json"]).arg(target));
        (text, serde_json::from_str::<serde_json::Value>(&json).unwrap())
    };
    fn names(value: &serde_json::Value, all: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            all.push(name.replace('_', " "));
            names(value, all);
        }
    }
    let check = |target: &Path| {
        let (text, json) = shown(target);
        let mut all = Vec::new();
        names(&json, &mut all);
        assert!(all.len() > 20);
        for name in all {
            let is_shown = |line: &str| {
                line.trim_start().strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([' ', ':']))
            };
            assert!(text.lines().any(is_shown), "{name}: {text}");
        }
        text
    };
    let text = check(&place.mount_point());
    assert!(text.starts_with("target "), "{text}");
    assert!(text.contains("\nstate            mounted\n") && text.contains("(64 MiB)\n"), "{text}");
    place.umount();
    check(&place.image());
}
