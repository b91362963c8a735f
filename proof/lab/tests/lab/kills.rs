//! `ondol crash --kill` is a test that can fail: servers that break a rule are found out, and lack of room is told as
//! what it is.

use crate::place::{needs_root, output};
use crate::{lab, scratch};
use ondol_faults::Defect;
use std::path::Path;
use std::process::{Command, Output};

/// What the loop finds, as JSON, and its exit code.
fn killed(dir: &Path, words: &[&str]) -> (Option<i32>, serde_json::Value) {
    let out = output(lab().args(["crash", "--json", "--dir"]).arg(dir).args(words));
    told(&out)
}

fn told(out: &Output) -> (Option<i32>, serde_json::Value) {
    let said = || String::from_utf8_lossy(&out.stderr).into_owned();
    let found = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", said()));
    (out.status.code(), found)
}

fn no_fuse() -> bool {
    ondol_skips::skips(ondol_laboratory::kill::no_fuse())
}

/// What a kill leaves of each engine under a rule that shows then, wherever its image lies.
#[test]
fn servers_that_break_a_rule_are_found() {
    if no_fuse() {
        return;
    }
    for (engine, defect) in [
        ("remap", Defect::RemapSkipped),
        ("remap", Defect::MissingFlushBeforeTail),
        ("swap", Defect::MissingFlushAfterCommit),
        ("scalable", Defect::UnreadRevoke),
        ("classic", Defect::TailTooFar),
    ] {
        let dir = scratch();
        // When a server is killed is chance: on a machine that is busy elsewhere it may have done little by then.
        let kills = |rounds| {
            let words = ["--kill", rounds, "--engine", engine, "--image-size", "32M", "--plant", defect.name()];
            killed(dir.path(), &words)
        };
        let (code, found) = Some(kills("12")).filter(|(code, _)| *code == Some(1)).unwrap_or_else(|| kills("36"));
        assert_eq!(code, Some(1), "{engine} {defect}: {found}");
        assert!(found["violations"].as_u64().unwrap() > 0 && found["lacks"] == serde_json::json!([]), "{found}");
        // What the kill left is kept under a name that says of which engine.
        let kept =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let kept: Vec<String> = kept.collect();
        let is_named = |name: &String| name.starts_with(&format!("ondol-kill-{engine}-journal-seed1-round"));
        assert!(kept.iter().all(is_named) && !kept.is_empty(), "{kept:?}");
    }
}

/// There is room for the pool, and none for a copy of what the kill left.
#[test]
fn lack_of_room_is_no_violation() {
    if no_fuse() || ondol_skips::skips(needs_root()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=38M none \"$1\" && exec \"$2\" crash --kill 1 --engine remap --image-size \
                  32M --processors 1 --json --dir \"$1\"";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path()).arg(env!("CARGO_BIN_EXE_ondol-lab"));
    let (code, found) = told(&output(&mut command));
    assert_eq!((code, &found["violations"]), (Some(2), &0.into()), "{found}");
    let lacks = found["lacks"].to_string();
    assert!(lacks.contains("no room for a copy") && lacks.contains("--dir"), "{found}");
}

/// A volume that the load fills.
#[test]
fn a_full_volume_is_no_violation() {
    if no_fuse() {
        return;
    }
    let dir = scratch();
    let words = ["--kill", "40", "--engine", "remap", "--image-size", "8M", "--processors", "8"];
    let (code, found) = killed(dir.path(), &words);
    assert_eq!((code, &found["violations"]), (Some(2), &0.into()), "{found}");
    let lacks = found["lacks"].to_string();
    assert!(lacks.contains("found the volume full") && lacks.contains("--image-size"), "{found}");
}
