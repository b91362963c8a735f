//! Inodes whose extra fields are smaller than this volume wants them: without a size, as `tune2fs -I` leaves them, and
//! of older kernels. The kernel's ext4 is asked what it makes of them.

use crate::rig::{Fs, ImageFile, NOW, USER, assert_clean, mkfs, run, with_kernel};
use ondol_env::Timestamp;
use ondol_volume::{ROOT, SetAttr, SetTime, SetXattr};
use std::os::unix::fs::MetadataExt;

/// Times that 32 bits of seconds do not hold.
const ATIME: Timestamp = Timestamp { sec: 5_000_000_000, nsec: 111_222_333 };
const MTIME: Timestamp = Timestamp { sec: 9_000_000_000, nsec: 444_555_666 };

fn set_times(fs: &Fs, name: &str) {
    let set = SetAttr { atime: Some(SetTime::To(ATIME)), mtime: Some(SetTime::To(MTIME)), ..SetAttr::default() };
    fs.volume.inode_ops().setattr(fs.lookup(name), &set).expect("times");
}

/// Atime, mtime and ctime as a volume has them.
fn times(fs: &Fs, name: &str) -> [(i64, i64); 3] {
    let attr = fs.volume.getattr(fs.lookup(name)).expect("attributes");
    [attr.atime, attr.mtime, attr.ctime].map(|t| (t.sec, t.nsec.into()))
}

/// The same as the kernel has them.
fn kernels(path: &std::path::Path) -> [(i64, i64); 3] {
    let m = path.symlink_metadata().expect("metadata");
    [(m.atime(), m.atime_nsec()), (m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())]
}

/// An image with three files and a directory whose inodes tune2fs has made larger.
fn widened() -> ImageFile {
    let fs = Fs::mount(mkfs(16, &["-b", "1024", "-I", "128", "-O", "^metadata_csum,^flex_bg,^resize_inode"]));
    for name in ["changed", "untouched", "theirs"] {
        let ino = fs.create(ROOT, name);
        fs.volume.xattrs().setxattr(ino, b"user.a", b"in a block", SetXattr::Any).expect("an attribute");
    }
    fs.mkdir(ROOT, "dir");
    let image = ImageFile::new(&fs.unmounted());
    let tuned = run("tune2fs", &["-I", "256", &image.name()]);
    assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
    assert_eq!(size_of_extra(&image, "changed"), 0);
    image
}

fn size_of_extra(image: &ImageFile, name: &str) -> u32 {
    let told = image.ask(&format!("stat /{name}"));
    let size = told.lines().find_map(|line| line.strip_prefix("Size of extra inode fields: "));
    size.and_then(|size| size.trim().parse().ok()).unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn fields_without_a_size_are_used_on_both_sides() {
    let fs = Fs::mount(widened().bytes());
    set_times(&fs, "changed");
    let dir = fs.lookup("dir");
    fs.volume.names().mkdir(dir, b"sub", 0o755, USER).expect("mkdir");
    let now = (NOW.sec, i64::from(NOW.nsec));
    let set = [(ATIME.sec, i64::from(ATIME.nsec)), (MTIME.sec, i64::from(MTIME.nsec)), now];
    assert_eq!((times(&fs, "changed"), times(&fs, "dir")[1]), (set, now));
    // An attribute goes where there is room now.
    fs.volume.xattrs().setxattr(fs.lookup("changed"), b"user.b", b"in the inode", SetXattr::Any).expect("an attribute");
    let bytes = fs.unmounted();
    assert_clean(&bytes, "widened");
    let image = ImageFile::new(&bytes);
    assert_eq!(["changed", "dir", "untouched"].map(|name| size_of_extra(&image, name)), [32, 32, 0]);
    let mut theirs = Vec::new();
    let after = with_kernel(&bytes, |at| {
        assert_eq!(kernels(&at.join("changed")), set);
        assert_eq!(kernels(&at.join("dir"))[1], now);
        let mut value = [0; 12];
        rustix::fs::getxattr(at.join("changed"), "user.b", &mut value).expect("a value");
        assert_eq!(&value, b"in the inode");
        let file = std::fs::File::options().write(true).open(at.join("theirs")).expect("a file");
        let late = std::time::UNIX_EPOCH + std::time::Duration::new(9_000_000_000, 1_000_007);
        file.set_times(std::fs::FileTimes::new().set_accessed(late).set_modified(late)).expect("times");
        theirs.push(kernels(&at.join("theirs")));
    });
    if let Some(bytes) = after {
        assert_clean(&bytes, "after the kernel");
        assert_eq!(vec![times(&Fs::mount(bytes), "theirs")], theirs);
    }
}

/// Attributes in the inode make room where they can; where they cannot, everything stays as it is.
#[test]
fn attributes_in_the_inode_move_where_there_is_room() {
    let fs = Fs::mount(mkfs(16, &["-b", "1024", "-I", "256"]));
    let (values, names) = ([vec![b'a'; 20], vec![b'b'; 92]], ["room", "full"]);
    for name in names {
        fs.create(ROOT, name);
    }
    let image = ImageFile::new(&fs.unmounted());
    for (name, value) in names.iter().zip(&values) {
        let value = String::from_utf8_lossy(value);
        image.debugfs(&format!("sif /{name} extra_isize 4\nea_set /{name} user.a {value}\n"));
        assert_eq!(size_of_extra(&image, name), 4);
    }
    assert_clean(&image.bytes(), "small fields");
    let fs = Fs::mount(image.bytes());
    names.iter().for_each(|name| set_times(&fs, name));
    assert_eq!(times(&fs, "room")[1], (MTIME.sec, i64::from(MTIME.nsec)));
    assert_eq!(times(&fs, "full")[1], (i64::from(i32::MAX), 0));
    let bytes = fs.unmounted();
    assert_clean(&bytes, "wider fields");
    let after = ImageFile::new(&bytes);
    assert_eq!(names.map(|name| size_of_extra(&after, name)), [32, 4]);
    let fs = Fs::mount(bytes.clone());
    for (name, value) in names.iter().zip(&values) {
        assert_eq!(&fs.volume.xattrs().getxattr(fs.lookup(name), b"user.a").expect("a value"), value, "{name}");
    }
    with_kernel(&bytes, |at| {
        for (name, value) in names.iter().zip(&values) {
            let mut found = vec![0; value.len()];
            rustix::fs::getxattr(at.join(name), "user.a", &mut found).expect("a value");
            assert_eq!(&found, value, "{name}");
        }
        assert_eq!(kernels(&at.join("room")), times(&fs, "room"));
    });
}
