//! What the fuzzer found, and the smallest inputs that reach what it reached: all of them again, by an ordinary test.

use ondol_hostile::Target;
use std::path::{Path, PathBuf};

/// Files in a directory of `fuzz/`, in order; none if there is no such directory.
fn inputs(kind: &str, target: Target) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(kind).join(target.name());
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a directory entry").path()).collect();
    files.sort();
    files
}

/// Runs all inputs of one target.
fn run(target: Target) {
    let mut count = 0;
    for kind in ["regressions", "corpus"] {
        for path in inputs(kind, target) {
            let bytes = std::fs::read(&path).expect("an input");
            let result = std::panic::catch_unwind(|| target.run(&bytes));
            assert!(result.is_ok(), "{} with {}", target.name(), path.display());
            count += 1;
        }
    }
    assert!(count > 0, "no inputs for {}", target.name());
}

#[test]
fn walk() {
    run(Target::Walk);
}

#[test]
fn names() {
    run(Target::Names);
}

#[test]
fn contents() {
    run(Target::Contents);
}

#[test]
fn xattrs() {
    run(Target::Xattrs);
}

#[test]
fn journal() {
    run(Target::Journal);
}

#[test]
fn units() {
    run(Target::Units);
}

#[test]
fn any() {
    run(Target::Any);
}

#[test]
fn crash() {
    run(Target::Crash);
}

#[test]
fn pool() {
    run(Target::Pool);
}

#[test]
fn log() {
    run(Target::Log);
}

#[test]
fn words() {
    run(Target::Words);
}

#[test]
fn requests() {
    run(Target::Requests);
}

#[test]
fn table() {
    run(Target::Table);
}

/// Inputs that nobody chose: every target takes any bytes.
#[test]
fn any_bytes_are_taken() {
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for target in Target::ALL {
        for n in 0..60 {
            let bytes: Vec<u8> = (0..n * 3).map(|_| byte()).collect();
            target.run(&bytes);
        }
    }
}
