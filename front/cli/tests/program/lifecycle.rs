//! How mounts begin and end, and what the image is then.

use crate::place::{Place, eventually, fails, ondol, output, succeeds, unmounts};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
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

/// A server goes on for a moment when its mount is gone. Whoever mounts the same meanwhile waits for its end.
#[test]
fn a_mount_waits_for_the_server_that_is_ending() {
    for target in ["disk.img", "nvm:pool"] {
        let Some(mut place) = Place::new() else { return };
        let dir = place.image().parent().unwrap().to_owned();
        succeeds(ondol().args(["mkfs", "-F", "--size", "16M", target]).current_dir(&dir));
        let target = match target.strip_prefix("nvm:") {
            Some(pool) => format!("nvm:{}", dir.join(pool).display()).into(),
            None => dir.join(target),
        };
        let server = place.serve_target(&target, "rw");
        fs::write(place.on("file"), "there").unwrap();
        signal(&mut place, server, Signal::STOP);
        rustix::mount::unmount(place.mount_point(), UnmountFlags::DETACH).unwrap();
        let going_on = Pid::from_child(place.server(server));
        let awakes = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            kill_process(going_on, Signal::CONT).unwrap();
        });
        succeeds(ondol().arg("mount").arg(&target).arg(place.mount_point()));
        awakes.join().unwrap();
        assert!(place.server(server).wait().unwrap().success());
        assert_eq!(fs::read(place.on("file")).unwrap(), b"there");
        unmounts(ondol().args(["umount", "--wait"]).arg(place.mount_point()));
    }
}

#[test]
fn a_mount_in_use_is_unmounted_as_it_is_asked_for() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = File::create(place.on("file")).unwrap();
    // By force: whoever uses it is cut off, and the image is clean when this returns.
    succeeds(ondol().args(["umount", "--force"]).arg(place.mount_point()));
    assert!(!place.is_mounted() && place.is_unlocked());
    assert!(file.sync_all().is_err());
    drop(file);
    place.is_clean();
    // Lazily: out of sight, and used as before.
    place.mount("rw");
    let mut file = File::create(place.on("file")).unwrap();
    succeeds(ondol().args(["umount", "-l"]).arg(place.mount_point()));
    assert!(!place.is_mounted() && !place.is_unlocked());
    file.write_all(b"still").unwrap();
    drop(file);
    assert!(eventually(|| place.is_unlocked()));
    place.is_clean();
    assert_eq!(succeeds(ondol().arg("cat").arg(place.image()).arg("/file")), "still");
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = File::create(place.on("open")).unwrap();
    let said = fails(ondol().args(["umount", "--wait"]).arg(place.mount_point()), 32);
    let who = format!("in use by process {} (", std::process::id());
    assert!(said.contains(&who), "{said}");
    assert!(said.contains(&format!("open file {}", place.on("open").display())), "{said}");
    assert!(place.is_mounted());
    drop(file);
    let mut dweller = Command::new("sleep").arg("1000").current_dir(place.mount_point()).spawn().unwrap();
    let said = fails(ondol().args(["umount", "--wait"]).arg(place.mount_point()), 32);
    dweller.kill().unwrap();
    dweller.wait().unwrap();
    let who = format!("process {} (sleep), working directory {}", dweller.id(), place.mount_point().display());
    assert!(said.contains(&who), "{said}");
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
    unmounts(ondol().args(["umount", "--wait"]).arg(&dir));
    mounted.unwrap();
    let held = rustix::fs::flock(File::open(image).unwrap(), rustix::fs::FlockOperation::NonBlockingLockExclusive);
    held.unwrap();
}

#[test]
fn messages_of_a_background_server_go_to_its_log() {
    let Some(mut place) = Place::new() else { return };
    place.lose_server();
    place.umount();
    let log = place.image().with_extension("log");
    succeeds(place.mount_command().arg("-o").arg(format!("log={}", log.display())).env_remove("ONDOL_LOG"));
    place.umount();
    let what = format!("{} on {}", place.image().display(), place.mount_point().display());
    // The image is free before the server has said so.
    let read = || fs::read_to_string(&log).unwrap();
    assert!(eventually(|| read().contains("unmounted")), "{}", read());
    let text = read();
    let lines: Vec<&str> = text.lines().collect();
    let [replayed, mounted, unmounted] = lines[..] else { panic!("{text}") };
    assert!(replayed.contains(&format!("{what}: replayed ")) && replayed.contains(" block"), "{text}");
    assert!(mounted.ends_with(&format!("{what}: mounted, journal compressed, data journal")), "{text}");
    assert!(unmounted.ends_with(&format!("{what}: unmounted, clean")), "{text}");
    place.mount(&format!("ro,log={}", log.display()));
    place.umount();
    assert!(read().contains(&format!("{what}: mounted, read-only\n")), "{}", read());
}

/// Without `log=` messages go to the system's log or the kernel's, and for users where there is none of these to a
/// file.
#[test]
fn messages_never_go_to_nowhere() {
    let Some(place) = crate::namespace::place() else { return };
    crate::namespace::run(
        &place,
        r#"
[ ! -e /dev/log ] || mount --bind /dev/null /dev/log
: > "$D/kmsg"; [ -e /dev/kmsg ] && mount --bind "$D/kmsg" /dev/kmsg
mount.ondol "$I" "$M"
umount.ondol "$M"
if [ -e /dev/kmsg ]; then
    grep -q "^<30>ondol.[0-9]*.: $I on $M: mounted, journal compressed, data journal$" "$D/kmsg"
    until grep -q "^<30>ondol.[0-9]*.: $I on $M: unmounted, clean$" "$D/kmsg"; do sleep 0.05; done
fi
# A user, whose directories cannot be used, and then can.
chmod 600 "$D/kmsg"
as_nobody env -u XDG_STATE_HOME HOME=/nonexistent TMPDIR="$D" "$D/ondol" mount "$I" "$M"
as_nobody "$D/ondol" umount "$M"
grep -q ": mounted" "$D/ondol-65534.log"
mkdir "$D/state"; chown 65534 "$D/state"
as_nobody env XDG_STATE_HOME="$D/state" "$D/ondol" mount "$I" "$M"
as_nobody "$D/ondol" umount "$M"
until grep -q ": unmounted, clean" "$D/state/ondol/log"; do sleep 0.05; done
"#,
    );
    place.is_clean();
}

#[test]
fn what_is_logged_can_be_chosen() {
    let Some(place) = Place::new() else { return };
    let log = place.image().with_extension("log");
    let mut command = place.mount_command();
    succeeds(command.arg("-o").arg(format!("log={}", log.display())).env("ONDOL_LOG", "error"));
    place.umount();
    assert_eq!(fs::read_to_string(log).unwrap(), "");
    let wrong = format!("log={}", place.image().with_extension("other").display());
    let out = output(place.mount_command().args(["-o", &wrong]).env("ONDOL_LOG", "ondol=loud"));
    assert!(out.status.success());
    place.umount();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("ONDOL_LOG=ondol=loud is passed over: "), "{said}");
}

/// What the size of written files may be in the shell that mounts is no reason to end: the write fails, as any may.
#[test]
fn a_limit_of_the_shell_fails_writes_and_ends_nobody() {
    for options in ["data=ordered", "data=journal", "journal=compressed", "data=journal,journal=classic"] {
        let Some(mut place) = Place::new() else { return };
        place.serve_with("ulimit -f 81920; exec \"$@\"", options);
        fs::write(place.on("kept"), vec![3; 1 << 20]).unwrap();
        File::open(place.on("kept")).unwrap().sync_all().unwrap();
        let file = File::create(place.on("large")).unwrap();
        let write = |n: u64| file.write_all_at(&vec![4; 1 << 20], n << 20).and_then(|()| file.sync_all());
        let synced = (0..50).take_while(|n| write(*n).is_ok()).count();
        drop(file);
        assert!(synced < 50, "{options}: 50 MiB were written into 40");
        assert_eq!(fs::read(place.on("kept")).unwrap(), vec![3; 1 << 20], "{options}");
        let left = eventually(|| {
            output(ondol().args(["umount", "--wait"]).arg(place.mount_point()));
            !place.is_mounted()
        });
        assert!(left, "{options}: still in use");
        // It says if not everything came home: with data that is written home by the call itself that call fails, and
        // nothing is left.
        let code = place.server(0).wait().unwrap().code();
        assert!(code == Some(32) || !options.contains("classic") && code == Some(0), "{options}: {code:?}");
        succeeds(ondol().arg("recover").arg(place.image()));
        place.is_clean();
        place.mount("ro");
        assert_eq!(fs::read(place.on("kept")).unwrap(), vec![3; 1 << 20], "{options}");
        let large = fs::read(place.on("large")).unwrap();
        assert!(
            large.len() >= synced << 20 && large[..synced << 20].iter().all(|byte| *byte == 4),
            "{options}: {synced}"
        );
        place.umount();
    }
}
