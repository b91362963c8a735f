//! How many system calls a write takes whose sync ends in the pool. `perf` counts them without slowing anything down: a tracer would, and a write whose looks lie far apart
//! is synced for real.

use crate::{Place, compiled, output};
use ondol_skips::{missing, skip, skips};
use std::path::Path;

/// How many writes more the second run makes than the first.
const MORE: u64 = 200;

/// System calls of a program that does this.
fn calls(place: &Place, program: &Path, steps: &str) -> Option<u64> {
    let file = place.path("f");
    let _ = std::fs::remove_file(&file);
    let counts = place.path("counts");
    let script = format!("printf '{steps}' | '{}' '{}'", program.display(), file.display());
    let mut perf = place.run();
    perf.args(["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-o"]).arg(&counts);
    let out = output(perf.args(["sh", "-c", &script]));
    if !out.status.success() {
        return None;
    }
    assert!(String::from_utf8(out.stdout).unwrap().lines().all(|line| line == "ok"), "{steps}");
    let counted = std::fs::read_to_string(counts).unwrap();
    counted.lines().find_map(|line| line.split_once(",,raw_syscalls").and_then(|(count, _)| count.parse().ok()))
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
    // `docs/design/run.md` says which they are; a capital letter has an fsync behind each write.
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
