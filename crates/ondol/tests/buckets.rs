//! Volumes in object storage, as programs use them: the store is a directory.
#![cfg(feature = "object")]
#![forbid(unsafe_code)]

use ondol::{Error, FormatOptions, Options, Remedy, Volume};
use std::path::{Path, PathBuf};

struct Store(tempfile::TempDir);

impl Store {
    /// With a volume.
    fn new() -> Self {
        let store = Self(tempfile::tempdir().unwrap());
        Volume::format(store.target(), &FormatOptions::new().size(64 << 20).label("afar")).unwrap();
        store
    }

    fn target(&self) -> PathBuf {
        format!("file://{}", self.0.path().join("store").display()).into()
    }

    fn snapshot(&self, name: &str) -> PathBuf {
        format!("{}?snapshot={name}", self.target().display()).into()
    }

    fn open(&self) -> Volume {
        Volume::open(self.target()).unwrap()
    }

    fn read(&self, target: &Path, path: &str) -> ondol::Result<Vec<u8>> {
        Volume::open_with(target, &Options::default().with_read_only(true))?.read(path)
    }
}

fn errno(errno: rustix::io::Errno) -> i32 {
    errno.raw_os_error()
}

#[test]
fn a_volume_that_is_closed_or_dropped_is_free_at_once() {
    let store = Store::new();
    let volume = store.open();
    volume.write("/one", b"closed").unwrap();
    assert_eq!(volume.info().unwrap().bucket.unwrap().chunk_bytes, 4096);
    assert_eq!(volume.state().mount().engine, "batch");
    volume.close().unwrap();
    let volume = store.open();
    volume
        .transaction(|tx| {
            tx.write("/two", b"dropped");
            tx.rename("/one", "/first");
            Ok(())
        })
        .unwrap();
    drop(volume);
    let info = ondol::info(store.target()).unwrap();
    let bucket = info.bucket.unwrap();
    assert!(
        bucket.closed && bucket.snapshots == Some(0) && info.state == "clean" && info.label == "afar",
        "{bucket:?}"
    );
    let before = bucket.epoch;
    assert_eq!(store.open().read("/two").unwrap(), b"dropped");
    assert_eq!(ondol::info(store.target()).unwrap().bucket.unwrap().epoch, before + 1);
    assert!(ondol::check(store.target()).unwrap().is_clean());
    // Open for reading or not, nobody has it.
    assert_eq!(store.read(&store.target(), "/first").unwrap(), b"closed");
    ondol::recover(store.target()).unwrap();
    ondol::tune(store.target(), &ondol::Tune { data: Some(ondol::DataMode::Ordered), ..Default::default() }).unwrap();
    ondol::mark_checked(store.target()).unwrap();
    store.open().close().unwrap();
}

#[test]
fn a_volume_has_the_chunks_that_were_asked_for_and_keeps_them() {
    for chunk in [4 << 10, 16 << 10, 64 << 10] {
        let store = Store(tempfile::tempdir().unwrap());
        // A volume of whole blocks, not of whole chunks.
        let options = FormatOptions::new().size((64 << 20) + 4096).chunk(chunk);
        Volume::format(store.target(), &options).unwrap();
        let volume = store.open();
        assert_eq!(volume.info().unwrap().bucket.unwrap().chunk_bytes, chunk);
        let bytes = |n: u32| -> Vec<u8> { (0..n * 999).flat_map(|at| (at * n).to_le_bytes()).collect() };
        for n in 1..30 {
            volume.write(format!("/{n}"), bytes(n)).unwrap();
            if n % 3 == 0 {
                volume.remove_file(format!("/{}", n / 3)).unwrap();
            }
            volume.sync().unwrap();
        }
        volume.close().unwrap();
        ondol::resize(store.target(), ondol::NewSize::Bytes((80 << 20) + 8192)).unwrap();
        assert!(ondol::check(store.target()).unwrap().is_clean());
        let volume = store.open();
        assert!((10..30).all(|n| volume.read(format!("/{n}")).unwrap() == bytes(n)), "{chunk}");
        volume.close().unwrap();
        // Over it, they stay.
        let other = if chunk == 4096 { 16384 } else { 4096 };
        let e = Volume::format(store.target(), &options.clone().chunk(other).force(true)).map(drop).unwrap_err();
        assert!(e.to_string().contains(&format!("chunks of {chunk} bytes")), "{e}");
        Volume::format(store.target(), &options.force(true)).unwrap();
        assert!(!store.open().exists("/10").unwrap());
    }
    let store = Store(tempfile::tempdir().unwrap());
    let wrong = |target: &Path, chunk| {
        let e = Volume::format(target, &FormatOptions::new().size(64 << 20).chunk(chunk)).map(drop).unwrap_err();
        assert!(!target.exists() && !store.0.path().join("store").exists(), "{e}");
        e.to_string()
    };
    for chunk in [0, 2048, 6000, 128 << 10, u64::MAX] {
        assert!(wrong(&store.target(), chunk).contains("chunk"), "{chunk}");
    }
    assert!(wrong(&store.0.path().join("disk.img"), 4096).contains("in object storage are made of chunks"));
}

#[test]
fn one_writes_and_readers_see_what_was_there() {
    let store = Store::new();
    let volume = store.open();
    volume.write("/file", b"first").unwrap();
    volume.sync().unwrap();
    let reader = Volume::open_with(store.target(), &Options::default().with_read_only(true)).unwrap();
    let e = Volume::open(store.target()).map(drop).unwrap_err();
    assert_eq!(e.errno(), errno(rustix::io::Errno::BUSY), "{e}");
    assert!(matches!(e.remedy(), Some(Remedy::TakeOver { target }) if Path::new(&target) == store.target()), "{e}");
    let held = ondol::snapshot(store.target(), "one").unwrap_err();
    assert_eq!(held.errno(), errno(rustix::io::Errno::BUSY), "{held}");
    volume.write("/file", b"second").unwrap();
    volume.sync().unwrap();
    assert_eq!(reader.read("/file").unwrap(), b"first");
    assert_eq!(store.read(&store.target(), "/file").unwrap(), b"second");
    drop(reader);
    // Taken over: what was synced is there, and nothing is acknowledged by the first one any more.
    volume.write("/late", b"lost").unwrap();
    let other = Volume::open_with(store.target(), &Options::default().with_take_over(true)).unwrap();
    assert_eq!(other.read("/file").unwrap(), b"second");
    let e = volume.sync().unwrap_err();
    assert!(e.errno() == errno(rustix::io::Errno::IO) && e.to_string().contains("was taken over by"), "{e}");
    let e = volume.close().unwrap_err();
    assert!(matches!(e, Error::Bucket { .. }) && e.remedy().is_none(), "{e}");
    other.write("/file", b"third").unwrap();
    other.close().unwrap();
    assert_eq!(store.read(&store.target(), "/file").unwrap(), b"third");
    assert!(store.read(&store.target(), "/late").is_err());
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let store = Store::new();
    let volume = store.open();
    volume.write("/file", b"first").unwrap();
    volume.snapshots().create("one").unwrap();
    volume.write("/file", b"second").unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.snapshots().create("one").unwrap_err().errno(), errno(rustix::io::Errno::EXIST));
    assert_eq!(volume.snapshots().create("a b").unwrap_err().errno(), errno(rustix::io::Errno::INVAL));
    assert_eq!(store.read(&store.snapshot("one"), "/file").unwrap(), b"first");
    let names = |found: Vec<ondol::Snapshot>| found.into_iter().map(|found| found.name).collect::<Vec<_>>();
    assert_eq!(names(volume.snapshots().list().unwrap()), ["one"]);
    volume.close().unwrap();
    ondol::snapshot(store.target(), "two").unwrap();
    assert_eq!(names(ondol::snapshots(store.target()).unwrap()), ["one", "two"]);
    // For reading alone.
    let e = Volume::open(store.snapshot("one")).map(drop).unwrap_err();
    assert_eq!(e.errno(), errno(rustix::io::Errno::ROFS), "{e}");
    let read_only = Volume::open_with(store.snapshot("one"), &Options::default().with_read_only(true)).unwrap();
    assert_eq!(read_only.snapshots().create("three").unwrap_err().errno(), errno(rustix::io::Errno::ROFS));
    assert_eq!(names(read_only.snapshots().list().unwrap()), ["one", "two"]);
    drop(read_only);
    ondol::snapshot_delete(store.target(), "one").unwrap();
    let gone = store.read(&store.snapshot("one"), "/file").unwrap_err();
    assert_eq!(gone.errno(), errno(rustix::io::Errno::NOENT), "{gone}");
    assert_eq!(store.read(&store.snapshot("two"), "/file").unwrap(), b"second");
    let image = store.0.path().join("image");
    ondol::export(store.snapshot("two"), &image, false).unwrap();
    let image = Volume::open(&image).unwrap();
    assert_eq!(image.read("/file").unwrap(), b"second");
    assert_eq!(image.snapshots().create("one").unwrap_err().errno(), errno(rustix::io::Errno::OPNOTSUPP));
}

#[test]
fn who_was_interrupted_while_making_one_makes_it_again() {
    let store = Store(tempfile::tempdir().unwrap());
    let made = Volume::format(store.target(), &FormatOptions::new().size(64 << 20).label("a label that is too long"));
    assert!(made.is_err());
    assert!(!store.0.path().join("store").exists(), "nothing is made for what cannot be");
    assert!(!ondol::is_volume_there(&store.target()).unwrap());
    let options = FormatOptions::new().size((64 << 20) + 1234);
    Volume::format(store.target(), &options).unwrap();
    assert!(ondol::is_volume_there(&store.target()).unwrap());
    let e = Volume::format(store.target(), &options).unwrap_err();
    assert!(matches!(&e, Error::Holds { .. }), "{e}");
    Volume::format(store.target(), &options.force(true)).unwrap();
    assert!(ondol::check(store.target()).unwrap().is_clean());
}
