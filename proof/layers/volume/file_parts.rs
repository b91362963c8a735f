//! Bytes at several places of a file, written as one: on every kind of mapping, by one operation and by an exchange.

use crate::file_util::{Random, Rig, mkfs, mount};
use ondol_testkit::over_engines;
use ondol_volume::{Batch, Caller, Error, Fallocate, Ino, ROOT, SetAttr};

over_engines! {
    parts_of_files_with_extents,
    parts_of_files_in_clusters,
    parts_of_files_with_block_maps,
    parts_of_contents_of_inodes,
    what_is_no_part_is_refused,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn file(rig: &Rig) -> Ino {
    rig.vol.names().create(ROOT, b"a", 0o644, USER).unwrap().ino
}

/// Some parts of a content of `size` bytes, in order: few and short, or many and long.
fn parts(random: &mut Random, size: u64, is_large: bool) -> Vec<(u64, Vec<u8>)> {
    let (mut parts, mut at) = (Vec::new(), random.below(3000));
    loop {
        let len = if is_large { 20_000 + random.below(60_000) } else { 1 + random.below(3000) };
        let len = len.min(size.saturating_sub(at));
        if len == 0 || (!is_large && parts.len() == 4) {
            return parts;
        }
        parts.push((at, random.bytes(len as usize)));
        at += len + random.below(3) * random.below(5000);
    }
}

/// Writes files of up to `most` bytes in parts, holes and unwritten blocks among them. How many calls were done by an
/// exchange.
fn run(rig: Rig, most: u64) -> u64 {
    let (ino, mut random, mut content) = (file(&rig), Random(11), Vec::new());
    for n in 0..60 {
        let v = &rig.vol;
        let (at, len) = (random.below(most), 1 + random.below(9000));
        match random.below(4) {
            0 => {
                let bytes = random.bytes(len as usize);
                v.files().write(ino, at, &bytes).unwrap();
                content.resize(content.len().max((at + len) as usize), 0);
                content[at as usize..(at + len) as usize].copy_from_slice(&bytes);
            }
            1 => {
                let size = content.len() as u64;
                let punched = v.files().fallocate(ino, Fallocate::PunchHole, at, len).is_ok();
                let hole = (at.min(size) as usize)..((at + len).min(size) as usize);
                content[hole].iter_mut().filter(|_| punched).for_each(|byte| *byte = 0);
            }
            2 => {
                v.inode_ops().setattr(ino, &SetAttr { size: Some(at), ..SetAttr::default() }).unwrap();
                content.resize(at as usize, 0);
                // What is allocated behind the end is no matter.
                let _may_not_be = v.files().fallocate(ino, Fallocate::KeepSize, at, len);
            }
            _ => {
                content.resize(most as usize, 0);
                v.inode_ops().setattr(ino, &SetAttr { size: Some(most), ..SetAttr::default() }).unwrap();
            }
        }
        let parts = parts(&mut random, content.len() as u64, n % 3 == 0);
        let batch = Batch::over(ino, parts.iter().map(|(at, bytes)| (*at, &bytes[..]))).unwrap();
        match v.ranges().apply_batches(&[&batch]) {
            // Of a block map, what one operation takes.
            Err(Error::TooBig { .. }) => {}
            done => {
                done.unwrap();
                for (at, bytes) in parts {
                    content[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        assert!(rig.read_all(ino) == content, "call {n}");
    }
    let exchanged = rig.vol.stats().batch_exchanges;
    rig.unmount_checked();
    exchanged
}

fn parts_of_files_with_extents() {
    assert!(run(mount(mkfs("32M", &["-b", "1024"], 0)), 3 << 20) > 0);
}

fn parts_of_files_in_clusters() {
    let image = mkfs("32M", &["-b", "1024", "-O", "bigalloc", "-C", "8192", "-m", "0"], 0);
    assert!(run(mount(image), 3 << 20) > 0);
}

fn parts_of_files_with_block_maps() {
    assert_eq!(run(mount(mkfs("32M", &["-b", "1024", "-O", "^extent,^64bit"], 0)), 300_000), 0);
}

fn parts_of_contents_of_inodes() {
    run(mount(mkfs("32M", &["-b", "1024", "-O", "inline_data"], 0)), 200);
    run(mount(mkfs("32M", &["-b", "1024", "-O", "inline_data"], 0)), 300_000);
}

fn what_is_no_part_is_refused() {
    let rig = mount(mkfs("32M", &["-b", "1024"], 0));
    let (v, ino) = (&rig.vol, file(&rig));
    v.files().write(ino, 0, &[1; 5000]).unwrap();
    let write =
        |ino: Ino, parts: &[(u64, &[u8])]| v.ranges().apply_batches(&[&Batch::over(ino, parts.iter().copied())?]);
    let refused = |parts: &[(u64, &[u8])]| write(ino, parts).unwrap_err();
    assert!(matches!(refused(&[(100, &[2; 10]), (4999, &[2; 2])]), Error::Shorter { size: 5000 }));
    assert!(matches!(refused(&[(u64::MAX, &[2; 2])]), Error::Shorter { size: 5000 }));
    assert!(matches!(refused(&[(100, &[2; 10]), (109, &[2; 10])]), Error::Invalid(_)));
    assert!(matches!(refused(&[(100, &[2; 10]), (50, &[2; 10])]), Error::Invalid(_)));
    assert!(matches!(write(ROOT, &[(0, &[2; 10])]), Err(Error::IsDirectory(_))));
    write(ino, &[(5, &[]), (9, &[]), (u64::MAX, &[])]).unwrap();
    assert_eq!(rig.read_all(ino), [1; 5000]);
    write(ino, &[(0, &[2; 10]), (10, &[3; 10]), (4999, &[4])]).unwrap();
    let expected = [&[2; 10][..], &[3; 10], &[1; 4979], &[4]].concat();
    assert!(rig.read_all(ino) == expected);
    rig.unmount_checked();
}
