//! Journals of fewer blocks than jbd2 writes to: what lies in them is replayed and read, nothing is written with them,
//! and another size mends them.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use ondol::{Options, Remedy, Tune, Volume, tune_store};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::jbd2::JournalSuperblock;
use ondol_skips::skips;
use ondol_stores::{FaultPlan, Faulty};
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, KernelMount, Spec, scratch_dir, write_sparse};
use ondol_tests::no_kernel_mount;
use ondol_volume::Image;

const JOURNAL: u64 = 4 << 20;

/// An image whose journal is `blocks` blocks long by its own superblock, and what it shows. Where it `is_dirty` the log
/// holds transactions.
fn shortened(blocks: u32, is_dirty: bool) -> (Vec<u8>, Snapshot) {
    let store = Arc::new(RamStore::from_bytes(Spec::new(24 << 20, 1024).journal(4).make().expect("mke2fs")));
    let at = Image::open(store.clone()).expect("an image").journal_map().expect("a journal")[0].0 * 1024;
    let superblock = || {
        let mut bytes = vec![0; 1024];
        store.read(at, &mut bytes).expect("read");
        JournalSuperblock::parse(&bytes, 1024, JOURNAL / 1024).expect("a superblock")
    };
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.write("/first", b"first").expect("write");
    volume.sync().expect("sync");
    volume.write("/second", b"second").expect("write");
    volume.sync().expect("sync");
    let seen = dump::of_volume(volume.inodes()).expect("a dump");
    if is_dirty {
        drop(volume);
    } else {
        volume.close().expect("close");
    }
    let now = superblock();
    let mut short = now.resized(blocks);
    short.set_start(now.start(), now.sequence());
    assert_eq!(now.start().is_some(), is_dirty);
    store.write(at, &short.encode()).expect("write");
    (store.to_bytes(), seen)
}

fn ram(bytes: &[u8]) -> Arc<RamStore> {
    Arc::new(RamStore::from_bytes(bytes.to_vec()))
}

fn open(store: Arc<dyn BlockStore>) -> ondol::Result<Volume> {
    Volume::open_stepped(store, &Options::default(), image::clock(2))
}

fn must_show(store: &Arc<RamStore>, want: &Snapshot, what: &str) {
    let volume = Volume::open_stepped(store.clone(), &Options::default().with_read_only(true), image::clock(2));
    let volume = volume.unwrap_or_else(|e| panic!("{what}: {e}"));
    let lines = want.differences(&dump::of_volume(volume.inodes()).expect("a dump"), Strictness::Whole);
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}

fn is_too_short(e: &ondol::Error) -> bool {
    matches!(e.remedy(), Some(Remedy::LongerJournal { .. })) && e.to_string().contains("the least is 1024")
}

fn sized(bytes: u64) -> Tune {
    Tune { journal_size: Some(bytes), ..Tune::default() }
}

/// What has been mended takes changes, and e2fsck and the kernel take it.
fn must_be_whole(store: &Arc<RamStore>, seen: &Snapshot, what: &str) {
    must_show(store, seen, what);
    let volume = open(store.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
    (0..40).for_each(|n| volume.write(format!("/f{n}"), vec![n; 50_000]).expect("write"));
    volume.close().expect("close");
    let verdict = image::check(&store.to_bytes()).expect("e2fsck");
    assert!(verdict.is_clean(), "{what}: {}", verdict.output);
    if !skips(no_kernel_mount()) {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        write_sparse(&path, &store.to_bytes()).expect("write");
        KernelMount::new(&path, "").unwrap_or_else(|e| panic!("{what}: {e}")).close().expect("umount");
    }
}

#[test]
fn a_short_journal_is_read_and_made_longer() {
    // Of the transactions of a dirty one, all must lie in it.
    for (blocks, is_dirty) in
        [(2, false), (5, false), (8, false), (11, false), (1023, false), (300, true), (1023, true)]
    {
        let what = format!("{blocks} blocks, dirty: {is_dirty}");
        let (bytes, seen) = shortened(blocks, is_dirty);
        must_show(&ram(&bytes), &seen, &what);
        let store = ram(&bytes);
        let refused = open(store.clone()).expect_err("a refusal");
        assert!(is_too_short(&refused), "{what}: {refused}");
        // What it held is in its place then.
        must_show(&store, &seen, &what);
        assert!(is_dirty || store.to_bytes() == bytes, "{what}: a refusal changes something");
        ondol::recover_media(&(store.clone() as Arc<dyn BlockStore>)).unwrap_or_else(|e| panic!("{what}: {e}"));
        for size in [JOURNAL, 2 << 20] {
            let store = ram(&store.to_bytes());
            tune_store(store.clone(), &sized(size), image::clock(2)).unwrap_or_else(|e| panic!("{what}: {e}"));
            must_be_whole(&store, &seen, &format!("{what}, then {size} bytes"));
        }
        // A mount that asks for a size does it too, whatever is in the log.
        let store = ram(&bytes);
        let options = Options::parse("journal_size=4M").expect("an option");
        let volume = Volume::open_stepped(store.clone(), &options, image::clock(2));
        volume.unwrap_or_else(|e| panic!("{what}: {e}")).close().expect("close");
        must_be_whole(&store, &seen, &format!("{what}, then mounted"));
    }
    let (bytes, seen) = shortened(1024, false);
    must_be_whole(&ram(&bytes), &seen, "1024 blocks");
}

/// Cut short at any write, it is as it was or mended, and shows what it held.
#[test]
fn every_write_of_the_mending_may_be_the_last() {
    let (bytes, seen) = shortened(8, false);
    let mut left_short = 0;
    for writes in 0.. {
        let faulty = Arc::new(Faulty::new(RamStore::from_bytes(bytes.clone())));
        faulty.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
        let is_done = tune_store(faulty.clone(), &sized(JOURNAL), image::clock(2)).is_ok();
        let what = format!("{writes} writes");
        let store = ram(&faulty.inner().to_bytes());
        must_show(&store, &seen, &what);
        if let Err(e) = open(store.clone()).and_then(|volume| volume.close()) {
            assert!(is_too_short(&e) && !is_done, "{what}: {e}");
            left_short += 1;
            tune_store(store.clone(), &sized(JOURNAL), image::clock(2)).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        must_be_whole(&store, &seen, &what);
        if is_done {
            break;
        }
    }
    assert!(left_short > 10, "{left_short}: nothing was cut short");
}
