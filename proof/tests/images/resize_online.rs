//! A volume grows while it is used: in every engine, beside threads that write, through a file that is made longer; and
//! with the power failing anywhere.
#![allow(clippy::disallowed_methods, reason = "real threads run in real time")]

use ondol::{FormatOptions, JournalEngine, NewSize, Options, Volume, check_media};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_stores::Recorder;
use ondol_testkit::image::{self, Spec, scratch_dir};
use ondol_volume::Image;
use std::path::Path;
use std::thread;

const MIB: u64 = 1 << 20;

fn blocks(bytes: &[u8]) -> u64 {
    Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image").superblock().blocks_count()
}

/// An image on a medium that is longer.
fn made(spec: &Spec, size: u64) -> Vec<u8> {
    let mut bytes = spec.make().expect("mke2fs");
    bytes.resize(size as usize, 0);
    bytes
}

fn must_be_clean(path: &Path, what: &str) {
    let verdict = image::check(&std::fs::read(path).expect("read")).expect("e2fsck");
    assert!(verdict.is_clean(), "{what}: {}", verdict.output);
    let found = ondol::check(path).expect("a check");
    assert!(found.is_clean() && found.notes.is_empty(), "{what}: {:?} {:?}", found.problems, found.notes);
}

/// Fills what there is to the last block, so that all that was added is used.
fn fill(volume: &Volume, name: &str) -> u64 {
    let mut n = 0;
    while volume.write(format!("/{name}{n:04}"), vec![n as u8; 100_000]).is_ok() {
        n += 1;
    }
    n
}

#[test]
fn volumes_grow_in_use() {
    for engine in [JournalEngine::Classic, JournalEngine::Compressed] {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        let what = engine.name();
        Spec::new(16 * MIB, 1024).journal(2).with("-N 2048").make_file(&path).expect("mke2fs");
        let options = Options::default().with_journal(engine);
        let volume = Volume::open_with(&path, &options).expect("open");
        let first = fill(&volume, "a");
        let [before, files] = [volume.statfs().blocks, volume.statfs().files];
        let done = volume.resize(Some(60 * MIB)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(done.blocks, 60 << 10, "{what}");
        assert!(volume.statfs().blocks > before && volume.statfs().files > files, "{what}");
        let second = fill(&volume, "b");
        assert!(second > 3 * first, "{what}: {first} files, then {second}");
        volume.sync().expect("sync");
        volume.close().expect("close");
        must_be_clean(&path, what);
        let volume = Volume::open_with(&path, &options).expect("open");
        (0..first).for_each(|n| assert_eq!(volume.read(format!("/a{n:04}")).expect("read"), vec![n as u8; 100_000]));
        (0..second).for_each(|n| assert_eq!(volume.read(format!("/b{n:04}")).expect("read"), vec![n as u8; 100_000]));
        volume.close().expect("close");
    }
}

/// Records are recovered by descriptors, which must be home.
#[test]
fn an_engine_of_records_grows_out_of_use_alone() {
    let dir = scratch_dir().expect("scratch");
    let (path, pool) = (dir.path().join("image"), dir.path().join("pool"));
    Spec::new(16 * MIB, 4096).make_file(&path).expect("mke2fs");
    drop(ondol::pool::create(&pool, &ondol::pool::CreateOptions::new().size(16 * MIB)).expect("a pool"));
    let options = Options::parse(&format!("nvm={}", pool.display())).expect("options");
    let volume = Volume::open_with(&path, &options).expect("open");
    volume.write("/f", b"kept").expect("write");
    let refused = volume.resize(Some(60 * MIB)).expect_err("a refusal");
    assert_eq!(refused.errno(), rustix::io::Errno::OPNOTSUPP.raw_os_error(), "{refused}");
    volume.write("/g", b"goes on").expect("write");
    volume.close().expect("close");
    ondol::resize(&path, NewSize::Bytes(60 * MIB)).expect("a larger volume");
    must_be_clean(&path, "a larger volume");
    let volume = Volume::open_with(&path, &options).expect("open");
    assert_eq!(volume.read("/f").expect("read"), b"kept");
    volume.write("/h", vec![1; 30 << 20]).expect("all of it");
    volume.close().expect("close");
    must_be_clean(&path, "used as before");
}

#[test]
fn images_in_pools_change_within_their_table() {
    for engine in [JournalEngine::Remap, JournalEngine::Swap] {
        let dir = scratch_dir().expect("scratch");
        let pool = dir.path().join("pool");
        let target = std::path::PathBuf::from(format!("nvm:{}", pool.display()));
        Volume::format(&target, &FormatOptions::new().size(192 * MIB).journal(engine)).expect("format");
        let volume = Volume::open(&target).expect("open");
        volume.write("/f", vec![3; 3 << 20]).expect("write");
        assert!(volume.resize(Some(1 << 30)).is_err(), "the table has no more");
        volume.close().expect("close");
        let shrunk = ondol::resize(&target, NewSize::Bytes(64 * MIB)).expect("a smaller volume");
        assert_eq!(shrunk.blocks, 64 * MIB / 4096);
        if engine == JournalEngine::Remap {
            let grown = ondol::resize(&target, NewSize::Whole).expect("all of the table");
            assert_eq!(grown.blocks, 192 * MIB / 4096);
        }
        let volume = Volume::open(&target).expect("open");
        if engine == JournalEngine::Swap {
            let grown = volume.resize(None).expect("all of the table");
            assert_eq!(grown.blocks, 192 * MIB / 4096);
        }
        let n = fill(&volume, "b");
        assert!(n as u64 * 100_000 > 100 * MIB, "{n} files");
        assert_eq!(volume.read("/f").expect("read"), vec![3; 3 << 20]);
        volume.close().expect("close");
        let found = ondol::check(&target).expect("a check");
        assert!(found.is_clean(), "{:?}", found.problems);
    }
}

#[test]
fn threads_write_while_it_grows() {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    Spec::new(24 * MIB, 1024).journal(4).with("-g 1024 -O ^resize_inode").make_file(&path).expect("mke2fs");
    let volume = Volume::open_with(&path, &Options::default()).expect("open");
    thread::scope(|scope| {
        for t in 0..3u8 {
            let volume = &volume;
            scope.spawn(move || {
                volume.create_dir(format!("/t{t}")).expect("mkdir");
                for n in 0..250usize {
                    volume.write(format!("/t{t}/f{n}"), vec![t ^ n as u8; 1 + n * 100]).expect("write");
                    if n % 3 == 0 {
                        volume.remove_file(format!("/t{t}/f{}", n / 2)).ok();
                    }
                    if n % 20 == 0 {
                        volume.sync().expect("sync");
                    }
                }
            });
        }
        for mib in (25..60).step_by(5) {
            volume.resize(Some(mib * MIB)).expect("a larger volume");
        }
    });
    let free = volume.statfs().free;
    volume.close().expect("close");
    must_be_clean(&path, "threads");
    let volume = Volume::open(&path).expect("open");
    assert_eq!(volume.statfs().free, free, "the free count");
    for t in 0..3u8 {
        for n in 0..250usize {
            if let Ok(bytes) = volume.read(format!("/t{t}/f{n}")) {
                assert_eq!(bytes, vec![t ^ n as u8; 1 + n * 100]);
            }
        }
    }
    volume.close().expect("close");
}

#[test]
fn what_cannot_be_in_use_is_refused() {
    let store = Arc::new(RamStore::from_bytes(made(&Spec::new(16 * MIB, 1024).journal(2), 16 * MIB)));
    let volume = Volume::open_stepped(store, &Options::default(), image::clock(1)).expect("open");
    let errno = |bytes| volume.resize(Some(bytes)).expect_err("a refusal").errno();
    assert_eq!(errno(8 * MIB), rustix::io::Errno::INVAL.raw_os_error());
    assert_eq!(errno(32 * MIB), rustix::io::Errno::NOSPC.raw_os_error());
    let before = volume.statfs().blocks;
    volume.resize(None).expect("nothing to do");
    assert_eq!(volume.statfs().blocks, before);
}

/// What is done, with a step between syncs, and what must be there after each sync.
fn work(volume: &Volume, to: u64) -> ondol::Result<()> {
    volume.write("/kept", vec![1; 50_000])?;
    volume.sync()?;
    volume.write("/late", vec![2; 30_000])?;
    volume.remove_file("/old")?;
    volume.resize(Some(to))?;
    for n in 0..20 {
        volume.write(format!("/n{n}"), vec![n; 90_000])?;
    }
    volume.sync()?;
    volume.write("/kept", vec![3; 40_000])?;
    volume.sync()
}

#[test]
fn power_may_fail_anywhere_while_it_grows() {
    for (i, (args, from, to)) in [
        ("", 10, 22),
        ("-O ^resize_inode,^64bit,^metadata_csum -g 256 -G 1", 8, 11),
        ("-O ^flex_bg -g 512 -E resize=65536", 7, 10),
    ]
    .into_iter()
    .enumerate()
    {
        for engine in [JournalEngine::Classic, JournalEngine::Compressed] {
            let what = format!("{args}, {}", engine.name());
            let bytes = made(&Spec::new(from * MIB, 1024).journal(1).with("-N 512").with(args), to * MIB);
            let store = Arc::new(RamStore::from_bytes(bytes));
            let options = Options::default().with_journal(engine);
            let open =
                |store: Arc<dyn BlockStore>| Volume::open_stepped(store, &options, image::clock(1)).expect("open");
            let volume = open(store.clone());
            volume.write("/old", vec![9; 20_000]).expect("write");
            volume.close().expect("close");
            let bytes = store.to_bytes();
            let domain = PowerDomain::new();
            let recorder = Arc::new(Recorder::new(RamStore::from_bytes(bytes.clone()), 0, domain.clone()));
            let volume = open(recorder);
            work(&volume, to * MIB).unwrap_or_else(|e| panic!("{what}: {e}"));
            volume.close().expect("close");
            let media = [Medium { base: Layer::new(bytes.clone()), kind: Kind::Block, whole: Some(1024..2048) }];
            let sampling = Sampling { all_of: 16, samples: 3, torn: 3, extremes: 3, one_of: 2, seed: i as u64 };
            let (mut n, mut sizes, before) = (0, Vec::new(), blocks(&bytes));
            let states = sampling.each(&media, &domain.take(), |layers, _| {
                n += 1;
                let store = Arc::new(RamStore::from_bytes(layers[0].to_bytes()));
                let volume = open(store.clone());
                let kept = volume.read("/kept").unwrap_or_default();
                let known = [(50_000, 1), (40_000, 3)].iter().any(|&(len, byte)| kept == vec![byte; len]);
                let sofar = blocks(&store.to_bytes());
                // Growing comes after the first sync.
                assert!(known || sofar == before, "{what}, state {n}: {} bytes", kept.len());
                assert!(
                    volume.exists("/old").expect("a look") || sofar > before || volume.exists("/late").expect("a look")
                );
                volume.write("/more", vec![5; 400_000]).expect("write");
                volume.close().expect("close");
                let shared: Arc<dyn BlockStore> = store.clone();
                let found = check_media(&shared).expect("a check");
                assert!(
                    found.is_clean() && found.notes.is_empty(),
                    "{what}, state {n}: {:?} {:?}",
                    found.problems,
                    found.notes
                );
                if n % 32 == 0 {
                    let verdict = image::check(&store.to_bytes()).expect("e2fsck");
                    assert!(verdict.is_clean(), "{what}, state {n}: {}", verdict.output);
                }
                sizes.push(blocks(&store.to_bytes()));
            });
            sizes.sort_unstable();
            sizes.dedup();
            assert!(states > 100 && sizes.len() > 1, "{what}: {states} states, {sizes:?}");
        }
    }
}
