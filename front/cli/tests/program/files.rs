//! What programs do to files, through the mount, and what is left after a remount.

use crate::place::Place;
use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, Timespec, Timestamps, XattrFlags};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn contents() {
    let Some(place) = Place::mounted("data=journal") else { return };
    let path = place.on("file");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(b"hello world").unwrap();
    file.write_all_at(b"W", 6).unwrap();
    let mut tail = OpenOptions::new().append(true).open(&path).unwrap();
    tail.write_all(b"!").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello World!");
    file.set_len(5).unwrap();
    file.set_len(9).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello\0\0\0\0");
    let large: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(place.on("large"), &large).unwrap();
    drop(File::create(&path).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    drop((file, tail));
    place.umount();
    place.is_clean();
    place.mount("ro");
    assert!(fs::read(place.on("large")).unwrap() == large);
    assert_eq!(fs::read(&path).unwrap(), b"");
    place.umount();
}

#[test]
fn names() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::create_dir_all(place.on("d/e")).unwrap();
    fs::write(place.on("a"), b"a").unwrap();
    fs::write(place.on("b"), b"b").unwrap();
    assert_eq!(errno(fs::create_dir(place.on("d"))), Some(17));
    assert_eq!(errno(fs::remove_dir(place.on("d"))), Some(39));
    assert_eq!(errno(fs::read(place.on("absent"))), Some(2));
    assert_eq!(errno(fs::write(place.on(&"n".repeat(256)), b"")), Some(36));
    let rename = |from: &str, to: &str, flags| {
        let renamed = rustix::fs::renameat_with(CWD, place.on(from), CWD, place.on(to), flags);
        renamed.map_err(io::Error::from)
    };
    assert_eq!(errno(rename("a", "b", RenameFlags::NOREPLACE)), Some(17));
    assert_eq!(errno(rename("a", "b", RenameFlags::WHITEOUT | RenameFlags::EXCHANGE)), Some(22));
    rename("a", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(place.on("a")).unwrap(), b"b");
    fs::rename(place.on("a"), place.on("d/e/c")).unwrap();
    assert!(!place.on("a").exists());
    fs::hard_link(place.on("b"), place.on("d/link")).unwrap();
    assert_eq!(fs::metadata(place.on("b")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(place.on("b")).unwrap().ino(), fs::metadata(place.on("d/link")).unwrap().ino());
    std::os::unix::fs::symlink("../b", place.on("d/soft")).unwrap();
    assert_eq!(fs::read(place.on("d/soft")).unwrap(), b"a");
    assert_eq!(fs::metadata(place.mount_point()).unwrap().ino(), 2);
    fs::remove_file(place.on("b")).unwrap();
    place.umount();
    place.is_clean();
    place.mount("ro");
    assert_eq!(fs::read(place.on("d/link")).unwrap(), b"a");
    assert_eq!(fs::read(place.on("d/e/c")).unwrap(), b"b");
    assert_eq!(fs::read_link(place.on("d/soft")).unwrap().as_os_str(), "../b");
    assert_eq!(fs::metadata(place.on("d")).unwrap().nlink(), 3);
    place.umount();
}

#[test]
fn large_directories_are_listed_whole() {
    let Some(place) = Place::mounted("rw") else { return };
    let dir = place.on("many");
    fs::create_dir(&dir).unwrap();
    let names: BTreeSet<String> = (0..3000).map(|i| format!("a rather long name for number {i}")).collect();
    for name in &names {
        drop(File::create(dir.join(name)).unwrap());
    }
    let list = || -> BTreeSet<String> {
        fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(list(), names);
    // A listing that the kernel keeps must follow changes.
    fs::remove_file(dir.join("a rather long name for number 17")).unwrap();
    fs::rename(dir.join("a rather long name for number 18"), dir.join("x")).unwrap();
    let mut changed = names.clone();
    changed.remove("a rather long name for number 17");
    changed.remove("a rather long name for number 18");
    changed.insert("x".into());
    assert_eq!(list(), changed);
    for entry in fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_file() && entry.metadata().unwrap().is_file());
    }
    fs::remove_dir_all(&dir).unwrap();
    place.umount();
    place.is_clean();
}

#[test]
fn inodes() {
    let Some(place) = Place::mounted("rw") else { return };
    let path = place.on("file");
    fs::write(&path, b"x").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let before_1970 = Timespec { tv_sec: -2, tv_nsec: 800_000_000 };
    let after = Timespec { tv_sec: 1_700_000_000, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: before_1970, last_modification: after };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
    rustix::fs::setxattr(&path, "user.colour", b"ochre", XattrFlags::CREATE).unwrap();
    rustix::fs::setxattr(&path, "trusted.hidden", b"1", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(&path, "user.gone", b"", XattrFlags::empty()).unwrap();
    rustix::fs::removexattr(&path, "user.gone").unwrap();
    let again = rustix::fs::setxattr(&path, "user.colour", b"", XattrFlags::CREATE);
    assert_eq!(errno(again.map_err(io::Error::from)), Some(17));
    rustix::fs::mknodat(
        CWD,
        place.on("device"),
        rustix::fs::FileType::CharacterDevice,
        0o600.into(),
        rustix::fs::makedev(259, 70_000),
    )
    .unwrap();
    rustix::fs::mknodat(CWD, place.on("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let check = || {
        let meta = fs::metadata(&path).unwrap();
        assert_eq!(meta.mode(), 0o100_640);
        assert_eq!((meta.atime(), meta.atime_nsec()), (-2, 800_000_000));
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_700_000_000, 123_456_789));
        let mut value = [0; 16];
        let n = rustix::fs::getxattr(&path, "user.colour", &mut value[..]).unwrap();
        assert_eq!(&value[..n], b"ochre");
        let mut list = [0; 256];
        let n = rustix::fs::listxattr(&path, &mut list[..]).unwrap();
        let names: BTreeSet<&[u8]> = list[..n].split(|b| *b == 0).filter(|w| !w.is_empty()).collect();
        assert_eq!(names, BTreeSet::from([&b"user.colour"[..], &b"trusted.hidden"[..]]));
        assert_eq!(fs::metadata(place.on("device")).unwrap().rdev(), rustix::fs::makedev(259, 70_000));
    };
    check();
    place.umount();
    place.is_clean();
    place.mount("ro");
    check();
    place.umount();
}

#[test]
fn unlinked_files_live_until_they_are_closed() {
    let Some(place) = Place::mounted("rw") else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(place.on("file")).unwrap();
    fs::remove_file(place.on("file")).unwrap();
    file.write_all_at(&[9; 10_000], 0).unwrap();
    let mut back = [0; 10_000];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!((back, file.metadata().unwrap().nlink()), ([9; 10_000], 0));
    fs::create_dir(place.on("dir")).unwrap();
    let dir = File::open(place.on("dir")).unwrap();
    fs::remove_dir(place.on("dir")).unwrap();
    assert_eq!(dir.metadata().unwrap().nlink(), 0);
    drop((file, dir));
    place.umount();
    place.is_clean();
}

#[test]
fn allocation_and_holes() {
    let Some(place) = Place::mounted("rw") else { return };
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(place.on("file")).unwrap();
    let free = rustix::fs::fstatvfs(&file).unwrap().f_bfree;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    assert!(file.metadata().unwrap().blocks() >= 2048);
    assert!(rustix::fs::fstatvfs(&file).unwrap().f_bfree <= free - 256);
    file.write_all_at(&[1; 1 << 20], 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 65_536, 131_072).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap(), 65_536);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(65_536)).unwrap(), 196_608);
    let mut back = vec![9; 1 << 20];
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back[65_536..196_608].iter().all(|b| *b == 0));
    assert!(back[..65_536].iter().chain(&back[196_608..]).all(|b| *b == 1));
    // What was read may have been changed through a mapping since.
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(65_536)).unwrap(), 65_536);
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(errno(collapse.map_err(io::Error::from)), Some(95));
    file.rewind().unwrap();
    drop(file);
    place.umount();
    place.is_clean();
}

#[test]
fn many_threads() {
    let Some(place) = Place::mounted("rw") else { return };
    std::thread::scope(|s| {
        for t in 0..8u8 {
            let place = &place;
            s.spawn(move || {
                let dir = place.on(&format!("t{t}"));
                fs::create_dir(&dir).unwrap();
                for i in 0..60 {
                    let path = dir.join(format!("f{i}"));
                    let mut file = File::create(&path).unwrap();
                    file.write_all(&vec![t; 5000]).unwrap();
                    file.sync_data().unwrap();
                    if i % 3 == 0 {
                        fs::rename(&path, dir.join(format!("g{i}"))).unwrap();
                    }
                    if i % 5 == 0 {
                        fs::read_dir(place.mount_point()).unwrap().for_each(|e| drop(e.unwrap()));
                    }
                }
            });
        }
    });
    place.umount();
    place.is_clean();
    place.mount("ro");
    for t in 0..8u8 {
        let dir = place.on(&format!("t{t}"));
        let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.len(), 60);
        assert!(files.iter().all(|f| fs::read(f).unwrap() == vec![t; 5000]));
    }
    place.umount();
}
