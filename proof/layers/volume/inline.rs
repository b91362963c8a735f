//! Files, directories and symlinks whose contents lie in their inodes.

use crate::file_util::{Random, Rig, debugfs, dump, fsck, ino_of, mkfs, mount, run};
use ondol_block::RamStore;
use ondol_testkit::over_engines;
use ondol_volume::{Caller, Error, Fallocate, Image, Ino, ROOT, Seek, SetXattr, check};
use std::collections::BTreeMap;
use std::sync::Arc;

over_engines! {
    what_debugfs_has_put_into_inodes_is_read_and_changed_there,
    a_file_leaves_its_inode_when_it_no_longer_fits,
    a_full_volume_keeps_what_is_in_inodes,
    attributes_and_data_share_an_inode,
    work_on_blocks_takes_a_file_out_of_its_inode,
    directories_grow_out_of_their_inodes,
    names_move_between_directories_in_inodes,
    damage_is_told_and_nothing_else_happens,
    refused_ranges_leave_a_file_in_its_inode,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
/// The flag of an inode that has its contents in itself.
const INLINE_DATA: u32 = 0x1000_0000;

fn is_inline(bytes: &[u8], name: &str) -> bool {
    let (text, _) = debugfs(bytes, &format!("stat {name}"));
    let flags = text.split("Flags: 0x").nth(1).and_then(|rest| rest.split_whitespace().next());
    let flags = flags.and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or_else(|| panic!("no flags in {text}"));
    flags & INLINE_DATA != 0
}

/// e2fsck and our check find nothing.
fn closed(rig: Rig) -> Vec<u8> {
    let bytes = rig.unmount();
    fsck(&bytes);
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.clone()))).unwrap();
    let report = check(&image, &mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    bytes
}

fn what_debugfs_has_put_into_inodes_is_read_and_changed_there() {
    let dir = tempfile::tempdir().unwrap();
    let (image, source) = (dir.path().join("image"), dir.path().join("source"));
    std::fs::write(&image, mkfs("16M", &["-b", "1024", "-O", "inline_data"], 0)).unwrap();
    let content = Random(3).bytes(100);
    std::fs::write(&source, &content).unwrap();
    for request in [format!("write {} f", source.display()), "mkdir d".into(), format!("symlink l {}", "t/".repeat(40))]
    {
        run("debugfs", &["-w", "-R", &request, image.to_str().unwrap()]);
    }
    let bytes = std::fs::read(&image).unwrap();
    assert!(is_inline(&bytes, "f") && is_inline(&bytes, "d") && is_inline(&bytes, "l"));
    let (file, directory, link) = (ino_of(&bytes, "f"), ino_of(&bytes, "d"), ino_of(&bytes, "l"));
    let rig = mount(bytes);
    assert!(rig.read_all(file) == content);
    assert_eq!(rig.vol.names().readlink(link).unwrap(), "t/".repeat(40).into_bytes());
    assert_eq!(rig.vol.files().seek(file, 3, Seek::Data).unwrap(), 3);
    assert_eq!(rig.vol.files().seek(file, 3, Seek::Hole).unwrap(), 100);
    rig.vol.files().write(file, 90, &[7; 20]).unwrap();
    rig.vol.names().create(directory, b"x", 0o644, USER).unwrap();
    // As the kernel says it: programs that copy files take one without any space for a hole.
    assert_eq!([file, directory, link].map(|ino| rig.vol.getattr(ino).unwrap().blocks), [1, 0, 0]);
    let bytes = closed(rig);
    assert!(is_inline(&bytes, "f") && is_inline(&bytes, "d"));
    assert_eq!(dump(&bytes, "f"), [&content[..90], &[7; 20]].concat());
}

fn a_file_leaves_its_inode_when_it_no_longer_fits() {
    for args in [
        &["-b", "1024", "-O", "inline_data"][..],
        &["-b", "4096", "-I", "1024", "-O", "inline_data"],
        &["-b", "1024", "-I", "1024", "-O", "inline_data,^extent,^64bit"],
    ] {
        let rig = mount(mkfs("32M", args, 0));
        let mut random = Random(5);
        let mut model: Vec<u8> = Vec::new();
        let mut ino = rig.vol.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
        let (mut inside, mut left) = (0, 0);
        for i in 0..400 {
            let at = random.below(200 + 90 * (i % 17)) as usize;
            let len = 1 + random.below(60) as usize;
            if random.below(3) > 0 {
                let bytes = random.bytes(len);
                rig.vol.files().write(ino, at as u64, &bytes).unwrap();
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes);
            } else {
                rig.vol.files().truncate(ino, at as u64).unwrap();
                model.resize(at, 0);
            }
            assert!(rig.read_all(ino) == model, "step {i}");
            let attr = rig.vol.getattr(ino).unwrap();
            let is_inside = attr.flags & INLINE_DATA != 0;
            assert!(!is_inside || attr.blocks == attr.size.div_ceil(512), "step {i}: {attr:?}");
            inside += usize::from(is_inside);
            left += usize::from(!is_inside);
            if !is_inside && random.below(6) == 0 {
                rig.vol.names().unlink(ROOT, b"f").unwrap();
                ino = rig.vol.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
                model.clear();
            }
        }
        assert!(inside > 10 && left > 30, "{inside} inside, {left} outside");
        let bytes = closed(rig);
        // debugfs writes out all of i_block, also of shorter files.
        let dumped = dump(&bytes, "f");
        assert!(dumped[..model.len()] == model && dumped[model.len()..].iter().all(|&byte| byte == 0));
    }
}

fn a_full_volume_keeps_what_is_in_inodes() {
    let rig = mount(mkfs("4M", &["-b", "1024", "-J", "size=1", "-m", "0", "-O", "inline_data"], 0));
    let small = rig.vol.names().create(ROOT, b"small", 0o644, USER).unwrap().ino;
    let large = rig.vol.names().create(ROOT, b"large", 0o644, USER).unwrap().ino;
    rig.vol.files().write(small, 0, b"some bytes").unwrap();
    while rig.vol.files().append(large, &[1; 1024]).is_ok() {}
    assert!(matches!(rig.vol.files().write(small, 0, &[2; 500]), Err(Error::NoSpace(_))));
    assert!(matches!(rig.vol.files().truncate(small, 500), Err(Error::NoSpace(_))));
    assert!(matches!(rig.vol.files().fallocate(small, Fallocate::KeepSize, 0, 5), Err(Error::NoSpace(_))));
    assert_eq!(rig.read_all(small), b"some bytes");
    rig.vol.files().write(small, 5, b"others").unwrap();
    rig.vol.files().truncate(small, 8).unwrap();
    assert_eq!(rig.read_all(small), b"some oth");
    let bytes = closed(rig);
    assert!(is_inline(&bytes, "small"));
}

fn attributes_and_data_share_an_inode() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "inline_data"], 0));
    let ino = rig.vol.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
    rig.vol.files().write(ino, 0, &[5; 70]).unwrap();
    rig.vol.xattrs().setxattr(ino, b"user.a", &[6; 20], SetXattr::Any).unwrap();
    // No room for this one beside the data.
    rig.vol.xattrs().setxattr(ino, b"user.b", &[7; 50], SetXattr::Any).unwrap();
    assert_eq!(rig.vol.xattrs().listxattr(ino).unwrap().len(), 2);
    assert!(matches!(rig.vol.xattrs().getxattr(ino, b"system.data"), Err(Error::Unsupported(_))));
    rig.vol.files().write(ino, 70, &[8; 40]).unwrap();
    assert_eq!(rig.read_all(ino), [[5; 70].to_vec(), vec![8; 40]].concat());
    rig.vol.xattrs().removexattr(ino, b"user.a").unwrap();
    assert_eq!(rig.vol.xattrs().getxattr(ino, b"user.b").unwrap(), [7; 50]);
    closed(rig);
}

fn work_on_blocks_takes_a_file_out_of_its_inode() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "inline_data"], 0));
    use Fallocate::{Allocate, KeepSize, PunchHole, ZeroRange};
    for (i, how) in [Allocate, KeepSize, PunchHole, ZeroRange].into_iter().enumerate() {
        let ino = rig.vol.names().create(ROOT, format!("f{i}").as_bytes(), 0o644, USER).unwrap().ino;
        rig.vol.files().write(ino, 0, &[9; 50]).unwrap();
        rig.vol.files().fallocate(ino, how, 10, 20).unwrap();
        let mut want = [9; 50];
        if matches!(how, PunchHole | ZeroRange) {
            want[10..30].fill(0);
        }
        assert_eq!(rig.read_all(ino), want, "{how:?}");
        assert_eq!(rig.vol.getattr(ino).unwrap().blocks, 2);
    }
    closed(rig);
}

/// Names of a directory with what they name, listed one entry at a time.
fn list(rig: &Rig, dir: Ino) -> BTreeMap<String, Ino> {
    let (mut names, mut cookie) = (BTreeMap::new(), 0);
    loop {
        let mut next = None;
        rig.vol
            .names()
            .readdir(dir, cookie, &mut |e| {
                let first = next.is_none();
                if first {
                    next = Some((e.next, String::from_utf8_lossy(e.name).into_owned(), e.ino));
                }
                first
            })
            .unwrap();
        let Some((at, name, ino)) = next else { return names };
        assert!(names.insert(name, ino).is_none());
        cookie = at;
    }
}

fn directories_grow_out_of_their_inodes() {
    for (args, count) in [
        (&["-b", "1024", "-O", "inline_data"][..], 40),
        (&["-b", "1024", "-O", "inline_data,^dir_index"], 40),
        // Two lists, and more in the inode than its block has room for.
        (&["-b", "1024", "-I", "1024", "-O", "inline_data"], 60),
        (&["-b", "1024", "-I", "512", "-O", "inline_data,^metadata_csum,^filetype"], 40),
    ] {
        let rig = mount(mkfs("16M", args, 0));
        let dir = rig.vol.names().mkdir(ROOT, b"d", 0o755, USER).unwrap().ino;
        let mut model = BTreeMap::from([(".".to_owned(), dir), ("..".to_owned(), ROOT)]);
        let mut random = Random(11);
        for i in 0..count {
            let name = format!("name{i:0>width$}", width = 1 + random.below(20) as usize);
            let made = if i % 3 == 0 {
                rig.vol.names().mkdir(dir, name.as_bytes(), 0o755, USER).unwrap()
            } else {
                rig.vol.names().create(dir, name.as_bytes(), 0o644, USER).unwrap()
            };
            model.insert(name.clone(), made.ino);
            if random.below(3) == 0 && i % 3 != 0 {
                rig.vol.names().unlink(dir, name.as_bytes()).unwrap();
                model.remove(&name);
            }
            assert_eq!(list(&rig, dir), model, "{args:?}, {i}");
            for (name, ino) in &model {
                assert_eq!(rig.vol.names().lookup(dir, name.as_bytes()).unwrap().ino, *ino);
            }
        }
        assert!(rig.vol.getattr(dir).unwrap().size >= 1024);
        let bytes = closed(rig);
        let rig = mount(bytes);
        assert_eq!(list(&rig, dir), model);
    }
}

fn names_move_between_directories_in_inodes() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "inline_data"], 0));
    let v = &rig.vol;
    let [a, b] = [&b"a"[..], b"b"].map(|name| v.names().mkdir(ROOT, name, 0o755, USER).unwrap().ino);
    let sub = v.names().mkdir(a, b"sub", 0o755, USER).unwrap().ino;
    let file = v.names().create(b, b"file", 0o644, USER).unwrap().ino;
    v.names().rename(a, b"sub", b, b"moved", ondol_volume::Rename::Replace).unwrap();
    assert_eq!(v.names().lookup(sub, b"..").unwrap().ino, b);
    v.names().rename(b, b"moved", b, b"file", ondol_volume::Rename::Exchange).unwrap();
    assert_eq!((v.names().lookup(b, b"file").unwrap().ino, v.names().lookup(b, b"moved").unwrap().ino), (sub, file));
    v.names().rename(b, b"file", a, b"back", ondol_volume::Rename::Replace).unwrap();
    assert_eq!(v.names().lookup(sub, b"..").unwrap().ino, a);
    assert!(matches!(v.names().rmdir(ROOT, b"a"), Err(Error::NotEmpty(_))));
    v.names().rmdir(a, b"back").unwrap();
    v.names().rmdir(ROOT, b"a").unwrap();
    let attr = v.getattr(b).unwrap();
    assert_eq!((attr.nlink, attr.blocks), (2, 0));
    let bytes = closed(rig);
    assert!(is_inline(&bytes, "b") && is_inline(&bytes, "b/moved"));
}

fn damage_is_told_and_nothing_else_happens() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "inline_data,^metadata_csum"], 0));
    let dir = rig.vol.names().mkdir(ROOT, b"d", 0o755, USER).unwrap().ino;
    rig.vol.names().create(dir, b"x", 0o644, USER).unwrap();
    let file = rig.vol.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
    rig.vol.files().write(file, 0, &[1; 80]).unwrap();
    let bytes = closed(rig);
    let tmp = tempfile::tempdir().unwrap();
    let image = tmp.path().join("image");
    for request in [
        "sif f size 5000",
        "sif d size 90",
        "sif f flags 0x10080000",
        "sif d block[0] 0xffffff",
        "sif d block[1] 0xffffff",
        "sif d block[2] 0x00030001",
        "ea_rm f system.data",
    ] {
        std::fs::write(&image, &bytes).unwrap();
        run("debugfs", &["-w", "-R", request, image.to_str().unwrap()]);
        let damaged = std::fs::read(&image).unwrap();
        if damaged == bytes {
            assert!(request.starts_with("ea_rm"), "{request} did nothing");
            continue;
        }
        let opened = Image::open(Arc::new(RamStore::from_bytes(damaged.clone()))).unwrap();
        let report = check(&opened, &mut |_| ()).unwrap();
        assert!(!report.is_clean(), "{request} is not seen");
        let rig = mount(damaged);
        let read = rig.vol.files().read(file, 0, &mut [0; 100]);
        let listed = rig.vol.names().readdir(dir, 0, &mut |_| true);
        let _found = rig.vol.names().lookup(dir, b"x");
        let _parent = rig.vol.names().lookup(dir, b"..");
        let _made = rig.vol.names().create(dir, b"some name", 0o644, USER);
        let _written = rig.vol.files().write(file, 0, &[3; 300]);
        let told = [read.err(), listed.err()].into_iter().flatten().all(|e| matches!(e, Error::Corrupt(_)));
        assert!(told, "{request}");
    }
}

/// A range that is refused changes nothing: contents stay where they are.
fn refused_ranges_leave_a_file_in_its_inode() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "inline_data"], 0));
    let ino = rig.vol.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
    let content = Random(7).bytes(90);
    rig.vol.files().write(ino, 0, &content).unwrap();
    let before = rig.vol.getattr(ino).unwrap();
    use Fallocate::{Allocate, CollapseRange, InsertRange, KeepSize, PunchHole, ZeroRange};
    for how in [Allocate, KeepSize, ZeroRange, InsertRange] {
        for (offset, len) in [(0, 1 << 44), (1 << 44, 1 << 44), (u64::MAX - 1023, 1024), (1024, u64::MAX - 1023)] {
            assert!(rig.vol.files().fallocate(ino, how, offset, len).is_err(), "{how:?} {offset} {len}");
        }
        assert!(matches!(rig.vol.files().fallocate(ino, how, 0, 0), Err(Error::Invalid(_))), "{how:?}");
    }
    assert!(matches!(rig.vol.files().fallocate(ino, Allocate, 0, 1 << 44), Err(Error::FileTooBig)));
    for how in [CollapseRange, InsertRange] {
        for (offset, len) in [(0, 10), (10, 1024), (0, 1023), (1024, 1024)] {
            assert!(
                matches!(rig.vol.files().fallocate(ino, how, offset, len), Err(Error::Invalid(_))),
                "{how:?} {offset} {len}"
            );
        }
    }
    assert!(matches!(rig.vol.files().fallocate(ino, CollapseRange, 0, 1024), Err(Error::Invalid(_))));
    // Nothing is there: not refused, and nothing to do.
    rig.vol.files().fallocate(ino, PunchHole, 90, 1024).unwrap();
    rig.vol.files().fallocate(ino, PunchHole, 1 << 20, 1024).unwrap();
    let after = rig.vol.getattr(ino).unwrap();
    assert_eq!((after.size, after.blocks, after.mtime, after.ctime), (90, 1, before.mtime, before.ctime));
    assert!(rig.read_all(ino) == content);
    let bytes = closed(rig);
    assert!(is_inline(&bytes, "f"));
    assert_eq!(dump(&bytes, "f"), content);
}
