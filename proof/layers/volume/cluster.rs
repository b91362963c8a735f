//! Volumes that are allocated in clusters of several blocks (bigalloc).

use crate::file_util::{Random, Rig, fsck, mkfs, mount};
use ondol_block::RamStore;
use ondol_testkit::over_setups;
use ondol_volume::{Caller, Error, Fallocate, Image, ROOT, SetXattr, Step, check};
use std::sync::Arc;

over_setups! {
    a_cluster_is_taken_with_its_first_block_and_freed_with_its_last,
    what_one_step_cuts_off_the_next_may_write_again,
    everything_comes_back,
    a_full_volume_still_has_the_rest_of_its_clusters,
    what_shares_a_cluster_is_told,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
/// Blocks of 1 KiB in clusters of 8.
const ARGS: &[&str] = &["-b", "1024", "-O", "bigalloc", "-C", "8192", "-J", "size=1", "-m", "0"];
const CLUSTER: u64 = 8192;

/// e2fsck and our check find nothing.
fn closed(rig: Rig) -> Vec<u8> {
    let bytes = rig.unmount();
    fsck(&bytes);
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.clone()))).unwrap();
    let report = check(&image, &mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    bytes
}

fn a_cluster_is_taken_with_its_first_block_and_freed_with_its_last() {
    let rig = mount(mkfs("16M", ARGS, 0));
    let v = &rig.vol;
    let empty = v.statfs().free;
    let ino = v.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
    let used = || v.getattr(ino).unwrap().blocks * 512;
    v.files().write(ino, 3000, b"x").unwrap();
    assert_eq!((used(), v.statfs().free), (CLUSTER, empty - 8));
    // Before and behind it in the same cluster, then over its end.
    v.files().write(ino, 0, b"a").unwrap();
    v.files().write(ino, 7000, b"b").unwrap();
    assert_eq!(used(), CLUSTER);
    v.files().write(ino, 5000, &[7; 20_000]).unwrap();
    assert_eq!(used(), 4 * CLUSTER);
    v.files().fallocate(ino, Fallocate::PunchHole, 4096, 18 * 1024).unwrap();
    assert_eq!(used(), 3 * CLUSTER);
    v.files().fallocate(ino, Fallocate::PunchHole, 0, 2 * 1024).unwrap();
    assert_eq!(used(), 3 * CLUSTER);
    v.files().fallocate(ino, Fallocate::PunchHole, 0, 4096).unwrap();
    assert_eq!(used(), 2 * CLUSTER);
    v.files().fallocate(ino, Fallocate::KeepSize, 30 * 1024, 6 * 1024).unwrap();
    assert_eq!(used(), 3 * CLUSTER);
    v.files().truncate(ino, 24 * 1024 + 1).unwrap();
    assert_eq!(used(), 2 * CLUSTER);
    v.files().truncate(ino, 24 * 1024).unwrap();
    assert_eq!(used(), CLUSTER);
    v.files().truncate(ino, 0).unwrap();
    assert_eq!((used(), v.statfs().free), (0, empty));
    closed(rig);
}

fn what_one_step_cuts_off_the_next_may_write_again() {
    let rig = mount(mkfs("16M", ARGS, 0));
    let ino = rig.vol.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
    rig.vol.files().write(ino, 0, &[1; 3000]).unwrap();
    let at = vec![b"f".to_vec()];
    let cut = Step::SetLen { at: at.clone(), size: 500 };
    let again = Step::WriteAt { at, offset: 1024, bytes: vec![2; 1000] };
    rig.vol.apply(&[cut.clone(), again.clone()], USER).unwrap();
    let want = [vec![1; 500], vec![0; 524], vec![2; 1000]].concat();
    assert!(rig.read_all(ino) == want);
    // A transaction that fails leaves even the bytes alone.
    let missing = Step::RemoveFile { at: vec![b"no".to_vec()] };
    let other = Step::WriteAt { at: vec![b"f".to_vec()], offset: 1024, bytes: vec![3; 1000] };
    assert!(rig.vol.apply(&[cut, other, missing], USER).is_err());
    assert!(rig.read_all(ino) == want);
    let rig = mount(closed(rig));
    assert!(rig.read_all(ino) == want);
}

fn everything_comes_back() {
    let mut random = Random(3);
    let rig = mount(mkfs("24M", ARGS, 0));
    let empty = rig.vol.statfs().free;
    let rig = mount(closed(rig));
    let v = &rig.vol;
    let dir = v.names().mkdir(ROOT, b"d", 0o755, USER).unwrap().ino;
    for i in 0..300u32 {
        let name = format!("a name that is rather long, so that blocks become many {i}");
        let ino = v.names().create(dir, name.as_bytes(), 0o644, USER).unwrap().ino;
        if i % 3 == 0 {
            let at = random.below(100_000);
            v.files().write(ino, at, &[i as u8 | 1; 3000]).unwrap();
            v.files().fallocate(ino, Fallocate::PunchHole, at, 1500).unwrap();
        }
        if i % 10 == 0 {
            v.xattrs().setxattr(ino, b"user.large", &[1; 600], SetXattr::Any).unwrap();
        }
    }
    // More extents than the inode has room for.
    let ino = v.names().create(ROOT, b"f", 0o644, USER).unwrap().ino;
    for i in 0..200 {
        v.files().write(ino, i * 20 * 1024 + random.below(9000), b"y").unwrap();
    }
    let rig = mount(closed(rig));
    let v = &rig.vol;
    let mut names = Vec::new();
    v.names()
        .readdir(dir, 2, &mut |e| {
            names.push(e.name.to_vec());
            true
        })
        .unwrap();
    names.retain(|name| name.len() > 2);
    assert_eq!(names.len(), 300);
    names.iter().for_each(|name| v.names().unlink(dir, name).unwrap());
    v.names().rmdir(ROOT, b"d").unwrap();
    v.names().unlink(ROOT, b"f").unwrap();
    assert_eq!(v.statfs().free, empty);
    closed(rig);
}

fn a_full_volume_still_has_the_rest_of_its_clusters() {
    let rig = mount(mkfs("4M", ARGS, 0));
    let v = &rig.vol;
    let small = v.names().create(ROOT, b"small", 0o644, USER).unwrap().ino;
    v.files().write(small, 0, b"x").unwrap();
    let large = v.names().create(ROOT, b"large", 0o644, USER).unwrap().ino;
    while v.files().append(large, &[1; 1024]).is_ok() {}
    assert!(matches!(v.files().write(large, 1 << 30, b"x"), Err(Error::NoSpace(_))));
    let size = v.getattr(large).unwrap().size;
    v.files().fallocate(large, Fallocate::PunchHole, 0, size).unwrap();
    v.files().write(small, 3000, &[2; 20_000]).unwrap();
    assert_eq!(v.getattr(small).unwrap().blocks * 512, 3 * CLUSTER);
    closed(rig);
}

fn what_shares_a_cluster_is_told() {
    let rig = mount(mkfs("16M", &[ARGS, &["-I", "256"]].concat(), 0));
    for name in [b"a", b"b"] {
        let ino = rig.vol.names().create(ROOT, name, 0o644, USER).unwrap().ino;
        rig.vol.files().write(ino, 0, &[5; 1000]).unwrap();
        rig.vol.files().write(ino, 20_000, &[5; 1000]).unwrap();
    }
    let bytes = closed(rig);
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let path = image.to_str().unwrap();
    let (text, _) = crate::file_util::debugfs(&bytes, "blocks a");
    let first: u64 = text.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    std::fs::write(&image, &bytes).unwrap();
    // The second file's first block, which is in its place in a cluster, but in that of the first file.
    let (before, after) = (bytes, {
        crate::file_util::run("debugfs", &["-w", "-R", &format!("sif b block[5] {first}"), path]);
        std::fs::read(&image).unwrap()
    });
    assert!(before != after);
    let opened = Image::open(Arc::new(RamStore::from_bytes(after))).unwrap();
    let report = check(&opened, &mut |_| ()).unwrap();
    let told = report.problems.iter().any(|p| p.text.contains("in use by"));
    assert!(told, "{:?}", report.problems);
}
