//! Writes that are durable when they return: through `O_SYNC` and `O_DSYNC` descriptors, and by flags of their own.
//! What shows in the pool and is dirty in the page cache was not written to the disk.

use crate::{Place, Steps, succeeds};
use ondol_skips::{missing, skips};
use std::process::Command;

/// Writes that end in the pool alone: their bytes are there, and dirty. Once more if the drain comes in between.
#[track_caller]
fn end_in_the_pool(place: &Place, steps: &mut Steps, writes: &[&str], bytes: u64) {
    let ended = (0..5).any(|_| {
        steps.all(writes);
        place.live() >= bytes && steps.ask("dirty") != "0"
    });
    assert!(ended, "{writes:?}");
}

/// The kernel has written all of it to the disk.
#[track_caller]
fn end_on_the_disk(steps: &mut Steps, writes: &[&str]) {
    steps.all(writes);
    assert_eq!(steps.ask("dirty"), "0", "{writes:?}");
}

#[test]
fn every_way_to_write_durably_ends_in_the_pool() {
    let Some(place) = Place::new() else { return };
    for open in ["osync", "odsync", "oappend"] {
        let mut steps = Steps::new(&place, open);
        steps.all(&[open]);
        let flags = steps.ask("flags");
        // The first are real, and so is the sync that makes the file trusted.
        end_on_the_disk(&mut steps, &["write 2000", "write 1000"]);
        end_in_the_pool(&place, &mut steps, &["write 100", "write 1000 66", "writev 1001 67", "pwrite 50 68"], 2201);
        assert_eq!(steps.ask("flags"), flags, "{open}");
        steps.all(&["reopen", "fsync"]);
        end_in_the_pool(&place, &mut steps, &["pwritev2 700", "pwritev2 10 115"], 710);
        steps.end();
    }
    assert_eq!(place.live(), 0);
}

/// What is known of a descriptor's number is not taken for another file's, whatever was not seen.
#[test]
fn a_number_that_is_used_again_is_another_file() {
    let Some(place) = Place::new() else { return };
    for way in ["reused 0", "reused 1", "reused 2"] {
        let mut steps = Steps::new(&place, &way.replace(' ', "-"));
        steps.all(&["osync"]);
        end_on_the_disk(&mut steps, &["write 2000", "write 1000"]);
        end_in_the_pool(&place, &mut steps, &["write 100"], 100);
        steps.all(&[way]);
        end_in_the_pool(&place, &mut steps, &["write 200"], 200);
        steps.end();
    }
}

/// Under `ondol run` and without it: the same answers, and the same bytes in the file.
#[test]
fn offsets_and_ends_are_the_kernels() {
    let Some(place) = Place::new() else { return };
    let calls = [
        "write 3000 65",
        "write 10 66",
        "offset",
        "pwrite 5 67",
        "offset",
        "seek 100",
        "write 7 68",
        "offset",
        "setfl 1",
        "write 9 69",
        "offset",
        "pwrite 0 70",
        "offset",
        "flags",
        "setfl 0",
        "write 11 71",
        "offset",
        "fork 300 72",
        "offset",
        "dup",
        "write 5 73",
        "offset",
        "fsync",
        "seek 9000",
        "write 1 74",
        "offset",
        "ftruncate 4000",
        "write 20 75",
        "offset",
        "raw 12",
        "write 8 76",
        "offset",
        "pwritev2 33 77",
        "offset",
    ];
    let program = crate::compiled(place.memory.path(), "steps.c", &["-pthread"]);
    for open in ["osync", "odsync", "oappend", "append"] {
        let script = format!("{open}\n{}\n", calls.join("\n"));
        let [with, without] = ["with", "without"].map(|name| {
            let pipe = format!("printf '%s' '{script}' | '{}' {name}{open}", program.display());
            let mut shell = if name == "with" { place.run() } else { Command::new("env") };
            let said = succeeds(shell.args(["sh", "-c", &pipe]).current_dir(place.path("")));
            (said, std::fs::read(place.path(&format!("{name}{open}"))).unwrap())
        });
        assert_eq!(with, without, "{open}");
    }
}

/// Closing any descriptor of a file drops the record locks of the process, so no second one may be closed before the
/// program does so.
#[test]
fn record_locks_are_kept() {
    let Some(place) = Place::new() else { return };
    if skips(missing(&["python3"])) {
        return;
    }
    let mut steps = Steps::new(&place, "f");
    steps.all(&["osync", "other", "lock", "write 3000", "write 3000"]);
    end_in_the_pool(&place, &mut steps, &["write 10"], 10);
    let taken = || {
        let script = "import fcntl, sys\nf = open('f', 'r+b')\ntry: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
                      except OSError: print('held')";
        succeeds(Command::new("python3").args(["-c", script]).current_dir(place.path(""))).is_empty()
    };
    assert!(!taken());
    steps.all(&["write 10", "fsync"]);
    assert!(!taken());
    // The program's first descriptor: the lock goes, as without this library.
    steps.all(&["close 3"]);
    assert!(taken());
    steps.end();
}

/// What writes past `O_SYNC` is for this program alone: a child that was not given the file has no descriptor of it.
#[test]
fn children_get_no_descriptor_that_they_were_not_given() {
    let Some(place) = Place::new() else { return };
    for way in ["heirs 0", "heirs 1", "heirs 2"] {
        let mut steps = Steps::new(&place, &way.replace(' ', ""));
        steps.all(&["osync", "write 3000", "write 3000"]);
        end_in_the_pool(&place, &mut steps, &["write 10"], 10);
        // 3 if it has it.
        steps.all(&[way]);
        end_in_the_pool(&place, &mut steps, &["write 10"], 10);
        steps.end();
    }
}

/// Descriptors are left to the program: the standard streams' numbers, and half of all.
#[test]
fn numbers_are_the_programs() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&["osync", "limit 7"]);
    for _ in 0..3 {
        end_on_the_disk(&mut steps, &["write 3000"]);
    }
    steps.end();
    let mut steps = Steps::new(&place, "g");
    steps.all(&["osync", "close 2"]);
    end_on_the_disk(&mut steps, &["write 3000", "write 3000"]);
    assert_eq!(steps.ask("next"), "2");
    steps.end();
    // With one, and closed together with the program's.
    let mut steps = Steps::new(&place, "h");
    steps.all(&["osync", "write 3000"]);
    assert_eq!(steps.ask("next"), "4");
    steps.all(&["write 3000"]);
    assert_eq!(steps.ask("next"), "5");
    steps.all(&["close 3"]);
    assert_eq!(steps.ask("next"), "3");
    // Somebody who closes what it does not know, and opens another file there.
    steps.all(&["osync", "write 3000", "write 3000", "close 4", "other"]);
    end_in_the_pool(&place, &mut steps, &["write 10"], 10);
    // The same file, by a description that appends: what is written goes where it belongs.
    steps.all(&["close 4", "otherappend", "seek 100"]);
    assert_eq!(steps.ask("next"), "5");
    end_in_the_pool(&place, &mut steps, &["seek 100", "write 10 81"], 10);
    steps.end();
    let bytes = std::fs::read(place.path("h")).unwrap();
    assert_eq!(bytes[99..111], *b"xQQQQQQQQQQx");
    assert!(!bytes[111..].contains(&b'Q'));
}

/// A file that the process may no longer open is written to as ever.
#[test]
fn what_may_not_be_opened_is_written_by_the_kernel() {
    let Some(place) = Place::new() else { return };
    if !rustix::process::geteuid().is_root() {
        ondol_skips::skip("only root may become somebody else");
        return;
    }
    let mut steps = Steps::new(&place, "f");
    steps.all(&["osync", "setuid 65534"]);
    for _ in 0..3 {
        end_on_the_disk(&mut steps, &["write 3000", "pwrite 5"]);
    }
    assert_eq!(place.live(), 0);
    steps.end();
}

/// A sync of a range that waits for the end is as good as an fsync; one that only sets out is the kernel's.
#[test]
fn ranges_are_synced_in_the_pool() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&["open", "write 5000", "fsync"]);
    end_in_the_pool(&place, &mut steps, &["pwrite 300 65", "range 7"], 100);
    assert!(crate::eventually(|| {
        steps.all(&["pwrite 300 66", "range 2"]);
        steps.ask("dirty") == "0" || place.live() == 0
    }));
    assert_eq!(steps.ask("range 8"), rustix::io::Errno::INVAL.raw_os_error().to_string());
    steps.end();
}
