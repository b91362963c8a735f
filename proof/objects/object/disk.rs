//! A volume with a cache on the local disk.

use super::*;
use ondol_object_home::{Disk, Home, What};
use std::path::PathBuf;

const LARGE: u64 = 2000;

fn cached(dir: &tempfile::TempDir) -> Opening {
    // Almost nothing stays in memory.
    Opening { cache: 64 << 10, disk: Some(Disk { dir: dir.path().join("cache"), bytes: 32 << 20 }), ..opening() }
}

fn holds(home: &Home) {
    assert!((0..LARGE).all(|n| read_chunk(home, n) == chunk(n)));
}

#[test]
fn what_was_read_from_the_bucket_is_read_from_the_disk_the_next_time() {
    let (store, dir) = (unruly(), tempfile::tempdir().unwrap());
    // One large object, of many parts.
    let opening = Opening { object: 16 << 20, ..opening() };
    let home = Home::make(&bucket(store.clone()), making(LARGE), &opening).unwrap();
    (0..LARGE).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    home.snapshot("one").unwrap();
    home.close().unwrap();
    let view = || Home::view(&bucket(store.clone()), &What::Snapshot("one".into()), &cached(&dir)).unwrap();
    let home = view();
    holds(&home);
    let (first, bytes) = (home.disk_use().unwrap(), home.requests().down);
    assert!(first.misses > 3 && first.bytes > 6 << 20, "{first:?}");
    drop(home);
    let home = view();
    holds(&home);
    let second = home.disk_use().unwrap();
    // The log, and a part of each object, are read by each opening.
    let saved = bytes - home.requests().down;
    assert!(second.misses < first.misses && saved > 4 << 20, "{first:?}, {second:?}, {saved} of {bytes}");
    // Somebody else reads without it, and as well.
    let other = view();
    assert!(other.disk_use().is_none());
    holds(&other);
}

/// The files of parts in the cache.
fn parts(dir: &tempfile::TempDir) -> Vec<PathBuf> {
    let mut dirs = vec![dir.path().join("cache/parts")];
    let mut files = vec![];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
            let into = if entry.file_type().unwrap().is_dir() { &mut dirs } else { &mut files };
            into.push(entry.path());
        }
    }
    files
}

/// Its files are cut, emptied, and full of noise: what a power cut leaves of what was never flushed, and worse.
#[test]
fn a_cache_that_is_damaged_changes_nothing_that_is_read() {
    let (store, dir) = (unruly(), tempfile::tempdir().unwrap());
    let home = make(&store, LARGE);
    (0..LARGE).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    home.snapshot("one").unwrap();
    home.close().unwrap();
    let view = || Home::view(&bucket(store.clone()), &What::Snapshot("one".into()), &cached(&dir)).unwrap();
    holds(&view());
    let mut random = Random(7);
    for round in 0..10 {
        let files = parts(&dir);
        assert!(files.len() > 5, "{files:?}");
        for path in &files {
            let mut bytes = std::fs::read(path).unwrap();
            match round % 5 {
                0 => bytes.clear(),
                1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                2 => bytes.fill(0),
                // The size of an object is in a file that has no checksum: a digit of it.
                3 => bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'7'),
                _ => (0..2000).for_each(|_| {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }),
            }
            std::fs::write(path, bytes).unwrap();
        }
        holds(&view());
    }
}

#[test]
fn a_cache_has_no_more_than_it_is_told() {
    let (store, dir) = (unruly(), tempfile::tempdir().unwrap());
    let home = make(&store, 6000);
    (0..6000).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    home.snapshot("one").unwrap();
    home.close().unwrap();
    let disk = Some(Disk { dir: dir.path().join("cache"), bytes: 4 << 20 });
    let opening = Opening { disk, ..cached(&dir) };
    let home = Home::view(&bucket(store.clone()), &What::Snapshot("one".into()), &opening).unwrap();
    for _ in 0..2 {
        assert!((0..6000).all(|n| read_chunk(&home, n) == chunk(n)));
        let has = || parts(&dir).iter().map(|file| std::fs::metadata(file).map_or(0, |file| file.len())).sum::<u64>();
        // It is made smaller by somebody who does nothing else.
        while has() > 4 << 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(home.disk_use().unwrap().misses > 15);
}

#[test]
fn a_bucket_that_has_gone_back_is_refused_where_the_newer_state_was_seen() {
    let (memory, dir) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let store = Unruly::new(memory.clone());
    make(&store, 64).close().unwrap();
    let older = memory.fork();
    let home = Home::open(&bucket(store.clone()), &cached(&dir)).unwrap();
    let closed = memory.fork();
    home.write(0, &chunk(1)).unwrap();
    home.close().unwrap();
    drop(home);
    let gone_back = |memory: &InMemory, what: &str| {
        // Each attempt sees what was there, and not what the one before has done.
        let bucket = || bucket(Unruly::new(Arc::new(memory.fork())));
        let e = Home::open(&bucket(), &cached(&dir)).unwrap_err();
        assert!(matches!(e, HomeError::Older { .. }) && e.to_string().contains(what), "{e}");
        // Where nothing was seen, nothing can be said.
        Home::open(&bucket(), &cached(&tempfile::tempdir().unwrap())).unwrap().close().unwrap();
        Home::open(&bucket(), &opening()).unwrap().close().unwrap();
    };
    gone_back(&older, "batch");
    gone_back(&closed, "batch");
    let e = Home::view(&bucket(Unruly::new(Arc::new(older.fork()))), &What::Newest, &cached(&dir)).unwrap_err();
    assert!(matches!(e, HomeError::Older { what: "epoch", found: 1, seen: 2, .. }), "{e}");
    // The newest one is opened as before, and so is the older one by whoever means it.
    let home = Home::open(&bucket(store.clone()), &cached(&dir)).unwrap();
    assert_eq!(read_chunk(&home, 0), chunk(1));
    home.close().unwrap();
    drop(home);
    std::fs::remove_dir_all(dir.path().join("cache/seen")).unwrap();
    Home::open(&bucket(Unruly::new(Arc::new(older))), &cached(&dir)).unwrap().close().unwrap();
}
