//! Ranges of files through the library's own words, and space that goes back to the image's file.

use ondol::{Caller, Exchange, Fallocate, FormatOptions, OpenOptions, Options, Seek, Volume};
use std::os::unix::fs::MetadataExt;

#[test]
fn ranges_of_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).unwrap();
    let volume = Volume::open(&image).unwrap();
    let block = u64::from(volume.statfs().block_size);
    volume.write("/a", vec![1; 10 * block as usize]).unwrap();
    let (a, b) = (OpenOptions::new().read(true).write(true).open(&volume, "/a").unwrap(), volume.create("/b").unwrap());
    a.fallocate(Fallocate::InsertRange, 2 * block, 3 * block).unwrap();
    assert_eq!(a.metadata().unwrap().len(), 13 * block);
    assert_eq!(a.find(Seek::Hole, 0).unwrap(), 2 * block);
    assert_eq!(a.find(Seek::Data, 2 * block).unwrap(), 5 * block);
    assert_eq!(a.copy_range(block, &b, 0, 100 * block).unwrap(), 12 * block);
    assert_eq!(volume.read("/b").unwrap(), volume.read("/a").unwrap()[block as usize..]);
    let extents = b.extents(0, u64::MAX).unwrap();
    assert_eq!(
        extents.iter().map(|e| (e.logical, e.len, e.last)).collect::<Vec<_>>(),
        [(0, block, false), (4 * block, 8 * block, true)]
    );
    a.fallocate(Fallocate::CollapseRange, 2 * block, 3 * block).unwrap();
    assert_eq!(volume.read("/a").unwrap(), vec![1; 10 * block as usize]);
    let reading = volume.open_file("/a").unwrap();
    assert!(reading.fallocate(Fallocate::PunchHole, 0, block).is_err(), "not open for writing");
    assert!(b.copy_range(0, &reading, 0, 1).is_err(), "not open for writing");
    drop((a, b, reading));
    volume.close().unwrap();
}

#[test]
fn what_two_files_hold_changes_places() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).unwrap();
    let mut volume = Volume::open(&image).unwrap();
    let block = u64::from(volume.statfs().block_size);
    let filled = |byte: u8, len: u64| vec![byte; len as usize];
    volume.write("/a", filled(1, 3 * block + 5)).unwrap();
    volume.write("/b", filled(2, 10 * block)).unwrap();
    let all = Exchange::default();
    volume.exchange("/a", block, "/b", 4 * block, &all).unwrap();
    assert_eq!(volume.read("/a").unwrap(), [filled(1, block), filled(2, 6 * block)].concat());
    assert_eq!(volume.read("/b").unwrap(), [filled(2, 4 * block), filled(1, 2 * block + 5)].concat());
    let part = Exchange { len: Some(2 * block), durable: true, ..all };
    volume.set_permissions("/a", 0o4755).unwrap();
    volume.act_as(Caller::new(1000, 1000));
    volume.exchange("/a", 0, "/b", 0, &part).unwrap();
    assert_eq!(volume.read("/a").unwrap(), [filled(2, 2 * block), filled(2, 5 * block)].concat());
    assert_eq!(volume.metadata("/a").unwrap().permissions(), 0o755, "as by a write");
    let errno = |done: ondol::Result<()>| done.unwrap_err().errno();
    assert_eq!(errno(volume.exchange("/a", 1, "/b", 0, &part)), 22);
    assert_eq!(errno(volume.exchange("/a", 0, "/none", 0, &part)), 2);
    volume.create_dir("/d").unwrap();
    assert_eq!(errno(volume.exchange("/a", 0, "/d", 0, &part)), 21);
    {
        let (reading, both) =
            (volume.open_file("/a").unwrap(), OpenOptions::new().read(true).write(true).open(&volume, "/b").unwrap());
        assert!(both.exchange(0, &reading, 0, &part).is_err(), "not open for writing");
        assert!(reading.exchange(0, &both, 0, &part).is_err(), "not open for writing");
    }
    volume.close().unwrap();
    assert!(ondol::check(&image).unwrap().problems.is_empty());
}

#[test]
fn free_space_goes_back_to_the_images_file() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).unwrap();
    let held = || std::fs::metadata(&image).unwrap().blocks() * 512;
    for discard in [false, true] {
        let volume = Volume::open_with(&image, &Options::default().with_discard(discard)).unwrap();
        volume.write("/a", vec![7; 20 << 20]).unwrap();
        volume.write("/b", vec![8; 1 << 20]).unwrap();
        volume.sync().unwrap();
        let full = held();
        assert!(full > 20 << 20);
        volume.remove_file("/a").unwrap();
        volume.sync().unwrap();
        if !discard {
            assert!(held() > full - (1 << 20), "nobody has asked for it");
            match volume.inodes().space().trim(0, u64::MAX, 0) {
                // A file system that cannot punch holes.
                Err(e) if ondol::errno_of(&e) == 95 => return,
                trimmed => assert!(trimmed.unwrap() >= 20 << 20),
            }
        }
        assert!(held() < full - (19 << 20), "{} of {full} are held", held());
        assert_eq!(volume.read("/b").unwrap(), vec![8; 1 << 20]);
        volume.close().unwrap();
    }
    assert!(ondol::check(&image).unwrap().is_clean());
}

#[test]
fn directories_are_made_where_none_are_and_not_in_place_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    Volume::format(&image, &FormatOptions::new().size(16 << 20)).unwrap();
    let volume = Volume::open(&image).unwrap();
    volume.create_dir_all("/a/b/c").unwrap();
    volume.create_dir_all("a/b/c").unwrap();
    volume.write("/a/file", "x").unwrap();
    assert_eq!(volume.create_dir_all("/a/file").unwrap_err().errno(), 17);
    assert_eq!(volume.create_dir_all("/a/file/below").unwrap_err().errno(), 17);
    volume.symlink("b", "/a/link").unwrap();
    volume.create_dir_all("/a/link/d").unwrap();
    assert!(volume.exists("/a/b/d").unwrap());
    volume.close().unwrap();
}
