//! How mounts begin and end, and what the image is then.

use crate::place::{Place, fails, ondol, succeeds, unmounts};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;

fn signal(place: &mut Place, server: usize, signal: Signal) {
    let pid = Pid::from_child(place.server(server));
    kill_process(pid, signal).unwrap();
}

#[test]
fn umount_returns_when_the_image_is_clean() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("file"), vec![7; 1 << 20]).unwrap();
    place.umount();
    assert!(place.is_unlocked());
    assert!(!place.is_mounted());
    place.is_clean();
    place.mount("ro");
    assert_eq!(fs::read(place.on("file")).unwrap(), vec![7; 1 << 20]);
    assert_eq!(fs::write(place.on("more"), b"x").unwrap_err().raw_os_error(), Some(30));
    place.umount();
}

#[test]
fn mount_tables_show_the_image() {
    let Some(place) = Place::mounted("rw") else { return };
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = format!(" {} ", place.mount_point().display());
    let line = table.lines().find(|l| l.contains(&point)).unwrap();
    assert!(line.contains(&format!(" - fuse.ondol {} ", place.image().display())), "{line}");
    assert!(line.contains("nosuid,nodev"), "{line}");
    place.umount();
}

#[test]
fn a_signal_ends_a_server_cleanly() {
    for end in [Signal::TERM, Signal::INT] {
        let Some(mut place) = Place::new() else { return };
        let server = place.serve();
        fs::create_dir_all(place.on("a/b/c")).unwrap();
        fs::write(place.on("a/b/c/file"), b"text").unwrap();
        signal(&mut place, server, end);
        let status = place.server(server).wait().unwrap();
        assert!(status.success(), "{end:?}: {status}");
        assert!(place.is_unlocked() && !place.is_mounted());
        place.is_clean();
    }
}

#[test]
fn a_signal_ends_a_server_whose_mount_is_in_use() {
    let Some(mut place) = Place::new() else { return };
    let server = place.serve();
    let mut file = File::create(place.on("open")).unwrap();
    file.write_all(b"before").unwrap();
    let unlinked = File::create(place.on("unlinked")).unwrap();
    (&unlinked).write_all(&[1; 100_000]).unwrap();
    fs::remove_file(place.on("unlinked")).unwrap();
    signal(&mut place, server, Signal::TERM);
    assert!(place.server(server).wait().unwrap().success());
    assert!(file.write_all(b"after").is_err());
    assert!(place.is_unlocked() && !place.is_mounted());
    place.is_clean();
    place.mount("ro");
    assert_eq!(fs::read(place.on("open")).unwrap(), b"before");
    assert!(!place.on("unlinked").exists());
    place.umount();
}

#[test]
fn umount_8_and_fusermount_end_a_server() {
    for program in ["umount", "fusermount3"] {
        let Some(mut place) = Place::new() else { return };
        let server = place.serve();
        fs::write(place.on("file"), program).unwrap();
        let mut command = Command::new(program);
        if program == "fusermount3" {
            command.arg("-u");
        }
        if let Err(e) = Command::new(program).arg("--version").output() {
            return ondol_skips::skip(format!("{program}: {e}"));
        }
        unmounts(command.arg(place.mount_point()));
        assert!(place.server(server).wait().unwrap().success());
        assert!(place.is_unlocked());
        place.is_clean();
    }
}

#[test]
fn a_lazily_unmounted_volume_lives_as_long_as_it_is_used() {
    let Some(mut place) = Place::new() else { return };
    let server = place.serve();
    let mut file = File::options().read(true).write(true).create_new(true).open(place.on("open")).unwrap();
    rustix::mount::unmount(place.mount_point(), UnmountFlags::DETACH).unwrap();
    file.write_all(b"still here").unwrap();
    file.sync_all().unwrap();
    assert!(!place.is_unlocked());
    assert!(place.server(server).try_wait().unwrap().is_none());
    drop(file);
    assert!(place.server(server).wait().unwrap().success());
    assert!(place.is_unlocked());
    place.is_clean();
    place.mount("ro");
    assert_eq!(fs::read(place.on("open")).unwrap(), b"still here");
    place.umount();
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = File::create(place.on("open")).unwrap();
    let said = fails(ondol().arg("umount").arg(place.mount_point()), 32);
    assert!(said.contains("in use"), "{said}");
    assert!(place.is_mounted());
    drop(file);
    place.umount();
    place.is_clean();
}

#[test]
fn an_image_is_mounted_once() {
    let Some(place) = Place::mounted("rw") else { return };
    let said = fails(&mut place.mount_command(), 32);
    assert!(said.contains(&place.image().display().to_string()) && said.contains("in use"), "{said}");
    let said = fails(ondol().arg("recover").arg(place.image()), 1);
    assert!(said.contains("in use"), "{said}");
    fails(ondol().arg("check").arg(place.image()), 8);
    place.umount();
    succeeds(ondol().arg("check").arg("-n").arg(place.image()));
}

#[test]
fn a_killed_server_leaves_an_image_that_recovers() {
    let Some(mut place) = Place::new() else { return };
    let server = place.serve();
    fs::write(place.on("synced"), b"durable").unwrap();
    File::open(place.on("synced")).unwrap().sync_all().unwrap();
    place.server(server).kill().unwrap();
    place.server(server).wait().unwrap();
    let said = fails(&mut place.mount_command(), 32);
    assert!(said.contains("without a server"), "{said}");
    place.umount();
    succeeds(ondol().arg("recover").arg(place.image()));
    place.is_clean();
    place.mount("ro");
    assert_eq!(fs::read(place.on("synced")).unwrap(), b"durable");
    place.umount();
}

#[test]
fn an_image_is_made_on_the_way() {
    let Some(place) = Place::new() else { return };
    fs::remove_file(place.image()).unwrap();
    succeeds(place.mount_command().args(["--create", "32M"]));
    fs::write(place.on("file"), b"kept").unwrap();
    place.umount();
    assert_eq!(fs::metadata(place.image()).unwrap().len(), 32 << 20);
    succeeds(place.mount_command().args(["--create", "64M"]));
    assert_eq!(fs::read(place.on("file")).unwrap(), b"kept");
    place.umount();
    place.is_clean();
}

#[test]
fn odd_names_are_found_again() {
    let Some(place) = Place::new() else { return };
    let dir = place.mount_point().with_file_name("m n,t");
    let image = place.image().with_file_name("i ,m\\g.img");
    fs::create_dir(&dir).unwrap();
    fs::rename(place.image(), &image).unwrap();
    succeeds(ondol().arg("mount").arg(&image).arg(&dir));
    let mounted = fs::write(dir.join("x"), b"x");
    unmounts(ondol().arg("umount").arg(&dir));
    mounted.unwrap();
    let held = rustix::fs::flock(File::open(image).unwrap(), rustix::fs::FlockOperation::NonBlockingLockExclusive);
    held.unwrap();
}

#[test]
fn messages_of_a_background_server_go_to_its_log() {
    let Some(place) = Place::new() else { return };
    let log = place.image().with_extension("log");
    let mut command = place.mount_command();
    succeeds(command.arg("-o").arg(format!("log={}", log.display())).env("ONDOL_LOG", "info"));
    place.umount();
    let mut text = String::new();
    File::open(log).unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("unmounted"), "{text}");
}
