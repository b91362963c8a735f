//! Which syncs end in the pool: what was logged shows there until it is synced for real, which happens a second later
//! or at once.

use crate::{Place, Steps, succeeds};
use std::process::Command;

/// A trusted file with one logged write that is acknowledged.
const FAST: [&str; 5] = ["open", "write 5000", "fsync", "pwrite 300 65", "fsync"];

#[test]
fn every_way_to_write_is_logged() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    for first in [&["open"][..], &["append"], &["reopen"], &["dup"], &["osync"]] {
        steps.all(first);
        // The drain may come in between on a slow machine: then once more.
        let logged = (0..5).any(|_| {
            steps.all(&["write 100", "fsync"]);
            let before = place.live();
            steps.all(&["write 1000 66", "writev 1001 67", "pwrite 5000 68", "fdatasync"]);
            place.live() >= before + 2101
        });
        assert!(logged, "{first:?}");
    }
    let bytes = std::fs::read(place.path("f")).unwrap();
    assert!(bytes.len() >= 5100 && bytes[..1000].iter().all(|b| b"xABCD".contains(b)));
    steps.end();
    assert_eq!(place.live(), 0);
}

/// After each of these the next sync is real, and what was in the pool is retired with it.
#[test]
fn what_the_library_does_not_see_makes_the_next_sync_real() {
    let Some(place) = Place::new() else { return };
    let mut wrong = Vec::new();
    for unseen in [
        &["raw 200"][..],
        &["fopena", "fprintf 50"],
        &["fopena", "fprintf 50", "fsyncs"],
        &["fopenw", "fprintf 10"],
        &["fallocate 90000"],
        &["rename"],
        &["map", "store 7"],
        &["raw 200", "pwrite 300"],
    ] {
        let name = format!("f{}", unseen.join("-").replace(' ', ""));
        let mut steps = Steps::new(&place, &name);
        let logged = (0..5).any(|_| {
            steps.all(&FAST);
            place.live() >= 100
        });
        assert!(logged, "{unseen:?}");
        steps.all(unseen);
        steps.all(&["fsync"]);
        let dirty = steps.ask("dirty");
        if place.live() != 0 || dirty != "0" {
            wrong.push(format!("{}: {dirty} pages", unseen.join(", ")));
        }
        steps.end();
    }
    assert_eq!(wrong, [""; 0]);
}

/// What is cut off, or added, is in the pool, too.
#[test]
fn truncations_are_logged() {
    let Some(place) = Place::new() else { return };
    for cut in ["ftruncate 100", "ftruncate 90000", "truncate 100", "trunc"] {
        let mut steps = Steps::new(&place, &cut.replace(' ', ""));
        let logged = (0..5).any(|_| {
            steps.all(&FAST);
            steps.all(&[cut, "pwrite 200", "fsync"]);
            place.live() >= 200 && steps.ask("dirty") != "0"
        });
        assert!(logged, "{cut}");
        steps.end();
    }
    assert_eq!(place.live(), 0);
}

#[test]
fn a_file_that_others_change_is_synced_for_real() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    for change in
        ["printf abc >> f", "printf abc | dd of=f conv=notrunc status=none", "touch f", "chmod 600 f", "ln f g"]
    {
        let logged = (0..5).any(|_| {
            steps.all(&FAST);
            place.live() >= 100
        });
        assert!(logged, "{change}");
        succeeds(Command::new("sh").args(["-c", change]).current_dir(place.path("")));
        steps.all(&["fsync"]);
        assert_eq!(place.live(), 0, "{change}");
    }
    steps.end();
}

#[test]
fn processes_share_a_file() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    let logged = (0..5).any(|_| {
        steps.all(&FAST);
        steps.all(&["fork 400 67", "fork 500 68", "pwrite 600 69", "fsync"]);
        place.live() >= 300
    });
    assert!(logged);
    let bytes = std::fs::read(place.path("f")).unwrap();
    assert_eq!((bytes[399], bytes[400], bytes[599], bytes[699]), (b'A', b'C', b'D', b'E'));
    steps.end();
}

#[test]
fn errors_are_the_kernels() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    assert_eq!(steps.ask("badfd 999"), rustix::io::Errno::BADF.raw_os_error().to_string());
    assert_eq!(steps.ask("badfd 0"), rustix::io::Errno::INVAL.raw_os_error().to_string());
    steps.all(&FAST);
    assert_eq!(steps.ask("pwrite -5"), rustix::io::Errno::INVAL.raw_os_error().to_string());
    assert_eq!(steps.ask("ftruncate -5"), rustix::io::Errno::INVAL.raw_os_error().to_string());
    steps.end();
}

/// What is outside of the directories, or below no directory, is as it was.
#[test]
fn other_files_go_the_slow_way() {
    let Some(place) = Place::new() else { return };
    std::fs::create_dir(place.path("in")).unwrap();
    let program = crate::compiled(place.memory.path(), "steps.c", &["-pthread"]);
    let script = format!("printf 'open\\nwrite 10\\nfsync\\nwrite 10\\nfsync\\n' | '{}' outside", program.display());
    let mut command = crate::ondol();
    command.args(["run", "-q", "--size", "4M", "--dir", "in", "--buffer"]).arg(place.pool()).args(["--", "sh", "-c"]);
    let said = succeeds(
        command
            .arg(format!("{script}; '{}' pool info --json '{}'", env!("CARGO_BIN_EXE_ondol"), place.pool().display()))
            .current_dir(place.path("")),
    );
    assert!(said.starts_with("ok\nok\nok\nok\nok\n") && said.contains("\"run_files\":[]"), "{said}");
}

/// Removed while only the pool has its last writes: they do not stay there.
#[test]
fn a_removed_file_leaves_nothing_in_the_pool() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    for _ in 0..3 {
        steps.all(&FAST);
        std::fs::remove_file(place.path("f")).unwrap();
        assert!(crate::eventually(|| place.live() == 0));
        steps.all(&["pwrite 10", "fsync"]);
    }
    steps.end();
    assert_eq!(place.live(), 0);
}

/// The kernel sets the ctime of a large write before it copies the bytes: a sync meanwhile must not make the file
/// trusted.
#[test]
fn a_write_that_is_under_way_is_waited_for() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    for delay in [0, 20, 60] {
        steps.all(&["open", "pwrite 0", "begin"]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        steps.all(&["fsync", "fsync", "join", "fsync"]);
        assert_eq!((steps.ask("dirty").as_str(), place.live()), ("0", 0), "{delay} ms");
    }
    steps.end();
}

/// A program that was just written can be run, though somebody syncs it.
#[test]
fn what_is_written_can_be_run_at_once() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    let program = std::fs::read("/bin/true").unwrap();
    for _ in 0..3 {
        steps.all(&FAST);
        assert!(crate::eventually(|| place.live() > 0 || {
            steps.all(&["pwrite 300", "fsync"]);
            false
        }));
        // Long enough for the drain to have it open, not long enough for it to be done.
        std::thread::sleep(std::time::Duration::from_millis(100));
        steps.all(&["quit"]);
        std::fs::write(place.path("f"), &program).unwrap();
        std::fs::set_permissions(place.path("f"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert!(std::process::Command::new(place.path("f")).status().unwrap().success());
    }
    steps.end();
}
