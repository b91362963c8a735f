//! Files with ext2's block map: all its levels, its limits, what becomes of its pointer blocks, and directories and
//! symlinks that have one.

use crate::file_util::{Random, Rig, debugfs, dump, ino_of, mkfs, mount, run};
use ondol_testkit::{over_engines, over_two_engines};
use ondol_volume::{Caller, Error, Fallocate, ROOT, Seek};

over_two_engines! {
    what_debugfs_has_mapped_is_read_changed_and_freed,
    directories_and_long_symlinks_have_block_maps_too,
}

over_engines! {
    every_level_is_made_and_freed_with_its_pointer_blocks,
    a_file_ends_where_its_pointers_end,
    what_cannot_be_counted_is_too_large,
    a_full_volume_takes_no_half_of_a_branch,
}

/// Blocks of 1 KiB without extents: 256 pointers in a block.
const MAPPED: &[&str] = &["-b", "1024", "-O", "^extent,^64bit"];
const PER: u64 = 256;
const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// First logical block below each level of pointer blocks.
fn levels() -> [u64; 4] {
    [0, 12, 12 + PER, 12 + PER + PER * PER]
}

fn write_all(rig: &Rig, ino: u32, at: u64, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        done += rig.vol.files().write(ino, at + done as u64, &bytes[done..]).unwrap();
    }
}

fn what_debugfs_has_mapped_is_read_changed_and_freed() {
    let bytes = mkfs("64M", MAPPED, 0);
    let dir = tempfile::tempdir().unwrap();
    let (image, source) = (dir.path().join("image"), dir.path().join("source"));
    std::fs::write(&image, &bytes).unwrap();
    let mut content = Random(4).bytes(300_000);
    content[20_000..90_000].fill(0);
    let far = 1024 * (levels()[3] + 700);
    let file = std::fs::File::create(&source).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &content[..5000], far).unwrap();
    run("debugfs", &["-w", "-R", &format!("write {} f0", source.display()), image.to_str().unwrap()]);
    let bytes = std::fs::read(&image).unwrap();
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    let mut model = std::fs::read(&source).unwrap();
    assert!(rig.read_all(ino) == model);
    assert_eq!(rig.vol.files().seek(ino, 300_000 / 1024 * 1024 + 1024, Seek::Data).unwrap(), far);
    write_all(&rig, ino, 10_000, &content[5000..105_000]);
    model[10_000..110_000].copy_from_slice(&content[5000..105_000]);
    assert!(matches!(rig.vol.files().fallocate(ino, Fallocate::Allocate, 0, 10), Err(Error::Unsupported(_))));
    assert!(matches!(rig.vol.files().fallocate(ino, Fallocate::ZeroRange, 0, 10), Err(Error::Unsupported(_))));
    let bytes = rig.unmount_checked();
    assert!(dump(&bytes, "f0") == model);
    let free = free_blocks(&bytes);
    let rig = mount(bytes);
    let held = rig.vol.getattr(ino).unwrap().blocks / 2;
    rig.vol.names().unlink(ROOT, b"f0").unwrap();
    let bytes = rig.unmount_checked();
    assert_eq!(free_blocks(&bytes), free + held);
}

fn every_level_is_made_and_freed_with_its_pointer_blocks() {
    let mut bytes = mkfs("64M", MAPPED, 1);
    let (ino, empty) = (ino_of(&bytes, "f0"), free_blocks(&bytes));
    let part = Random(7).bytes(3000);

    let rig = mount(bytes);
    // The last blocks of a level and the first of the next in one write.
    let places = levels().map(|first| (first * 1024).saturating_sub(1500));
    places.iter().for_each(|&at| write_all(&rig, ino, at, &part));
    let blocks = rig.vol.getattr(ino).unwrap().blocks / 2;
    // 3 blocks at the beginning, 4 at each border; 1 + 3 + 3 pointer blocks.
    assert_eq!(blocks, 3 + 4 * 3 + 7);
    bytes = rig.unmount_checked();
    assert_eq!(free_blocks(&bytes), empty - blocks);
    let rig = mount(bytes);
    for &at in &places {
        let mut buf = vec![0; part.len()];
        rig.vol.files().read(ino, at, &mut buf).unwrap();
        assert!(buf == part);
    }
    // From the front, and then from the end.
    let size = rig.vol.getattr(ino).unwrap().size;
    rig.vol.files().fallocate(ino, Fallocate::PunchHole, 0, (levels()[2] - 1) * 1024).unwrap();
    assert_eq!(rig.vol.getattr(ino).unwrap().blocks / 2, 3 + 4 + 7);
    rig.vol.files().truncate(ino, levels()[3] * 1024 - 1).unwrap();
    assert_eq!(rig.vol.getattr(ino).unwrap().blocks / 2, 3 + 2 + 4);
    rig.vol.files().fallocate(ino, Fallocate::PunchHole, 0, size).unwrap();
    assert_eq!(rig.vol.getattr(ino).unwrap().blocks, 0);
    bytes = rig.unmount_checked();
    assert_eq!(free_blocks(&bytes), empty);
}

fn a_file_ends_where_its_pointers_end() {
    let bytes = mkfs("16M", MAPPED, 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    let most = (levels()[3] + PER * PER * PER) * 1024;
    assert!(matches!(rig.vol.files().truncate(ino, most + 1), Err(Error::FileTooBig)));
    rig.vol.files().truncate(ino, most).unwrap();
    assert!(matches!(rig.vol.files().write(ino, most, b"x"), Err(Error::FileTooBig)));
    assert_eq!(rig.vol.files().write(ino, most - 2, b"xyz").unwrap(), 2);
    let mut buf = [0; 9];
    assert_eq!(rig.vol.files().read(ino, most - 4, &mut buf).unwrap(), 4);
    assert_eq!(&buf[..4], b"\0\0xy");
    rig.unmount_checked();
}

fn what_cannot_be_counted_is_too_large() {
    // Blocks of 4 KiB reach 4 TiB; without huge_file, an inode counts to 2 TiB.
    let bytes = mkfs("32M", &["-b", "4096", "-O", "^extent,^64bit,^huge_file"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    assert!(matches!(rig.vol.files().truncate(ino, 2 << 40), Err(Error::FileTooBig)));
    rig.vol.files().truncate(ino, (2 << 40) - (3 << 30)).unwrap();
    rig.unmount_checked();
}

fn a_full_volume_takes_no_half_of_a_branch() {
    let mut bytes = mkfs("4M", &["-b", "1024", "-O", "^extent,^64bit", "-J", "size=1", "-m", "0"], 2);
    let (ino, other) = (ino_of(&bytes, "f0"), ino_of(&bytes, "f1"));
    let rig = mount(bytes);
    let mut filled = 0;
    while rig.vol.files().append(ino, &[7; 1024]).is_ok() {
        filled += 1;
    }
    assert!(filled > 1000, "{filled}");
    assert!(matches!(rig.vol.files().write(other, levels()[3] * 1024, b"x"), Err(Error::NoSpace(_))));
    assert_eq!(rig.vol.getattr(other).unwrap().blocks, 0);
    rig.vol.files().fallocate(ino, Fallocate::PunchHole, 20 * 1024, 20 * 1024).unwrap();
    rig.vol.files().write(other, levels()[3] * 1024, b"x").unwrap();
    assert_eq!(rig.vol.getattr(other).unwrap().blocks / 2, 4);
    bytes = rig.unmount_checked();
    let rig = mount(bytes);
    rig.vol.files().truncate(ino, 0).unwrap();
    rig.vol.files().truncate(other, 0).unwrap();
    rig.unmount_checked();
}

fn directories_and_long_symlinks_have_block_maps_too() {
    for features in ["^extent,^64bit", "^extent,^64bit,^dir_index"] {
        let bytes = mkfs("32M", &["-b", "1024", "-N", "4096", "-O", features], 0);
        let rig = mount(bytes);
        let dir = rig.vol.names().mkdir(ROOT, b"d", 0o755, USER).unwrap().ino;
        let name = |i: u32| format!("{i:0>100}");
        // More than the direct blocks, and more than one level of the index.
        for i in 0..2000 {
            rig.vol.names().create(dir, name(i).as_bytes(), 0o644, USER).unwrap();
        }
        let target = "t/".repeat(200);
        let link = rig.vol.names().symlink(ROOT, b"slow", target.as_bytes(), USER).unwrap();
        assert_eq!((link.blocks, rig.vol.names().readlink(link.ino).unwrap()), (2, target.clone().into_bytes()));
        let rig = mount(rig.unmount_checked());
        assert!(rig.vol.getattr(dir).unwrap().size > 200 << 10);
        assert_eq!(rig.vol.names().readlink(link.ino).unwrap(), target.into_bytes());
        (0..2000).for_each(|i| rig.vol.names().unlink(dir, name(i).as_bytes()).unwrap());
        rig.vol.names().rmdir(ROOT, b"d").unwrap();
        rig.vol.names().unlink(ROOT, b"slow").unwrap();
        rig.unmount_checked();
    }
}

fn free_blocks(bytes: &[u8]) -> u64 {
    let (text, _) = debugfs(bytes, "stats");
    let groups = text.lines().filter_map(|l| l.split("free blocks").next().filter(|_| l.contains("free inodes")));
    groups.filter_map(|l| l.split(',').next_back()?.trim().rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
