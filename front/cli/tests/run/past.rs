//! What goes past the log, or comes to it by a way of its own: after any of it no older record may be left over what
//! was promised.

use crate::power::{Mounted, unavailable};
use crate::{Place, Steps, eventually, succeeds};
use ondol_skips::skips;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

/// Twice is a file synced until it is trusted.
const TRUSTED: [&str; 4] = ["open", "write 1000", "fsync", "fsync"];

/// Syncs that end in the pool alone. Once more if the drain comes in between.
#[track_caller]
fn end_in_the_pool(place: &Place, steps: &mut Steps, calls: &[&str], bytes: u64) {
    let ended = (0..5).any(|_| {
        steps.all(calls);
        place.live() >= bytes && steps.ask("dirty") != "0"
    });
    assert!(ended, "{calls:?}");
}

#[test]
fn a_file_that_leaves_the_directories_takes_its_records_along() {
    let Some(place) = Place::new() else { return };
    let dir = place.path("in");
    fs::create_dir(&dir).unwrap();
    for (way, then) in [("out 0", "fsync"), ("out 1", "fsync"), ("out 2", "write 10")] {
        let mut steps = Steps::within(&place, &dir, "f");
        steps.all(&TRUSTED);
        end_in_the_pool(&place, &mut steps, &["write 100", "fsync"], 100);
        steps.all(&[way, "write 10", then]);
        // What was promised last is on the disk with nothing older live, or in the pool itself.
        let (live, dirty) = (place.live(), steps.ask("dirty"));
        assert!(live == 0 || dirty != "0", "{way}: {live} bytes live, {dirty} pages dirty");
        steps.end();
        fs::remove_file(place.path("out")).unwrap();
        let _ = fs::remove_file(dir.join("f"));
    }
}

/// A file gets a slot, and an acknowledged record, while a durable write to it is on its way that found none.
#[test]
fn a_slot_that_comes_late_leaves_nothing_older() {
    let Some(place) = Place::new() else { return };
    let dir = place.path("in");
    fs::create_dir(&dir).unwrap();
    for way in ["late 0", "late 1"] {
        let mut steps = Steps::within(&place, &dir, "f");
        let run = rustix::process::Pid::from_child(&steps.child);
        // Once it has begun: nobody drains meanwhile.
        assert_eq!(steps.ask("next"), "3");
        rustix::process::kill_process(run, rustix::process::Signal::STOP).unwrap();
        let answer = steps.ask(way);
        let live = place.live();
        rustix::process::kill_process(run, rustix::process::Signal::CONT).unwrap();
        if answer == rustix::io::Errno::PERM.raw_os_error().to_string() {
            return ondol_skips::skip("userfaultfd may not be used here");
        }
        assert_eq!((answer.as_str(), live), ("ok", 0), "{way}");
        steps.end();
        fs::remove_file(dir.join("f")).unwrap();
    }
}

/// The pool is an ordinary file: what makes the log durable is a call that the library has a namesake of.
#[test]
fn a_pool_on_a_disk_is_a_pool() {
    let Some(place) = Place::on_disk() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&TRUSTED);
    end_in_the_pool(&place, &mut steps, &["write 100", "fsync"], 100);
    end_in_the_pool(&place, &mut steps, &["write 100", "rawsync"], 100);
    steps.all(&["write 100", "aiosync", "map", "store 5", "fsync", "signals 100 66", "fsync"]);
    steps.end();
    assert_eq!(place.live(), 0);
}

#[test]
fn a_number_that_was_the_librarys_is_another_file() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&TRUSTED);
    steps.all(&["null 1000"]);
    // Live, and not trusted, for as long as nobody drains.
    let run = rustix::process::Pid::from_child(&steps.child);
    let live = (0..5).any(|_| {
        steps.all(&["pwrite 10", "fsync", "fsync", "pwrite 20", "fsync"]);
        rustix::process::kill_process(run, rustix::process::Signal::STOP).unwrap();
        place.live() > 0 || rustix::process::kill_process(run, rustix::process::Signal::CONT).is_err()
    });
    assert!(live);
    steps.all(&["map"]);
    std::thread::sleep(std::time::Duration::from_millis(3200));
    steps.all(&["nullwrite"]);
    rustix::process::kill_process(run, rustix::process::Signal::CONT).unwrap();
    steps.end();
}

#[test]
fn a_child_with_this_memory_changes_nothing_of_it() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&["odsync", "write 2000", "write 1000"]);
    end_in_the_pool(&place, &mut steps, &["write 100"], 100);
    steps.all(&["vfork"]);
    end_in_the_pool(&place, &mut steps, &["write 200"], 200);
    steps.end();
}

#[test]
fn a_child_whose_number_means_something_else_syncs_for_real() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&TRUSTED);
    end_in_the_pool(&place, &mut steps, &["write 100", "fsync"], 100);
    let answer = steps.ask("newpid");
    if answer == rustix::io::Errno::PERM.raw_os_error().to_string() {
        return ondol_skips::skip("no PID namespace can be made here");
    }
    assert_eq!(answer, "ok");
    assert_eq!((steps.ask("dirty").as_str(), place.live()), ("0", 0));
    steps.end();
}

#[test]
fn syncs_by_other_doors_are_syncs() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&TRUSTED);
    end_in_the_pool(&place, &mut steps, &["write 100", "rawsync"], 100);
    steps.all(&["write 100", "aiosync"]);
    assert_eq!(steps.ask("dirty"), "0");
    steps.end();
}

/// A write by whoever may not set these bits takes them away, which no record says.
#[test]
fn a_file_with_setuid_is_synced_for_real() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&TRUSTED);
    fs::set_permissions(place.path("f"), fs::Permissions::from_mode(0o4755)).unwrap();
    for _ in 0..3 {
        steps.all(&["write 100", "fsync"]);
        assert_eq!((steps.ask("dirty").as_str(), place.live()), ("0", 0));
    }
    steps.end();
}

#[test]
fn threads_that_wait_may_be_cancelled() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    // Each sync is real, and has the file's lock meanwhile.
    steps.all(&["open", "write 5000", "map", "fsync", "cancel", "write 10", "fsync"]);
    steps.end();
}

#[test]
fn a_signal_handler_may_write_and_sync() {
    let Some(place) = Place::new() else { return };
    let mut steps = Steps::new(&place, "f");
    steps.all(&TRUSTED);
    steps.all(&["signals 300 66"]);
    steps.all(&["fsync"]);
    steps.end();
    let bytes = fs::read(place.path("f")).unwrap();
    assert!(bytes.len() == 4097 && bytes.starts_with(&[b'B'; 100]) && bytes.ends_with(b"S"), "{}", bytes.len());
    assert_eq!(place.live(), 0);
}

/// The disk refuses what the pool has: whoever syncs the file next is told, each time, until it is there.
#[test]
fn what_the_disk_refuses_is_kept_and_said() {
    if skips(unavailable(&["cc", "mkfs.ext4"])) {
        return;
    }
    let Some(place) = Place::new() else { return };
    // A device that has no room for new blocks: a file with holes on a file system that will be full.
    let (small, dir) = (place.memory.path().join("small"), place.memory.path().join("mnt"));
    fs::create_dir(&small).unwrap();
    fs::create_dir(&dir).unwrap();
    succeeds(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64M", "none"]).arg(&small));
    let _below = Below(&small);
    let image = small.join("image");
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    succeeds(Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal", "-b", "4096", "-N", "64"]).arg(&image));
    // What describes the file system has room.
    let file = File::options().read(true).write(true).open(&image).unwrap();
    let mut front = vec![0; 1 << 20];
    file.read_exact_at(&mut front, 0).unwrap();
    file.write_all_at(&front, 0).unwrap();
    let mut mounted = Mounted::new(&image, &dir);
    fs::write(dir.join("ballast"), vec![1; 32 << 20]).unwrap();
    rustix::fs::syncfs(File::open(&dir).unwrap()).unwrap();
    let mut steps = Steps::within(&place, &dir, "f");
    steps.all(&TRUSTED);
    let mut rest = File::create(small.join("rest")).unwrap();
    while rest.write(&[0; 4096]).is_ok() {}
    steps.all(&["seek 1048576"]);
    end_in_the_pool(&place, &mut steps, &["write 5000 66", "write 5000 66", "fsync"], 10_000);
    let refused = rustix::io::Errno::IO.raw_os_error().to_string();
    assert!(eventually(|| steps.ask("fsync") == refused));
    // The kernel says it once to each descriptor.
    for _ in 0..3 {
        assert_eq!(steps.ask("fsync"), refused);
    }
    drop(rest);
    fs::remove_file(small.join("rest")).unwrap();
    steps.end();
    assert!(place.live() >= 10_000);
    let said = place.recover();
    assert_eq!(place.live(), 0, "{said}");
    mounted.unmount();
    drop(mounted);
    let again = Mounted::new(&image, &dir);
    let bytes = fs::read(dir.join("f")).unwrap();
    assert!(bytes.len() >= 1_058_576 && bytes.ends_with(&[b'B'; 10_000]), "{} bytes: {said}", bytes.len());
    drop(again);
}

/// A file system that is unmounted when it is dropped.
struct Below<'d>(&'d std::path::Path);

impl Drop for Below<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
