//! Directories that outgrow one block: conversion, leaf splits, two levels, every hash.

use crate::dir_rig::{Fs, TOP, as_file, debugfs, fsck, mkfs, run};
use ondol_testkit::{over_engines, over_two_engines};

over_engines! {
    two_levels_with_checksums,
    without_index_and_types,
}

over_two_engines! {
    two_levels_without_checksums,
    three_levels_with_large_dir,
    every_hash,
    long_names,
}

fn name(i: u32, len: usize) -> String {
    // Characters above 127, which signed and unsigned hashes tell apart.
    let mut name = format!("{i:06}-é한{:08x}-", i.wrapping_mul(2_654_435_761));
    while name.len() < len {
        name.push('n');
    }
    name
}

/// Fills, checks, empties by every second name, refills, checks.
fn fill(args: &[&str], mib: u64, count: u32, len: usize) -> Vec<u8> {
    fill_image(mkfs(mib, args), count, len)
}

fn fill_image(image: Vec<u8>, count: u32, len: usize) -> Vec<u8> {
    let fs = Fs::open(image);
    let dir = fs.mkdir(TOP, "large");
    let target = fs.create(TOP, "target");
    let ino = |i: u32| if i.is_multiple_of(64) { None } else { Some(target) };
    let put = |i: u32| match ino(i) {
        Some(target) if i < 60_000 => drop(fs.volume.names().link(target, dir, name(i, len).as_bytes()).expect("link")),
        _ => drop(fs.create(dir, &name(i, len))),
    };
    (0..count).for_each(put);
    for i in 0..count {
        assert!(fs.is(dir, &name(i, len)).is_some(), "{i}");
    }
    assert!(fs.is(dir, "missing").is_none());
    assert_eq!(fs.names(dir, 1000).len() as u32, count);
    fs.check("filled");
    for i in (0..count).step_by(2) {
        fs.volume.names().unlink(dir, name(i, len).as_bytes()).expect("unlink");
    }
    assert_eq!(fs.names(dir, 77).len() as u32, count / 2);
    for i in 0..count {
        assert_eq!(fs.is(dir, &name(i, len)).is_some(), i % 2 == 1);
    }
    (0..count).step_by(2).for_each(put);
    let names = fs.names(dir, 5000);
    assert!((0..count).all(|i| names.contains_key(name(i, len).as_bytes())));
    let bytes = fs.bytes();
    fsck(&bytes, "refilled");
    bytes
}

fn two_levels_with_checksums() {
    let bytes = fill(&["-b", "1024"], 64, 20_000, 40);
    let dump = debugfs(&bytes, "htree_dump /large");
    assert!(dump.contains("Indirect levels: 1"), "{}", &dump[..dump.len().min(400)]);
}

fn two_levels_without_checksums() {
    let bytes = fill(&["-b", "1024", "-O", "^metadata_csum,^64bit", "-I", "128"], 64, 12_000, 60);
    assert!(debugfs(&bytes, "htree_dump /large").contains("Indirect levels: 1"));
}

fn every_hash() {
    for hash in ["legacy", "half_md4", "tea"] {
        for (block, flags) in [("1024", "1"), ("4096", "2")] {
            let (done, image) = as_file(&mkfs(32, &["-b", block]), |path| {
                let tuned = run("tune2fs", &["-E", &format!("hash_alg={hash}"), path]);
                // Bit 0: signed characters; bit 1: unsigned.
                let set = run("debugfs", &["-w", "-R", &format!("ssv flags {flags}"), path]);
                tuned.status.success() && set.status.success()
            });
            assert!(done);
            let bytes = fill_image(image, 1500, 20);
            let dump = debugfs(&bytes, "htree_dump /large");
            assert!(dump.contains("Number of entries (count):"), "{hash}: {dump}");
        }
    }
}

fn long_names() {
    fill(&["-b", "1024"], 64, 3000, 255);
    fill(&["-b", "4096"], 64, 3000, 255);
}

fn without_index_and_types() {
    fill(&["-b", "1024", "-O", "^dir_index"], 32, 1000, 30);
    fill(&["-b", "4096", "-O", "^filetype"], 32, 1000, 30);
}

fn three_levels_with_large_dir() {
    let bytes = fill(&["-b", "1024", "-O", "large_dir"], 128, 36_000, 255);
    assert!(debugfs(&bytes, "htree_dump /large").contains("Indirect levels: 2"));
}
