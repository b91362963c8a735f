//! A volume with a cache on the local disk.

use super::*;
use ondol_object_home::{Disk, Home, What};

const LARGE: u64 = 2000;

fn cached(dir: &tempfile::TempDir) -> Opening {
    // Almost nothing stays in memory.
    Opening { cache: 64 << 10, disk: Some(Disk { file: dir.path().join("cache"), bytes: 32 << 20 }), ..opening() }
}

fn holds(home: &Home) {
    assert!((0..LARGE).all(|n| read_chunk(home, n) == chunk(n)));
}

#[test]
fn what_was_read_from_the_bucket_is_read_from_the_disk_the_next_time() {
    let (store, dir) = (unruly(), tempfile::tempdir().unwrap());
    let home = make(&store, LARGE);
    (0..LARGE).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    home.snapshot("one").unwrap();
    home.close().unwrap();
    let view = || Home::view(&bucket(store.clone()), &What::Snapshot("one".into()), &cached(&dir)).unwrap();
    let home = view();
    holds(&home);
    let (first, bytes) = (home.disk_use().unwrap(), home.requests().down);
    assert!(first.stored > 50 && first.damaged == 0 && first.failed == 0, "{first:?}");
    drop(home);
    let home = view();
    holds(&home);
    let second = home.disk_use().unwrap();
    assert_eq!((second.stored, second.misses, second.damaged), (0, 0, 0));
    // The log is read by each opening, and is in no cache.
    let saved = bytes - home.requests().down;
    assert!(second.hits >= first.stored && saved > 6 << 20, "{saved} of {bytes}");
    // Somebody else reads without it, and as well.
    let other = view();
    assert!(other.disk_use().is_none());
    holds(&other);
}

#[test]
fn a_writer_goes_on_with_a_cache_that_is_full_of_noise() {
    let (store, dir) = (unruly(), tempfile::tempdir().unwrap());
    let home = make(&store, LARGE);
    (0..LARGE).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    home.close().unwrap();
    let mut noticed = 0;
    for round in 0..10 {
        let home = Home::open(&bucket(store.clone()), &cached(&dir)).unwrap();
        holds(&home);
        let used = home.disk_use().unwrap();
        assert!(round > 0 || used.damaged == 0, "{used:?}");
        home.close().unwrap();
        // What was compacted meanwhile lies in objects of which the cache has nothing.
        noticed += u32::from(used.damaged > 0);
        if noticed == 2 {
            return;
        }
        drop(home);
        let path = dir.path().join("cache");
        let mut bytes = std::fs::read(&path).unwrap();
        let mut random = Random(round);
        for _ in 0..2000 {
            let at = 4096 + random.below(bytes.len() as u64 - 4096) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        std::fs::write(&path, bytes).unwrap();
    }
    panic!("noise was noticed {noticed} times in 10 rounds");
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
    std::fs::remove_file(dir.path().join("cache.seen")).unwrap();
    Home::open(&bucket(Unruly::new(Arc::new(older))), &cached(&dir)).unwrap().close().unwrap();
}
