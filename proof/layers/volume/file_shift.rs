//! Collapse and insert of files in more pieces than a small journal holds, and of trees of several levels.

use crate::file_util::{Random, Rig, dump, fsck, ino_of, medium, mkfs, mount, open, options, unmount};
use ondol_block::RamStore;
use ondol_env::{Fixed, Timestamp};
use ondol_power::{Cut, PowerDomain};
use ondol_stores::Recorder;
use ondol_testkit::over_engines;
use ondol_volume::{Error, Fallocate, Ino};
use std::sync::Arc;

over_engines! {
    a_tree_of_three_levels_moves_as_one,
    what_the_journal_cannot_hold_is_refused_and_nothing_has_changed,
}

/// With cuts of the image's power.
mod cut {
    use super::a_range_in_more_groups_than_the_journal_holds_is_punched_first;
    ondol_testkit::over_image_engines! { a_range_in_more_groups_than_the_journal_holds_is_punched_first }
}

const BLOCK: u64 = 1024;

/// A file in which every other block of so many is stored.
fn every_other_block(rig: &Rig, ino: Ino, blocks: u64) -> Vec<u8> {
    let mut content = vec![0; (blocks * BLOCK) as usize];
    let mut random = Random(3);
    for at in (0..blocks).step_by(2) {
        let bytes = random.bytes(BLOCK as usize);
        rig.vol.files().write(ino, at * BLOCK, &bytes).unwrap();
        content[(at * BLOCK) as usize..][..BLOCK as usize].copy_from_slice(&bytes);
    }
    rig.vol.files().truncate(ino, blocks * BLOCK).unwrap();
    content
}

fn a_tree_of_three_levels_moves_as_one() {
    let image = mkfs("64M", &["-b", "1024", "-J", "size=4"], 1);
    let ino = ino_of(&image, "f0");
    let rig = mount(image);
    let mut content = every_other_block(&rig, ino, 20_000);
    let mut random = Random(11);
    let handles = rig.engine.stats().handles;
    for _ in 0..60 {
        let at = random.below(content.len() as u64 / BLOCK - 200) * BLOCK;
        let len = (1 + random.below(150)) * BLOCK;
        if random.below(2) == 0 {
            rig.vol.files().fallocate(ino, Fallocate::CollapseRange, at, len).unwrap();
            content.drain(at as usize..(at + len) as usize);
        } else {
            rig.vol.files().fallocate(ino, Fallocate::InsertRange, at, len).unwrap();
            content.splice(at as usize..at as usize, vec![0; len as usize]);
        }
    }
    assert_eq!(rig.engine.stats().handles - handles, 60, "one operation each");
    assert!(rig.read_all(ino) == content);
    let image = rig.unmount_checked();
    assert!(dump(&image, "f0") == content);
}

fn what_the_journal_cannot_hold_is_refused_and_nothing_has_changed() {
    let image = mkfs("64M", &["-b", "1024", "-J", "size=1"], 1);
    let ino = ino_of(&image, "f0");
    let rig = mount(image);
    let content = every_other_block(&rig, ino, 46_000);
    let before = rig.vol.getattr(ino).unwrap();
    for how in [Fallocate::InsertRange, Fallocate::CollapseRange] {
        let refused = rig.vol.files().fallocate(ino, how, 10 * BLOCK, 20 * BLOCK);
        assert!(matches!(refused, Err(Error::Unsupported(ref why)) if why.contains("journal")), "{how:?}: {refused:?}");
    }
    assert_eq!(rig.vol.getattr(ino).unwrap(), before);
    assert!(rig.read_all(ino) == content);
    rig.vol.files().fallocate(ino, Fallocate::InsertRange, 45_000 * BLOCK, 4 * BLOCK).unwrap();
    rig.vol.files().fallocate(ino, Fallocate::CollapseRange, 45_000 * BLOCK, 4 * BLOCK).unwrap();
    assert!(rig.read_all(ino) == content);
    rig.unmount_checked();
}

fn a_range_in_more_groups_than_the_journal_holds_is_punched_first() {
    let base = mkfs("64M", &["-b", "1024", "-g", "256", "-N", "256", "-J", "size=1"], 1);
    let ino = ino_of(&base, "f0");
    let rig = mount(base);
    let content = Random(8).bytes(50 << 20);
    rig.vol.files().write(ino, 0, &content).unwrap();
    let base = rig.unmount_checked();

    let env = || Arc::new(Fixed::new(Timestamp { sec: 2_000_000_000, nsec: 0 }, 1));
    let domain = PowerDomain::new();
    let store = Arc::new(Recorder::new(RamStore::from_bytes(base.clone()), 0, domain.clone()));
    let (engine, vol) = open(store, env(), options());
    let handles = engine.stats().handles;
    let (at, len) = (3 << 20, 44 << 20);
    vol.files().fallocate(ino, Fallocate::CollapseRange, at, len).unwrap();
    assert!(engine.stats().handles > handles + 2, "too few operations to be a test");
    engine.checkpoint_all().unwrap();
    let (media, events) = (medium(&base), domain.take());
    let (mut whole, mut between, mut done) = (0, 0, 0);
    for upto in (0..=events.len()).step_by(1.max(events.len() / 60)) {
        let bytes = Cut::after(&media, &events[..upto]).everything().remove(0).to_bytes();
        let store = Arc::new(RamStore::from_bytes(bytes));
        let (engine, vol) = open(store.clone(), env(), options());
        let size = vol.getattr(ino).unwrap().size;
        let mut found = vec![0; size as usize];
        vol.files().read(ino, 0, &mut found).unwrap();
        if size < content.len() as u64 {
            assert!(found[..at as usize] == content[..at as usize]);
            assert!(found[at as usize..] == content[(at + len) as usize..]);
            done += 1;
        } else {
            // Zeros from the beginning of the range on, and then what was there.
            let range = &found[at as usize..(at + len) as usize];
            let zeros = range.iter().take_while(|byte| **byte == 0).count();
            assert!(range[zeros..] == content[at as usize + zeros..(at + len) as usize]);
            assert!(found[(at + len) as usize..] == content[(at + len) as usize..]);
            if zeros > 0 { between += 1 } else { whole += 1 }
        }
        unmount(&*engine, &vol, store.clone());
        fsck(&store.to_bytes());
    }
    assert!(whole > 0 && between > 0 && done > 0, "{whole} before, {between} between, {done} after");
}
