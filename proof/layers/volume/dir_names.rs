//! Edge cases of the namespace operations: names, targets, links, inheritance, what rename does with what.

use crate::dir_rig::{Fs, TOP, USER, as_file, fsck, mkfs, run};
use ondol_testkit::{over_engines, over_two_engines};
use ondol_volume::{Caller, CopyRange, Device, Error, FileType, Ino, Rename, SetAttr};

over_engines! {
    names_that_cannot_be,
    symlinks_of_every_length,
    devices_owners_and_inheritance,
    immutable_and_append_only,
    rename_matrix,
    rename_below_itself_and_over_above,
    a_replaced_open_file_lives_on,
    freed_with_the_last_name,
    times_follow_changes,
    what_was_looked_up_last_is_forgotten_with_a_change,
}

over_two_engines! {
    links_end_at_65000,
    subdirectories_beyond_counting,
}

fn small() -> Fs {
    Fs::open(mkfs(16, &["-b", "1024"]))
}

fn names_that_cannot_be() {
    let fs = small();
    let v = &fs.volume;
    let (dir, file) = (fs.mkdir(TOP, "dir"), fs.create(TOP, "file"));
    let long = [b'n'; 256];
    for name in [&b"."[..], b".."] {
        assert!(matches!(v.names().create(dir, name, 0o644, USER), Err(Error::Exists)));
        assert!(matches!(v.names().mkdir(dir, name, 0o755, USER), Err(Error::Exists)));
        assert!(matches!(v.names().link(file, dir, name), Err(Error::Exists)));
        assert!(matches!(v.names().unlink(dir, name), Err(Error::IsDirectory(_))));
        assert!(matches!(v.names().rename(TOP, b"file", dir, name, Rename::Replace), Err(Error::Invalid(_))));
        assert!(matches!(v.names().rename(dir, name, TOP, b"other", Rename::Replace), Err(Error::Invalid(_))));
    }
    assert!(matches!(v.names().rmdir(dir, b"."), Err(Error::Invalid(_))));
    assert!(matches!(v.names().rmdir(dir, b".."), Err(Error::NotEmpty(_))));
    for name in [&b""[..], b"a/b", b"a\0b", b"/"] {
        assert!(matches!(v.names().create(dir, name, 0o644, USER), Err(Error::Invalid(_))));
        assert!(matches!(v.names().lookup(dir, name), Err(Error::Invalid(_))));
        assert!(matches!(v.names().unlink(dir, name), Err(Error::Invalid(_))));
        assert!(matches!(v.names().rename(TOP, b"file", dir, name, Rename::Replace), Err(Error::Invalid(_))));
    }
    assert!(matches!(v.names().create(dir, &long, 0o644, USER), Err(Error::NameTooLong)));
    assert!(matches!(v.names().lookup(dir, &long), Err(Error::NameTooLong)));
    assert!(matches!(v.names().rmdir(dir, &long), Err(Error::NameTooLong)));
    assert!(matches!(v.names().rename(TOP, b"file", dir, &long, Rename::Replace), Err(Error::NameTooLong)));
    assert!(v.names().create(dir, &long[..255], 0o644, USER).is_ok());
    assert!(v.names().create(dir, b"\xff\xfe not UTF-8 \\ \n", 0o644, USER).is_ok());
    assert_eq!(v.names().lookup(dir, b".").expect("itself").ino, dir);
    assert_eq!(v.names().lookup(dir, b"..").expect("its parent").ino, TOP);
    assert_eq!(v.names().lookup(TOP, b"..").expect("the root is its own parent").ino, TOP);
    for result in
        [v.names().lookup(file, b"x"), v.names().create(file, b"x", 0o644, USER), v.names().lookup(file, b".")]
    {
        assert!(matches!(result, Err(Error::NotDirectory(ino)) if ino == file));
    }
    assert!(matches!(v.names().readdir(file, 0, &mut |_| true), Err(Error::NotDirectory(_))));
    assert!(matches!(v.names().unlink(file, b"x"), Err(Error::NotDirectory(_))));
    assert!(matches!(v.names().rename(file, b"x", TOP, b"y", Rename::Replace), Err(Error::NotDirectory(_))));
    assert!(matches!(v.names().rename(TOP, b"dir", file, b"y", Rename::Replace), Err(Error::NotDirectory(_))));
    assert!(matches!(v.names().link(dir, TOP, b"x"), Err(Error::NotPermitted(_))));
    assert!(matches!(v.names().lookup(999_999, b"x"), Err(Error::NotFound)));
    fs.check("nothing happened");
}

fn symlinks_of_every_length() {
    for (block, args) in [(1024, ["-b", "1024"]), (4096, ["-b", "4096"])] {
        let fs = Fs::open(mkfs(16, &args));
        let v = &fs.volume;
        for len in [1, 58, 59, 60, 61, 255, 1022, 1023, block - 1] {
            let target = vec![b'a' + (len % 26) as u8; len];
            let name = format!("link {len}");
            let made = v.names().symlink(TOP, name.as_bytes(), &target, USER);
            if matches!(made, Err(Error::Exists)) {
                continue;
            }
            let attr = made.expect("symlink");
            assert_eq!((attr.size, attr.perm, attr.file_type), (len as u64, 0o777, FileType::Symlink));
            assert_eq!(attr.blocks > 0, len > 59);
            assert_eq!(v.names().readlink(attr.ino).expect("a target"), target);
        }
        assert!(matches!(v.names().symlink(TOP, b"x", &vec![b'x'; block], USER), Err(Error::NameTooLong)));
        assert!(matches!(v.names().symlink(TOP, b"x", b"", USER), Err(Error::NotFound)));
        assert!(matches!(v.names().symlink(TOP, b"x", b"a\0b", USER), Err(Error::Invalid(_))));
        assert!(matches!(v.names().readlink(TOP), Err(Error::Invalid(_))));
        fs.check("symlinks");
        let free = v.statfs().free;
        for len in [60, 1023] {
            v.names().unlink(TOP, format!("link {len}").as_bytes()).expect("unlink");
        }
        assert_eq!(v.statfs().free, free + 2);
        fs.check("symlinks removed");
    }
}

fn devices_owners_and_inheritance() {
    let fs = small();
    let v = &fs.volume;
    let caller = Caller::new(70_000, 80_000);
    let device = v.names().mknod(TOP, b"device", 0o020_640, Device { major: 3, minor: 1281 }, caller).expect("mknod");
    assert_eq!((device.file_type, device.perm, device.uid, device.gid), (FileType::CharDevice, 0o640, 70_000, 80_000));
    assert_eq!(device.rdev, Device { major: 3, minor: 1281 });
    assert_eq!(
        v.names().mknod(TOP, b"plain", 0o644, Device::default(), caller).expect("mknod").file_type,
        FileType::Regular
    );
    assert!(matches!(v.names().mknod(TOP, b"dir", 0o040_755, Device::default(), caller), Err(Error::Invalid(_))));
    assert!(matches!(v.names().mknod(TOP, b"link", 0o120_777, Device::default(), caller), Err(Error::Invalid(_))));
    let made = v.names().mkdir(TOP, b"shared", 0o2775, caller).expect("mkdir");
    assert_eq!(made.perm, 0o775, "setgid is handed down, not asked for");
    let setgid = SetAttr { perm: Some(0o2775), ..SetAttr::default() };
    let shared = v.inode_ops().setattr(made.ino, &setgid).expect("chmod");
    assert_eq!((shared.perm, shared.nlink, shared.size), (0o2775, 2, 1024));
    let other = Caller::new(1, 1);
    let below = v.names().mkdir(shared.ino, b"below", 0o755, other).expect("mkdir");
    assert_eq!((below.perm, below.uid, below.gid), (0o2755, 1, 80_000));
    let file = v.names().create(below.ino, b"file", 0o644, other).expect("create");
    assert_eq!((file.perm, file.gid, file.nlink), (0o644, 80_000, 1));
    let bytes = fs.bytes();
    let (_, bytes) = as_file(&bytes, |path| {
        // nodump, noatime, dirsync, project inheritance apart: 0x40 | 0x80 | 0x10000.
        assert!(run("debugfs", &["-w", "-R", "sif /shared/below flags 0x900c0", path]).status.success());
    });
    let fs = Fs::open(bytes);
    let v = &fs.volume;
    let flags = |name: &[u8], made: Result<ondol_volume::Attr, Error>| {
        made.unwrap_or_else(|e| panic!("{}: {e}", String::from_utf8_lossy(name))).flags & !0x80000
    };
    assert_eq!(flags(b"d", v.names().mkdir(below.ino, b"d", 0o755, USER)), 0x100c0);
    assert_eq!(flags(b"f", v.names().create(below.ino, b"f", 0o644, USER)), 0xc0);
    assert_eq!(flags(b"s", v.names().symlink(below.ino, b"s", b"t", USER)), 0xc0);
    fs.check("inherited");
}

fn immutable_and_append_only() {
    let fs = small();
    let (still, only) = (fs.mkdir(TOP, "still"), fs.mkdir(TOP, "only"));
    for dir in [still, only] {
        fs.create(dir, "inside");
    }
    let (frozen, tail) = (fs.create(TOP, "frozen"), fs.create(TOP, "tail"));
    let (_, bytes) = as_file(&fs.bytes(), |path| {
        for request in [
            "sif /still flags 0x80010",
            "sif /only flags 0x80020",
            "sif /frozen flags 0x80010",
            "sif /tail flags 0x80020",
        ] {
            assert!(run("debugfs", &["-w", "-R", request, path]).status.success());
        }
    });
    let fs = Fs::open(bytes);
    let v = &fs.volume;
    let refused = |result: Result<(), Error>| assert!(matches!(result, Err(Error::NotPermitted(_))), "{result:?}");
    refused(v.names().create(still, b"x", 0o644, USER).map(drop));
    refused(v.names().unlink(still, b"inside"));
    refused(v.names().unlink(only, b"inside"));
    refused(v.names().rename(only, b"inside", TOP, b"out", Rename::Replace));
    refused(v.names().rename(TOP, b"frozen", TOP, b"other", Rename::Replace));
    refused(v.names().unlink(TOP, b"frozen"));
    refused(v.names().link(frozen, TOP, b"other").map(drop));
    fs.create(only, "more");
    // As a descriptor that was open before: an append-only file may be written to anywhere, an immutable one not even
    // with nothing.
    v.files().write(tail, 0, b"some").unwrap();
    assert_eq!(v.ranges().copy_range(tail, tail, CopyRange { from: 0, to: 8, len: 4 }, false).unwrap(), 4);
    assert_eq!(v.ranges().copy_range(tail, tail, CopyRange { from: 100, to: 0, len: 4 }, false).unwrap(), 0);
    refused(v.ranges().copy_range(tail, frozen, CopyRange { from: 100, to: 0, len: 4 }, false).map(drop));
    refused(v.names().rename(TOP, b"lost+found", still, b"x", Rename::Replace));
    fs.check("flags");
}

/// What is made for one side of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Nothing,
    File,
    Dir,
    FullDir,
    Fifo,
}

const SIDES: [Side; 5] = [Side::Nothing, Side::File, Side::Dir, Side::FullDir, Side::Fifo];

fn make(fs: &Fs, dir: Ino, side: Side) -> Option<Ino> {
    match side {
        Side::Nothing => None,
        Side::File => Some(fs.create(dir, "n")),
        Side::Fifo => Some(fs.volume.names().mknod(dir, b"n", 0o010_600, Device::default(), USER).expect("mknod").ino),
        Side::Dir => Some(fs.mkdir(dir, "n")),
        Side::FullDir => {
            let made = fs.mkdir(dir, "n");
            fs.mkdir(made, "inside");
            Some(made)
        }
    }
}

fn rename_matrix() {
    let fs = small();
    let v = &fs.volume;
    let (mut round, is_dir) = (0, |side| matches!(side, Side::Dir | Side::FullDir));
    for (source, target) in SIDES.iter().flat_map(|a| SIDES.iter().map(move |b| (*a, *b))) {
        for how in [Rename::Replace, Rename::NoReplace, Rename::Exchange] {
            round += 1;
            let (from, to) = (fs.mkdir(TOP, &format!("from {round}")), fs.mkdir(TOP, &format!("to {round}")));
            let (a, b) = (make(&fs, from, source), make(&fs, to, target));
            let result = v.names().rename(from, b"n", to, b"n", how);
            let moved = match (how, a, b) {
                (_, None, _) | (Rename::Exchange, _, None) => {
                    assert!(matches!(result, Err(Error::NotFound)));
                    false
                }
                (Rename::NoReplace, _, Some(_)) => {
                    assert!(matches!(result, Err(Error::Exists)));
                    false
                }
                (Rename::Replace, _, Some(_)) if is_dir(source) && !is_dir(target) => {
                    assert!(matches!(result, Err(Error::NotDirectory(_))));
                    false
                }
                (Rename::Replace, _, Some(_)) if !is_dir(source) && is_dir(target) => {
                    assert!(matches!(result, Err(Error::IsDirectory(_))));
                    false
                }
                (Rename::Replace, ..) if target == Side::FullDir => {
                    assert!(matches!(result, Err(Error::NotEmpty(_))));
                    false
                }
                _ => {
                    result.expect("rename");
                    true
                }
            };
            let now = (fs.is(from, "n"), fs.is(to, "n"));
            let expected = match (moved, how) {
                (false, _) => (a, b),
                (true, Rename::Exchange) => (b, a),
                (true, _) => (None, a),
            };
            assert_eq!(now, expected, "{source:?} {target:?} {how:?}");
            for (dir, inside) in [(from, now.0), (to, now.1)] {
                let sub = inside.map(|ino| v.getattr(ino).expect("inside").file_type == FileType::Directory);
                assert_eq!(v.getattr(dir).expect("a directory").nlink, 2 + u32::from(sub == Some(true)));
                if sub == Some(true) {
                    assert_eq!(v.names().lookup(inside.expect("inside"), b"..").expect("..").ino, dir);
                }
            }
        }
    }
    fs.check("rename matrix");
}

fn rename_below_itself_and_over_above() {
    let fs = small();
    let v = &fs.volume;
    let a = fs.mkdir(TOP, "a");
    let b = fs.mkdir(a, "b");
    let c = fs.mkdir(b, "c");
    let invalid = |r: Result<(), Error>| assert!(matches!(r, Err(Error::Invalid(_))), "{r:?}");
    invalid(v.names().rename(TOP, b"a", c, b"x", Rename::Replace));
    invalid(v.names().rename(TOP, b"a", a, b"x", Rename::Replace));
    invalid(v.names().rename(TOP, b"a", b, b"c", Rename::Exchange));
    invalid(v.names().rename(b, b"c", TOP, b"a", Rename::Exchange));
    assert!(matches!(v.names().rename(b, b"c", TOP, b"a", Rename::Replace), Err(Error::NotEmpty(_))));
    v.names().rename(TOP, b"a", TOP, b"a", Rename::Replace).expect("onto itself");
    let file = fs.create(a, "file");
    v.names().link(file, c, b"other").expect("link");
    v.names().rename(a, b"file", c, b"other", Rename::Replace).expect("two names of one inode");
    assert_eq!((fs.is(a, "file"), fs.is(c, "other")), (Some(file), Some(file)));
    v.names().rename(b, b"c", TOP, b"c", Rename::Replace).expect("up");
    v.names().rename(TOP, b"a", c, b"a", Rename::Replace).expect("and down");
    assert_eq!(v.names().lookup(a, b"..").expect("..").ino, c);
    fs.check("moved");
}

fn a_replaced_open_file_lives_on() {
    let fs = small();
    let v = &fs.volume;
    let (old, _new) = (fs.create(TOP, "old"), fs.create(TOP, "new"));
    v.files().write(old, 0, b"still here").expect("write");
    v.inode_ops().open(old).expect("open");
    v.names().rename(TOP, b"new", TOP, b"old", Rename::Replace).expect("rename");
    assert_eq!(v.getattr(old).expect("open").nlink, 0);
    let mut buf = [0; 10];
    assert_eq!((v.files().read(old, 0, &mut buf).expect("read"), &buf), (10, b"still here"));
    let dir = fs.mkdir(TOP, "dir");
    v.inode_ops().open(dir).expect("open");
    v.names().rmdir(TOP, b"dir").expect("rmdir");
    assert!(matches!(v.names().create(dir, b"x", 0o644, USER), Err(Error::NotFound)));
    assert!(matches!(v.names().readdir(dir, 0, &mut |_| true), Err(Error::NotFound)));
    assert!(matches!(v.names().rename(TOP, b"old", dir, b"x", Rename::Replace), Err(Error::NotFound)));
    v.inode_ops().release(dir).expect("release");
    v.inode_ops().release(old).expect("release");
    assert!(matches!(v.getattr(old), Err(Error::NotFound)));
    fs.check("released");
}

fn freed_with_the_last_name() {
    let fs = small();
    let v = &fs.volume;
    fs.create(TOP, "warm");
    let before = (v.statfs().free, v.statfs().files_free);
    let file = fs.create(TOP, "file");
    v.files().write(file, 0, &[7; 100_000]).expect("write");
    v.names().link(file, TOP, b"second").expect("link");
    v.names().unlink(TOP, b"file").expect("unlink");
    assert_eq!(v.getattr(file).expect("second").nlink, 1);
    v.names().unlink(TOP, b"second").expect("unlink");
    // A file of many pieces takes more than one operation.
    let holes = fs.create(TOP, "holes");
    for i in 0..400 {
        v.files().write(holes, i * 4096, b"x").expect("write");
    }
    v.names().unlink(TOP, b"holes").expect("unlink");
    let dir = fs.mkdir(TOP, "dir");
    for i in 0..300 {
        fs.create(dir, &format!("name {i}"));
    }
    (0..300).for_each(|i| v.names().unlink(dir, format!("name {i}").as_bytes()).expect("unlink"));
    v.names().rmdir(TOP, b"dir").expect("rmdir");
    assert_eq!((v.statfs().free, v.statfs().files_free), before);
    fs.check("freed");
}

fn times_follow_changes() {
    let fs = small();
    let v = &fs.volume;
    let (dir, file) = (fs.mkdir(TOP, "dir"), fs.create(TOP, "file"));
    let mut last = v.getattr(dir).expect("dir").mtime;
    let mut changed = |what: &str| {
        let attr = v.getattr(dir).expect("dir");
        assert!(attr.mtime > last && attr.ctime == attr.mtime, "{what}");
        last = attr.mtime;
        fs.env.advance(1_000_000);
    };
    fs.env.advance(1_000_000);
    v.names().create(dir, b"a", 0o644, USER).expect("create");
    changed("create");
    v.names().link(file, dir, b"b").expect("link");
    changed("link");
    let ctime = v.getattr(file).expect("file").ctime;
    v.names().unlink(dir, b"b").expect("unlink");
    changed("unlink");
    assert!(v.getattr(file).expect("file").ctime > ctime);
    v.names().rename(dir, b"a", TOP, b"a", Rename::Replace).expect("rename");
    changed("rename away");
    v.names().rename(TOP, b"a", dir, b"a", Rename::Replace).expect("rename");
    changed("rename back");
    let atime = v.getattr(dir).expect("dir").atime;
    fs.names(dir, 10);
    assert!(v.getattr(dir).expect("dir").atime > atime);
}

fn links_end_at_65000() {
    let fs = Fs::open(mkfs(32, &["-b", "4096"]));
    let v = &fs.volume;
    let (dir, file) = (fs.mkdir(TOP, "dir"), fs.create(TOP, "file"));
    for i in 1..65_000 {
        v.names().link(file, dir, format!("{i}").as_bytes()).expect("link");
    }
    assert_eq!(v.getattr(file).expect("file").nlink, 65_000);
    assert!(matches!(v.names().link(file, dir, b"one more"), Err(Error::TooManyLinks(ino)) if ino == file));
    fs.check("links");
}

fn subdirectories_beyond_counting() {
    let fs = Fs::open(mkfs(160, &["-b", "1024", "-N", "65600"]));
    let v = &fs.volume;
    let dir = fs.mkdir(TOP, "dir");
    for i in 0..64_998 {
        v.names().mkdir(dir, format!("{i}").as_bytes(), 0o755, USER).expect("mkdir");
    }
    assert_eq!(v.getattr(dir).expect("dir").nlink, 65_000);
    fs.mkdir(dir, "one more");
    assert_eq!(v.getattr(dir).expect("dir").nlink, 1);
    fs.mkdir(dir, "and another");
    v.names().rmdir(dir, b"5").expect("rmdir");
    assert_eq!(v.getattr(dir).expect("dir").nlink, 1);
    let bytes = fs.bytes();
    fsck(&bytes, "uncounted");
    let (_, bytes) = as_file(&bytes, |path| {
        let path = [path];
        assert!(run("tune2fs", &["-O", "^dir_nlink", path[0]]).status.success());
        assert!(run("debugfs", &["-w", "-R", "sif /dir links_count 65000", path[0]]).status.success());
    });
    let fs = Fs::open(bytes);
    let file = fs.mkdir(TOP, "other");
    assert!(file > 0);
    assert!(matches!(fs.volume.names().mkdir(dir, b"x", 0o755, USER), Err(Error::TooManyLinks(ino)) if ino == dir));
    let refused = fs.volume.names().rename(TOP, b"other", dir, b"x", Rename::Replace);
    assert!(matches!(refused, Err(Error::TooManyLinks(_))));
}

/// A look-up leaves its result for whoever changes the name next. It must not outlive a change of the directory.
fn what_was_looked_up_last_is_forgotten_with_a_change() {
    for format in [&["-b", "1024"][..], &["-b", "1024", "-O", "inline_data", "-I", "256"]] {
        let fs = Fs::open(mkfs(16, format));
        let v = &fs.volume;
        let dir = fs.mkdir(TOP, "dir");
        let is = |name: &str| v.names().lookup(dir, name.as_bytes()).map(|a| a.ino).ok();
        // Few entries in the inode or in one leaf, then an index with several.
        for round in 0..60 {
            let [a, b, c] = ["a", "b", "c"].map(|letter| format!("{letter}{round}"));
            assert_eq!(is(&a), None);
            let first = fs.create(dir, &a);
            assert_eq!((is(&a), is(&b)), (Some(first), None));
            v.names().rename(dir, a.as_bytes(), dir, b.as_bytes(), Rename::Replace).expect("rename");
            assert_eq!((is(&a), is(&b)), (None, Some(first)));
            v.names().unlink(dir, b.as_bytes()).expect("unlink");
            assert_eq!(is(&b), None);
            assert!(matches!(v.names().unlink(dir, b.as_bytes()), Err(Error::NotFound)));
            let (one, two) = (fs.create(dir, &b), fs.create(dir, &a));
            assert_eq!(is(&b), Some(one));
            v.names().rename(dir, a.as_bytes(), dir, b.as_bytes(), Rename::Exchange).expect("exchange");
            assert_eq!((is(&a), is(&b)), (Some(one), Some(two)));
            v.names().rename(dir, a.as_bytes(), dir, b.as_bytes(), Rename::Replace).expect("over");
            assert_eq!((is(&a), is(&b), is(&c)), (None, Some(one), None));
            // Room that was seen may be gone: a longer name takes it.
            fs.create(dir, &format!("{c}-{}", "l".repeat(40)));
            fs.create(dir, &c);
            assert!(is(&c).is_some());
        }
        fs.check("names that were looked up and changed");
    }
}
