//! Orphans: deleted while open, found after a crash, and lists that cannot be right.

use crate::rig::{Fs, ImageFile, assert_clean, checked, mkfs, with_kernel};
use ondol_testkit::over_setups;
use ondol_volume::{Error, Processed, ROOT, SetAttr};
use std::path::Path;

over_setups! {
    deleted_while_open,
    openers_are_counted,
    full_orphan_file_falls_back_to_the_list,
    many_at_once,
    orphans_of_the_kernel,
    interrupted_truncate_is_finished,
    hostile_lists_are_named,
    hostile_orphan_file_is_named,
}

const LIST: &[&str] = &["-b", "1024", "-O", "^orphan_file"];
const FILE: &[&str] = &["-b", "1024", "-O", "orphan_file", "-E", "orphan_file_size=4"];
const SMALL_BLOCKS_NO_CSUM: &[&str] = &["-b", "1024", "-O", "^metadata_csum"];
const IMAGES: [&[&str]; 5] = [LIST, FILE, SMALL_BLOCKS_NO_CSUM, &["-b", "4096"], &["-O", "orphan_file"]];

/// A crash image is mended by e2fsck and is then clean; ours is clean with its orphans.
fn assert_recoverable(bytes: &[u8], orphans: u64, what: &str) {
    let report = checked(bytes);
    assert!(report.is_clean() && report.orphans == orphans, "{what}: {report:#?}");
    let file = ImageFile::new(bytes);
    let (code, words) = file.e2fsck("-fy");
    assert!(code <= 1, "{what}: {words}");
    assert_eq!(words.matches("orphan").count() as u64 > 0, orphans > 0, "{what}: {words}");
    assert_clean(&file.bytes(), what);
}

fn deleted_while_open() {
    for options in IMAGES {
        let fs = Fs::mount(mkfs(16, options));
        let v = &fs.volume;
        let inos: Vec<_> = (0..6).map(|i| fs.create(ROOT, &format!("file{i}"))).collect();
        for (i, &ino) in inos.iter().enumerate() {
            v.files().write(ino, 0, &vec![i as u8; 30_000]).expect("a write");
            v.inode_ops().open(ino).expect("an opener");
            v.names().unlink(ROOT, format!("file{i}").as_bytes()).expect("unlink");
            assert_eq!(v.getattr(ino).expect("it is still there").nlink, 0);
        }
        assert!(!v.inode_ops().orphans_empty().expect("orphans"));
        assert_recoverable(&fs.bytes(), 6, "six orphans");
        // From the middle, the end and the head, with changes of their neighbours between.
        for (left, &gone) in [(5, &inos[2]), (4, &inos[0]), (3, &inos[5])] {
            for &ino in &inos {
                let _ = v.inode_ops().setattr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() });
            }
            v.inode_ops().release(gone).expect("release");
            assert!(matches!(v.getattr(gone), Err(Error::NotFound)));
            assert_recoverable(&fs.bytes(), left, &format!("{left} left"));
        }
        let again = Fs::open(fs.bytes());
        let done = again.volume.inode_ops().process_orphans().expect("orphans");
        assert_eq!(done, Processed { deleted: 3, truncated: 0 }, "{options:?}");
        assert!(again.volume.inode_ops().orphans_empty().expect("orphans"));
        assert_clean(&again.unmounted(), "processed at mount");
        for &ino in &inos {
            let _ = v.inode_ops().release(ino);
        }
        assert_clean(&fs.unmounted(), "all released");
    }
}

fn openers_are_counted() {
    let fs = Fs::mount(mkfs(16, LIST));
    let v = &fs.volume;
    let ino = fs.create(ROOT, "f");
    v.inode_ops().open(ino).and_then(|_| v.inode_ops().open(ino)).expect("two openers");
    v.names().unlink(ROOT, b"f").expect("unlink");
    v.inode_ops().release(ino).expect("one");
    v.inode_ops().open(ino).expect("an inode without names opens while it is open");
    v.inode_ops().release(ino).and_then(|()| v.inode_ops().release(ino)).expect("the rest");
    assert!(matches!(v.inode_ops().open(ino), Err(Error::NotFound)));
    assert!(matches!(v.inode_ops().release(ino), Err(Error::Invalid(_))));
    let dir = fs.mkdir(ROOT, "d");
    v.inode_ops().open(dir).expect("an opener");
    v.names().rmdir(ROOT, b"d").expect("rmdir");
    assert_recoverable(&fs.bytes(), 1, "an open directory");
    v.inode_ops().release(dir).expect("release");
    assert_clean(&fs.unmounted(), "all gone");
}

fn full_orphan_file_falls_back_to_the_list() {
    let fs = Fs::mount(mkfs(16, &["-b", "1024", "-N", "4096", "-O", "orphan_file", "-E", "orphan_file_size=2"]));
    let v = &fs.volume;
    let inos: Vec<_> = (0..1200).map(|i| fs.create(ROOT, &format!("f{i}"))).collect();
    for (i, &ino) in inos.iter().enumerate() {
        v.inode_ops().open(ino).expect("an opener");
        v.names().unlink(ROOT, format!("f{i}").as_bytes()).expect("unlink");
    }
    let bytes = fs.bytes();
    let head = ImageFile::new(&bytes).ask("show_super_stats -h");
    assert!(head.contains("First orphan inode"), "{head}");
    assert_recoverable(&bytes, 1200, "full");
    let again = Fs::open(bytes);
    assert_eq!(again.volume.inode_ops().process_orphans().expect("orphans").deleted, 1200);
    assert_clean(&again.unmounted(), "processed");
    inos.iter().for_each(|&ino| v.inode_ops().release(ino).expect("release"));
    assert_clean(&fs.unmounted(), "released");
}

fn many_at_once() {
    for options in [LIST, FILE] {
        let fs = Fs::mount(mkfs(32, options));
        let v = &fs.volume;
        std::thread::scope(|scope| {
            for t in 0..4 {
                let fs = &fs;
                scope.spawn(move || {
                    for round in 0..30 {
                        let names: Vec<_> = (0..5).map(|i| format!("t{t}r{round}i{i}")).collect();
                        let inos: Vec<_> = names.iter().map(|name| fs.create(ROOT, name)).collect();
                        for (name, &ino) in names.iter().zip(&inos) {
                            v.inode_ops().open(ino).expect("an opener");
                            v.files().write(ino, 0, &[t; 3000]).expect("a write");
                            v.names().unlink(ROOT, name.as_bytes()).expect("unlink");
                        }
                        let turn = (round + usize::from(t)) % 5;
                        inos[turn..]
                            .iter()
                            .chain(&inos[..turn])
                            .for_each(|&ino| v.inode_ops().release(ino).expect("release"));
                    }
                });
            }
        });
        assert!(v.inode_ops().orphans_empty().expect("orphans"));
        assert_clean(&fs.unmounted(), "many at once");
    }
}

/// What the kernel leaves when it dies: an open file without a name.
fn orphans_of_the_kernel() {
    for options in [LIST, FILE] {
        let mut copy = Vec::new();
        let image = mkfs(32, options);
        let done = with_kernel(&image, |at| copy = crash_copy(at));
        if done.is_none() {
            return;
        }
        let fs = Fs::open(copy);
        let done = fs.volume.inode_ops().process_orphans().expect("orphans");
        assert_eq!(done, Processed { deleted: 3, truncated: 0 }, "{options:?}");
        assert_clean(&fs.unmounted(), "after the kernel");
    }
}

/// Makes three orphans, and copies the image below the mount while they are there.
fn crash_copy(at: &Path) -> Vec<u8> {
    let names = ["a", "b", "c"].map(|name| at.join(name));
    let open: Vec<_> = names.iter().map(|name| std::fs::File::create(name).expect("a file")).collect();
    for (file, name) in open.iter().zip(&names) {
        use std::os::unix::fs::FileExt;
        file.write_all_at(&[7; 200_000], 0).expect("a write");
        std::fs::remove_file(name).expect("unlink");
    }
    open[0].sync_all().expect("sync");
    crate::rig::run("sync", &["-f", at.to_str().expect("a path")]);
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let device = mounts.lines().find(|l| l.contains(at.to_str().expect("a path"))).expect("the mount");
    std::fs::read(device.split(' ').next().expect("a device")).expect("the image")
}

/// A file of 40 blocks, cut to 3 by a truncate that a crash interrupted.
fn interrupted_truncate_is_finished() {
    for options in IMAGES {
        let fs = Fs::mount(mkfs(16, options));
        let ino = fs.create(ROOT, "f");
        fs.volume.files().write(ino, 0, &vec![1; 40 * 4096]).expect("a write");
        let file = ImageFile::new(&fs.unmounted());
        file.debugfs(&format!("sif <{ino}> size 10000\nsif <{ino}> dtime 0\nssv last_orphan {ino}\n"));
        let fs = Fs::open(file.bytes());
        let done = fs.volume.inode_ops().process_orphans().expect("orphans");
        assert_eq!(done, Processed { deleted: 0, truncated: 1 }, "{options:?}");
        let attr = fs.volume.getattr(ino).expect("the file");
        assert!(attr.size == 10_000 && attr.blocks < 30, "{attr:?}");
        assert_clean(&fs.unmounted(), "truncated");
    }
}

fn hostile_lists_are_named() {
    let fs = Fs::mount(mkfs(16, LIST));
    let (a, b) = (fs.create(ROOT, "a"), fs.create(ROOT, "b"));
    let bytes = fs.unmounted();
    let cases = [
        (format!("ssv last_orphan {a}\nsif <{a}> dtime {b}\nsif <{b}> dtime {a}\n"), "twice"),
        (format!("ssv last_orphan {a}\nsif <{a}> dtime {a}\n"), "twice"),
        ("ssv last_orphan 5\n".to_owned(), "reserved"),
        ("ssv last_orphan 8\n".to_owned(), "reserved"),
        ("ssv last_orphan 4000000\n".to_owned(), "does not exist"),
        (format!("ssv last_orphan {}\n", b + 1), "not in use"),
        (format!("ssv last_orphan {a}\nsif <{a}> dtime 77777777\n"), "does not exist"),
    ];
    for (requests, word) in cases {
        let file = ImageFile::new(&bytes);
        file.debugfs(&requests);
        let poked = file.bytes();
        let report = checked(&poked);
        assert!(report.problems.iter().any(|p| p.structure == "orphan list"), "{requests}: {report:#?}");
        let fs = Fs::open(poked);
        let e = fs.volume.inode_ops().process_orphans().expect_err("a list that cannot be right");
        assert!(matches!(&e, Error::Corrupt(c) if c.structure == "orphan list"), "{requests}: {e}");
        assert!(e.to_string().contains(word), "{requests}: {e}");
        assert!(fs.volume.is_read_only());
    }
}

fn hostile_orphan_file_is_named() {
    let fs = Fs::mount(mkfs(16, FILE));
    let ino = fs.create(ROOT, "a");
    fs.volume.inode_ops().open(ino).expect("an opener");
    fs.volume.names().unlink(ROOT, b"a").expect("unlink");
    let mut bytes = fs.bytes();
    // The slot is the only place in a block of the orphan file that holds something: name another inode there.
    let magic = ondol_format::orphan_file::MAGIC.to_le_bytes();
    let block = (0..bytes.len() / 1024).find(|i| {
        let block = &bytes[i * 1024..(i + 1) * 1024];
        block[1016..1020] == magic && block[..1016].iter().any(|&b| b != 0)
    });
    let at = block.expect("the block with the orphan") * 1024;
    let slot = (0..254).find(|i| bytes[at + i * 4..at + i * 4 + 4] != [0; 4]).expect("the slot");
    bytes[at + slot * 4] ^= 0xff;
    assert!(checked(&bytes).problems.iter().any(|p| p.structure.contains("orphan file")));
    let e = Fs::open(bytes).volume.inode_ops().process_orphans().expect_err("a wrong checksum");
    assert!(e.to_string().contains("orphan file"), "{e}");
}
