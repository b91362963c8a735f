//! One image, reached by several ways: its file, loop devices over it, their partitions. It is written by one user at a
//! time, and who that is gets named.

use crate::place::{Place, eventually, fails, needs_root, ondol, output, succeeds, unmounts};
use ondol_skips::{missing, skip, skips};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device, until it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path, words: &[&str]) -> Self {
        let said = succeeds(Command::new("losetup").args(words).args(["--find", "--show"]).arg(file));
        Self(PathBuf::from(said.trim()))
    }

    /// Makes blocks `from..to` of 512 bytes its partition `n`.
    fn part(&self, n: u32, from: u32, to: u32) -> PathBuf {
        let words = [n, from, to - from].map(|word| word.to_string());
        succeeds(Command::new("addpart").arg(&self.0).args(words));
        let path = PathBuf::from(format!("{}p{n}", self.0.display()));
        assert!(eventually(|| path.exists()), "{path:?}");
        path
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// A mount by the kernel, until it is dropped.
///
/// A mount namespace that another test makes meanwhile has a copy of it, which keeps the device busy after the unmount
/// here.
struct KernelMount {
    device: PathBuf,
    dir: PathBuf,
}

impl KernelMount {
    fn of(device: &Path, dir: &Path, words: &[&str]) -> Self {
        fs::create_dir_all(dir).unwrap();
        succeeds(Command::new("mount").args(["-t", "ext4"]).args(words).arg(device).arg(dir));
        Self { device: device.to_owned(), dir: dir.to_owned() }
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.dir).status();
        let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap();
        let is_free = || fs::File::options().read(true).custom_flags(exclusive).open(&self.device).is_ok();
        let _ = eventually(is_free);
    }
}

/// A directory whose mounts are gone when it is dropped, also after a failure.
struct Point(PathBuf);

impl Point {
    fn beside(place: &Place, name: &str) -> Self {
        let dir = place.mount_point().with_file_name(name);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        use rustix::mount::{UnmountFlags, unmount};
        while unmount(&self.0, UnmountFlags::DETACH | UnmountFlags::FORCE).is_ok() {}
    }
}

/// A place, if loop devices can be made; noted as skipped, if not.
fn place() -> Option<Place> {
    if skips(needs_root()) || skips(missing(&["losetup", "addpart", "mount", "umount"])) {
        return None;
    }
    if !Path::new("/dev/loop-control").exists() {
        skip("loop devices are not to be had");
        return None;
    }
    Place::new()
}

fn mount(target: &Path, dir: &Path) -> Command {
    let mut command = ondol();
    command.arg("mount").arg(target).arg(dir);
    command
}

/// Whatever would write `target` is refused, naming `who`.
fn refuses_to_write(place: &Place, target: &Path, who: &str) {
    let other = Point::beside(place, "other");
    let mut commands = vec![(mount(target, &other.0), 32)];
    for (words, code) in
        [(&["recover"][..], 1), (&["tune", "--data", "ordered"], 1), (&["mkfs", "-F"], 1), (&["check"], 8)]
    {
        let mut command = ondol();
        command.args(words).arg(target);
        commands.push((command, code));
    }
    for (command, code) in &mut commands {
        let said = fails(command, *code);
        assert!(said.contains("in use by") && said.contains(who), "{command:?}: {said}");
    }
}

#[test]
fn a_file_and_its_loop_devices_are_one_image() {
    let Some(place) = place() else { return };
    let (image, dir) = (place.image(), place.mount_point());
    let first = Loop::over(&image, &[]);
    let second = Loop::over(&first.0, &[]);
    let _point = Point(dir.clone());
    let ways = [&image, &first.0, &second.0];
    for served in ways {
        succeeds(&mut mount(served, &dir));
        fs::write(place.on("file"), b"text").unwrap();
        for other in ways {
            refuses_to_write(&place, other, &format!("serves it on {}", dir.display()));
        }
        // Neither can the kernel, by any device that there is.
        for device in &ways[1..] {
            let tried = output(Command::new("mount").args(["-t", "ext4"]).arg(device).arg(&dir));
            assert!(!tried.status.success(), "{device:?} was mounted beside {served:?}");
        }
        place.umount();
        place.is_clean();
    }
    drop(second);
    drop(first);
    succeeds(ondol().arg("check").arg(&image));
}

#[test]
fn what_the_kernel_has_mounted_is_left_alone() {
    let Some(place) = place() else { return };
    succeeds(ondol().args(["tune", "--journal", "classic"]).arg(place.image()));
    let device = Loop::over(&place.image(), &[]);
    let dir = place.image().with_file_name("kernel");
    let mounted = KernelMount::of(&device.0, &dir, &[]);
    let who = format!("the kernel, which has {} mounted on {}", device.0.display(), dir.display());
    refuses_to_write(&place, &place.image(), &who);
    refuses_to_write(&place, &device.0, &who);
    assert!(fails(place.mount_command().args(["-o", "ro"]), 32).contains(&who));
    // Looking goes on, with a warning.
    for words in [&["check", "-n"][..], &["info"]] {
        let said = output(ondol().args(words).arg(place.image()));
        assert!(String::from_utf8_lossy(&said.stderr).contains(&format!("warning: {}", place.image().display())));
        assert!(!said.stdout.is_empty(), "{words:?}");
    }
    // The file under another name is the same file, also when the name that the loop device was made with is gone.
    let renamed = place.image().with_file_name("renamed.img");
    fs::rename(place.image(), &renamed).unwrap();
    refuses_to_write(&place, &renamed, &who);
    fs::hard_link(&renamed, place.image()).unwrap();
    fs::remove_file(&renamed).unwrap();
    refuses_to_write(&place, &place.image(), &who);
    drop(mounted);
    // A kernel that only reads may be read beside, and not written.
    let mounted = KernelMount::of(&device.0, &dir, &["-o", "ro"]);
    succeeds(place.mount_command().args(["-o", "ro"]));
    place.umount();
    refuses_to_write(&place, &place.image(), &who);
    drop(mounted);
    succeeds(ondol().arg("check").arg(place.image()));
    place.is_clean();
}

#[test]
fn parts_of_one_disk_are_used_side_by_side() {
    const MIDDLE: u32 = 2048 + 40 * 2048;
    const END: u32 = MIDDLE + 40 * 2048;
    let Some(place) = place() else { return };
    let disk = place.image().with_file_name("parted.img");
    let file = File::create_new(&disk).unwrap();
    file.set_len(u64::from(END) * 512).unwrap();
    drop(file);
    let whole = Loop::over(&disk, &["--partscan"]);
    let parts = [whole.part(1, 2048, MIDDLE), whole.part(2, MIDDLE, END)];
    for part in &parts {
        succeeds(ondol().arg("mkfs").arg(part));
    }
    // By partitions, and by loop devices over a part of the file.
    let offset = |n: u32| format!("{}", u64::from(n) * 512);
    let limit = format!("{}", 40 << 20);
    let first = Loop::over(&disk, &["--offset", &offset(2048), "--sizelimit", &limit]);
    let second = Loop::over(&disk, &["--offset", &offset(MIDDLE), "--sizelimit", &limit]);
    let points = [Point(place.mount_point()), Point::beside(&place, "second")];
    let dirs = points.each_ref().map(|point| &point.0);
    for ways in [[&parts[0], &parts[1]], [&first.0, &second.0], [&parts[0], &second.0]] {
        for (way, dir) in ways.into_iter().zip(dirs) {
            succeeds(&mut mount(way, dir));
        }
        let who = [0, 1].map(|n: usize| format!("serves it on {}", dirs[n].display()));
        for (n, same) in [[&parts[0], &first.0], [&parts[1], &second.0]].into_iter().enumerate() {
            for way in same {
                let refused = fails(ondol().arg("recover").arg(way), 1);
                assert!(refused.contains("in use by"), "{way:?}: {refused}");
                assert!(way != ways[n] || refused.contains(&who[n]), "{way:?}: {refused}");
            }
        }
        for all in [&whole.0, &disk] {
            let refused = fails(ondol().args(["mkfs", "-F"]).arg(all), 1);
            assert!(refused.contains("in use by"), "{all:?}: {refused}");
        }
        for dir in dirs {
            unmounts(ondol().args(["umount", "--wait"]).arg(dir));
        }
    }
    let mounted = KernelMount::of(&first.0, dirs[0], &[]);
    assert!(fails(ondol().arg("recover").arg(&parts[0]), 1).contains("which has"));
    succeeds(ondol().arg("recover").arg(&parts[1]));
    drop(mounted);
    for part in &parts {
        succeeds(ondol().arg("check").arg(part));
    }
}

#[test]
fn a_server_that_is_ending_is_waited_for() {
    let Some(place) = place() else { return };
    let away = || rustix::mount::unmount(place.mount_point(), rustix::mount::UnmountFlags::empty());
    for n in 0..10 {
        place.mount("rw");
        fs::write(place.on("file"), vec![n; 8 << 20]).unwrap();
        // As umount(8) without a helper: it does not wait for the server.
        assert!(eventually(|| away().is_ok()));
    }
    place.mount("ro");
    assert_eq!(fs::read(place.on("file")).unwrap(), vec![9; 8 << 20]);
    place.umount();
    place.is_clean();
}

/// A user who may not open loop devices is refused where one shows the file: nobody can tell whether it is in use.
#[test]
fn a_user_is_told_of_a_loop_device() {
    let Some(place) = crate::namespace::place() else { return };
    let device = {
        if !Path::new("/dev/loop-control").exists() || skips(missing(&["losetup"])) {
            return skip("loop devices are not to be had");
        }
        Loop::over(&place.image(), &[])
    };
    let script = format!(
        r#"
L={}
for command in recover "tune --data ordered" "mkfs -F"; do
    fails 1 as_nobody "$D/ondol" $command "$I"; says "in use by $L, a loop device that shows it"
done
mount -t ext4 "$L" "$M"
fails 32 as_nobody "$D/ondol" mount "$I" "$M"; says "in use by the kernel, which has $L mounted on $M"
umount "$M"
"#,
        device.0.display()
    );
    crate::namespace::run(&place, &script);
    drop(device);
    place.is_clean();
}
