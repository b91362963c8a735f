//! New data that waits for its commit: what it costs the device, and that nothing else is seen in the meantime.

use crate::file_util::{Random, Rig, ino_of, mkfs, mount};
use ondol_block::BlockStore;
use ondol_testkit::over_image_setups;
use ondol_volume::Ino;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

over_image_setups! {
    what_is_removed_before_its_commit_is_never_written,
    appended_pieces_are_one_run,
    what_waits_is_written_over_in_memory,
    what_is_written_over_while_a_commit_has_it_is_not_lost,
}

const PIECE: usize = 4096;

/// Bytes that the device was given so far.
fn written(rig: &Rig) -> u64 {
    rig.store.stats().written_bytes
}

fn append(rig: &Rig, ino: Ino, pieces: usize, random: &mut Random) -> Vec<u8> {
    let bytes = random.bytes(pieces * PIECE);
    for piece in bytes.chunks(PIECE) {
        rig.vol.files().append(ino, piece).unwrap();
    }
    bytes
}

fn what_is_removed_before_its_commit_is_never_written() {
    let bytes = mkfs("16M", &["-b", "4096"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    rig.vol.sync().unwrap();
    let (before, mut random) = (written(&rig), Random(1));
    // More than a mebibyte, of which no more waits at a time than may, in runs that are too short to pass.
    for _ in 0..40 {
        rig.vol.files().append(ino, &random.bytes(7 * PIECE)).unwrap();
        rig.vol.files().truncate(ino, 0).unwrap();
    }
    assert_eq!(written(&rig), before, "not a byte of data, and nobody has committed");
    let stats = rig.engine.stats();
    assert_eq!((stats.commits, stats.staged_early_blocks, stats.data_runs, stats.passed_bytes), (0, 0, 0, 0));
    assert!(stats.dead_blocks >= 280, "{stats:?}");
    rig.vol.sync().unwrap();
    assert!(written(&rig) - before < 64 << 10, "inode, bitmap and descriptor, in the log");
    assert_eq!(rig.engine.stats().kept_blocks, 0);
    rig.unmount_checked();
}

fn appended_pieces_are_one_run() {
    let bytes = mkfs("16M", &["-b", "4096"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    let content = append(&rig, ino, 24, &mut Random(2));
    assert_eq!((rig.engine.stats().kept_blocks, rig.engine.stats().data_runs), (0, 0));
    assert!(rig.read_all(ino) == content, "read from memory");
    rig.vol.sync().unwrap();
    let stats = rig.engine.stats();
    // What is journaled is in the log.
    let journaled = rig.engine.name() == "classic" && ondol_testkit::rig::Setup::current().journals_data();
    assert_eq!((stats.kept_blocks, stats.data_runs), (24, u64::from(!journaled)));
    assert!(rig.read_all(ino) == content);
    rig.unmount_checked();
}

fn what_waits_is_written_over_in_memory() {
    let bytes = mkfs("16M", &["-b", "1024"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    let (mut random, before) = (Random(3), written(&rig));
    let mut content = append(&rig, ino, 6, &mut random);
    for _ in 0..100 {
        let len = 1 + random.below(3000) as usize;
        let (at, part) = (random.below((content.len() - len) as u64) as usize, random.bytes(len));
        rig.vol.files().write(ino, at as u64, &part).unwrap();
        content[at..at + len].copy_from_slice(&part);
    }
    assert_eq!(written(&rig), before, "nothing is written in place over what waits");
    assert!(rig.read_all(ino) == content);
    rig.vol.sync().unwrap();
    // Nothing waits now: the same in place, or through the log.
    for _ in 0..100 {
        let len = 1 + random.below(3000) as usize;
        let (at, part) = (random.below((content.len() - len) as u64) as usize, random.bytes(len));
        rig.vol.files().write(ino, at as u64, &part).unwrap();
        content[at..at + len].copy_from_slice(&part);
        assert!(rig.read_all(ino) == content);
    }
    let home = rig.unmount_checked();
    assert!(mount(home).read_all(ino) == content);
}

/// One thread writes over the blocks that the commits of another write home.
fn what_is_written_over_while_a_commit_has_it_is_not_lost() {
    let bytes = mkfs("16M", &["-b", "1024"], 1);
    let ino = ino_of(&bytes, "f0");
    let rig = mount(bytes);
    let mut content = Vec::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let syncs = scope.spawn(|| {
            while !done.load(SeqCst) {
                rig.vol.sync().unwrap();
            }
        });
        let mut random = Random(4);
        for round in 0..400 {
            if round % 20 == 0 {
                rig.vol.files().truncate(ino, 0).unwrap();
                content.clear();
            }
            let len = 1 + random.below(9000) as usize;
            let part = random.bytes(len);
            let at = random.below(content.len() as u64 + 1) as usize;
            rig.vol.files().write(ino, at as u64, &part).unwrap();
            content.resize(content.len().max(at + part.len()), 0);
            content[at..at + part.len()].copy_from_slice(&part);
            assert!(rig.read_all(ino) == content, "round {round}");
        }
        done.store(true, SeqCst);
        syncs.join().unwrap();
    });
    let home = rig.unmount_checked();
    assert!(mount(home).read_all(ino) == content);
}
