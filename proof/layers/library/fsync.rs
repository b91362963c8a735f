//! What an fsync waits for with `fsync=file`: for what was done to its file, and for nothing else.

use ondol::{DataMode, FormatOptions, Fsync, JournalEngine, OpenOptions, Options, SetXattr, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_testkit::image;
use ondol_testkit::rig::Setup;
use std::sync::{Arc, LazyLock};

/// An image of 16 MiB.
static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    Volume::format(&path, &FormatOptions::new().size(16 << 20)).expect("format");
    std::fs::read(&path).expect("read")
});

/// A volume with `/a`, `/b` and `/d`, all durable.
fn volume(setup: Setup, options: Options) -> Volume {
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(IMAGE.clone()));
    let volume = Volume::open_stepped(setup.media(store), &options, image::clock(1)).expect("open");
    for path in ["/a", "/b"] {
        volume.write(path, vec![1; 200_000]).expect("write");
    }
    volume.create_dir("/d").expect("a directory");
    volume.sync().expect("sync");
    volume
}

fn commits(volume: &Volume) -> u64 {
    volume.state().counters().engine.commits
}

fn fsync(volume: &Volume, path: &str) {
    let ino = volume.metadata(path).expect(path).ino();
    volume.inodes().fsync(ino, false).expect("fsync");
}

/// How many commits an fsync of `path` makes.
fn cost(volume: &Volume, path: &str) -> u64 {
    let before = commits(volume);
    fsync(volume, path);
    commits(volume) - before
}

fn by_file(setup: Setup) -> Volume {
    volume(setup, setup.options().with_cached_inodes(1000).with_fsync(Fsync::File))
}

/// A change, and whose it is: names of files and directories.
type Change = (&'static str, fn(&Volume) -> ondol::Result<()>, &'static [&'static str]);

fn changes() -> Vec<Change> {
    vec![
        ("a write", |v| OpenOptions::new().write(true).open(v, "/a")?.write_all_at(&[2; 5000], 100), &["/a"]),
        ("an overwrite", |v| OpenOptions::new().write(true).open(v, "/a")?.write_all_at(&[3; 150_000], 4096), &["/a"]),
        ("a truncate", |v| OpenOptions::new().write(true).open(v, "/a")?.set_len(3), &["/a"]),
        ("new permissions", |v| v.set_permissions("/a", 0o600), &["/a"]),
        (
            "an attribute",
            |v| Ok(v.inodes().xattrs().setxattr(v.metadata("/a")?.ino(), b"user.x", &[1; 90], SetXattr::Any)?),
            &["/a"],
        ),
        ("a link", |v| v.hard_link("/a", "/d/l"), &["/a", "/d"]),
        ("a rename", |v| v.rename("/d/l", "/d/m"), &["/a", "/d"]),
        ("an unlink", |v| v.remove_file("/d/m"), &["/a", "/d"]),
        ("a new file", |v| v.write("/d/n", b""), &["/d/n", "/d"]),
        ("a file that takes the place of another", |v| v.rename("/d/n", "/a"), &["/a", "/d", "/"]),
    ]
}

#[test]
fn a_changed_file_costs_a_commit_and_an_unchanged_one_none() {
    for setup in Setup::ALL {
        for n in 0..changes().len() {
            let volume = by_file(setup);
            assert_eq!((cost(&volume, "/a"), cost(&volume, "/b"), cost(&volume, "/d")), (0, 0, 0), "{setup:?}");
            let all = changes();
            for (what, change, _) in &all[..n] {
                change(&volume).expect(what);
            }
            volume.sync().expect("sync");
            let (what, change, whose) = all[n];
            change(&volume).expect(what);
            assert_eq!(cost(&volume, "/b"), 0, "{setup:?}: of a file that {what} was not done to");
            let before = (commits(&volume), volume.state().counters().device.flushes);
            fsync(&volume, whose[0]);
            let after = (commits(&volume), volume.state().counters().device.flushes);
            assert!(after != before, "{setup:?}: {what}: nothing became durable");
            for path in whose {
                assert_eq!(cost(&volume, path), 0, "{setup:?}: {what} is durable, with all of its files");
            }
        }
    }
}

#[test]
fn each_file_of_a_change_makes_it_durable() {
    for setup in [Setup::CLASSIC_ORDERED, Setup::COMPRESSED_JOURNAL, Setup::SCALABLE_ORDERED] {
        for path in ["/a", "/d", "/"] {
            let volume = by_file(setup);
            volume.rename("/a", "/d/a").expect("rename");
            assert_eq!(cost(&volume, if path == "/a" { "/d/a" } else { path }), 1, "{setup:?}: {path}");
        }
    }
}

/// What is written in place lies in no transaction: a flush makes it durable, of whose file it is.
#[test]
fn data_in_place_is_flushed_for_its_own_file() {
    let setup = Setup::CLASSIC_ORDERED;
    let volume = by_file(setup);
    let flushes = || volume.state().counters().device.flushes;
    // No clock goes here, so not even a time changes.
    OpenOptions::new().write(true).open(&volume, "/a").expect("open").write_all_at(&[7; 9000], 0).expect("write");
    let before = (commits(&volume), flushes());
    fsync(&volume, "/b");
    assert_eq!((commits(&volume), flushes()), before, "it is not /b's");
    fsync(&volume, "/a");
    assert_eq!((commits(&volume), flushes()), (before.0, before.1 + 1));
    fsync(&volume, "/a");
    assert_eq!(flushes(), before.1 + 1);
}

#[test]
fn what_was_forgotten_is_waited_for() {
    let setup = Setup::CLASSIC_JOURNAL;
    let volume = volume(setup, setup.options().with_cached_inodes(1).with_fsync(Fsync::File));
    let others: Vec<String> = (0..900).map(|n| format!("/d/{n}")).collect();
    others.iter().for_each(|path| volume.write(path, b"").expect("write"));
    volume.sync().expect("sync");
    volume.set_permissions("/a", 0o600).expect("chmod");
    let ino = volume.metadata("/a").expect("a file").ino();
    others.iter().for_each(|path| assert_eq!(volume.metadata(path).expect("a file").len(), 0));
    let cached = volume.state().counters().files.cached_inodes;
    assert!(cached < 10, "{cached}");
    let before = commits(&volume);
    volume.inodes().fsync(ino, false).expect("fsync");
    assert_eq!(commits(&volume), before + 1);
}

#[test]
fn without_it_an_fsync_covers_everything_and_with_it_that_is_told() {
    let setup = Setup::CLASSIC_ORDERED;
    let prefix = volume(setup, setup.options());
    prefix.set_permissions("/a", 0o600).expect("chmod");
    assert_eq!(cost(&prefix, "/b"), 1);
    let told = |volume: &Volume| volume.info().expect("info").mount.expect("a mount").fsync;
    assert_eq!((told(&prefix), told(&by_file(setup))), ("prefix", "file"));
    assert_eq!(Options::parse("fsync=file").expect("an option").fsync(), Fsync::File);
    assert_eq!(
        setup.options().with_data(DataMode::Journal).with_journal(JournalEngine::Classic).fsync(),
        Fsync::Prefix
    );
}
