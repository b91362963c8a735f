//! What is left of files after a crash at any write of the store, and truncates that take many operations.

use crate::file_util::{Random, fsck, ino_of, medium, mkfs, mount, options, run, unmount};
use ondol_block::{BlockStore, RamStore};
use ondol_env::{Fixed, Timestamp};
use ondol_journal::Engine;
use ondol_power::{Cut, Event, Medium, PowerDomain, Sampling};
use ondol_stores::Recorder;
use ondol_testkit::over_image_engines;
use ondol_testkit::rig::Setup;
use ondol_volume::{DataMode, Fallocate, Ino, Volume};
use std::sync::Arc;

over_image_engines! {
    with_data_journal_every_crash_leaves_a_prefix_of_the_changes,
    with_data_ordered_no_crash_shows_what_was_never_written,
    a_truncate_of_many_operations_is_ended_by_recovery,
}

/// Opens it with the engine of the current setup.
fn open(store: Arc<dyn BlockStore>, data: DataMode) -> (Arc<dyn Engine>, Volume) {
    Setup::current().with_data(data).run(|| crate::file_util::open(store, env(), options()))
}

fn env() -> Arc<Fixed> {
    Arc::new(Fixed::new(Timestamp { sec: 2_000_000_000, nsec: 0 }, 1))
}

/// Contents of a file, and what it holds, however it came to be.
fn state(vol: &Volume, ino: Ino) -> Vec<u8> {
    let size = vol.getattr(ino).unwrap().size as usize;
    let mut buf = vec![0; size];
    assert_eq!(vol.files().read(ino, 0, &mut buf).unwrap(), size);
    buf
}

type Change = Box<dyn Fn(&Volume, Ino)>;

fn changes() -> Vec<Change> {
    let bytes = |seed, len| Random(seed).bytes(len);
    vec![
        Box::new(move |v, i| assert!(v.files().write(i, 0, &bytes(1, 10_000)).unwrap() > 0)),
        Box::new(move |v, i| assert!(v.files().append(i, &bytes(2, 300)).unwrap() < 1 << 20)),
        Box::new(move |v, i| assert!(v.files().write(i, 3000, &bytes(3, 5000)).unwrap() > 0)),
        Box::new(move |v, i| v.files().truncate(i, 4500).unwrap()),
        Box::new(move |v, i| v.files().truncate(i, 9000).unwrap()),
        Box::new(move |v, i| v.files().fallocate(i, Fallocate::Allocate, 8000, 60_000).unwrap()),
        Box::new(move |v, i| assert!(v.files().write(i, 20_001, &bytes(4, 7000)).unwrap() > 0)),
        Box::new(move |v, i| v.files().fallocate(i, Fallocate::PunchHole, 2000, 21_000).unwrap()),
        Box::new(move |v, i| assert!(v.files().write(i, 100_000, &bytes(5, 40_000)).unwrap() > 0)),
        Box::new(move |v, i| v.files().fallocate(i, Fallocate::ZeroRange, 22_000, 90_000).unwrap()),
        Box::new(move |v, i| assert!(v.files().write(i, 50_000, &bytes(6, 3000)).unwrap() > 0)),
        Box::new(move |v, i| v.files().truncate(i, 0).unwrap()),
        Box::new(move |v, i| assert!(v.files().append(i, &bytes(7, 2000)).unwrap() < 1 << 20)),
    ]
}

/// The image after some of the recorded writes.
fn replay(media: &[Medium], events: &[Event]) -> Vec<u8> {
    Cut::after(media, events).everything().remove(0).to_bytes()
}

/// Some states of each cut.
const SOME: Sampling = Sampling { all_of: 1, samples: 10, torn: 16, extremes: 8, one_of: 1, seed: 1 };

fn with_data_journal_every_crash_leaves_a_prefix_of_the_changes() {
    let base = mkfs("8M", &["-b", "1024", "-J", "size=1", "-N", "32"], 1);
    let ino = ino_of(&base, "f0");
    for every_sync in [1, 3, 100] {
        let domain = PowerDomain::new();
        let store = Arc::new(Recorder::new(RamStore::from_bytes(base.clone()), 0, domain.clone()));
        let (engine, vol) = open(store, DataMode::Journal);
        let mut states = vec![state(&vol, ino)];
        for (n, change) in changes().iter().enumerate() {
            change(&vol, ino);
            states.push(state(&vol, ino));
            if (n + 1) % every_sync == 0 {
                vol.sync().unwrap();
                domain.mark(n as u64 + 1);
            }
        }
        engine.checkpoint_all().unwrap();
        let mut crashes = 0;
        SOME.each(&medium(&base), &domain.take(), |layers, durable| {
            crashes += 1;
            let store = Arc::new(RamStore::from_bytes(layers[0].to_bytes()));
            let (engine, vol) = open(store.clone(), DataMode::Journal);
            vol.inode_ops().process_orphans().unwrap();
            let found = state(&vol, ino);
            let prefix = states.iter().skip(durable as usize).any(|s| *s == found);
            assert!(prefix, "crash {crashes}: no state from {durable} on");
            if crashes % 14 == 0 {
                unmount(&*engine, &vol, store.clone());
                fsck(&store.to_bytes());
            }
        });
        assert!(crashes > 40, "only {crashes} crashes");
    }
}

fn with_data_ordered_no_crash_shows_what_was_never_written() {
    let mut base = mkfs("8M", &["-b", "1024", "-J", "size=1", "-N", "32"], 2);
    let (ino, other) = (ino_of(&base, "f0"), ino_of(&base, "f1"));
    // Every free block holds somebody else's secret.
    let rig = mount(base);
    while rig.vol.files().append(other, &[0xEE; 4096]).is_ok() {}
    rig.vol.files().truncate(other, 0).unwrap();
    base = rig.unmount_checked();
    let crashes: u64 = [1, 4].map(|every_sync| nothing_stale_shows(&base, ino, every_sync)).iter().sum();
    // One write and one flush make a commit of units.
    let least = if Setup::current().takes_overwrites() { 90 } else { 300 };
    assert!(crashes > least, "only {crashes} crashes");
}

/// How many crashes were tried.
fn nothing_stale_shows(base: &[u8], ino: Ino, every_sync: usize) -> u64 {
    let domain = PowerDomain::new();
    let store = Arc::new(Recorder::new(RamStore::from_bytes(base.to_vec()), 0, domain.clone()));
    let (engine, vol) = open(store, DataMode::Ordered);
    let mut sizes = vec![0];
    for change in changes() {
        change(&vol, ino);
        sizes.push(vol.getattr(ino).unwrap().size);
        if sizes.len() % every_sync == 0 {
            vol.sync().unwrap();
        }
    }
    engine.checkpoint_all().unwrap();
    let mut crashes = 0;
    SOME.each(&medium(base), &domain.take(), |layers, _| {
        crashes += 1;
        let store = Arc::new(RamStore::from_bytes(layers[0].to_bytes()));
        let (engine, vol) = open(store.clone(), DataMode::Ordered);
        vol.inode_ops().process_orphans().unwrap();
        let found = state(&vol, ino);
        assert!(sizes.contains(&(found.len() as u64)));
        let secret = found.windows(16).any(|w| w.iter().all(|b| *b == 0xEE));
        assert!(!secret, "crash {crashes}: a freed block shows");
        // Nothing stale comes up behind the end either.
        let end = found.len() as u64;
        vol.files().truncate(ino, end + 5000).unwrap();
        assert!(state(&vol, ino)[end as usize..].iter().all(|b| *b == 0), "crash {crashes}");
        if crashes % 14 == 0 {
            unmount(&*engine, &vol, store.clone());
            fsck(&store.to_bytes());
        }
    });
    crashes
}

fn a_truncate_of_many_operations_is_ended_by_recovery() {
    // 256 groups: one operation cannot hold the bitmaps of all.
    for features in ["^orphan_file", "orphan_file"] {
        let base = mkfs("64M", &["-b", "1024", "-g", "256", "-N", "256", "-J", "size=2", "-O", features], 1);
        let ino = ino_of(&base, "f0");
        let rig = mount(base);
        let content = Random(8).bytes(40 << 20);
        rig.vol.files().write(ino, 0, &content).unwrap();
        let base = rig.unmount_checked();

        let domain = PowerDomain::new();
        let store = Arc::new(Recorder::new(RamStore::from_bytes(base.clone()), 0, domain.clone()));
        let (engine, vol) = open(store, DataMode::Ordered);
        let handles = engine.stats().handles;
        let keep = 1_234_567;
        vol.files().truncate(ino, keep).unwrap();
        assert!(engine.stats().handles > handles + 3, "too few operations to be a test");
        assert!(state(&vol, ino) == content[..keep as usize]);
        assert!(vol.inode_ops().orphans_empty().unwrap());
        engine.checkpoint_all().unwrap();
        let (media, events) = (medium(&base), domain.take());

        for upto in (0..=events.len()).step_by(5) {
            let store = Arc::new(RamStore::from_bytes(replay(&media, &events[..upto])));
            let (engine, vol) = open(store.clone(), DataMode::Ordered);
            vol.inode_ops().process_orphans().unwrap();
            let attr = vol.getattr(ino).unwrap();
            let done = attr.size == keep;
            assert!(done || attr.size == content.len() as u64);
            let mut some = vec![0; 4096];
            vol.files().read(ino, keep - 4096, &mut some).unwrap();
            assert!(some == content[keep as usize - 4096..keep as usize]);
            if done {
                assert!(attr.blocks / 2 < keep / 1024 + 20, "{} blocks are left", attr.blocks / 2);
            }
            engine.checkpoint_all().unwrap();
            ondol_volume::Image::open(store.clone()).unwrap().mark_unmounted(&vol).unwrap();
            engine.checkpoint_all().unwrap();
            fsck(&store.to_bytes());
        }
    }
}

#[test]
fn e2fsck_ends_it_too() {
    let base = mkfs("64M", &["-b", "1024", "-g", "256", "-N", "256", "-J", "size=2"], 1);
    let ino = ino_of(&base, "f0");
    let rig = mount(base);
    rig.vol.files().write(ino, 0, &Random(8).bytes(40 << 20)).unwrap();
    let base = rig.unmount_checked();
    let domain = PowerDomain::new();
    let store = Arc::new(Recorder::new(RamStore::from_bytes(base.clone()), 0, domain.clone()));
    let (engine, vol) = open(store, DataMode::Ordered);
    vol.files().truncate(ino, 5000).unwrap();
    vol.sync().unwrap();
    engine.checkpoint_all().unwrap();
    let (media, events) = (medium(&base), domain.take());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let path = path.to_str().unwrap();
    for part in 0..6 {
        std::fs::write(path, replay(&media, &events[..events.len() * part / 5])).unwrap();
        let (text, code) = run("e2fsck", &["-fy", path]);
        assert!(code <= 1, "{text}");
        let (text, code) = run("e2fsck", &["-fn", path]);
        assert_eq!(code, 0, "{text}");
    }
}
