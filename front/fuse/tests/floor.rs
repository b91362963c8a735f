//! File systems without a volume carry programs, on both transports. Needs root and `/dev/fuse`.

use ondol_fuse::{Floor, FloorKind, MountOptions, Transport};
use rustix::fs::{AtFlags, RenameFlags, XattrFlags};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

const TRANSPORTS: [Transport; 2] = [Transport::Device, Transport::Rings];

/// Mounts, lets `work` use the mount, and unmounts, on each transport that is to be had. Hands `work` the requests so
/// far.
fn on_each_transport(kind: FloorKind<'_>, mut work: impl FnMut(&Path, &dyn Fn(&str) -> u64)) {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return ondol_skips::skip("serving needs root and /dev/fuse");
    }
    for transport in TRANSPORTS {
        let point = tempfile::tempdir().unwrap();
        let options = MountOptions { transport, ..MountOptions::default() };
        let (told, ended) = std::sync::mpsc::channel();
        let floor = match Floor::mount(kind, point.path(), &options, move || told.send(()).unwrap()) {
            Ok(floor) => floor,
            Err(e) if transport == Transport::Rings => {
                ondol_skips::skip(e);
                continue;
            }
            Err(e) => panic!("{e}"),
        };
        let count = |name: &str| floor.requests().iter().find(|(n, _)| *n == name).map_or(0, |(_, count)| *count);
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(point.path(), &count)));
        floor.finish().unwrap();
        ended.recv().unwrap();
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
        assert_eq!(fs::read_dir(point.path()).unwrap().count(), 0, "nothing is mounted any more");
    }
}

/// What every workload of the bench does, and a little more.
fn names_and_sizes(dir: &Path) {
    fs::create_dir_all(dir.join("a/b")).unwrap();
    let path = dir.join("a/b/file");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(&[7; 10_000], 0).unwrap();
    file.write_all_at(&[8; 100], 9_950).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 10_050);
    file.set_len(20_000).unwrap();
    assert_eq!(file.read_at(&mut [0; 4096], 18_000).unwrap(), 2_000);
    drop(file);
    assert_eq!(fs::metadata(&path).unwrap().len(), 20_000);
    assert_eq!(File::create_new(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::metadata(dir.join("a/none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(fs::remove_dir(dir.join("a/b")).unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode(), 0o100_600);

    fs::rename(&path, dir.join("a/moved")).unwrap();
    fs::write(dir.join("a/other"), b"other").unwrap();
    fs::rename(dir.join("a/moved"), dir.join("a/other")).unwrap();
    assert_eq!(fs::metadata(dir.join("a/other")).unwrap().len(), 20_000);
    let open = File::open(dir.join("a")).unwrap();
    let exists = rustix::fs::renameat_with(&open, "b", &open, "other", RenameFlags::NOREPLACE);
    assert_eq!(exists, Err(rustix::io::Errno::EXIST));
    open.sync_all().unwrap();

    // A file without a name lives as long as it is open.
    let gone = File::create_new(dir.join("gone")).unwrap();
    fs::remove_file(dir.join("gone")).unwrap();
    gone.write_all_at(b"still", 0).unwrap();
    gone.sync_all().unwrap();
    assert_eq!(gone.metadata().unwrap().len(), 5);
    drop(gone);

    let many = dir.join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..3_000 {
        File::create_new(many.join(format!("a file with a longer name {n:05}"))).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(&many).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3_000);
    assert!(rustix::fs::statvfs(dir).unwrap().f_bavail > 0);
    fs::remove_dir_all(dir.join("a")).unwrap();
    fs::remove_dir_all(&many).unwrap();
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn names_and_sizes_without_a_volume() {
    on_each_transport(FloorKind::Null, |dir, count| {
        names_and_sizes(dir);
        // As many requests as a file costs that is made, written, synced and closed: no getxattr, since there are no
        // attributes.
        File::create_new(dir.join("first")).unwrap().write_all_at(b"x", 0).unwrap();
        let kinds = ["lookup", "mknod", "write", "fsync", "getxattr", "open", "create", "release", "getattr"];
        let before = kinds.map(count);
        let file = File::create_new(dir.join("file")).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let after: Vec<u64> = kinds.iter().zip(before).map(|(kind, before)| count(kind) - before).collect();
        assert_eq!(after, [1, 1, 1, 1, 0, 0, 0, 0, 0], "{kinds:?}");
    });
}

#[test]
fn everything_is_handed_on() {
    let below = tempfile::tempdir_in("/dev/shm").unwrap();
    on_each_transport(FloorKind::Through(below.path()), |dir, count| {
        names_and_sizes(dir);
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
        fs::write(dir.join("file"), b"through").unwrap();
        assert_eq!(fs::read(below.path().join("file")).unwrap(), b"through");
        fs::hard_link(dir.join("file"), dir.join("link")).unwrap();
        std::os::unix::fs::symlink("file", dir.join("symlink")).unwrap();
        assert_eq!(fs::read(dir.join("symlink")).unwrap(), b"through");
        let seen = |path: &Path| fs::metadata(path).map(|m| (m.ino(), m.nlink(), m.len(), m.mode(), m.mtime_nsec()));
        assert_eq!(seen(&dir.join("link")).unwrap(), seen(&below.path().join("link")).unwrap());
        rustix::fs::setxattr(dir.join("file"), "trusted.x", b"value", XattrFlags::empty()).unwrap();
        let mut value = [0; 64];
        assert_eq!(rustix::fs::getxattr(below.path().join("file"), "trusted.x", &mut value[..]), Ok(5));
        assert_eq!(rustix::fs::getxattr(dir.join("file"), "trusted.x", &mut value[..]), Ok(5));
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 5, tv_nsec: 6 },
            last_modification: rustix::fs::Timespec { tv_sec: 7, tv_nsec: 8 },
        };
        rustix::fs::utimensat(rustix::fs::CWD, dir.join("file"), &times, AtFlags::empty()).unwrap();
        let meta = fs::metadata(below.path().join("file")).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (7, 8));
        // As on a mount, the kernel asks for `security.capability` before the first write to a file, not before each.
        let file = File::create_new(dir.join("twice")).unwrap();
        let before = (count("getxattr"), count("write"));
        (0..20).for_each(|n| file.write_all_at(b"x", n).unwrap());
        assert_eq!((count("getxattr") - before.0, count("write") - before.1), (1, 20));
        fs::remove_file(dir.join("twice")).unwrap();
        fs::remove_dir_all(dir.join("none")).unwrap_err();
        for name in ["file", "link", "symlink"] {
            fs::remove_file(dir.join(name)).unwrap();
        }
        assert_eq!(
            (count("open"), count("opendir"), count("create"), count("release")),
            (1, 1, 1, 0),
            "each is refused once"
        );
        // What the kernel forgets is closed: an inode goes with its last name.
        let prefix = below.path().join("kept");
        let held = || {
            let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
            open.filter(|path| path.to_string_lossy().starts_with(&*prefix.to_string_lossy())).count()
        };
        for n in 0..500 {
            fs::write(dir.join(format!("kept{n}")), b"x").unwrap();
        }
        assert_eq!(held(), 500);
        for n in 0..500 {
            fs::remove_file(dir.join(format!("kept{n}"))).unwrap();
        }
        let patient = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            held() == 0
        });
        assert!(patient, "{} descriptors are open", held());
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
    });
}
