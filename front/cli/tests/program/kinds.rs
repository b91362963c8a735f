//! Inodes out of the ordinary: without a name, whited out, immutable, with access control lists.

use crate::place::{Place, eventually, succeeds};
use rustix::fs::{AtFlags, CWD, IFlags, Mode, OFlags, RenameFlags, XattrFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

const PERM: Option<i32> = Some(1);

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_file_without_a_name_can_be_named() {
    let Some(place) = Place::mounted("rw") else { return };
    let open = |mode: u32| {
        rustix::fs::open(place.mount_point(), OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(mode)).map(File::from)
    };
    let (named, lost) = (open(0o640).unwrap(), open(0o600).unwrap());
    named.write_all_at(b"text", 0).unwrap();
    lost.write_all_at(b"gone", 0).unwrap();
    assert_eq!(named.metadata().unwrap().nlink(), 0);
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    rustix::fs::linkat(CWD, path, CWD, place.on("f"), AtFlags::SYMLINK_FOLLOW).unwrap();
    let meta = fs::metadata(place.on("f")).unwrap();
    assert_eq!((meta.nlink(), meta.mode(), meta.len()), (1, 0o100_640, 4));
    drop((named, lost));
    place.umount();
    place.is_clean();
    place.mount("ro");
    assert_eq!(fs::read(place.on("f")).unwrap(), b"text");
    place.umount();
}

#[test]
fn a_rename_can_leave_a_whiteout() {
    let Some(place) = Place::mounted("dev") else { return };
    fs::write(place.on("a"), b"a").unwrap();
    rustix::fs::renameat_with(CWD, place.on("a"), CWD, place.on("b"), RenameFlags::WHITEOUT).unwrap();
    let left = fs::symlink_metadata(place.on("a")).unwrap();
    assert!(left.file_type().is_char_device());
    assert_eq!(left.rdev(), 0);
    assert_eq!(fs::read(place.on("b")).unwrap(), b"a");
    place.umount();
    place.is_clean();
}

#[test]
fn flags_forbid_what_they_forbid() {
    flags_forbid("rw", |path| OpenOptions::new().write(true).open(path)?.write_at(b"no", 0));
}

#[test]
fn flags_forbid_to_open_where_opens_are_requests() {
    flags_forbid("open_requests", |path| OpenOptions::new().write(true).open(path).map(|_| 0));
}

/// `write` has to fail where flags of a file are against it.
fn flags_forbid(options: &str, write: impl Fn(&Path) -> io::Result<usize>) {
    let Some(place) = Place::mounted(options) else { return };
    fs::write(place.on("f"), b"text").unwrap();
    // What was open before is bound by flags that come later.
    let before = OpenOptions::new().write(true).open(place.on("f")).unwrap();
    let file = File::open(place.on("f")).unwrap();
    let set = |flags: IFlags| rustix::fs::ioctl_setflags(&file, flags).map_err(io::Error::from);
    let plain = rustix::fs::ioctl_getflags(&file).unwrap();
    match set(plain | IFlags::IMMUTABLE) {
        Err(e) if e.raw_os_error() == PERM => return ondol_skips::skip("not for this user"),
        other => other.unwrap(),
    }
    assert!(rustix::fs::ioctl_getflags(&file).unwrap().contains(IFlags::IMMUTABLE));
    assert_eq!(errno(write(&place.on("f"))), PERM);
    assert_eq!(errno(before.write_at(b"no", 0)), PERM);
    assert_eq!(errno(File::create(place.on("f"))), PERM);
    assert_eq!(errno(fs::remove_file(place.on("f"))), PERM);
    set(plain | IFlags::APPEND).unwrap();
    assert_eq!(errno(write(&place.on("f"))), PERM);
    // What a request has opened stays as it was opened, as in the kernel's ext4.
    if options != "open_requests" {
        assert_eq!(errno(before.write_at(b"no", 0)), PERM);
    }
    OpenOptions::new().append(true).open(place.on("f")).unwrap().write_all(b"!").unwrap();
    assert_eq!(errno(File::create(place.on("f"))), PERM);
    set(plain).unwrap();
    assert_eq!(fs::read(place.on("f")).unwrap(), b"text!");
    fs::remove_file(place.on("f")).unwrap();
    drop((file, before));
    place.umount();
    place.is_clean();
}

#[test]
fn free_space_is_given_back() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("f"), vec![7; 16 << 20]).unwrap();
    File::open(place.mount_point()).unwrap().sync_all().unwrap();
    let held = || fs::metadata(place.image()).unwrap().blocks() * 512;
    let before = held();
    fs::remove_file(place.on("f")).unwrap();
    File::open(place.mount_point()).unwrap().sync_all().unwrap();
    match Command::new("fstrim").arg(place.mount_point()).output() {
        Ok(out) if out.status.success() => {}
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(said.contains("not supported"), "{said}");
            return ondol_skips::skip("the image's file system keeps what is discarded");
        }
        Err(e) => return ondol_skips::skip(format!("no fstrim: {e}")),
    }
    // Another thread's child may have a copy of the file, which lives on until the child's exec.
    let given_back = eventually(|| {
        File::open(place.mount_point()).unwrap().sync_all().unwrap();
        succeeds(Command::new("fstrim").arg(place.mount_point()));
        held() + (12 << 20) < before
    });
    assert!(given_back, "{} of {before} bytes are still held", held());
    place.umount();
    place.is_clean();
}

/// A list for `root:rwx user:1000:rwx group:r-x mask:rwx other:---`, in the bytes of its attribute.
pub(crate) fn list() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in [(1u16, 7u16, NOBODY), (2, 7, 1000), (4, 5, NOBODY), (16, 7, NOBODY), (32, 0, NOBODY)] {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

#[test]
fn a_default_list_takes_the_place_of_the_umask() {
    for options in ["rw", "default_permissions"] {
        let Some(place) = Place::mounted(options) else { return };
        fs::create_dir(place.on("d")).unwrap();
        let name = "system.posix_acl_default";
        rustix::fs::setxattr(place.on("d"), name, &list(), XattrFlags::empty()).unwrap();
        let script = "umask 077; : > d/f; mkdir d/e; : > plain";
        succeeds(Command::new("sh").args(["-c", script]).current_dir(place.mount_point()));
        let mode = |name| fs::metadata(place.on(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode("d/f"), mode("d/e"), mode("plain")), (0o660, 0o770, 0o600), "{options}");
        let mut space = [0; 256];
        let has = |path, name, space: &mut [u8]| rustix::fs::getxattr(place.on(path), name, space).is_ok();
        assert!(has("d/f", "system.posix_acl_access", &mut space));
        assert!(has("d/e", "system.posix_acl_default", &mut space));
        assert!(!has("plain", "system.posix_acl_access", &mut space));
        // A list is a mode, too, and the kernel is to see that at once.
        rustix::fs::setxattr(place.on("plain"), "system.posix_acl_access", &list(), XattrFlags::empty()).unwrap();
        assert_eq!(mode("plain"), 0o770, "{options}");
        place.umount();
        place.is_clean();
    }
}
