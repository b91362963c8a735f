//! `ondol resize`, of a file and of what is mounted.

use crate::place::{Place, fails, needs_root, ondol, output, succeeds};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use std::fs;
use std::path::Path;
use std::process::Command;

fn resize(place: &Place, words: &[&str]) -> Command {
    let mut command = ondol();
    command.arg("resize").arg(place.image()).args(words);
    command
}

fn said(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn length(place: &Place) -> u64 {
    fs::metadata(place.image()).unwrap().len()
}

#[test]
fn a_file_follows_its_volume() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("file"), vec![7; 5 << 20]).unwrap();
    place.umount();
    let told = said(&mut resize(&place, &["200M"]));
    assert!(told.contains("in place of") && told.contains("the file has 209715200 bytes now"), "{told}");
    assert_eq!(length(&place), 200 << 20);
    place.is_clean();
    let least = said(&mut resize(&place, &["-P"]));
    assert!(least.contains(": at least "), "{least}");
    assert_eq!(length(&place), 200 << 20);
    let refused = fails(&mut resize(&place, &["1M"]), 1);
    assert!(refused.contains("the least is"), "{refused}");
    let told = said(&mut resize(&place, &["--minimum"]));
    assert!(told.contains("in place of"), "{told}");
    assert!(length(&place) < 40 << 20, "{told}");
    place.is_clean();
    fs::File::options().write(true).open(place.image()).unwrap().set_len(64 << 20).unwrap();
    assert!(said(&mut resize(&place, &[])).contains("64 MiB"));
    assert!(said(&mut resize(&place, &[])).contains("as before"));
    place.mount("ro");
    assert_eq!(fs::read(place.on("file")).unwrap(), vec![7; 5 << 20]);
    place.umount();
}

#[test]
fn a_mounted_volume_grows() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("file"), b"before").unwrap();
    let room = || rustix::fs::statvfs(place.mount_point()).unwrap().f_blocks;
    let before = room();
    succeeds(ondol().arg("resize").arg(place.mount_point()).arg("128M"));
    let middle = room();
    assert!(middle > before + before / 2, "{before} {middle}");
    fs::write(place.on("large"), vec![1; 90 << 20]).unwrap();
    // By the image, too.
    succeeds(&mut resize(&place, &["160M"]));
    assert!(room() > middle);
    let refused = fails(&mut resize(&place, &["32M"]), 1);
    assert!(refused.contains("can only grow"), "{refused}");
    assert!(fails(&mut resize(&place, &["-M"]), 2).contains("unmount it first"));
    place.umount();
    place.is_clean();
    assert_eq!(length(&place), 160 << 20);
    place.mount("rw");
    assert_eq!(fs::read(place.on("file")).unwrap(), b"before");
    assert_eq!(fs::read(place.on("large")).unwrap(), vec![1; 90 << 20]);
    place.umount();
}

/// Asks for 128 MiB on the root directory of a mount.
fn ask(dir: &Path) -> Result<(), Errno> {
    let name = "system.ondol.resize";
    rustix::fs::setxattr(dir, name, b"134217728", XattrFlags::empty())?;
    rustix::fs::getxattr(dir, name, &mut [0; 1][..]).map(drop)
}

/// The kernel lets nobody ask by a mount that is read-only, whatever other mounts there are.
#[test]
fn a_read_only_mount_does_not_grow() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let Some(place) = Place::mounted("rw") else { return };
    let point = place.mount_point();
    let room = || rustix::fs::statvfs(&point).unwrap().f_blocks;
    let before = room();
    fs::File::options().write(true).open(place.image()).unwrap().set_len(128 << 20).unwrap();
    mount_remount(&point, MountFlags::RDONLY, "").unwrap();
    assert_eq!(ask(&point), Err(Errno::ROFS));
    mount_remount(&point, MountFlags::empty(), "").unwrap();
    let bound = point.with_file_name("bound");
    fs::create_dir(&bound).unwrap();
    mount_bind(&point, &bound).unwrap();
    mount_remount(&bound, MountFlags::RDONLY | MountFlags::BIND, "").unwrap();
    let asked = ask(&bound);
    unmount(&bound, UnmountFlags::DETACH).unwrap();
    assert_eq!(asked, Err(Errno::ROFS));
    // Without having said what, and where it is no root directory.
    fs::create_dir(place.on("dir")).unwrap();
    let name = "system.ondol.resize";
    assert_eq!(rustix::fs::getxattr(&point, name, &mut [0; 1][..]), Err(Errno::NODATA));
    assert!(ask(&place.on("dir")).is_err());
    assert_eq!(room(), before);
    assert_eq!(ask(&point), Ok(()));
    assert!(room() > before);
    place.umount();
    place.is_clean();
}
