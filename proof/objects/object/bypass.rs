//! What is large bypasses the database's log.

use super::crash::short;
use super::*;
use ondol_env::sync::Mutex;
use ondol_object_home::What;
use ondol_object_home::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use ondol_stores::unruly::Plan;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// A batch with so many chunks, of which the first is `first`.
pub(super) fn submit(home: &Home, first: u64, chunks: u64, what: u64) -> u64 {
    let bytes: Vec<u8> = (0..chunks).flat_map(|n| chunk(what + n)).collect();
    home.submit(&[(at(first), &bytes)], &[]).unwrap()
}

pub(super) fn holds(home: &Home, first: u64, chunks: u64, what: u64) -> bool {
    (0..chunks).all(|n| read_chunk(home, first + n) == chunk(what + n))
}

#[test]
fn large_batches_go_up_once_and_small_ones_into_the_log() {
    let store = unruly();
    let home = make(&store, 8192);
    let before = store.counts().put_bytes;
    store.record();
    for n in 0..8 {
        submit(&home, n * 256, 256, n * 1000);
    }
    let number = submit(&home, 8000, 1, 9);
    home.settle(number).unwrap();
    let (up, data) = (store.counts().put_bytes - before, 8 * 256 * CHUNK as u64);
    assert!(up < data * 6 / 5, "{up} bytes for {data}");
    // They have their numbers in the log, and no bytes.
    let puts = log_puts(&store);
    assert!(puts.iter().filter(|len| **len == 0).count() >= 4, "{puts:?}");
    assert!(puts.iter().all(|len| *len < 1000), "{puts:?}");
    // A sync beside which nothing large comes has the log used again: then a sync is one put.
    let number = submit(&home, 8003, 1, 60);
    home.settle(number).unwrap();
    let begun = log_puts(&store).len();
    let number = submit(&home, 8001, 2, 70);
    home.settle(number).unwrap();
    let puts = log_puts(&store);
    assert!(puts.len() == begun + 1 && puts[begun] > CHUNK, "{puts:?}");
    drop(home);
    let home = open(&store);
    assert!((0..8).all(|n| holds(&home, n * 256, 256, n * 1000)));
    assert!(holds(&home, 8000, 1, 9) && holds(&home, 8001, 2, 70));
}

#[test]
fn large_and_small_batches_in_any_order_survive_whoever_is_gone() {
    let store = unruly();
    Home::make(&bucket(store.clone()), making(4096), &short()).unwrap().close().unwrap();
    let (mut random, mut settled) = (Random(5), vec![]);
    for round in 0..12 {
        let home = Home::open(&bucket(store.clone()), &short()).unwrap();
        assert!(settled.iter().all(|(first, chunks)| holds(&home, *first, *chunks, *first)), "round {round}");
        let mut waiting = vec![];
        for n in 0..30 {
            let chunks = [1, 2, 11][random.below(3) as usize];
            let first = round * 340 + n * 11;
            let number = submit(&home, first, chunks, first);
            waiting.push((first, chunks));
            if random.below(3) == 0 {
                home.settle(number).unwrap();
                settled.append(&mut waiting);
            }
        }
        if round % 4 == 3 {
            home.close().unwrap();
            settled.append(&mut waiting);
        }
    }
}

#[test]
fn puts_that_are_made_again_are_as_they_were() {
    for seed in 0..3 {
        let store = unruly();
        let home = Home::make(&bucket(store.clone()), making(4096), &short()).unwrap();
        store.follow(Plan { seed, turns: 5, fail_before: 50, fail_after: 150, ..Plan::default() });
        for n in 0..10 {
            let number = submit(&home, n * 12, [1, 12][n as usize % 2], n * 100);
            if n % 3 > 0 {
                home.settle(number).unwrap();
            }
        }
        home.flush().unwrap();
        drop(home);
        store.follow(Plan::default());
        let home = Home::open(&bucket(store.clone()), &short()).unwrap();
        assert!((0..10).all(|n| holds(&home, n * 12, [1, 12][n as usize % 2], n * 100)), "seed {seed}");
    }
}

#[test]
fn many_who_wait_share_what_is_put_in_place_of_the_log() {
    let store = unruly();
    let home = Home::make(&bucket(store.clone()), making(1 << 16), &short()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let home = &home;
            scope.spawn(move || {
                for n in 0..40 {
                    let first = thread * 4096 + n * 16;
                    let number = submit(home, first, [1, 12][(n / 8) as usize % 2], first);
                    home.settle(number).unwrap();
                }
            });
        }
    });
    drop(home);
    let home = Home::open(&bucket(store.clone()), &short()).unwrap();
    for (thread, n) in (0..8).flat_map(|thread| (0..40).map(move |n| (thread, n))) {
        let first = thread * 4096 + n * 16;
        assert!(holds(&home, first, [1, 12][(n / 8) as usize % 2], first), "{thread} {n}");
    }
}

#[test]
fn snapshots_and_clones_have_what_has_bypassed_the_log() {
    let store = unruly();
    let original = bucket(store.clone());
    let home = Home::make(&original, making(4096), &short()).unwrap();
    submit(&home, 0, 64, 1);
    submit(&home, 100, 1, 500);
    home.snapshot("one").unwrap();
    submit(&home, 0, 64, 2000);
    let clone = original.beside("the clone", Path::from("other/volume"));
    home.clone_to(&clone).unwrap();
    let number = submit(&home, 0, 64, 4000);
    home.settle(number).unwrap();
    drop(home);
    let seen = Home::view(&original, &What::Snapshot("one".into()), &opening()).unwrap();
    assert!(holds(&seen, 0, 64, 1) && holds(&seen, 100, 1, 500));
    let seen = Home::view(&clone, &What::Now, &opening()).unwrap();
    assert!(holds(&seen, 0, 64, 2000) && holds(&seen, 100, 1, 500));
    let own = Home::open(&clone, &short()).unwrap();
    let number = submit(&own, 200, 64, 7000);
    own.settle(number).unwrap();
    own.close().unwrap();
    drop(own);
    let own = Home::open(&clone, &short()).unwrap();
    assert!(holds(&own, 0, 64, 2000) && holds(&own, 200, 64, 7000));
}

const HELD_NEXT: usize = 1;
const HELD: usize = 2;

/// A store at which something is done once, before the first question about the log, and where sorted objects wait
/// until they may be put, or objects of the log.
#[derive(Default)]
pub(super) struct Between {
    pub(super) inner: Option<Unruly>,
    pub(super) work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    pub(super) is_held: Arc<AtomicBool>,
    /// So many objects of the log may be put. 0: all.
    pub(super) logs: Arc<AtomicUsize>,
    /// Manifests are held, or are from the next sorted object on.
    pub(super) manifests: Arc<AtomicUsize>,
}

impl Between {
    fn inner(&self) -> &Unruly {
        self.inner.as_ref().unwrap()
    }

    fn now(&self, path: Option<&Path>) {
        if path.is_some_and(|path| path.parts().any(|part| part.as_ref() == "wal")) {
            let work = self.work.lock().take();
            if let Some(work) = work {
                std::thread::scope(|scope| scope.spawn(work).join().unwrap());
            }
        }
    }
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Between").finish_non_exhaustive()
    }
}

impl std::fmt::Display for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("between")
    }
}

type Stream<T> = futures_util::stream::BoxStream<'static, T>;

#[async_trait::async_trait]
impl ObjectStore for Between {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let is_sorted = location.parts().any(|part| part.as_ref() == "compacted");
        while is_sorted && self.is_held.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if location.parts().any(|part| part.as_ref() == "wal") {
            while self.logs.load(SeqCst) == 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = self.logs.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        }
        let is_manifest = location.parts().any(|part| part.as_ref() == "manifest");
        while is_manifest && self.manifests.load(SeqCst) == HELD {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if is_sorted {
            let _ = self.manifests.compare_exchange(HELD_NEXT, HELD, SeqCst, SeqCst);
        }
        self.inner().put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner().put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.now(Some(location));
        self.inner().get_opts(location, options).await
    }

    fn delete_stream(&self, locations: Stream<Result<Path>>) -> Stream<Result<Path>> {
        self.inner().delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> Stream<Result<ObjectMeta>> {
        self.now(prefix);
        self.inner().list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> Stream<Result<ObjectMeta>> {
        self.now(prefix);
        self.inner().list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner().list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner().copy_opts(from, to, options).await
    }
}

#[test]
fn a_reader_that_is_overtaken_between_manifest_and_log_begins_again() {
    let store = unruly();
    let home = Arc::new(Home::make(&bucket(store.clone()), making(4096), &short()).unwrap());
    let number = submit(&home, 0, 1, 1);
    home.settle(number).unwrap();
    let writer = home.clone();
    let work = move || {
        let number = submit(&writer, 100, 64, 1000);
        writer.settle(number).unwrap();
        let number = submit(&writer, 0, 1, 2);
        writer.settle(number).unwrap();
    };
    let work: Box<dyn FnOnce() + Send> = Box::new(work);
    let between = Between { inner: Some(store), work: Mutex::new(Some(work)), ..Between::default() };
    let seen = Home::view(&bucket(between), &What::Now, &opening()).unwrap();
    // The small batch is there only with the large one before it.
    assert_eq!(read_chunk(&seen, 0), chunk(2));
    assert!(holds(&seen, 100, 64, 1000));
}

#[test]
fn what_an_opening_notes_of_the_manifest_is_in_the_store() {
    let memory = Arc::new(InMemory::new());
    let store = Unruly::new(memory.clone());
    let roomy = Opening { object: 64 << 20, ..short() };
    let home = Home::make(&bucket(store.clone()), making(8192), &roomy).unwrap();
    for n in 0..4 {
        let number = submit(&home, n * 8, 8, n * 100);
        home.settle(number).unwrap();
    }
    drop(home);
    // What the next one replays becomes objects while it opens; the manifest that names them does not come.
    let manifests = Arc::new(AtomicUsize::new(HELD_NEXT));
    let between = Between { inner: Some(store), manifests: manifests.clone(), ..Between::default() };
    let home = Home::open(&bucket(between), &short()).unwrap();
    let number = submit(&home, 8000, 1, 7);
    home.settle(number).unwrap();
    let after = Unruly::new(Arc::new(memory.fork()));
    manifests.store(0, SeqCst);
    drop(home);
    let again = Home::open(&bucket(after), &short()).unwrap();
    assert!((0..4).all(|n| holds(&again, n * 8, 8, n * 100)) && holds(&again, 8000, 1, 7));
}

#[test]
fn a_writer_that_was_taken_over_acknowledges_nothing_that_has_bypassed_the_log() {
    let store = unruly();
    let old = Home::make(&bucket(store.clone()), making(4096), &short()).unwrap();
    submit(&old, 0, 64, 1);
    let new = Home::open(&bucket(store.clone()), &short()).unwrap();
    // It may have learned of it before.
    let bytes: Vec<u8> = (0..64).flat_map(|n| chunk(1000 + n)).collect();
    old.submit(&[(at(100), &bytes)], &[]).and_then(|number| old.settle(number)).unwrap_err();
    let number = submit(&new, 100, 64, 5000);
    new.settle(number).unwrap();
    drop((old, new));
    let home = Home::open(&bucket(store), &short()).unwrap();
    assert!(holds(&home, 100, 64, 5000));
}

/// Takes what the database puts first and holds what it puts then: a batch comes meanwhile, which the same flush of the
/// log takes, and the flush of sorted objects does not.
fn split(chunks: u64) -> (Arc<InMemory>, Home, u64) {
    let memory = Arc::new(InMemory::new());
    let logs = Arc::new(AtomicUsize::new(0));
    let store = Unruly::new(memory.clone());
    let between = Between { inner: Some(store.clone()), logs: logs.clone(), ..Between::default() };
    let home = Home::make(&bucket(between), making(4096), &short()).unwrap();
    store.record();
    logs.store(1, SeqCst);
    let number = submit(&home, 0, 13, 1);
    let last = std::thread::scope(|scope| {
        let first = scope.spawn(|| home.settle(number));
        std::thread::sleep(Duration::from_millis(100));
        let last = submit(&home, 100, chunks, 500);
        logs.store(0, SeqCst);
        first.join().unwrap().unwrap();
        last
    });
    (memory, home, last)
}

#[test]
fn what_comes_beside_a_flush_and_bypasses_the_log_with_it_is_not_taken_for_durable() {
    let (memory, home, last) = split(1);
    home.settle(last).unwrap();
    let after = Unruly::new(Arc::new(memory.fork()));
    let again = Home::open(&bucket(after), &short()).unwrap();
    assert!(holds(&again, 0, 13, 1) && holds(&again, 100, 1, 500));
    drop(home);
}

#[test]
fn sorted_objects_do_not_wait_for_rows_that_nobody_flushes() {
    for chunks in [2, 5, 8, 11] {
        let (memory, home, last) = split(chunks);
        let number = submit(&home, 200, 11 - chunks.min(10), 900);
        home.settle(number.max(last)).unwrap();
        let after = Unruly::new(Arc::new(memory.fork()));
        assert!(holds(&Home::open(&bucket(after), &short()).unwrap(), 100, chunks, 500));
    }
}

#[test]
fn small_syncs_of_many_at_a_store_that_is_far_away_use_the_log_again() {
    let store = unruly();
    let home = Home::make(&bucket(store.clone()), making(1 << 14), &opening()).unwrap();
    store.record();
    store.follow(Plan { latency: Duration::from_millis(60), ..Plan::default() });
    // Large for the log, and nothing that becomes a sorted object by itself.
    submit(&home, 0, 150, 1);
    std::thread::scope(|scope| {
        for thread in 1..5 {
            let home = &home;
            scope.spawn(move || {
                for n in 0..8 {
                    let number = submit(home, thread * 1000 + n, 1, n);
                    home.settle(number).unwrap();
                }
            });
        }
    });
    let puts = log_puts(&store);
    let (empty, full): (Vec<usize>, Vec<usize>) = puts.iter().copied().partition(|len| *len == 0);
    assert!(!empty.is_empty() && full.len() > empty.len(), "{puts:?}");
}
