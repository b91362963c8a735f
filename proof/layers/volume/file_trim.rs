//! Which blocks are discarded, and when.

use crate::file_util::{Random, Rig, fsck, ino_of, mkfs, mount};
use ondol_testkit::over_setups;
use ondol_volume::{Error, Fallocate};

over_setups! {
    what_is_free_is_given_back_once_its_freeing_is_durable,
    ranges_and_minimums_are_kept,
    threads_write_and_delete_while_the_volume_is_trimmed,
}

/// As many zero bytes as it has room for.
fn zeros(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == 0).count()
}

fn used() -> (Rig, u32, u32) {
    let image = mkfs("16M", &["-b", "1024", "-g", "2048", "-J", "size=1"], 2);
    let (a, b) = (ino_of(&image, "f0"), ino_of(&image, "f1"));
    let rig = mount(image);
    rig.vol.files().write(a, 0, &Random(1).bytes(3 << 20)).unwrap();
    rig.vol.files().write(b, 0, &Random(2).bytes(3 << 20)).unwrap();
    rig.vol.sync().unwrap();
    (rig, a, b)
}

fn what_is_free_is_given_back_once_its_freeing_is_durable() {
    let (rig, a, b) = used();
    let all = rig.vol.space().trim(0, u64::MAX, 0).unwrap();
    assert_eq!(all, rig.vol.statfs().free * 1024);
    let before = zeros(&rig.store.to_bytes());
    rig.vol.files().truncate(a, 0).unwrap();
    assert_eq!(rig.vol.space().trim(0, u64::MAX, 0).unwrap(), all, "the freeing is not durable");
    assert_eq!(zeros(&rig.store.to_bytes()), before);
    rig.vol.sync().unwrap();
    assert_eq!(rig.vol.space().trim(0, u64::MAX, 0).unwrap(), rig.vol.statfs().free * 1024);
    assert!(zeros(&rig.store.to_bytes()) > before + (3 << 20) - 4096);
    assert!(rig.read_all(b) == Random(2).bytes(3 << 20));
    rig.unmount_checked();
}

fn ranges_and_minimums_are_kept() {
    let (rig, _, b) = used();
    for hole in 0..40 {
        rig.vol.files().fallocate(b, Fallocate::PunchHole, hole * 50_000, 10_240 + hole % 2 * 10_240).unwrap();
    }
    rig.vol.sync().unwrap();
    let free = rig.vol.space().trim(0, u64::MAX, 0).unwrap();
    let parts: u64 = (0..16).map(|mib| rig.vol.space().trim(mib << 20, 1 << 20, 0).unwrap()).sum();
    assert_eq!(parts, free);
    let large = rig.vol.space().trim(0, u64::MAX, 15 << 10).unwrap();
    assert!(free - large >= 20 * 8 * 1024, "holes of less than 15 KiB stay: {large} of {free}");
    assert!(free - large <= 20 * 11 * 1024 + (200 << 10), "and the others go: {large} of {free}");
    for (start, len, minimum) in [(16 << 20, 1 << 20, 0), (0, 1023, 0), (0, 1 << 20, 3 << 20)] {
        assert!(matches!(rig.vol.space().trim(start, len, minimum), Err(Error::Invalid(_))), "{start} {len} {minimum}");
    }
    rig.unmount_checked();
}

fn threads_write_and_delete_while_the_volume_is_trimmed() {
    let (rig, a, b) = used();
    std::thread::scope(|scope| {
        let writers: Vec<_> = [a, b]
            .into_iter()
            .map(|ino| {
                let rig = &rig;
                scope.spawn(move || {
                    let mut random = Random(u64::from(ino));
                    for _ in 0..60 {
                        let bytes = random.bytes(1 << 20);
                        rig.vol.files().truncate(ino, random.below(100_000)).unwrap();
                        let at = random.below(1 << 20);
                        rig.vol.files().write(ino, at, &bytes).unwrap();
                        let mut seen = vec![0; bytes.len()];
                        rig.vol.files().read(ino, at, &mut seen).unwrap();
                        let lost: Vec<usize> = (0..bytes.len()).filter(|i| seen[*i] != bytes[*i]).collect();
                        let zeros = lost.iter().filter(|i| seen[**i] == 0).count();
                        let ends = [lost.first(), lost.last()].map(|i| i.map(|i| i + at as usize));
                        let n = lost.len();
                        assert!(
                            lost.is_empty(),
                            "inode {ino} lost {n} bytes, {zeros} are zeros, of {ends:?} of a write at {at}"
                        );
                        if random.below(3) == 0 {
                            rig.vol.sync().unwrap();
                        }
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            rig.vol.space().trim(0, u64::MAX, 0).unwrap();
        }
    });
    let image = rig.unmount();
    fsck(&image);
}
