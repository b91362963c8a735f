//! Full volumes, the limits of file sizes, and files that must not be changed.

use crate::file_util::{Random, dump, ino_of, mkfs, mount, mount_with, run};
use ondol_testkit::over_setups;
use ondol_testkit::rig::Setup;
use ondol_volume::{Atime, Error, Fallocate, Seek, VolumeOptions};

over_setups! {
    a_full_volume_loses_nothing_and_can_be_emptied,
    sparse_files_reach_the_last_block_and_no_further,
    large_writes_are_atomic_up_to_what_the_journal_takes,
    flags_and_types_are_respected,
    times_move_as_they_should,
}

fn a_full_volume_loses_nothing_and_can_be_emptied() {
    for args in [["-b", "1024", "-m", "0"], ["-b", "1024", "-m", "5"], ["-b", "4096", "-m", "1"]] {
        let mut bytes = mkfs("24M", &args, 2);
        let (a, b) = (ino_of(&bytes, "f0"), ino_of(&bytes, "f1"));
        let mut random = Random(9);
        for _ in 0..3 {
            let rig = mount(bytes);
            let mut model = [Vec::new(), Vec::new()];
            let mut full = 0;
            while full < 20 {
                let i = random.below(2) as usize;
                let len = 1 + random.below(60_000) as usize;
                let part = random.bytes(len);
                match rig.vol.files().append([a, b][i], &part) {
                    Ok(at) => {
                        assert_eq!(at, model[i].len() as u64);
                        model[i].extend_from_slice(&part);
                    }
                    Err(Error::NoSpace(_)) => full += 1,
                    Err(e) => panic!("{e}"),
                }
            }
            assert!(model[0].len() + model[1].len() > 10 << 20);
            assert!(matches!(rig.vol.files().fallocate(a, Fallocate::KeepSize, 0, 1 << 30), Err(Error::NoSpace(_))));
            assert!(rig.read_all(a) == model[0] && rig.read_all(b) == model[1]);
            let full_image = rig.unmount_checked();
            assert!(dump(&full_image, "f0") == model[0]);
            let rig = mount(full_image);
            rig.vol.files().fallocate(a, Fallocate::PunchHole, 1 << 20, 1 << 20).unwrap();
            model[0][1 << 20..2 << 20].fill(0);
            rig.vol.files().append(b, &model[0][..500_000]).unwrap();
            assert!(rig.read_all(a) == model[0]);
            rig.vol.files().truncate(a, 0).unwrap();
            rig.vol.files().truncate(b, 0).unwrap();
            bytes = rig.unmount_checked();
        }
    }
}

fn sparse_files_reach_the_last_block_and_no_further() {
    for (block, args) in [(1024u64, ["-b", "1024"]), (4096, ["-b", "4096"])] {
        let bytes = mkfs("32M", &args, 1);
        let ino = ino_of(&bytes, "f0");
        let rig = mount(bytes);
        let max = (u64::from(u32::MAX)) * block;
        rig.vol.files().write(ino, max - 1, b"z").unwrap();
        assert_eq!(rig.vol.getattr(ino).unwrap().size, max);
        assert!(matches!(rig.vol.files().write(ino, max, b"z"), Err(Error::FileTooBig)));
        assert!(matches!(rig.vol.files().append(ino, b"z"), Err(Error::FileTooBig)));
        assert!(matches!(rig.vol.files().write(ino, u64::MAX, b"z"), Err(Error::FileTooBig)));
        assert!(matches!(rig.vol.files().truncate(ino, max + 1), Err(Error::FileTooBig)));
        assert!(matches!(rig.vol.files().fallocate(ino, Fallocate::Allocate, max - 1, 2), Err(Error::FileTooBig)));
        assert!(matches!(rig.vol.files().fallocate(ino, Fallocate::Allocate, u64::MAX, 2), Err(Error::FileTooBig)));
        // What reaches past the limit is cut there.
        assert_eq!(rig.vol.files().write(ino, max - 3, b"wxyz").unwrap(), 3);
        rig.vol.files().write(ino, 5, b"begin").unwrap();
        assert_eq!(rig.vol.files().seek(ino, block, Seek::Data).unwrap(), max - block);
        assert_eq!(rig.vol.files().seek(ino, 0, Seek::Hole).unwrap(), block);
        assert!(matches!(rig.vol.files().seek(ino, max, Seek::Data), Err(Error::PastEnd)));
        let bytes = rig.unmount_checked();
        let rig = mount(bytes);
        let mut end = [0xEE; 10];
        assert_eq!(rig.vol.files().read(ino, max - 4, &mut end).unwrap(), 4);
        assert_eq!(&end[..4], b"\0wxy");
        rig.vol.files().truncate(ino, 7).unwrap();
        assert_eq!(rig.read_all(ino), b"\0\0\0\0\0be");
        rig.vol.files().truncate(ino, 20).unwrap();
        assert_eq!(rig.read_all(ino), b"\0\0\0\0\0be\0\0\0\0\0\0\0\0\0\0\0\0\0");
        rig.unmount_checked();
    }
}

fn large_writes_are_atomic_up_to_what_the_journal_takes() {
    for args in [["-b", "1024", "-J", "size=1"], ["-b", "4096", "-J", "size=4"]] {
        let bytes = mkfs("64M", &args, 1);
        let ino = ino_of(&bytes, "f0");
        let rig = mount(bytes);
        let atomic = rig.vol.files().atomic_bytes();
        assert!((65_536..=1 << 20).contains(&atomic), "{atomic}");
        let data = Random(5).bytes(3 << 20);
        // Unaligned, so that it touches one block more.
        let handles = rig.engine.stats().handles;
        rig.vol.files().write(ino, 777, &data[..atomic as usize]).unwrap();
        assert_eq!(rig.engine.stats().handles, handles + 1);
        rig.vol.files().write(ino, 777, &data).unwrap();
        assert!(rig.engine.stats().handles > handles + 2);
        assert!(rig.read_all(ino)[777..] == data);
        rig.unmount_checked();
    }
}

fn flags_and_types_are_respected() {
    let bytes = mkfs("16M", &["-b", "1024"], 2);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, &bytes).unwrap();
    for (file, flags) in [("f0", "0x80010"), ("f1", "0x80020")] {
        let (text, code) = run("debugfs", &["-w", "-R", &format!("sif {file} flags {flags}"), path.to_str().unwrap()]);
        assert_eq!(code, 0, "{text}");
    }
    let rig = mount(std::fs::read(&path).unwrap());
    let (fixed, log) = (ino_of(&bytes, "f0"), ino_of(&bytes, "f1"));
    let denied = |r: Result<(), Error>| assert!(matches!(r, Err(Error::NotPermitted(_))), "{r:?}");
    denied(rig.vol.files().write(fixed, 0, b"x").map(|_| ()));
    denied(rig.vol.files().append(fixed, b"x").map(|_| ()));
    denied(rig.vol.files().truncate(fixed, 0));
    denied(rig.vol.files().fallocate(fixed, Fallocate::KeepSize, 0, 10));
    rig.vol.files().append(log, b"one").unwrap();
    rig.vol.files().fallocate(log, Fallocate::KeepSize, 0, 5000).unwrap();
    denied(rig.vol.inode_ops().check_open(fixed, true, true, false));
    denied(rig.vol.inode_ops().check_open(log, true, false, false));
    denied(rig.vol.inode_ops().check_open(log, true, true, true));
    rig.vol.inode_ops().check_open(log, true, true, false).unwrap();
    rig.vol.inode_ops().check_open(fixed, false, false, false).unwrap();
    denied(rig.vol.files().truncate(log, 0));
    denied(rig.vol.files().fallocate(log, Fallocate::PunchHole, 0, 10));
    assert!(matches!(rig.vol.files().write(2, 0, b"x"), Err(Error::IsDirectory(2))));
    assert!(matches!(rig.vol.files().read(2, 0, &mut [0; 4]), Err(Error::IsDirectory(2))));
    assert!(matches!(rig.vol.files().fallocate(log, Fallocate::KeepSize, 0, 0), Err(Error::Invalid(_))));
    rig.unmount_checked();
}

fn times_move_as_they_should() {
    let bytes = mkfs("16M", &["-b", "4096"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount_with(bytes, VolumeOptions { atime: Atime::Relative, ..VolumeOptions::default() });
    rig.vol.files().write(ino, 0, b"hello").unwrap();
    let written = rig.vol.getattr(ino).unwrap();
    assert_eq!(written.mtime, written.ctime);
    let handles = rig.engine.stats().handles;
    rig.vol.files().write(ino, 1, b"E").unwrap();
    // Overwriting at the same time changes no metadata.
    let setup = Setup::current();
    let home = !setup.journals_data() && !setup.takes_overwrites() && !setup.keeps_new_data();
    assert_eq!(rig.engine.stats().handles == handles, home);
    rig.env.advance(5_000_000_000);
    let mut buf = [0; 5];
    rig.vol.files().read(ino, 0, &mut buf).unwrap();
    assert_eq!(&buf, b"hEllo");
    let read = rig.vol.getattr(ino).unwrap();
    assert_eq!((read.atime.sec - written.mtime.sec, read.mtime), (5, written.mtime));
    rig.env.advance(5_000_000_000);
    rig.vol.files().read(ino, 0, &mut buf).unwrap();
    assert_eq!(rig.vol.getattr(ino).unwrap().atime, read.atime);
    rig.env.advance(25 * 3600 * 1_000_000_000);
    rig.vol.files().read(ino, 0, &mut buf).unwrap();
    assert!(rig.vol.getattr(ino).unwrap().atime > read.atime);
    rig.vol.files().truncate(ino, 3).unwrap();
    let cut = rig.vol.getattr(ino).unwrap();
    assert!(cut.mtime > written.mtime && cut.ctime == cut.mtime);
    rig.unmount_checked();
}
