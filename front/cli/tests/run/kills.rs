//! Killed programs, killed `ondol run`, and others who come first.

use crate::power::{Mounted, unavailable};
use crate::{Place, Steps, ondol, output, succeeds};
use ondol_skips::skips;
use rustix::process::{Signal, kill_process};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Kills a program that has done this, so that what it has acknowledged is in the pool alone and nobody is left who
/// would sync it. Answers its file.
fn killed_after(place: &Place, dir: &Path, calls: &[&str]) -> Vec<u8> {
    for attempt in 0..5 {
        let mut steps = Steps::within(place, dir, "f");
        steps.all(calls);
        let program = steps.program();
        steps.child.kill().unwrap();
        kill_process(program, Signal::KILL).unwrap();
        steps.child.wait().unwrap();
        drop(steps);
        // The kernel takes a moment to take the dead program's mapping down, which holds the pool.
        while !output(ondol().args(["pool", "dump"]).arg(place.pool())).status.success() {}
        if place.live() > 0 {
            return std::fs::read(dir.join("f")).unwrap();
        }
        assert!(attempt < 4, "the drain is always first");
    }
    unreachable!()
}

/// A file with acknowledged writes that only the pool has.
fn killed(place: &Place) -> Vec<u8> {
    let calls = ["open", "write 5000", "fsync", "pwrite 300 65", "pwrite 350 66", "pwrite 6000 67", "fsync"];
    killed_after(place, place.dir.path(), &calls)
}

#[test]
fn a_killed_program_loses_nothing() {
    let Some(place) = Place::new() else { return };
    let before = killed(&place);
    assert_eq!((before.len(), before[300], before[350], before[449]), (6100, b'A', b'B', b'B'));
    let said = recovers(&place);
    assert!(said.contains("had everything already") && said.contains("nothing is left"), "{said}");
    assert_eq!(std::fs::read(place.path("f")).unwrap(), before);
    assert!(!place.recover().contains("already"));
}

/// Waits for the lock of a program that was killed a moment ago.
fn recovers(place: &Place) -> String {
    loop {
        let out = output(ondol().arg("recover").arg(place.pool()));
        if out.status.success() {
            return String::from_utf8(out.stdout).unwrap();
        }
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains("in use") || said.contains("use"), "{said}");
    }
}

#[test]
fn the_next_run_brings_home_what_the_last_one_left() {
    let Some(place) = Place::new() else { return };
    killed(&place);
    let said = loop {
        let out = output(place.run().arg("true"));
        assert!(out.status.success());
        let said = String::from_utf8(out.stderr).unwrap();
        if said.contains("already") || place.live() == 0 {
            break said;
        }
    };
    assert!(said.contains("had everything already"), "{said}");
    assert_eq!(place.live(), 0);
}

#[test]
fn what_others_changed_since_stays_and_the_writes_are_beside_it() {
    let Some(place) = Place::new() else { return };
    killed(&place);
    std::fs::write(place.path("f"), b"new contents of somebody else").unwrap();
    let said = recovers(&place);
    assert!(said.contains("somebody else has changed it"), "{said}");
    assert_eq!(std::fs::read(place.path("f")).unwrap(), b"new contents of somebody else");
    let beside = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().path());
    let beside = beside.into_iter().find(|path| path.to_string_lossy().contains(".ondol-")).unwrap();
    let bytes = std::fs::read(beside).unwrap();
    assert_eq!((bytes.len(), bytes[299], bytes[300], bytes[449], bytes[6099]), (6100, 0, b'A', b'B', b'C'));
}

#[test]
fn a_file_is_found_by_its_handle_or_known_to_be_gone() {
    let Some(place) = Place::new() else { return };
    let root = rustix::process::geteuid().is_root();
    killed(&place);
    std::fs::rename(place.path("f"), place.path("g")).unwrap();
    assert!(recovers(&place).contains("had everything already"));
    killed(&place);
    std::fs::remove_file(place.path("f")).unwrap();
    if root {
        assert!(recovers(&place).contains("was removed"));
    } else {
        succeeds(ondol().args(["recover", "--force"]).arg(place.pool()));
    }
    assert_eq!(place.live(), 0);
}

/// A program that lives on after `ondol run` was killed goes on writing, and another `ondol run` drains for it.
/// All of them find, or make, the one pool.
#[test]
fn several_may_begin_at_once() {
    let Some(place) = Place::new() else { return };
    for round in 0..6 {
        let begin = |n: u32| {
            let script = format!("echo {n} > {n}; sync {n}; sleep 0.1");
            place.run().args(["sh", "-c", &script]).spawn().unwrap()
        };
        let all: Vec<_> = (0..3).map(begin).collect();
        for mut run in all {
            assert!(run.wait().unwrap().success(), "round {round}");
        }
        if round % 2 == 0 {
            std::fs::remove_file(place.pool()).unwrap();
        }
    }
}

#[test]
fn another_run_takes_over() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&["open", "write 5000", "fsync"]);
    let program = steps.program();
    steps.child.kill().unwrap();
    steps.child.wait().unwrap();
    for _ in 0..200 {
        steps.all(&["pwrite 300 65", "pwrite 5000 66", "fsync"]);
    }
    assert!(place.live() > 0);
    succeeds(place.run().args(["sh", "-c", "sleep 0.2"]));
    assert_eq!(place.live(), 0);
    steps.all(&["pwrite 400 67", "fsync"]);
    drop(steps.to.take());
    let gone = || rustix::process::test_kill_process(program).is_err();
    while !gone() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(std::fs::read(place.path("f")).unwrap()[400], b'C');
}

/// The kernel ends at the mount what it had begun of a truncation, and gives the file the time of that.
#[test]
fn a_file_whose_truncation_the_mount_ends_gets_what_was_synced() {
    let Some(place) = Place::new() else { return };
    if skips(unavailable(&["debugfs"])) {
        return;
    }
    let [image, copy, dir] = ["image", "copy", "mnt"].map(|name| place.memory.path().join(name));
    std::fs::create_dir(&dir).unwrap();
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    succeeds(Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&image));
    let mut mounted = Mounted::new(&image, &dir);
    let calls = ["open", "write 5000", "fsync", "ftruncate 3000", "pwrite 6000 67", "fsync"];
    let whole = killed_after(&place, &dir, &calls);
    let before = std::fs::metadata(dir.join("f")).unwrap();
    mounted.unmount();
    std::fs::copy(&image, &copy).unwrap();
    // As the kernel's journal has it while the blocks behind the new end are being freed.
    for change in ["set_inode_field f size 3000".into(), format!("set_super_value last_orphan {}", before.ino())] {
        succeeds(Command::new("debugfs").args(["-w", "-R", &change]).arg(&copy));
    }
    // Past the horizon.
    std::thread::sleep(std::time::Duration::from_secs(6));
    let again = Mounted::new(&copy, &dir);
    let ended = std::fs::metadata(dir.join("f")).unwrap();
    assert!(ended.len() == 3000 && ended.mtime() > before.mtime() + 5, "{ended:?}");
    let said = recovers(&place);
    assert!(said.contains("nothing is left") && !said.contains("somebody else"), "{said}");
    assert!(std::fs::read(dir.join("f")).unwrap() == whole);
    drop(again);
}
