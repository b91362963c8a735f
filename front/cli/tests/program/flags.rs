//! What the kernel leaves to the server because of what both agreed on: see the list in `front/fuse/src/flags.rs`.

use crate::calls::requests;
use crate::place::Place;
use crate::transport::on_each;
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, XattrFlags};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: usize = 1 << 20;

/// How many requests of a kind the mount has served.
fn served(place: &Place, kind: &str) -> u64 {
    requests(place).get(kind).copied().unwrap_or(0)
}

/// The kernel sends reads of one file without waiting for one another, and each as large as it can.
#[test]
fn reads_of_one_file_are_served_side_by_side_and_in_large_pieces() {
    let Some(place) = Place::mounted("rw") else { return };
    let bytes: Vec<u8> = (0..8 * MIB as u32).map(|n| (n / 7 % 253) as u8).collect();
    fs::write(place.on("f"), &bytes).unwrap();
    let before = served(&place, "read");
    std::thread::scope(|s| {
        for start in [0, 3 * MIB / 2, 5 * MIB] {
            let (place, bytes) = (&place, &bytes);
            s.spawn(move || {
                let file = File::open(place.on("f")).unwrap();
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                let mut got = vec![0; bytes.len() - start];
                file.read_exact_at(&mut got, start as u64).unwrap();
                assert!(got == bytes[start..]);
            });
        }
    });
    let reads = served(&place, "read") - before;
    assert!((8..1000).contains(&reads), "{reads} reads of 8 MiB");
    place.umount();
}

/// A write of a mebibyte is one request, and so one operation.
#[test]
fn a_large_write_comes_whole() {
    let Some(place) = Place::mounted("data=journal") else { return };
    let file = File::create_new(place.on("f")).unwrap();
    let before = served(&place, "write");
    file.write_all_at(&vec![7; MIB], 0).unwrap();
    assert_eq!(served(&place, "write") - before, 1);
    drop(file);
    place.umount();
    place.is_clean();
}

/// Inodes that a listing told of are the kernel's without a look-up, and live until it forgets them.
#[test]
fn listings_tell_of_inodes() {
    let Some(place) = Place::mounted("rw") else { return };
    for n in 0..50 {
        fs::write(place.on(&format!("f{n}")), [n]).unwrap();
    }
    place.umount();
    place.mount("rw");
    let before = served(&place, "lookup");
    let names: BTreeSet<String> =
        fs::read_dir(place.mount_point()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 51, "50 files and lost+found");
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let kept = rustix::fs::open(place.on("f7"), flags, Mode::empty()).map(File::from).unwrap();
    assert!((0..50).all(|n| fs::symlink_metadata(place.on(&format!("f{n}"))).unwrap().len() == 1));
    assert_eq!(served(&place, "lookup"), before);
    fs::remove_file(place.on("f7")).unwrap();
    let gone = rustix::fs::statat(&kept, "", AtFlags::EMPTY_PATH).unwrap();
    assert_eq!((gone.st_nlink, gone.st_size), (0, 1));
    drop(kept);
    place.umount();
    place.is_clean();
}

/// The kernel does not keep look-ups and listings of one directory apart, nor from each other's changes elsewhere.
#[test]
fn one_directory_is_listed_and_searched_side_by_side() {
    let Some(place) = Place::mounted("rw") else { return };
    let dir = place.on("d");
    fs::create_dir(&dir).unwrap();
    let stay: BTreeSet<String> = (0..300).map(|n| format!("a name that stays, number {n}")).collect();
    for name in &stay {
        drop(File::create(dir.join(name)).unwrap());
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (dir, stay) = (&dir, &stay);
                s.spawn(move || {
                    for round in 0..15 {
                        let listed: Vec<String> =
                            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
                        let kept = listed.iter().filter(|name| stay.contains(*name)).count();
                        assert_eq!(kept, stay.len(), "of {} names", listed.len());
                        let name = stay.iter().nth((reader * 31 + round * 17) % stay.len()).unwrap();
                        assert!(fs::metadata(dir.join(name)).unwrap().is_file());
                        assert!(!dir.join(format!("no name, {reader}.{round}")).exists());
                    }
                })
            })
            .collect();
        s.spawn(|| {
            for n in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                let (a, b) = (dir.join(format!("comes {n}")), dir.join(format!("goes {n}")));
                fs::write(&a, b"x").unwrap();
                fs::rename(&a, &b).unwrap();
                fs::remove_file(&b).unwrap();
            }
        });
        let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    place.umount();
    place.is_clean();
}

/// The kernel keeps what a symbolic link says as long as it knows the inode.
#[test]
fn a_symbolic_link_says_what_the_last_one_of_its_name_says() {
    let Some(place) = Place::mounted("rw") else { return };
    let at = place.on("link");
    let reads = |target: &str| (0..2).all(|_| fs::read_link(&at).unwrap().as_os_str() == target);
    symlink("first", &at).unwrap();
    assert!(reads("first"));
    // The same inode number again.
    fs::remove_file(&at).unwrap();
    symlink("second", &at).unwrap();
    assert!(reads("second"));
    symlink("long/".repeat(60), place.on("other")).unwrap();
    fs::rename(place.on("other"), &at).unwrap();
    assert!(reads(&"long/".repeat(60)));
    assert_eq!(served(&place, "readlink"), 3);
    place.umount();
    place.is_clean();
}

/// The kernel drops pages only where its own requests, or the server, say so.
#[test]
fn what_changes_without_a_write_is_seen_by_who_has_read_it() {
    pages("rw");
    pages("open_requests");
}

fn pages(options: &str) {
    let Some(place) = Place::mounted(options) else { return };
    let open = |name: &str| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(place.on(name));
    let (file, source) = (open("f").unwrap(), open("source").unwrap());
    let mut model = vec![1; 64 << 10];
    file.write_all_at(&model, 0).unwrap();
    source.write_all_at(&[2; 64 << 10], 0).unwrap();
    let sees = |model: &[u8], after: &str| {
        assert!(fs::read(place.on("f")).unwrap() == model, "after {after}");
    };
    sees(&model, "writing");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 5000, 10_000).unwrap();
    model[5000..15_000].fill(0);
    sees(&model, "punching");
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 20_000, 9000).unwrap();
    model[20_000..29_000].fill(0);
    sees(&model, "zeroing");
    let (mut from, mut to) = (100, 30_001);
    assert_eq!(rustix::fs::copy_file_range(&source, Some(&mut from), &file, Some(&mut to), 9999).unwrap(), 9999);
    model[30_001..40_000].fill(2);
    sees(&model, "copying");
    file.set_len(10_000).unwrap();
    file.set_len(50_000).unwrap();
    model.truncate(10_000);
    model.resize(50_000, 0);
    sees(&model, "truncating");
    // New times are no new contents.
    let before = served(&place, "read");
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(fs::metadata(place.on("f")).unwrap().mtime(), 0);
    sees(&model, "new times");
    assert_eq!(served(&place, "read"), before);
    drop((file, source));
    place.umount();
    place.is_clean();
}

/// Closing brings nothing home: stores through a mapping arrive when the mapping goes.
#[test]
fn stores_through_a_mapping_that_nobody_flushes_arrive() {
    mapping("rw");
    mapping("open_requests");
}

fn mapping(options: &str) {
    let Some(place) = Place::mounted(options) else { return };
    let script = "import mmap, os\n\
        f = open('f', 'w+b'); f.truncate(1 << 20)\n\
        m = mmap.mmap(f.fileno(), 1 << 20); f.close()\n\
        m[5:10] = b'hello'; m[700000:700003] = b'end'\n\
        os._exit(0)";
    match Command::new("python3").args(["-c", script]).current_dir(place.mount_point()).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => return ondol_skips::skip(format!("no python3: {e}")),
    }
    place.umount();
    place.is_clean();
    place.mount("ro");
    let got = fs::read(place.on("f")).unwrap();
    assert_eq!((&got[5..10], &got[700_000..700_003]), (&b"hello"[..], &b"end"[..]));
    place.umount();
}

/// A listing that the kernel keeps costs no request, and follows the directory's changes.
#[test]
fn a_kept_listing_follows_changes() {
    listing("rw");
    listing("open_requests");
}

fn listing(options: &str) {
    let Some(place) = Place::mounted(options) else { return };
    let dir = place.on("d");
    fs::create_dir(&dir).unwrap();
    let list = || -> BTreeSet<String> {
        fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    let asked = || served(&place, "readdir") + served(&place, "readdirplus");
    fs::write(dir.join("a"), b"a").unwrap();
    // The first listing after a change is kept.
    list();
    list();
    let before = asked();
    assert_eq!(list(), BTreeSet::from(["a".into()]));
    assert_eq!(asked(), before);
    fs::rename(dir.join("a"), dir.join("b")).unwrap();
    assert_eq!(list(), BTreeSet::from(["b".into()]));
    fs::remove_file(dir.join("b")).unwrap();
    assert_eq!(list(), BTreeSet::new());
    symlink("x", dir.join("c")).unwrap();
    fs::create_dir(dir.join("e")).unwrap();
    assert_eq!(list(), BTreeSet::from(["c".into(), "e".into()]));
    place.umount();
    place.is_clean();
}

/// Inodes are found by number and generation when the kernel has forgotten them: here by another mount.
#[test]
fn file_handles_outlive_the_mount_and_not_the_file() {
    const SCRIPT: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
h = Handle(bytes=128)
mode, mount, kept = sys.argv[1:4]
if mode == 'take':
    at = ctypes.c_int()
    if libc.name_to_handle_at(-100, os.fsencode(sys.argv[4]), ctypes.byref(h), ctypes.byref(at), 0):
        sys.exit('name_to_handle_at: ' + os.strerror(ctypes.get_errno()))
    open(kept, 'wb').write(bytes(h))
else:
    ctypes.memmove(ctypes.byref(h), open(kept, 'rb').read(), ctypes.sizeof(h))
    top = os.open(mount, os.O_RDONLY)
    fd = libc.open_by_handle_at(top, ctypes.byref(h), os.O_RDONLY)
    print('errno', ctypes.get_errno()) if fd < 0 else print('read', os.read(fd, 100).decode())
"#;
    let Some(place) = Place::mounted("rw") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let kept = scratch.path().join("handle");
    let handle = |mode: &str| {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT, mode]).arg(place.mount_point()).arg(&kept).arg(place.on("f"));
        python
            .output()
            .map(|out| (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()))
    };
    fs::write(place.on("f"), b"text").unwrap();
    match handle("take") {
        Err(e) => return ondol_skips::skip(format!("no python3: {e}")),
        Ok((ok, said)) => assert!(ok, "{said}"),
    }
    place.umount();
    place.mount("rw");
    let (_, said) = handle("open").unwrap();
    if said == "errno 1\n" {
        return ondol_skips::skip("not for this user");
    }
    assert_eq!(said, "read text\n");
    // The number is given out again, and is another file's then.
    let ino = fs::metadata(place.on("f")).unwrap().ino();
    fs::remove_file(place.on("f")).unwrap();
    let again = (0..200).any(|n| {
        let path = place.on(&format!("g{n}"));
        fs::write(&path, b"other").unwrap();
        fs::metadata(&path).unwrap().ino() == ino
    });
    assert!(again, "inode {ino} is not used again");
    assert_eq!(handle("open").unwrap().1, "errno 116\n");
    place.umount();
    place.is_clean();
}

/// chmod(2) changes a list as well, which the kernel leaves to the server; and it must not go on by the old one.
#[test]
fn a_new_mode_is_a_new_list() {
    let Some(place) = Place::mounted("default_permissions") else { return };
    const NAME: &str = "system.posix_acl_access";
    fs::write(place.on("f"), b"x").unwrap();
    rustix::fs::setxattr(place.on("f"), NAME, &crate::kinds::list(), XattrFlags::empty()).unwrap();
    let entries = || {
        let mut space = [0; 256];
        let len = rustix::fs::getxattr(place.on("f"), NAME, &mut space[..]).unwrap();
        // Tag and permissions of each.
        space[4..len].chunks(8).map(|entry| (entry[0], entry[2])).collect::<Vec<_>>()
    };
    assert_eq!(entries(), [(1, 7), (2, 7), (4, 5), (16, 7), (32, 0)]);
    fs::set_permissions(place.on("f"), Permissions::from_mode(0o614)).unwrap();
    assert_eq!(entries(), [(1, 6), (2, 7), (4, 5), (16, 1), (32, 4)]);
    place.umount();
    place.is_clean();
}

/// Requests come through `/dev/fuse` or through rings, large ones and those of several threads, too.
#[test]
fn both_transports_carry_every_kind_of_request() {
    on_each(every_kind);
}

fn every_kind(transport: &str) {
    let Some(place) = Place::mounted(transport) else { return };
    std::thread::scope(|s| {
        for t in 0..6u8 {
            let dir = place.on(&format!("d{t}"));
            s.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for n in 0..20usize {
                    let (path, bytes) = (dir.join(format!("f{n}")), vec![t; 1 + n * n * 2500]);
                    fs::write(&path, &bytes).unwrap();
                    let file = File::open(&path).unwrap();
                    file.sync_all().unwrap();
                    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                    assert!(fs::read(&path).unwrap() == bytes);
                    fs::rename(&path, dir.join(format!("g{n}"))).unwrap();
                }
                let value = vec![7; 500];
                rustix::fs::setxattr(&dir, "user.x", &value, XattrFlags::empty()).unwrap();
                let mut got = [0; 4000];
                assert_eq!(rustix::fs::getxattr(&dir, "user.x", &mut got[..]), Ok(500));
                assert_eq!(fs::read_dir(&dir).unwrap().count(), 20);
                fs::remove_dir_all(&dir).unwrap();
            });
        }
    });
    place.umount();
    place.is_clean();
}
