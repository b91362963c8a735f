//! Images with a compressed journal, and everybody else: while one may hold what only Ondol can replay it is refused,
//! not misread; afterwards it is an image as any other, and its choice of engine outlives what others do to it.

use ondol::{DataMode, FormatOptions, JournalEngine, OpenOptions, Options, Volume};
use ondol_skips::skips;
use ondol_testkit::image::{self, KernelMount, Spec, read_sparse, scratch_dir, write_sparse};
use ondol_tests::{no_kernel_mount, parameter};
use std::path::Path;

const COMPRESSED: JournalEngine = JournalEngine::Compressed;

/// What is written is as good as random, or text.
fn contents(n: u64, len: usize) -> Vec<u8> {
    let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 40) as u8
    };
    (0..len).map(|i| if n.is_multiple_of(2) { b"the same again and again "[i % 25] } else { next() }).collect()
}

fn engine(path: &Path) -> &'static str {
    ondol::info(path).expect("info").journal.expect("a journal").engine
}

/// Files of many sizes, synced; the image as it is then, and the volume, still open.
fn fill(path: &Path, options: &Options) -> (Vec<u8>, Volume) {
    let volume = Volume::open_with(path, options).expect("open");
    for n in 0..60u64 {
        volume.write(format!("/f{n}"), contents(n, 1 + (n as usize * 7919) % 200_000)).expect("write");
        if n % 7 == 0 {
            volume.sync().expect("sync");
        }
        if n % 5 == 4 {
            volume.remove_file(format!("/f{}", n - 3)).expect("remove");
        }
    }
    volume.sync().expect("sync");
    (read_sparse(path).expect("the image"), volume)
}

fn must_be_there(volume: &Volume) {
    for n in 0..60u64 {
        let found = volume.read(format!("/f{n}"));
        if n % 5 == 1 {
            assert!(found.is_err(), "/f{n} was removed");
        } else {
            assert!(found.expect("read") == contents(n, 1 + (n as usize * 7919) % 200_000), "/f{n}");
        }
    }
}

#[test]
fn strangers_refuse_a_dirty_image_and_take_a_clean_one() {
    let dir = scratch_dir().expect("scratch");
    for data in [DataMode::Journal, DataMode::Ordered] {
        let path = dir.path().join(format!("{}.img", data.name()));
        Volume::format(&path, &FormatOptions::new().size(96 << 20).data(data)).expect("format");
        let (left, volume) = fill(&path, &Options::default());
        let info = volume.info().expect("info");
        let mount = info.mount.expect("a mount");
        assert_eq!((mount.engine, mount.data), ("compressed", data.name()));
        assert!(info.features.iter().any(|name| name == "ondol_journal"), "{:?}", info.features);
        drop(volume);
        let crashed = dir.path().join("crashed.img");
        write_sparse(&crashed, &left).expect("a copy");
        let refused = image::judge_left(&left).expect("e2fsck").expect("a refusal");
        assert!(refused.is_none(), "e2fsck took what it cannot know");
        if !skips(no_kernel_mount()) {
            assert!(KernelMount::new(&crashed, "").is_err() && KernelMount::new(&crashed, "ro,noload").is_err());
            assert!(read_sparse(&crashed).expect("read") == left, "the kernel wrote to it");
        }
        // Looked at without a byte written, then recovered.
        let reading = Options::default().with_read_only(true);
        let volume = Volume::open_with(&crashed, &reading).expect("open");
        must_be_there(&volume);
        drop(volume);
        assert!(read_sparse(&crashed).expect("read") == left, "a read-only mount wrote");
        let report = ondol::recover(&crashed).expect("recover");
        assert!(report.transactions > 3, "{report:?}");
        let verdict = image::check(&read_sparse(&crashed).expect("read")).expect("e2fsck");
        assert!(verdict.is_clean(), "{}", verdict.output);
        if !skips(no_kernel_mount()) {
            let mount = KernelMount::new(&crashed, "").expect("kernel mount");
            assert!(std::fs::read(mount.dir().join("f59")).expect("read") == contents(59, 1 + (59 * 7919) % 200_000));
            std::fs::write(mount.dir().join("theirs"), contents(3, 70_000)).expect("write");
            mount.close().expect("umount");
        }
        let (mended, after) = image::repair(&read_sparse(&crashed).expect("read")).expect("e2fsck");
        assert_eq!(mended.code, 0, "{}", mended.output);
        write_sparse(&crashed, &after).expect("a copy");
        // What others did to it has not changed what it asks for.
        assert_eq!(engine(&crashed), "compressed");
        let volume = Volume::open_with(&crashed, &Options::default()).expect("open");
        must_be_there(&volume);
        volume.close().expect("close");
    }
}

/// Turn and turn about on one image: the kernel, `classic`, `compressed`; crashed each time, recovered by whoever comes
/// next.
#[test]
fn engines_take_turns() {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("x.img");
    Spec::new(96 << 20, 4096).make_file(&path).expect("mke2fs");
    assert_eq!(engine(&path), "classic");
    let mut expected: Vec<(String, Vec<u8>)> = Vec::new();
    for turn in 0..parameter("ONDOL_TURNS", 12) {
        let journal = if turn % 2 == 0 { COMPRESSED } else { JournalEngine::Classic };
        let data = if turn % 3 == 0 { DataMode::Journal } else { DataMode::Ordered };
        let volume = Volume::open_with(&path, &Options::default().with_journal(journal).with_data(data)).expect("open");
        for (name, bytes) in &expected {
            assert!(volume.read(name).expect("read") == *bytes, "turn {turn}: {name}");
        }
        let (name, bytes) = (format!("/t{}", turn % 5), contents(turn, 1000 + turn as usize * 30_011));
        volume.write(&name, &bytes).expect("write");
        volume.sync().expect("sync");
        expected.retain(|(old, _)| *old != name);
        expected.push((name, bytes));
        let left = read_sparse(&path).expect("the image");
        // Every third turn ends well.
        if turn % 3 == 2 {
            volume.close().expect("close");
            if turn % 2 == 0 && !skips(no_kernel_mount()) {
                KernelMount::new(&path, "").expect("kernel mount").close().expect("umount");
            }
        } else {
            drop(volume);
            write_sparse(&path, &left).expect("the image as a crash left it");
        }
    }
    ondol::recover(&path).expect("recover");
    let verdict = image::check(&read_sparse(&path).expect("read")).expect("e2fsck");
    assert!(verdict.is_clean(), "{}", verdict.output);
}

/// One flush a commit, alone; and device bytes: what is long is written once, what is short is compressed.
#[test]
fn flushes_and_bytes_are_counted() {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("x.img");
    Volume::format(&path, &FormatOptions::new().size(256 << 20)).expect("format");
    let volume = Volume::open_with(&path, &Options::default().with_commit_seconds(1000)).expect("open");
    volume.write("/warm", b"up").expect("write");
    volume.sync().expect("sync");
    let count = || volume.info().expect("info").counters.expect("counters");
    let before = count();
    for n in 0..20u64 {
        volume.write(format!("/s{n}"), contents(2 * n, 4096)).expect("write");
        volume.sync().expect("sync");
    }
    let small = count();
    assert_eq!((small.engine.commits - before.engine.commits, small.device.flushes - before.device.flushes), (20, 20));
    let written = small.device.written_bytes - before.device.written_bytes;
    assert!(written <= 20 * 3 * 4096, "{written} bytes for 20 files of 4 KiB and what names them");
    let noise = contents(1, 8 << 20);
    volume.write("/long", &noise).expect("write");
    volume.sync().expect("sync");
    let long = count();
    let written = long.device.written_bytes - small.device.written_bytes;
    assert!(written < (noise.len() + noise.len() / 8) as u64, "{written} bytes for 8 MiB that do not compress");
    // As units before the commit, or to its place where a flush takes next to nothing.
    assert!(long.engine.staged_blocks >= 2000 || long.engine.images < 1000, "{long:?}");
    volume.close().expect("close");
}

/// Transactions of many megabytes, which several threads compress, over stored bytes; then a crash.
#[test]
fn large_transactions_come_back_whole() {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("x.img");
    Volume::format(&path, &FormatOptions::new().size(512 << 20)).expect("format");
    // A disk's log is compressed wherever it lies.
    let options = Options::parse("commit=1000,device=disk").expect("options");
    let volume = Volume::open_with(&path, &options).expect("open");
    let all = 12 << 20;
    volume.write("/f", vec![0; all]).expect("write");
    volume.sync().expect("sync");
    let file = OpenOptions::new().write(true).open(&volume, "/f").expect("open");
    // Blocks that compress and blocks that do not, in turn.
    let bytes: Vec<u8> = (0..all as u64 / 4096).flat_map(|n| contents(n, 4096)).collect();
    let before = volume.info().expect("info").counters.expect("counters");
    file.write_all_at(&bytes, 0).expect("write");
    volume.sync().expect("sync");
    let after = volume.info().expect("info").counters.expect("counters");
    assert!(after.engine.stored_blocks - before.engine.stored_blocks >= all as u64 / 4096 / 2, "{after:?}");
    let taken = after.engine.compress_out_bytes - before.engine.compress_out_bytes;
    assert!((all as u64 / 2..all as u64 * 6 / 10).contains(&taken), "{taken} of {all} bytes");
    drop(file);
    let left = read_sparse(&path).expect("the image");
    drop(volume);
    write_sparse(&path, &left).expect("the image as a crash left it");
    ondol::recover(&path).expect("recover");
    let volume = Volume::open(&path).expect("open");
    assert!(volume.read("/f").expect("read") == bytes);
    volume.close().expect("close");
}
