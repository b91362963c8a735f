//! Where the journal lies: as debugfs reads it, from the superblock's copy, and never over anything else.

use crate::file_util::{Random, debugfs, dump, ino_of, mkfs, mount};
use ondol_block::{BlockStore, RamStore};
use ondol_volume::{Error, Image};
use std::sync::Arc;

type Runs = Vec<(u64, u64)>;

fn map(bytes: &[u8]) -> Result<Runs, Error> {
    Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec())))?.journal_map()
}

/// Byte offset of inode 8 of an image.
fn journal_inode(bytes: &[u8], block_size: usize) -> usize {
    let (stats, _) = debugfs(bytes, "stats");
    let rest = stats.split("inode table at ").nth(1).unwrap();
    let table: usize = rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
    table * block_size + 7 * 256
}

#[test]
fn the_runs_hold_what_debugfs_reads() {
    for args in [
        vec!["-b", "1024"],
        vec!["-b", "4096", "-J", "size=8"],
        vec!["-b", "1024", "-O", "^extent,^64bit", "-J", "size=4"],
        vec!["-b", "1024", "-g", "512", "-J", "size=4", "-N", "128", "-O", "^flex_bg"],
    ] {
        let block_size: usize = args[1].parse().unwrap();
        let size = if args.contains(&"512") { "24M" } else { "64M" };
        let mut bytes = mkfs(size, &args, 1);
        // Something to tell the journal's blocks by.
        let runs = map(&bytes).unwrap();
        let mut random = Random(3);
        for at in runs.iter().flat_map(|&(start, len)| start..start + len).skip(1) {
            let at = at as usize * block_size;
            bytes[at..at + 8].copy_from_slice(&random.bytes(8));
        }
        let read = runs.iter().flat_map(|&(start, len)| {
            bytes[start as usize * block_size..(start + len) as usize * block_size].iter().copied()
        });
        assert!(read.collect::<Vec<u8>>() == dump(&bytes, "<8>"), "{args:?}");
        if args.contains(&"512") {
            assert!(runs.len() > 4, "a journal of {} runs is no test of several", runs.len());
        }
    }
}

#[test]
fn the_superblocks_copy_serves_for_an_unreadable_inode() {
    for features in ["^resize_inode", "^extent,^64bit,^metadata_csum"] {
        let bytes = mkfs("64M", &["-b", "1024", "-J", "size=4", "-O", features], 0);
        let runs = map(&bytes).unwrap();
        let mut damaged = bytes.clone();
        let at = journal_inode(&bytes, 1024);
        damaged[at..at + 128].fill(0x5A);
        assert_eq!(map(&damaged).unwrap(), runs, "{features}");
    }
}

#[test]
fn a_journal_elsewhere_is_refused() {
    let bytes = mkfs("32M", &["-b", "1024", "-O", "^metadata_csum"], 1);
    let root = journal_inode(&bytes, 1024) + 0x28;
    // The one extent of the journal: its length and where it starts.
    for start in [0u32, 1, 2, 5, 300, 32_700, u32::MAX] {
        let mut damaged = bytes.clone();
        damaged[root + 12 + 8..root + 12 + 12].copy_from_slice(&start.to_le_bytes());
        assert!(matches!(map(&damaged), Err(Error::Corrupt(_))), "a journal at {start}");
    }
    for len in [0u16, 100, 1023, 32_769] {
        let mut damaged = bytes.clone();
        damaged[root + 12 + 4..root + 12 + 6].copy_from_slice(&len.to_le_bytes());
        assert!(matches!(map(&damaged), Err(Error::Corrupt(_))), "a run of {len} blocks");
    }
    let mut random = Random(5);
    let store = Arc::new(RamStore::from_bytes(bytes.clone()));
    let inode = &bytes[root - 0x28..root - 0x28 + 128];
    for _ in 0..2000 {
        let mut damaged = inode.to_vec();
        for _ in 0..=random.below(4) {
            damaged[random.below(128) as usize] = random.below(256) as u8;
        }
        store.write(root as u64 - 0x28, &damaged).unwrap();
        // Whatever it says: an answer, and none that reaches off the volume.
        if let Ok(runs) = Image::open(store.clone()).unwrap().journal_map() {
            assert!(runs.iter().all(|&(start, len)| start > 1 && start + len <= 32 * 1024));
        }
    }
}

#[test]
fn no_file_can_own_the_journal() {
    let bytes = mkfs("32M", &["-b", "1024"], 1);
    let rig = mount(bytes);
    assert!(matches!(rig.vol.files().write(8, 0, b"x"), Err(Error::NotPermitted(_))));
    let bytes = rig.unmount_checked();
    let rig = mount(bytes);
    let ino = ino_of(&rig.store.to_bytes(), "f0");
    rig.vol.files().write(ino, 0, b"x").unwrap();
    rig.unmount_checked();
}
