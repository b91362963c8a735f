//! Commands of `ondol-lab`, a program that may be installed or not.

use crate::place::{fails, output};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A copy of the program where nothing is beside it.
fn alone() -> (tempfile::TempDir, Command) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("ondol");
    fs::hard_link(env!("CARGO_BIN_EXE_ondol"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_ondol"), &program).map(drop))
        .unwrap();
    let mut command = Command::new(program);
    command.env("PATH", dir.path()).env_remove("ONDOL");
    (dir, command)
}

#[test]
fn who_has_not_installed_it_is_told_how() {
    for word in ["bench", "crash"] {
        let (_dir, mut command) = alone();
        let said = fails(command.args([word, "--help"]), 1);
        assert!(said.contains(&format!("`ondol {word}`")) && said.contains("its package is ondol-lab"), "{said}");
    }
}

#[test]
fn it_is_told_every_word_and_which_program_called() {
    let (dir, mut command) = alone();
    let lab = dir.path().join("ondol-lab");
    fs::write(&lab, "#!/bin/sh\necho \"$ONDOL\"; for word; do echo \"<$word>\"; done; exit 7\n").unwrap();
    fs::set_permissions(&lab, fs::Permissions::from_mode(0o755)).unwrap();
    let out = output(command.args(["crash", "--help", "a b", "-v", "--", "--seconds", "-1"]));
    let said = String::from_utf8(out.stdout).unwrap();
    let program = dir.path().join("ondol");
    let told = format!("{}\n<crash>\n<--help>\n<a b>\n<-v>\n<-->\n<--seconds>\n<-1>\n", program.display());
    assert_eq!((out.status.code(), said), (Some(7), told));
}
