//! Directories between Ondol and the kernel's ext4, both ways.

use crate::dir_rig::{Fs, TOP, USER, as_file, debugfs, fsck, mkfs, run, with_kernel};
use ondol_testkit::{over_engines, over_two_engines};
use ondol_volume::{Device, FileType, Rename};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

over_engines! {
    with_checksums_and_small_blocks,
    with_large_blocks,
    without_checksums,
    an_index_without_the_feature,
    holes_and_free_entries,
    debugfs_reads_ours,
}

over_two_engines! {
    without_index_and_types,
}

/// What both sides can tell of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    ino: u64,
    mode: u32,
    links: u64,
    target: Vec<u8>,
    rdev: u64,
    mtime: (i64, i64),
}

fn kernel_tree(dir: &Path, path: &str, into: &mut BTreeMap<String, Seen>) {
    use std::os::unix::ffi::OsStrExt;
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let meta = entry.path().symlink_metadata().expect("metadata");
        let path = format!("{path}/{}", entry.file_name().to_string_lossy());
        let target = match meta.is_symlink() {
            true => std::fs::read_link(entry.path()).expect("a target").as_os_str().as_bytes().to_vec(),
            false => Vec::new(),
        };
        let device = meta.file_type().is_char_device() || meta.file_type().is_block_device();
        let seen = Seen {
            ino: meta.ino(),
            mode: meta.mode(),
            links: meta.nlink(),
            target,
            rdev: if device { meta.rdev() } else { 0 },
            mtime: (meta.mtime(), meta.mtime_nsec()),
        };
        into.insert(path.clone(), seen);
        if meta.is_dir() {
            kernel_tree(&entry.path(), &path, into);
        }
    }
}

fn our_tree(fs: &Fs) -> BTreeMap<String, Seen> {
    let mut tree = BTreeMap::new();
    fs.tree(TOP, "", &mut tree);
    let seen = tree.into_iter().map(|(path, (a, target))| {
        let Device { major, minor } = a.rdev;
        let rdev = u64::from(minor & 0xff | major << 8 | (minor & !0xff) << 12);
        let seen = Seen {
            ino: a.ino.into(),
            mode: u32::from(a.file_type.mode_bits() | a.perm),
            links: a.nlink.into(),
            target,
            rdev,
            mtime: (a.mtime.sec, a.mtime.nsec.into()),
        };
        (path, seen)
    });
    seen.collect()
}

/// What the kernel is to make: a large directory with removed names, a deep tree, every type.
fn populate(at: &Path) {
    let large = at.join("large");
    std::fs::create_dir(&large).expect("mkdir");
    std::fs::write(at.join("file"), b"contents").expect("a file");
    for i in 0..6000 {
        let name = large.join(format!("a name of some length, number {i:05}"));
        std::fs::hard_link(at.join("file"), name).expect("a link");
    }
    for i in (0..6000).filter(|i| i % 7 < 3) {
        std::fs::remove_file(large.join(format!("a name of some length, number {i:05}"))).expect("unlink");
    }
    let mut deep = at.to_path_buf();
    for i in 0..20 {
        deep.push(format!("level {i}"));
        std::fs::create_dir(&deep).expect("mkdir");
        std::fs::set_permissions(&deep, std::fs::Permissions::from_mode(0o2750)).expect("chmod");
    }
    for len in [1, 59, 60, 61, 500] {
        symlink("t".repeat(len), at.join(format!("link of {len}"))).expect("symlink");
    }
    let special = |name: &str, args: &[&str]| {
        let path = at.join(name);
        let all: Vec<&str> = [path.to_str().expect("a path")].into_iter().chain(args.iter().copied()).collect();
        assert!(run("mknod", &all).status.success());
    };
    special("pipe", &["p"]);
    special("old device", &["c", "4", "64"]);
    special("new device", &["b", "259", "70000"]);
}

fn both_ways(args: &[&str]) {
    let image = mkfs(64, args);
    let mut theirs = BTreeMap::new();
    let populated = with_kernel(&image, |at| {
        populate(at);
        kernel_tree(at, "", &mut theirs);
    });
    let Some(populated) = populated else { return };
    let fs = Fs::open(populated);
    assert_eq!(our_tree(&fs), theirs, "{args:?}");
    // Go on where the kernel left off: fill its holes, grow its index, take its tree apart.
    let large = fs.is(TOP, "large").expect("large");
    let file = fs.is(TOP, "file").expect("file");
    for i in 0..4000 {
        let name = format!("ours {i:04}, which is also a name of some length");
        fs.volume.names().link(file, large, name.as_bytes()).expect("link");
    }
    for i in (0..6000).filter(|i| i % 7 == 5) {
        fs.volume.names().unlink(large, format!("a name of some length, number {i:05}").as_bytes()).expect("unlink");
    }
    let level = fs.is(TOP, "level 0").expect("level 0");
    let level = fs.is(level, "level 1").expect("level 1");
    fs.volume.names().rename(level, b"level 2", TOP, b"moved up", Rename::Replace).expect("rename");
    fs.volume.names().symlink(level, b"long", &[b'l'; 900], USER).expect("symlink");
    fs.volume.names().symlink(level, b"short", b"s", USER).expect("symlink");
    fs.volume.names().mknod(level, b"device", 0o060_640, Device { major: 0x456, minor: 0x12378 }, USER).expect("mknod");
    fs.volume.names().mknod(level, b"socket", 0o140_600, Device::default(), USER).expect("mknod");
    let ours = our_tree(&fs);
    let bytes = fs.bytes();
    fsck(&bytes, "after both");
    let mut theirs = BTreeMap::new();
    let after = with_kernel(&bytes, |at| {
        kernel_tree(at, "", &mut theirs);
        // The kernel's index of our directories must find, insert and remove too.
        for i in 0..3000 {
            let name = at.join(format!("large/theirs {i:04}, a name as long as the others"));
            std::fs::hard_link(at.join("file"), name).expect("a link");
        }
        for i in 0..4000 {
            let name = at.join(format!("large/ours {i:04}, which is also a name of some length"));
            std::fs::remove_file(name).expect("unlink");
        }
    });
    fsck(&after.expect("a mount, as before"), "after the kernel again");
    assert_eq!(ours, theirs, "{args:?}");
}

fn with_checksums_and_small_blocks() {
    both_ways(&["-b", "1024"]);
}

fn with_large_blocks() {
    both_ways(&["-b", "4096", "-O", "orphan_file,metadata_csum_seed"]);
}

fn without_checksums() {
    both_ways(&["-b", "1024", "-O", "^metadata_csum,^64bit,^extra_isize", "-I", "128"]);
}

fn without_index_and_types() {
    both_ways(&["-b", "2048", "-O", "^dir_index,^filetype"]);
}

/// A directory whose image has INDEX set while the volume lost the feature: read and changed as linear, then no index.
fn an_index_without_the_feature() {
    let fs = Fs::open(mkfs(16, &["-b", "1024", "-O", "^metadata_csum"]));
    let dir = fs.mkdir(TOP, "dir");
    for i in 0..500 {
        fs.create(dir, &format!("name {i}"));
    }
    let bytes = fs.bytes();
    let (_, bytes) = as_file(&bytes, |path| {
        assert!(run("debugfs", &["-w", "-R", "feature -dir_index", path]).status.success());
    });
    let fs = Fs::open(bytes);
    let dir = fs.is(TOP, "dir").expect("dir");
    assert_eq!(fs.names(dir, 17).len(), 500);
    for i in 500..700 {
        fs.create(dir, &format!("name {i}"));
    }
    (0..700).step_by(2).for_each(|i| fs.volume.names().unlink(dir, format!("name {i}").as_bytes()).expect("unlink"));
    assert_eq!(fs.names(dir, 17).len(), 350);
    fs.check("linear from now on");
}

/// Holes and free first entries, as e2fsck and the kernel may leave them.
fn holes_and_free_entries() {
    let fs = Fs::open(mkfs(16, &["-b", "1024", "-O", "^metadata_csum,^dir_index"]));
    let dir = fs.mkdir(TOP, "dir");
    for i in 0..200 {
        fs.create(dir, &format!("name {i:03}"));
    }
    let before = fs.names(dir, 100);
    let bytes = fs.bytes();
    // Block 2 of the directory becomes a hole.
    let (gone, bytes) = as_file(&bytes, |path| {
        let dump = run("debugfs", &["-R", "bmap /dir 2", path]);
        let block: usize = String::from_utf8_lossy(&dump.stdout).trim().parse().expect("a block");
        assert!(run("debugfs", &["-w", "-R", "punch /dir 2 2", path]).status.success());
        bytes[block * 1024..(block + 1) * 1024].to_vec()
    });
    let fs = Fs::open(bytes);
    let after = fs.names(dir, 7);
    let lost = before.keys().filter(|name| !after.contains_key(*name)).count();
    assert!(lost > 10 && gone.windows(4).any(|w| w == b"name"));
    assert!(after.keys().all(|name| fs.volume.names().lookup(dir, name).is_ok()));
    for i in 0..60 {
        fs.create(dir, &format!("new {i}"));
    }
    assert_eq!(fs.names(dir, 7).len(), after.len() + 60);
    for name in fs.names(dir, 50).keys() {
        fs.volume.names().unlink(dir, name).expect("unlink");
    }
    fs.volume.names().rmdir(TOP, b"dir").expect("an empty directory with a hole");
}

fn debugfs_reads_ours() {
    let fs = Fs::open(mkfs(16, &["-b", "1024"]));
    let dir = fs.mkdir(TOP, "dir");
    for i in 0..2000 {
        fs.create(dir, &format!("name {i:04} padded to be longer"));
    }
    fs.volume.names().symlink(TOP, b"link", &[b'l'; 100], USER).expect("symlink");
    let bytes = fs.bytes();
    let listed = debugfs(&bytes, "ls -p /dir");
    assert_eq!(listed.lines().filter(|l| l.contains("padded")).count(), 2000);
    let dump = debugfs(&bytes, "htree_dump /dir");
    assert_eq!(dump.matches("padded").count(), 2000);
    assert!(debugfs(&bytes, "stat /link").contains("Type: symlink"));
    assert_eq!(FileType::from_mode(0o120_777), Some(FileType::Symlink));
}
