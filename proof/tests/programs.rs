//! Programs that people use, on a mount: the short ones of `cargo xtask programs`.

use ondol_tests::programs::{Outcome, Setting, Target, named, run};
use std::path::Path;

fn passes(name: &str, targets: &[&str]) {
    let program = named(name).unwrap();
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    for target in targets {
        let target: Target = target.parse().unwrap();
        let report = run(&program, &target, &Setting::new(0, 1, logs.clone()));
        match &report.outcome {
            Outcome::Passed(_) => {}
            Outcome::Skipped(why) => ondol_skips::skip(format!("{name}: {why}")),
            Outcome::Failed(why) => panic!("{name} on {target}: {why}"),
        }
    }
}

#[test]
fn git_clones_and_checks() {
    passes("git", &["ordered", "compressed"]);
}

#[test]
fn tar_and_diff() {
    passes("tar", &["journal"]);
}

#[test]
fn rsync_has_nothing_left_to_do() {
    passes("rsync", &["ordered"]);
}

#[test]
fn sqlite_keeps_its_integrity() {
    passes("sqlite", &["ordered", "journal", "writeback", "compressed"]);
}

#[test]
fn a_c_program_is_built() {
    passes("cc", &["ordered"]);
}

#[test]
fn small_images_fill_up_and_go_on() {
    passes("full", &["ordered", "journal", "compressed"]);
}

#[test]
fn posix_calls_end_as_in_the_kernel() {
    passes("pjdfstest", &["ordered"]);
}

#[test]
fn one_file_against_a_copy_in_memory() {
    passes("fsx", &["journal", "compressed", "compressed-ordered"]);
}

#[test]
fn nobody_sees_old_bytes_after_asynchronous_direct_writes() {
    passes("aio", &["ordered", "journal", "compressed"]);
}
