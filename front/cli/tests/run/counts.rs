//! How many system calls a write takes whose sync ends in the pool: `pwrite` process, look, flags (others may set
//! `O_APPEND`), the write, look; `write` the offset before and after as well; with `O_SYNC` a look at the second
//! description, and for `write` the offset's move and signals off and on; `fsync` flags, process, look.
//!
//! `perf` counts them without slowing anything down: a tracer would, and a write whose looks lie far apart
//! is synced for real.

use crate::{Place, compiled, output};
use ondol_skips::{missing, skip, skips};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// How many writes more the second run makes than the first.
const MORE: u64 = 200;

/// What `perf` counts of an event; none if it may not.
fn counted(place: &Place, event: &str, command: impl FnOnce(&[&OsStr]) -> Command) -> Option<u64> {
    let counts = place.path("counts");
    let words = ["perf", "stat", "-x", ",", "-e", event, "-o"].map(OsStr::new);
    let out = output(&mut command(&[&words[..], &[counts.as_os_str()]].concat()));
    if !out.status.success() {
        return None;
    }
    assert!(String::from_utf8(out.stdout).unwrap().lines().all(|line| line == "ok"));
    let text = std::fs::read_to_string(counts).unwrap();
    text.lines().find_map(|line| line.split_once(",,").and_then(|(count, _)| count.parse().ok()))
}

fn script(place: &Place, program: &Path, steps: &str) -> String {
    format!("printf '{steps}' | '{}' '{}'", program.display(), place.path("f").display())
}

/// System calls of a program that does this.
fn calls(place: &Place, program: &Path, steps: &str) -> Option<u64> {
    calls_of(place.run(), place, program, steps)
}

/// As [`calls`], as the last words of a command.
fn calls_of(mut run: Command, place: &Place, program: &Path, steps: &str) -> Option<u64> {
    let _ = std::fs::remove_file(place.path("f"));
    counted(place, "raw_syscalls:sys_enter", |perf| {
        run.args(perf).args(["sh", "-c", &script(place, program, steps)]);
        run
    })
}

#[test]
fn a_write_takes_few_system_calls() {
    let Some(place) = Place::new() else { return };
    if skips(missing(&["perf"])) {
        return;
    }
    let program = compiled(place.memory.path(), "steps.c", &["-pthread"]);
    if calls(&place, &program, "open").is_none() {
        skip("perf may not count system calls");
        return;
    }
    // The head of this file says which they are; a capital letter has an fsync behind each write.
    for (begin, kind, most) in [("osync", "w", 10), ("osync", "p", 6), ("open", "W", 10), ("open", "P", 8)] {
        let run = |count: u64| {
            let steps = format!("{begin}\\nwrite 512\\nfsync\\nmany {count} {}\\n", u32::from(kind.as_bytes()[0]));
            calls(&place, &program, &steps).unwrap()
        };
        // A thread that loses its processor costs some more.
        let fewest = (0..5).map(|_| run(50 + MORE).saturating_sub(run(50))).min().unwrap();
        assert!(fewest <= most * MORE + MORE / 10, "{begin}, {kind}: {fewest} system calls for {MORE} writes");
    }
}

/// Where nobody syncs, no file costs a system call more than without `ondol run`.
#[test]
fn what_nobody_syncs_costs_no_system_call() {
    let Some(place) = Place::new() else { return };
    if skips(missing(&["perf"])) {
        return;
    }
    let program = compiled(place.memory.path(), "steps.c", &["-pthread"]);
    if calls(&place, &program, "open").is_none() {
        skip("perf may not count system calls");
        return;
    }
    let count = |run: &dyn Fn() -> Command, files: u64| {
        let steps = format!("open\\nplain {files}\\nmany {files} 112\\n");
        calls_of(run(), &place, &program, &steps).unwrap()
    };
    let fewest =
        |run: &dyn Fn() -> Command| (0..3).map(|_| count(run, 50 + MORE).saturating_sub(count(run, 50))).min().unwrap();
    let (without, with) = (fewest(&|| Command::new("env")), fewest(&|| place.run()));
    // Nine for each: those of `plain`, and one write.
    assert!(without >= 9 * MORE, "{without}");
    assert!(with <= without + MORE / 10, "{with} system calls, {without} without");
}

/// Files that are removed before the drain has them open cost one sync of their file system together.
#[test]
fn removed_files_are_synced_together() {
    let Some(place) = Place::new() else { return };
    if skips(missing(&["perf"])) {
        return;
    }
    let program = compiled(place.memory.path(), "steps.c", &["-pthread"]);
    let syncs = || {
        counted(&place, "syscalls:sys_enter_syncfs", |perf| {
            let run = place.run();
            let mut all = Command::new(perf[0]);
            all.args(&perf[1..]).arg(run.get_program()).args(run.get_args()).current_dir(place.dir.path());
            all.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
            all.args(["sh", "-c", &script(&place, &program, "journals 60\\n")]);
            all
        })
    };
    if syncs().is_none() {
        skip("perf may not count system calls");
        return;
    }
    // More if the program takes longer than files are left alone; none if all of them were open in time.
    let fewest = (0..5).filter_map(|_| syncs().filter(|syncs| *syncs > 0)).min();
    assert!(fewest.is_some_and(|syncs| syncs <= 10), "{fewest:?} syncs of the file system for 60 files");
    assert_eq!(place.live(), 0);
}
