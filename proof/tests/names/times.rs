//! Times: which of them a call changes, and which an inode can hold.

use super::Sides;
use ondol::inodes::Inodes;
use ondol::{DataMode, ROOT, SetAttr, SetTime, Timestamp};
use ondol_block::{BlockStore, RamStore};
use ondol_testkit::image::{self, Spec};
use ondol_testkit::op::text;
use ondol_testkit::target::{Directory, Library, Target};
use rustix::fs::{self, AtFlags, CWD, IFlags, Timespec, Timestamps};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn times_are_held_alike() {
    for size in ["256", "128"] {
        let spec = Spec::new(16 << 20, 4096).with("-I").with(size);
        let Some(sides) = Sides::new(&spec, "") else { return };
        sides.make("create /f 0644");
        let edges = [i32::MIN.into(), 0, i32::MAX.into(), i64::from(i32::MAX) + (3 << 32)];
        let around = edges.iter().flat_map(|edge: &i64| [edge - 1, *edge, edge + 1]);
        for sec in around.chain([-1, 1 << 31, 1 << 32, 3 << 32, 1 << 40, -(1 << 40)]) {
            for nsec in [0, 1, 999_999_999] {
                let time = Timespec { tv_sec: sec, tv_nsec: nsec };
                let times = Timestamps { last_access: time, last_modification: time };
                fs::utimensat(CWD, sides.path("f"), &times, AtFlags::empty()).unwrap();
                let time = Some(SetTime::To(Timestamp { sec, nsec: nsec as u32 }));
                let set = SetAttr { atime: time, mtime: time, ..SetAttr::default() };
                let ours = sides.ours().inode_ops().setattr(sides.ino("f"), &set).unwrap();
                let kernel = sides.stat("f").0;
                let of = |t: Timestamp| (t.sec, i64::from(t.nsec));
                let expected = ((kernel.atime(), kernel.atime_nsec()), (kernel.mtime(), kernel.mtime_nsec()));
                assert_eq!((of(ours.atime), of(ours.mtime)), expected, "{sec}.{nsec} with {size}-byte inodes");
            }
        }
    }
}

/// Calls, one a step; those of a line happen at one time.
const STEPS: &str = "\
create /d/n 0644
mkdir /d/m 0755
symlink /d/s x
mkfifo /d/p 0600
link /a /d/l
unlink /d/l
rmdir /d/m
rename /d/n /d/o
rename /d/o /e/o
rename /e/o /b
rename /d/x /e/x
rename-exchange /a /e/x
rename-exchange /a /e/x
rename-whiteout /a /e/w
rename /b /b
write /c 0 100 #1
write /c 0 0 #1
truncate /c 50
truncate /c 50
fallocate /c 0 100
fallocate-keep /c 0 9000
punch /c 0 10
setxattr /c user.x 10 #2
removexattr /c user.x
setacl /c u::rw-,u:7:rwx,g::r--,m::rw-,o::---
setacl /c -
setacl /c -
setacl-default /d u::rw-,g::r--,o::---
chmod /c 0600
chown /c 1 2
chattr /c d
chattr /c d
utimens /c 5 6
tmpfile @0 /e 0600
link @0 /e/t
unlink /e/t
close @0
chmod /e 0700";

#[test]
fn the_same_calls_change_the_same_times() {
    let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), "noatime") else { return };
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(Spec::new(16 << 20, 4096).make().unwrap()));
    let mut ours = Library::open(store, &image::options(DataMode::Ordered), 1).unwrap();
    let mut theirs = Directory::new(sides.mount.dir().to_owned(), Box::new(|| Ok(())));
    let before = "mkdir /d 0755\nmkdir /d/x 0755\nmkdir /e 0755\ncreate /a 0644\ncreate /b 0644\ncreate /c 0644";
    for op in text::parse(before).unwrap() {
        assert_eq!((theirs.apply(&op), ours.apply(&op)), (Ok(0), Ok(0)), "{op}");
    }
    let watched = ["d", "e", "a", "b", "c", "d/x", "e/x", "e/o", "e/w", ""];
    for op in text::parse(STEPS).unwrap() {
        // The kernel's clock ticks in steps of some milliseconds.
        std::thread::sleep(Duration::from_millis(12));
        let kernel = |path: &str| {
            std::fs::symlink_metadata(sides.path(path))
                .ok()
                .map(|m| (m.ino(), (m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())))
        };
        let was = watched.map(kernel);
        let our_was = watched.map(|path| our_times(&ours, path));
        assert_eq!(ours.apply(&op), theirs.apply(&op), "{op}");
        let changed: BTreeSet<_> = changes(&watched, &was, &watched.map(kernel));
        let our_changed = changes(&watched, &our_was, &watched.map(|path| our_times(&ours, path)));
        assert_eq!(our_changed, changed, "{op}");
    }
}

type Times<T> = Option<(u64, T, T)>;

fn our_times(ours: &Library, path: &str) -> Times<(i64, i64)> {
    let volume = ours.volume().unwrap().inodes();
    let mut names = path.split('/').filter(|name| !name.is_empty());
    let attr =
        names.try_fold(volume.getattr(ROOT).ok()?, |dir, name| volume.names().lookup(dir.ino, name.as_bytes()).ok())?;
    let of = |t: Timestamp| (t.sec, i64::from(t.nsec));
    Some((attr.ino.into(), of(attr.mtime), of(attr.ctime)))
}

/// Which times of which inodes, by the path at which they were or are, are not what they were.
fn changes<T: PartialEq + Copy>(paths: &[&str], was: &[Times<T>], is: &[Times<T>]) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for (path, was) in paths.iter().zip(was) {
        let Some((ino, mtime, ctime)) = was else { continue };
        let Some((_, now_m, now_c)) = is.iter().flatten().find(|(i, ..)| i == ino) else { continue };
        if mtime != now_m {
            changed.insert(format!("mtime of /{path}"));
        }
        if ctime != now_c {
            changed.insert(format!("ctime of /{path}"));
        }
    }
    changed
}

/// Something to read, and how it is read there and here.
type Reading = (&'static str, fn(&Path), fn(&Inodes, u32));

#[test]
fn access_times_follow_the_options() {
    let reads: [Reading; 4] = [
        ("f", |p| drop(std::fs::read(p).unwrap()), |i, ino| assert!(i.files().read(ino, 0, &mut [0; 100]).is_ok())),
        ("empty", |p| drop(std::fs::read(p).unwrap()), |i, ino| assert!(i.files().read(ino, 0, &mut [0; 100]).is_ok())),
        (
            "d",
            |p| std::fs::read_dir(p).unwrap().for_each(drop),
            |i, ino| i.names().readdir(ino, 0, &mut |_| true).unwrap(),
        ),
        ("s", |p| drop(std::fs::read_link(p).unwrap()), |i, ino| drop(i.names().readlink(ino).unwrap())),
    ];
    for options in ["relatime", "noatime", "strictatime", "nodiratime", "strictatime,nodiratime"] {
        let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), options) else { return };
        sides.make("mkdir /d 0755\ncreate /f 0644\ncreate /empty 0644\nsymlink /s x\ncreate /A 0644");
        for path in ["f", "A"] {
            std::fs::write(sides.path(path), b"text").unwrap();
            sides.ours().files().write(sides.ino(path), 0, b"text").unwrap();
        }
        let file = std::fs::File::open(sides.path("A")).unwrap();
        let flags = fs::ioctl_getflags(&file).unwrap().bits() | 0x80;
        fs::ioctl_setflags(&file, IFlags::from_bits_retain(flags)).unwrap();
        sides.ours().inode_ops().set_flags(sides.ino("A"), flags, u32::MAX).unwrap();
        let silent = ("A", reads[0].1, reads[0].2);
        for round in 0..3 {
            for (path, theirs, ours) in reads.iter().chain([&silent]) {
                std::thread::sleep(Duration::from_millis(12));
                sides.clock.advance(12_000_000);
                let (kernel_was, our_was) = sides.stat(path);
                theirs(&sides.path(path));
                ours(sides.ours(), sides.ino(path));
                let (kernel_is, our_is) = sides.stat(path);
                let of = |m: &std::fs::Metadata| (m.atime(), m.atime_nsec());
                let changed = of(&kernel_was) != of(&kernel_is);
                assert_eq!(our_was.atime != our_is.atime, changed, "{path} with {options}, read {round}");
            }
        }
    }
}
