//! Extent trees that grow deep, split in the middle, are cut and vanish again.

use crate::file_util::{Random, Rig, debugfs, dump, ino_of, mkfs, mount};
use ondol_testkit::over_engines;
use ondol_volume::{Caller, Fallocate, Ino, ROOT};

over_engines! {
    every_other_block_in_order,
    random_order_then_random_holes,
    unwritten_extents_are_converted_exactly_where_written,
    long_extents_end_where_ext4_ends_them,
    extents_that_have_merged_fit_into_the_root_again,
}

const BLOCK: u64 = 1024;
const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// Bytes that tell their block.
fn mark(block: u64) -> Vec<u8> {
    let mut bytes = vec![(block % 251) as u8 + 1; BLOCK as usize];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

fn depth(bytes: &[u8], name: &str) -> u32 {
    // "Level Entries …" lines look like " 0/ 2   1/  3 …": the second number is the depth.
    let (text, _) = debugfs(bytes, &format!("dump_extents {name}"));
    let line = text.lines().find(|l| l.trim_start().starts_with("0/")).unwrap_or("0/ 0");
    line.split('/').nth(1).and_then(|r| r.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn check_blocks(rig: &Rig, ino: Ino, blocks: u64, stored: impl Fn(u64) -> bool) {
    let all = rig.read_all(ino);
    for block in 0..blocks {
        let part = &all[(block * BLOCK) as usize..((block + 1) * BLOCK) as usize];
        if stored(block) {
            assert!(part == mark(block), "block {block} is not what was written");
        } else {
            assert!(part.iter().all(|b| *b == 0), "block {block} is not a hole");
        }
    }
}

fn every_other_block_in_order() {
    let bytes = mkfs("128M", &["-b", "1024", "-N", "64"], 1);
    let (ino, blocks) = (ino_of(&bytes, "f0"), 70_000);
    let rig = mount(bytes);
    for block in (0..blocks).step_by(2) {
        rig.vol.files().write(ino, block * BLOCK, &mark(block)).unwrap();
    }
    rig.vol.files().truncate(ino, blocks * BLOCK).unwrap();
    let bytes = rig.unmount_checked();
    assert!(depth(&bytes, "f0") >= 3, "only {} levels", depth(&bytes, "f0"));
    let rig = mount(bytes);
    check_blocks(&rig, ino, blocks, |b| b % 2 == 0);
    // The other half joins them: extents become fewer.
    for block in (1..blocks).step_by(2) {
        rig.vol.files().write(ino, block * BLOCK, &mark(block)).unwrap();
    }
    check_blocks(&rig, ino, blocks, |_| true);
    let bytes = rig.unmount_checked();
    let rig = mount(bytes);
    for keep in [blocks - 1, 50_001, 20_000, 300, 299, 3, 0] {
        rig.vol.files().truncate(ino, keep * BLOCK).unwrap();
        check_blocks(&rig, ino, keep, |_| true);
    }
    assert_eq!(rig.vol.getattr(ino).unwrap().blocks, 0);
    let bytes = rig.unmount_checked();
    assert_eq!(depth(&bytes, "f0"), 0);
}

fn random_order_then_random_holes() {
    for seed in [1, 2] {
        let bytes = mkfs("64M", &["-b", "1024", "-N", "64"], 1);
        let ino = ino_of(&bytes, "f0");
        let blocks = 20_000u64;
        let mut random = Random(seed);
        let mut stored = vec![false; blocks as usize];
        let rig = mount(bytes);
        rig.vol.files().truncate(ino, blocks * BLOCK).unwrap();
        for _ in 0..9000 {
            let block = random.below(blocks / 2) * 2;
            stored[block as usize] = true;
            rig.vol.files().write(ino, block * BLOCK, &mark(block)).unwrap();
        }
        check_blocks(&rig, ino, blocks, |b| stored[b as usize]);
        let bytes = rig.unmount_checked();
        assert!(depth(&bytes, "f0") >= 2);
        let rig = mount(bytes);
        for _ in 0..600 {
            let most = if random.below(30) == 0 { 3000 } else { 60 };
            let (at, len) = (random.below(blocks), 1 + random.below(most));
            let end = (at + len).min(blocks);
            stored[at as usize..end as usize].fill(false);
            rig.vol.files().fallocate(ino, Fallocate::PunchHole, at * BLOCK, (end - at) * BLOCK).unwrap();
        }
        check_blocks(&rig, ino, blocks, |b| stored[b as usize]);
        let bytes = rig.unmount_checked();
        let rig = mount(bytes);
        rig.vol.files().fallocate(ino, Fallocate::PunchHole, 0, blocks * BLOCK).unwrap();
        assert_eq!(rig.vol.getattr(ino).unwrap().blocks, 0);
        rig.unmount_checked();
    }
}

fn unwritten_extents_are_converted_exactly_where_written() {
    let bytes = mkfs("64M", &["-b", "1024", "-N", "64"], 1);
    let ino = ino_of(&bytes, "f0");
    let blocks = 12_000u64;
    let mut random = Random(3);
    let mut stored = vec![false; blocks as usize];
    let rig = mount(bytes);
    rig.vol.files().fallocate(ino, Fallocate::Allocate, 0, blocks * BLOCK).unwrap();
    let held = rig.vol.getattr(ino).unwrap().blocks;
    assert!(held >= blocks * 2);
    check_blocks(&rig, ino, blocks, |_| false);
    for _ in 0..5000 {
        let block = random.below(blocks);
        stored[block as usize] = true;
        rig.vol.files().write(ino, block * BLOCK, &mark(block)).unwrap();
    }
    check_blocks(&rig, ino, blocks, |b| stored[b as usize]);
    let bytes = rig.unmount_checked();
    assert!(depth(&bytes, "f0") >= 2);
    let dumped = dump(&bytes, "f0");
    let rig = mount(bytes);
    assert!(dumped == rig.read_all(ino));
    // And back: the whole file is unwritten again, without a block more or less than its nodes.
    rig.vol.files().fallocate(ino, Fallocate::ZeroRange, 0, blocks * BLOCK).unwrap();
    check_blocks(&rig, ino, blocks, |_| false);
    for block in 0..blocks {
        rig.vol.files().write(ino, block * BLOCK, &mark(block)).unwrap();
    }
    check_blocks(&rig, ino, blocks, |_| true);
    rig.vol.files().truncate(ino, 0).unwrap();
    assert_eq!(rig.vol.getattr(ino).unwrap().blocks, 0);
    rig.unmount_checked();
}

fn long_extents_end_where_ext4_ends_them() {
    let bytes = mkfs("400M", &["-b", "1024", "-N", "64", "-G", "64"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    let blocks = 150_000u64;
    rig.vol.files().fallocate(ino, Fallocate::Allocate, 0, blocks * BLOCK).unwrap();
    let piece: Vec<u8> = (0..1000).flat_map(mark).collect();
    for i in 0..blocks / 1000 {
        rig.vol.files().write(ino, i * 1000 * BLOCK, &piece).unwrap();
    }
    let bytes = rig.unmount_checked();
    let rig = mount(bytes);
    assert!(rig.read_all(ino).chunks(piece.len()).all(|chunk| chunk == piece));
    rig.vol.files().fallocate(ino, Fallocate::ZeroRange, 0, blocks * BLOCK).unwrap();
    assert!(rig.read_all(ino).iter().all(|b| *b == 0));
    rig.unmount_checked();
}

fn extents_that_have_merged_fit_into_the_root_again() {
    let rig = mount(mkfs("32M", &["-b", "1024", "-N", "64"], 0));
    // In groups of their own: files that grow side by side fill each other's holes.
    let inos = ["d0", "d1", "d2"].map(|name| {
        let dir = rig.vol.names().mkdir(ROOT, name.as_bytes(), 0o755, USER).unwrap().ino;
        // What stood here leaves its place to the node of the tree.
        let before = rig.vol.names().create(dir, b"before", 0o644, USER).unwrap().ino;
        rig.vol.files().write(before, 0, &mark(0)).unwrap();
        let ino = rig.vol.names().create(dir, b"f", 0o644, USER).unwrap().ino;
        rig.vol.files().fallocate(ino, Fallocate::KeepSize, 0, BLOCK).unwrap();
        rig.vol.names().unlink(dir, b"before").unwrap();
        ino
    });
    rig.vol.sync().unwrap();
    let blocks = 20;
    // Unwritten extents that are filled, holes that are filled by writing, and by allocating.
    rig.vol.files().fallocate(inos[0], Fallocate::Allocate, 0, blocks * BLOCK).unwrap();
    for ino in inos {
        for block in (0..blocks).step_by(2) {
            rig.vol.files().write(ino, block * BLOCK, &mark(block)).unwrap();
        }
    }
    let bytes = rig.unmount_checked();
    assert_eq!(["d0/f", "d1/f", "d2/f"].map(|name| depth(&bytes, name)), [1; 3]);
    let rig = mount(bytes);
    for block in (1..blocks).step_by(2) {
        rig.vol.files().write(inos[0], block * BLOCK, &mark(block)).unwrap();
        rig.vol.files().write(inos[1], block * BLOCK, &mark(block)).unwrap();
    }
    rig.vol.files().fallocate(inos[2], Fallocate::ZeroRange, 0, blocks * BLOCK).unwrap();
    check_blocks(&rig, inos[0], blocks, |_| true);
    check_blocks(&rig, inos[1], blocks, |_| true);
    check_blocks(&rig, inos[2], blocks, |_| false);
    for ino in inos {
        // All that it holds is its data.
        assert_eq!(rig.vol.getattr(ino).unwrap().blocks, blocks * 2);
    }
    let bytes = rig.unmount_checked();
    assert_eq!(["d0/f", "d1/f", "d2/f"].map(|name| depth(&bytes, name)), [0; 3]);
}
