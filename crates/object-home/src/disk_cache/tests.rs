use super::*;
use crate::Border;
use crate::unruly::Unruly;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use ondol_env::{Env, System};
use slatedb::object_store_tag::{RetryReason, SstType};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};

const ROOM: u64 = 4 << 20;

/// A store with data objects, and a place for its cache.
struct Setting {
    border: Border,
    store: Unruly,
    dir: tempfile::TempDir,
}

impl Setting {
    /// With objects of these sizes.
    fn new(sizes: &[usize]) -> Self {
        let (border, store) = (Border::new(2).unwrap(), Unruly::new(Arc::new(InMemory::new())));
        for (n, size) in sizes.iter().enumerate() {
            let (store, size) = (store.clone(), *size);
            border.wait(async move { store.put(&object(n), content(n, 0..size).into()).await.unwrap() });
        }
        Self { border, store, dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn disk(&self) -> Disk {
        Disk { file: self.file(), bytes: ROOM }
    }

    fn open(&self) -> Held {
        let bucket = Bucket::new(Arc::new(self.store.clone()), "here", Path::from("a"));
        over(&bucket, Some(&self.disk())).unwrap().1.unwrap()
    }

    fn refused(&self) -> String {
        let bucket = Bucket::new(Arc::new(self.store.clone()), "here", Path::from("a"));
        over(&bucket, Some(&self.disk())).unwrap_err().to_string()
    }

    fn read_with(&self, cache: &Held, n: usize, options: GetOptions) -> Result<(Vec<u8>, u64)> {
        let cache = cache.0.clone();
        self.border.wait(async move {
            let got = cache.get_opts(&object(n), options).await?;
            let size = got.meta.size;
            Ok((got.bytes().await?.to_vec(), size))
        })
    }

    /// Reads a range, as it must be.
    fn read(&self, cache: &Held, n: usize, size: usize, range: Range<usize>) {
        let asked = range.start as u64..range.end as u64;
        let options = GetOptions { range: Some(GetRange::Bounded(asked)), ..GetOptions::default() };
        let (bytes, found) = self.read_with(cache, n, options).unwrap();
        assert!(bytes == content(n, range.start..range.end.min(size)), "{range:?} of object {n}");
        assert_eq!(found, size as u64);
    }
}

fn object(n: usize) -> Path {
    Path::from(format!("a/db/compacted/{n}.sst"))
}

/// Bytes of object `n`, which differ from place to place and from object to object.
fn content(n: usize, range: Range<usize>) -> Vec<u8> {
    let byte = |at: usize| ((at as u64 + 1).wrapping_mul(0x5851_f42d_4c95_7f2d + 2 * n as u64) >> 40) as u8;
    range.map(byte).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound
    }
}

const KIB: usize = 1024;

#[test]
fn what_was_read_once_is_not_asked_for_again_nor_by_the_next_opening() {
    let at = Setting::new(&[1000 * KIB]);
    let cache = at.open();
    at.read(&cache, 0, 1000 * KIB, 100..200);
    at.read(&cache, 0, 1000 * KIB, 60 * KIB..70 * KIB);
    // The second read asked for the part that was missing alone.
    assert_eq!((at.store.counts().gets, at.store.counts().get_bytes), (2, 128 * KIB as u64));
    at.read(&cache, 0, 1000 * KIB, 0..128 * KIB);
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.stored, counts.parts), (3, 2, 2, 2));
    assert_eq!((counts.damaged, counts.failed, at.store.counts().gets), (0, 0, 2));
    drop(cache);
    let cache = at.open();
    at.read(&cache, 0, 1000 * KIB, 0..128 * KIB);
    assert_eq!((cache.counts().hits, cache.counts().misses, at.store.counts().gets), (2, 0, 2));
}

#[test]
fn every_range_is_answered_as_by_the_store() {
    let sizes = [1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 700 * KIB + 17];
    let at = Setting::new(&sizes);
    let mut random = Random(1);
    for _ in 0..3 {
        let cache = at.open();
        for _ in 0..300 {
            let n = random.below(sizes.len());
            let start = random.below(sizes[n]);
            let most = if random.below(2) == 0 { 100 } else { 300 * KIB };
            let len = 1 + random.below(most);
            at.read(&cache, n, sizes[n], start..start + len);
        }
        let behind = GetOptions { range: Some(GetRange::Bounded(1 << 30..1 << 31)), ..GetOptions::default() };
        at.read_with(&cache, 4, behind).unwrap_err();
        assert!(cache.counts().hits > 0 && cache.counts().damaged == 0, "{:?}", cache.counts());
    }
    // Everything is there by now.
    let (cache, gets) = (at.open(), at.store.counts().gets);
    sizes.iter().enumerate().for_each(|(n, size)| at.read(&cache, n, *size, 0..*size));
    assert_eq!(at.store.counts().gets, gets);
}

#[test]
fn a_full_cache_keeps_its_size_and_gives_room() {
    let at = Setting::new(&[20 << 20]);
    let cache = at.open();
    let room = cache.counts().room;
    for start in (0..20 << 20).step_by(256 * KIB) {
        at.read(&cache, 0, 20 << 20, start..start + 256 * KIB);
    }
    let counts = cache.counts();
    assert_eq!((counts.parts, counts.stored, counts.misses), (room, 320, 320));
    let len = fs::metadata(at.file()).unwrap().len();
    assert!(len <= ROOM && len > ROOM - 200_000, "{len}");
    // The newest are there.
    at.read(&cache, 0, 20 << 20, (19 << 20)..(20 << 20));
    assert_eq!(cache.counts().hits, 16);
}

#[test]
fn only_ranges_of_data_objects_are_kept() {
    let at = Setting::new(&[100 * KIB]);
    let cache = at.open();
    let log = Path::from("a/db/wal/1.sst");
    let (store, c) = (at.store.clone(), cache.0.clone());
    at.border.wait(async move {
        store.put(&log, vec![1; 1000].into()).await.unwrap();
        c.get_range(&log, 0..10).await.unwrap();
        c.get(&object(0)).await.unwrap().bytes().await.unwrap();
        c.head(&object(0)).await.unwrap();
        let condition = GetOptions { if_match: Some("other".into()), ..GetOptions::default() };
        let range = GetOptions { range: Some(GetRange::Bounded(0..10)), ..condition };
        c.get_opts(&object(0), range).await.unwrap_err();
    });
    assert_eq!(cache.counts(), DiskUse { room: cache.counts().room, ..DiskUse::default() });
    // A compaction takes what is there and leaves nothing.
    let tag = ObjectStoreCallTag::new(TableStoreKind::Compactor, SstType::Compacted);
    let range = Some(GetRange::Bounded(0..10));
    let options = GetOptions { range, extensions: tag.into(), ..GetOptions::default() };
    at.read_with(&cache, 0, options.clone()).unwrap();
    assert_eq!(cache.counts().stored, 0);
    at.read(&cache, 0, 100 * KIB, 0..10);
    let gets = at.store.counts().gets;
    at.read_with(&cache, 0, options).unwrap();
    assert_eq!((cache.counts().hits, at.store.counts().gets), (1, gets));
}

#[test]
fn what_was_read_badly_is_read_from_the_store_again() {
    let at = Setting::new(&[100 * KIB]);
    let cache = at.open();
    at.read(&cache, 0, 100 * KIB, 0..10);
    let mut tag = ObjectStoreCallTag::new(TableStoreKind::Main, SstType::Compacted);
    tag.retry = Some(RetryReason::CrcMismatch);
    let range = Some(GetRange::Bounded(0..10));
    let options = GetOptions { range, extensions: tag.into(), ..GetOptions::default() };
    let gets = at.store.counts().gets;
    assert_eq!(at.read_with(&cache, 0, options).unwrap().0, content(0, 0..10));
    assert_eq!((at.store.counts().gets, cache.counts().hits), (gets + 1, 0));
    at.read(&cache, 0, 100 * KIB, 0..10);
    assert_eq!((at.store.counts().gets, cache.counts().hits), (gets + 1, 1));
}

#[test]
fn one_process_has_the_file_and_others_do_without() {
    let at = Setting::new(&[100 * KIB]);
    let first = at.open();
    let bucket = Bucket::new(Arc::new(at.store.clone()), "here", Path::from("a"));
    let (alone, none) = over(&bucket, Some(&at.disk())).unwrap();
    assert!(none.is_none());
    at.border.wait(async move { alone.store.get_range(&object(0), 0..10).await.unwrap() });
    assert_eq!(first.counts().misses, 0);
    // Tasks of the first one may live on: they know nothing any more, and leave nothing.
    let late = first.0.clone();
    drop(first);
    let next = over(&bucket, Some(&at.disk())).unwrap().1.unwrap();
    at.border.wait(async move { late.get_range(&object(0), 0..10).await.unwrap() });
    assert_eq!((next.counts().parts, next.counts().misses), (0, 0));
    drop(next);
    assert_eq!(at.open().counts().parts, 0);
}

#[test]
fn what_is_no_cache_is_left_as_it_is() {
    let at = Setting::new(&[]);
    fs::write(at.file(), b"somebody's text").unwrap();
    assert!(at.refused().contains("something else"), "{}", at.refused());
    assert_eq!(fs::read(at.file()).unwrap(), b"somebody's text");
    fs::write(at.file(), vec![0; 100_000]).unwrap();
    assert!(at.refused().contains("something else"));
    fs::remove_file(at.file()).unwrap();
    let target = at.dir.path().join("target");
    fs::write(&target, b"").unwrap();
    symlink(&target, at.file()).unwrap();
    at.refused();
    assert_eq!(fs::read(&target).unwrap(), b"");
    fs::remove_file(at.file()).unwrap();
    fs::create_dir(at.file()).unwrap();
    at.refused();
    let small = Disk { file: target, bytes: 1 << 20 };
    let bucket = Bucket::new(Arc::new(at.store.clone()), "here", Path::from("a"));
    assert!(over(&bucket, Some(&small)).unwrap_err().to_string().contains("at least"));
}

#[test]
fn a_file_that_is_deleted_or_cut_while_it_is_used_costs_requests_and_nothing_else() {
    let at = Setting::new(&[1000 * KIB]);
    let cache = at.open();
    at.read(&cache, 0, 1000 * KIB, 0..1000 * KIB);
    OpenOptions::new().write(true).open(at.file()).unwrap().set_len(200_000).unwrap();
    at.read(&cache, 0, 1000 * KIB, 0..1000 * KIB);
    assert!(cache.counts().damaged > 10, "{:?}", cache.counts());
    fs::remove_file(at.file()).unwrap();
    at.read(&cache, 0, 1000 * KIB, 0..1000 * KIB);
    // Who comes next makes a new file, which is nobody else's.
    let next = at.open();
    assert_eq!(next.counts().parts, 0);
    at.read(&next, 0, 1000 * KIB, 0..1000 * KIB);
    at.read(&cache, 0, 1000 * KIB, 0..1000 * KIB);
}

/// Some of `now`, some of `before`, and with `noise` some of neither.
fn mixed(before: &[u8], now: &[u8], random: &mut Random, noise: bool) -> Vec<u8> {
    let mut bytes = now.to_vec();
    let run = [512, 4096, 64 * KIB][random.below(3)];
    for at in (0..bytes.len()).step_by(run) {
        let place = at..(at + run).min(bytes.len());
        match random.below(4) {
            0 | 1 if before.len() >= place.end => bytes[place.clone()].copy_from_slice(&before[place]),
            2 if noise && at > 0 => bytes[place].iter_mut().for_each(|byte| *byte ^= random.below(256) as u8),
            _ => {}
        }
    }
    bytes
}

#[test]
fn any_mixture_of_old_and_new_bytes_reads_right() {
    let sizes = [3 << 20, 3 << 20, 2 << 20];
    let at = Setting::new(&sizes);
    let mut random = Random(System.monotonic_ns());
    println!("seed {}", random.0);
    let mut before = vec![];
    let mut hits = 0;
    for round in 0..40 {
        let cache = at.open();
        for _ in 0..40 {
            let n = random.below(sizes.len());
            let start = random.below(sizes[n]);
            at.read(&cache, n, sizes[n], start..start + 1 + random.below(200 * KIB));
        }
        hits += cache.counts().hits;
        drop(cache);
        let now = fs::read(at.file()).unwrap();
        let mixture = mixed(&before, &now, &mut random, round % 3 == 2);
        OpenOptions::new().write(true).open(at.file()).unwrap().write_all_at(&mixture, 0).unwrap();
        before = now;
    }
    assert!(hits > 100, "{hits}");
}

#[test]
fn a_cache_of_another_size_begins_anew() {
    let at = Setting::new(&[100 * KIB]);
    let cache = at.open();
    at.read(&cache, 0, 100 * KIB, 0..10);
    drop(cache);
    let bucket = Bucket::new(Arc::new(at.store.clone()), "here", Path::from("a"));
    let larger = Disk { bytes: 2 * ROOM, ..at.disk() };
    let cache = over(&bucket, Some(&larger)).unwrap().1.unwrap();
    assert_eq!(cache.counts().parts, 0);
    let len = fs::metadata(at.file()).unwrap().len();
    assert!(len > ROOM && len <= 2 * ROOM, "{len}");
}
