//! Transactions by path, and the example of them.

use ondol::pool::CreateOptions;
use ondol::{Access, Error, FormatOptions, JournalEngine, OpenOptions, Rename, SetXattr, Volume};
use ondol_block::FileStore;
use ondol_env::System;
use ondol_env::sync::Arc;
use ondol_testkit::over_setups;
use ondol_testkit::rig::Setup;
use std::panic::AssertUnwindSafe;
use std::path::Path;

#[path = "../../crates/ondol/examples/config_swap.rs"]
mod config_swap;

over_setups! {
    every_kind_of_step_by_path,
    an_error_of_the_closure_or_of_a_step_leaves_everything,
    an_open_file_outlives_the_transaction_that_removes_it,
    calls_of_the_volume_within_the_closure_are_refused,
}

fn volume(dir: &Path) -> Volume {
    let (setup, pool) = (Setup::current(), dir.join("pool"));
    let mut options = setup.options();
    let mut image = dir.join("image");
    if setup.lies_in_pool() {
        ondol::pool::create(&pool, &CreateOptions::new().size(80 << 20)).expect("a pool");
        image = format!("nvm:{}", pool.display()).into();
    } else if setup.has_pool() {
        ondol::pool::create(&pool, &CreateOptions::new().size(64 << 20)).expect("a pool");
        options = options.with_nvm(&pool);
    }
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).expect("an image");
    if options.journal() == Some(JournalEngine::Batch) {
        // No file takes batches.
        let store = FileStore::open(&image, Access::Write).expect("a store");
        return Volume::open_media(setup.media(Arc::new(store)), &options, Arc::new(System)).expect("a volume");
    }
    Volume::open_with(&image, &options).expect("a volume")
}

fn errno(result: Result<(), Error>) -> (i32, String) {
    let e = result.expect_err("a refusal");
    (e.errno(), e.to_string())
}

const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EINVAL: i32 = 22;

#[test]
fn the_example_swaps_a_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    config_swap::run(dir.path()).expect("the example");
    let volume = Volume::open(dir.path().join("service.img")).expect("its volume");
    let names: Vec<_> =
        volume.read_dir("/etc/service").expect("a listing").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(volume.read("/etc/service/main.conf").expect("a file"), b"version = 2\nworkers = 8\n");
    assert_eq!(volume.read("/etc/service/routes.conf").expect("a file"), b"/ -> pool\n");
    volume.close().expect("a clean image");
}

fn every_kind_of_step_by_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let v = volume(dir.path());
    v.write("/old", b"old").expect("a file");
    let made = v.transaction(|tx| {
        tx.create_dir("d").create_dir("/d/e/").create("/d/e/../f");
        tx.write_at("/d/f", b"cdef", 2).append("/d/f", b"gh").set_len("/d/f", 7);
        tx.write("/old", b"new").hard_link("/old", "/d/link").symlink("../old", "/d/soft");
        tx.set_permissions("/old", 0o600).set_xattr("/old", "user.a", b"1", SetXattr::Create);
        tx.set_xattr("/d", "user.b", b"2", SetXattr::Any).remove_xattr("/d", "user.b");
        tx.rename("/d/f", "/g").rename_with("/g", "/old", Rename::Exchange).remove_dir("/d/e");
        Ok(7)
    });
    assert_eq!(made.expect("a transaction"), 7);
    assert_eq!(v.read("/old").expect("a file"), b"\0\0cdefg");
    assert_eq!(v.read("/g").expect("a file"), b"new");
    let g = v.metadata("/g").expect("attributes");
    assert_eq!((g.nlink(), g.permissions()), (2, 0o600));
    assert_eq!(v.metadata("/d/link").expect("attributes").ino(), g.ino());
    assert_eq!(v.read_link("/d/soft").expect("a link"), Path::new("../old"));
    assert_eq!(v.inodes().xattrs().listxattr(g.ino()).expect("attributes"), [b"user.a"]);
    assert!(!v.exists("/d/e").expect("an answer"));
    v.close().expect("a clean image");
}

fn an_error_of_the_closure_or_of_a_step_leaves_everything() {
    let dir = tempfile::tempdir().expect("a directory");
    let v = volume(dir.path());
    v.write("/f", b"as it was").expect("a file");
    v.symlink("f", "/link").expect("a link");
    let missing = v.read("/missing").map(drop);
    let abandoned = v.transaction(|tx| {
        tx.remove_file("/f");
        missing
    });
    assert_eq!(errno(abandoned).0, ENOENT);
    let (number, text) = errno(v.transaction(|tx| {
        tx.write("/f", b"x").remove_file("/missing/g");
        Ok(())
    }));
    assert_eq!(number, ENOENT);
    assert!(text.starts_with("/missing/g: "), "{text}");
    let (number, text) = errno(v.transaction(|tx| {
        tx.write("/f", b"x").write("/link", b"y");
        Ok(())
    }));
    assert_eq!((number, text.starts_with("/link: ")), (EINVAL, true), "{text}");
    // Where data goes through the journal, or waits for its commit in memory, one transaction takes only so much of it.
    if Setup::current().journals_data() || Setup::current().takes_overwrites() {
        let (number, text) = errno(v.transaction(|tx| {
            tx.write("/f", vec![1; 32 << 20]);
            Ok(())
        }));
        assert_eq!(number, E2BIG, "{text}");
    }
    assert_eq!(v.read("/f").expect("a file"), b"as it was");
    v.close().expect("a clean image");
}

fn an_open_file_outlives_the_transaction_that_removes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let v = volume(dir.path());
    v.write("/f", b"still here").expect("a file");
    let free = v.statfs().files_free;
    let file = v.open_file("/f").expect("an open file");
    v.transaction(|tx| {
        tx.remove_file("/f");
        Ok(())
    })
    .expect("a transaction");
    let mut buf = [0; 10];
    assert_eq!(file.read_at(&mut buf, 0).expect("bytes"), 10);
    assert_eq!(&buf, b"still here");
    drop(file);
    assert_eq!(v.statfs().files_free, free + 1);
    v.close().expect("a clean image");
}

fn calls_of_the_volume_within_the_closure_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let v = volume(dir.path());
    v.write("/f", b"as it was").expect("a file");
    let file = OpenOptions::new().read(true).write(true).open(&v, "/f").expect("an open file");
    v.transaction(|tx| {
        tx.write("/g", b"noted");
        let calls: [(&str, Result<(), Error>); 12] = [
            ("read", v.read("/f").map(drop)),
            ("write", v.write("/f", b"x")),
            ("metadata", v.metadata("/f").map(drop)),
            ("rename", v.rename("/f", "/h")),
            ("read_dir", v.read_dir("/").map(drop)),
            ("sync", v.sync()),
            ("checkpoint", v.checkpoint().map(drop)),
            ("transaction", v.transaction(|_| Ok(()))),
            ("read_at", file.read_at(&mut [0], 0).map(drop)),
            ("write_at", file.write_at(b"x", 0).map(drop)),
            ("set_len", file.set_len(0)),
            ("sync_all", file.sync_all()),
        ];
        for (call, result) in calls {
            assert!(matches!(result, Err(Error::Recording)), "{call}: {result:?}");
        }
        Ok(())
    })
    .expect("a transaction");
    // Only within the closure, however it ends.
    let failed = v.transaction(|_| v.sync());
    assert!(matches!(failed, Err(Error::Recording)));
    let panicked =
        std::panic::catch_unwind(AssertUnwindSafe(|| v.transaction(|_| -> Result<(), Error> { panic!("as meant") })));
    assert!(panicked.is_err());
    assert_eq!(v.read("/f").expect("a file"), b"as it was");
    assert_eq!(v.read("/g").expect("a file"), b"noted");
    drop(file);
    v.close().expect("a clean image");
}
