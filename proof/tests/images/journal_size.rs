//! `ondol tune --journal-size` and `journal_size=`: the journal gets another size, the volume keeps what it holds, and
//! every ext4 program takes it; cut short anywhere, the image has the old journal or the new one, and nothing is lost
//! or left over.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use ondol::{Options, Tune, Volume, check_media, tune_store};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_skips::skips;
use ondol_stores::{FaultPlan, Faulty, Recorder};
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, KernelMount, Spec, debugfs, scratch_dir, write_sparse};
use ondol_tests::no_kernel_mount;
use ondol_volume::Image;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn sized(bytes: u64) -> Tune {
    Tune { journal_size: Some(bytes), ..Tune::default() }
}

/// A volume with things in it: its bytes and what it shows.
fn filled(spec: &Spec) -> (Vec<u8>, Snapshot) {
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.create_dir("/d").expect("mkdir");
    for n in 0..12usize {
        volume.write(format!("/d/f{n}"), vec![n as u8 + 1; 1 + n * 3_777]).expect("write");
    }
    for n in (0..12).step_by(3) {
        volume.remove_file(format!("/d/f{n}")).expect("remove");
    }
    volume.symlink("d/f1", "/s").expect("symlink");
    let seen = dump::of_volume(volume.inodes()).expect("a dump");
    volume.close().expect("close");
    (store.to_bytes(), seen)
}

fn must_show(store: &Arc<RamStore>, want: &Snapshot, what: &str) {
    let reading = Options::default().with_read_only(true);
    let volume = Volume::open_stepped(store.clone(), &reading, image::clock(1)).expect("open");
    let lines = want.differences(&dump::of_volume(volume.inodes()).expect("a dump"), Strictness::Whole);
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}

fn must_be_clean(bytes: &[u8], what: &str) {
    let verdict = image::check(bytes).expect("e2fsck");
    assert!(verdict.is_clean(), "{what}: {}", verdict.output);
}

/// Blocks of the journal, of a block size that is known.
fn journal_blocks(bytes: &[u8]) -> u64 {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    image.journal_map().expect("a journal").iter().map(|run| run.1).sum()
}

fn free_blocks(bytes: &[u8]) -> u64 {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    assert!(!image.needs_recovery());
    image.free_counts().expect("descriptors").0
}

/// What debugfs, the kernel and we make of an image with a journal of this size.
fn others_take_it(bytes: &[u8], size: u64, what: &str) {
    must_be_clean(bytes, what);
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    write_sparse(&path, bytes).expect("write");
    let stat = debugfs(&path, "stat <8>").expect("debugfs");
    assert!(stat.contains(&format!("Size: {size}")), "{what}: {stat}");
    let said = ondol::info(&path).expect("info").journal.expect("a journal");
    assert_eq!(u64::from(said.blocks), journal_blocks(bytes), "{what}");
    must_know_its_journal(bytes, what);
    if !skips(no_kernel_mount()) {
        let mount = KernelMount::new(&path, "").unwrap_or_else(|e| panic!("{what}: {e}"));
        (0..40).for_each(|n| std::fs::write(mount.dir().join(format!("k{n}")), vec![n; 30_000]).expect("write"));
        mount.close().expect("umount");
        must_be_clean(&std::fs::read(&path).expect("read"), &format!("{what}, after the kernel"));
    }
}

/// The superblock and its copies have the journal's inode as it is.
fn must_know_its_journal(bytes: &[u8], what: &str) {
    let store = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let image = Image::open(store.clone()).expect("an image");
    let known = image.superblock().raw().jnl_blocks();
    for (group, block) in image.superblock().backups() {
        let copy = Image::open_copy(store.clone(), block * u64::from(image.superblock().block_size()));
        assert_eq!(copy.expect("a copy").superblock().raw().jnl_blocks(), known, "{what}: the copy in group {group}");
    }
    // Without the inode, they lead to the same blocks.
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    write_sparse(&path, bytes).expect("write");
    ondol_testkit::image::run("debugfs", ["-w", "-R", "clri <8>"].map(Path::new).into_iter().chain([path.as_path()]))
        .expect("debugfs");
    let lost = std::fs::read(&path).expect("read");
    let found = Image::open(Arc::new(RamStore::from_bytes(lost))).expect("an image").journal_map();
    assert_eq!(found.expect("the journal by its copy"), image.journal_map().expect("a journal"), "{what}");
}

#[test]
fn journals_grow_and_shrink() {
    let specs = [
        Spec::new(64 << 20, 1024).journal(4),
        Spec::new(96 << 20, 4096).journal(8),
        Spec::new(96 << 20, 4096).journal(8).with("-O ^metadata_csum"),
        Spec::new(64 << 20, 1024).journal(4).with("-O ^extent,^64bit,^flex_bg"),
        Spec::new(64 << 20, 2048).journal(4).with("-O orphan_file,inline_data -I 512"),
        Spec::new(64 << 20, 1024).journal(4).with("-O fast_commit"),
        Spec::new(256 << 20, 4096).journal(8).with("-O bigalloc -C 16384"),
    ];
    for spec in specs {
        let (bytes, seen) = filled(&spec);
        let block_size = u64::from(spec.block_size);
        let store = Arc::new(RamStore::from_bytes(bytes));
        for size in [12 * MIB, 6 * MIB + 64 * 1024, 9 * MIB] {
            let what = format!("{} {:?}, {size}", spec.block_size, spec.args);
            let before = store.to_bytes();
            tune_store(store.clone(), &sized(size), image::clock(2)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let after = store.to_bytes();
            assert_eq!(journal_blocks(&after), size / block_size, "{what}");
            // All of the old one is free, with what led to it.
            let (gone, made) = (journal_blocks(&before), size / block_size);
            let free = (free_blocks(&before) + gone) as i64 - made as i64;
            assert!(
                (free - free_blocks(&after) as i64).abs() <= 2 + made as i64 / 128,
                "{what}: {free} {}",
                free_blocks(&after)
            );
            must_show(&store, &seen, &what);
            others_take_it(&after, size, &what);
            // Nothing is left to do.
            tune_store(store.clone(), &sized(size), image::clock(2)).expect("the same size");
            assert!(store.to_bytes() == after, "{what}: the same size changes something");
        }
    }
}

/// Trees of the old and the new journal that do not fit into their inodes.
#[test]
fn journals_in_many_pieces_change_places() {
    let spec = Spec::new(48 << 20, 1024).journal(4).with("-N 4096");
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    for n in 0.. {
        if volume.write(format!("/f{n:05}"), vec![1; 16 << 10]).is_err() {
            (0..n).step_by(2).for_each(|n| volume.remove_file(format!("/f{n:05}")).expect("remove"));
            break;
        }
    }
    volume.close().expect("close");
    for size in [5 * MIB, 6 * MIB, 2 * MIB] {
        tune_store(store.clone(), &sized(size), image::clock(2)).expect("tune");
        let bytes = store.to_bytes();
        let image = Image::open(Arc::new(RamStore::from_bytes(bytes.clone()))).expect("an image");
        assert!(image.journal_map().expect("a journal").len() > 4, "one that fits into its inode proves nothing");
        others_take_it(&bytes, size, &format!("{size} in pieces"));
    }
}

#[test]
fn a_mount_gives_the_journal_its_size() {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("x.img");
    Volume::format(&path, &ondol::FormatOptions::new().size(96 << 20)).expect("format");
    let volume = Volume::open(&path).expect("open");
    volume.write("/f", b"kept").expect("write");
    volume.close().expect("close");
    for size in [8 * MIB, 20 * MIB] {
        let options = Options::parse(&format!("journal_size={}M", size / MIB)).expect("an option");
        let volume = Volume::open_with(&path, &options).expect("open");
        let info = volume.info().expect("info");
        // It asks for what it asked for before.
        assert_eq!(info.mount.expect("a mount").engine, "compressed");
        assert_eq!(u64::from(info.journal.expect("a journal").blocks), size / u64::from(info.block_size));
        assert_eq!(volume.read("/f").expect("read"), b"kept");
        volume.write("/g", vec![3; 3 << 20]).expect("write");
        volume.close().expect("close");
        must_be_clean(&std::fs::read(&path).expect("read"), "after the mount");
    }
    let options = Options::parse("ro,journal_size=8M").expect("options");
    let before = std::fs::read(&path).expect("read");
    let volume = Volume::open_with(&path, &options).expect("open");
    let info = volume.info().expect("info");
    assert_eq!(u64::from(info.journal.expect("a journal").blocks), 20 * MIB / u64::from(info.block_size));
    volume.close().expect("close");
    assert!(std::fs::read(&path).expect("read") == before, "a read-only mount wrote");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let (bytes, seen) = filled(&Spec::new(32 << 20, 1024).journal(4));
    let refused = |bytes: &[u8], size: u64| {
        let store = Arc::new(RamStore::from_bytes(bytes.to_vec()));
        let said = tune_store(store.clone(), &sized(size), image::clock(2)).expect_err("a refusal").to_string();
        (said, store)
    };
    let (said, store) = refused(&bytes, MIB - 1);
    assert!(said.contains("1023 blocks: the least is 1024"), "{said}");
    assert!(store.to_bytes() == bytes);
    let (said, store) = refused(&bytes, 20 * MIB);
    assert!(said.contains("more than half"), "{said}");
    must_be_clean(&store.to_bytes(), "refused");
    must_show(&store, &seen, "refused");
    assert_eq!(journal_blocks(&store.to_bytes()), 4096);
    let store = Arc::new(RamStore::from_bytes(bytes.clone()));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.write("/late", b"!").expect("write");
    volume.sync().expect("sync");
    drop(volume);
    let (said, _) = refused(&store.to_bytes(), 2 * MIB);
    assert!(said.contains("recover it first"), "{said}");
    let (said, _) = refused(&Spec::new(32 << 20, 1024).with("-O ^has_journal").make().expect("mke2fs"), 2 * MIB);
    assert!(said.contains("no journal of its own"), "{said}");
    let options = Options::default().with_journal_size(1000);
    let said = Volume::open_stepped(store, &options, image::clock(1)).expect_err("a refusal").to_string();
    assert!(said.contains("the least is 1024"), "{said}");
}

/// What an image cut short comes to: clean, with one of the two sizes, what it held, and no block more in use.
fn finished(bytes: Vec<u8>, sizes: [(u64, u64); 2], seen: &Snapshot, what: &str) -> Arc<RamStore> {
    let store = Arc::new(RamStore::from_bytes(bytes));
    let opened = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1));
    opened.unwrap_or_else(|e| panic!("{what}: {e}")).close().expect("close");
    let after = store.to_bytes();
    let found = (journal_blocks(&after), free_blocks(&after));
    assert!(sizes.contains(&found), "{what}: {found:?} blocks of the journal and free ones, not {sizes:?}");
    must_show(&store, seen, what);
    store
}

/// The sizes of the journal before and after, each with the free blocks that go with it.
fn expected(bytes: &[u8], tune: &Tune) -> [(u64, u64); 2] {
    let store = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    tune_store(store.clone(), tune, image::clock(2)).expect("tune");
    let after = store.to_bytes();
    [(journal_blocks(bytes), free_blocks(bytes)), (journal_blocks(&after), free_blocks(&after))]
}

#[test]
fn every_write_may_be_the_last() {
    for (spec, size) in [
        (Spec::small(), 1500 * 1024),
        (Spec::new(24 << 20, 4096).journal(6).with("-N 256"), 4 * MIB),
        (Spec::new(12 << 20, 1024).journal(2).with("-N 256 -O ^metadata_csum,^extent,^64bit"), 1100 * 1024),
    ] {
        let (bytes, seen) = filled(&spec);
        let sizes = expected(&bytes, &sized(size));
        let mut reached = [false; 2];
        for writes in 0.. {
            let faulty = Arc::new(Faulty::new(RamStore::from_bytes(bytes.clone())));
            faulty.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
            let store: Arc<dyn BlockStore> = faulty.clone();
            let done = tune_store(store, &sized(size), image::clock(2)).is_ok();
            let what = format!("{} {size}, {writes} writes", spec.block_size);
            let after = finished(faulty.inner().to_bytes(), sizes, &seen, &what).to_bytes();
            must_be_clean(&after, &what);
            reached[usize::from(journal_blocks(&after) == sizes[1].0)] = true;
            if done {
                assert!(writes > 20, "{what}: nothing was cut short");
                break;
            }
        }
        assert_eq!(reached, [true; 2]);
    }
}

/// Power fails anywhere, with any part of what was on its way; and then again while that is recovered.
#[test]
fn power_may_fail_anywhere() {
    let (bytes, seen) = filled(&Spec::small());
    let tune = sized(1500 * 1024);
    let sizes = expected(&bytes, &tune);
    let sampling = Sampling { all_of: 128, samples: 24, torn: 24, extremes: 24, one_of: 1, seed: 5 };
    let record = |bytes: &[u8], run: &dyn Fn(Arc<dyn BlockStore>)| {
        let domain = PowerDomain::new();
        run(Arc::new(Recorder::new(RamStore::from_bytes(bytes.to_vec()), 0, domain.clone())));
        ([Medium { base: Layer::new(bytes.to_vec()), kind: Kind::Block, whole: Some(1024..2048) }], domain.take())
    };
    let (media, events) = record(&bytes, &|store| tune_store(store, &tune, image::clock(2)).expect("tune"));
    let (mut twice, mut n, mut reached) = (0, 0, [false; 2]);
    let states = sampling.each(&media, &events, |layers, _| {
        n += 1;
        let left = layers[0].to_bytes();
        let store = finished(left.clone(), sizes, &seen, &format!("state {n}"));
        reached[usize::from(journal_blocks(&store.to_bytes()) == sizes[1].0)] = true;
        let store: Arc<dyn BlockStore> = store;
        let found = check_media(&store).expect("a check");
        assert!(found.is_clean(), "state {n}: {:?}", found.problems);
        let refused = image_is_guarded(&left);
        // Where logs are to be replayed, cut that short, too.
        if refused && n % 4 == 0 {
            let open = |store| Volume::open_stepped(store, &Options::default(), image::clock(1)).expect("open").close();
            let (media, events) = record(&left, &|store| open(store).expect("close"));
            let few = Sampling { all_of: 4, samples: 1, torn: 1, extremes: 2, one_of: 1, seed: n };
            twice += few.each(&media, &events, |layers, _| {
                finished(layers[0].to_bytes(), sizes, &seen, &format!("state {n}, again"));
            });
        }
    });
    assert!(states > 100 && twice > 100 && reached == [true; 2], "{states} states, {twice} of recovery");
}

/// Nobody but Ondol takes it as it is.
fn image_is_guarded(bytes: &[u8]) -> bool {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    image.superblock().has_incompat(ondol_format::Incompat::ONDOL_JOURNAL)
}
