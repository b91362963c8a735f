//! How `ondol run` ends, and what it refuses.

use crate::{ondol, output};
use std::os::unix::process::ExitStatusExt;

fn run(words: &[&str]) -> std::process::Output {
    let dir = tempfile::tempdir().unwrap();
    let size = if words.contains(&"--size") { &[][..] } else { &["--size", "4M"] };
    output(ondol().args(["run", "-q", "--buffer"]).arg(dir.path().join("pool")).args(size).args(words))
}

#[test]
fn codes_and_signals_are_the_programs() {
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["true"]).status.code(), Some(0));
    assert_eq!(run(&["--", "sh", "-c", "kill -TERM $$"]).status.signal(), Some(15));
    assert_eq!(run(&["--", "sh", "-c", "kill -KILL $$"]).status.signal(), Some(9));
    assert_eq!(run(&["/no/such/program"]).status.code(), Some(127));
    assert_eq!(run(&["/"]).status.code(), Some(126));
}

#[test]
fn what_it_cannot_use_is_said_in_one_line() {
    for (words, code, said) in [
        (&["--dir", "/no/such", "true"][..], 125, "/no/such"),
        (&["--dir", "/etc/passwd", "true"], 2, "no directory"),
        (&["--size", "100K", "true"], 125, "too little"),
        (&[], 2, "COMMAND"),
    ] {
        let out = run(words);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), text.lines().count()), (Some(code), 1), "{words:?}: {text}");
        assert!(text.starts_with("ondol: ") && text.contains(said), "{words:?}: {text}");
    }
}

#[test]
fn a_pool_is_made_in_the_users_own_directory() {
    let home = tempfile::tempdir().unwrap();
    let mut command = ondol();
    command.args(["run", "--size", "4M", "--", "sh", "-c", "exit 3"]).env("HOME", home.path());
    for variable in ["XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(variable);
    }
    assert_eq!(output(&mut command).status.code(), Some(3));
    let pool = home.path().join(".local/state/ondol/run.pool");
    let meta = pool.metadata().unwrap();
    assert_eq!((meta.len(), std::os::unix::fs::MetadataExt::mode(&meta) & 0o777), (4 << 20, 0o600));
    let out = output(ondol().arg("recover").arg(&pool));
    assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).contains("nothing is left"), "{out:?}");
    let out = output(ondol().args(["recover", "--discard-nvm"]).arg(&pool));
    assert_eq!(out.status.code(), Some(2), "{out:?}");
}
