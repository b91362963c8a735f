use super::*;
use crate::Border;
use crate::unruly::{Counts, Plan, Unruly};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use slatedb::object_store_tag::RetryReason;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// As clients of clouds do, it answers a few bytes at a time, and only when they are asked for.
#[derive(Clone, Debug)]
struct Frames {
    inner: Unruly,
    /// Bytes that have come.
    came: Arc<AtomicU64>,
    /// Answers break off after so many bytes.
    breaks: Arc<AtomicU64>,
}

const FRAME: usize = 50_000;

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Frames {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.inner.get_opts(location, options).await?;
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let all = got.bytes().await?;
        let (came, breaks) = (self.came.clone(), self.breaks.clone());
        let frames = futures_util::stream::unfold(0, move |from| {
            let frame = (from < all.len()).then(|| all.slice(from..all.len().min(from + FRAME)));
            let (came, breaks) = (came.clone(), breaks.clone());
            async move {
                let frame = frame?;
                let next = from + frame.len();
                if next as u64 > breaks.load(Relaxed) {
                    let source = "the connection is gone".into();
                    return Some((Err(object_store::Error::Generic { store: "frames", source }), usize::MAX));
                }
                came.fetch_add(frame.len() as u64, Relaxed);
                Some((Ok(frame), next))
            }
        });
        let payload = GetResultPayload::Stream(frames.boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() })
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

struct Setting {
    border: Border,
    frames: Frames,
    streams: Streams,
}

/// Longer than any answer here takes.
const FOREVER: Duration = Duration::from_secs(3600);

impl Setting {
    /// With objects of these sizes, in a store that is near, and was heard of.
    fn new(sizes: &[u64]) -> Self {
        Self::within(sizes, FOREVER)
    }

    fn within(sizes: &[u64], near: Duration) -> Self {
        let border = Border::new(2).unwrap();
        let inner = Unruly::new(Arc::new(InMemory::new()));
        let (came, breaks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
        let frames = Frames { inner, came, breaks };
        let streams = Streams::new(Arc::new(frames.clone()), near);
        for (n, size) in sizes.iter().enumerate() {
            let (streams, bytes) = (streams.clone(), content(n, 0..*size));
            border.wait(async move { streams.put(&object(n), bytes.into()).await.unwrap() });
        }
        let at = Self { border, frames, streams };
        at.read(0, 0..10);
        at
    }

    fn counts(&self) -> Counts {
        self.frames.inner.counts()
    }

    fn open(&self) -> usize {
        self.streams.shared.open.lock().len()
    }

    /// Reads a range, which must be right.
    fn read(&self, n: usize, range: Range<u64>) {
        self.read_with(n, options(range.clone()), range);
    }

    fn read_with(&self, n: usize, options: GetOptions, range: Range<u64>) {
        let streams = self.streams.clone();
        self.border.wait(async move { check(&streams, n, options, range).await });
    }
}

async fn check(streams: &Streams, n: usize, options: GetOptions, range: Range<u64>) {
    let got = streams.get_opts(&object(n), options).await.unwrap();
    let expected = range.start..range.end.min(got.meta.size);
    assert_eq!((got.range.clone(), &got.meta.location), (expected.clone(), &object(n)));
    assert!(got.bytes().await.unwrap() == content(n, expected.clone()), "{expected:?} of object {n}");
}

fn object(n: usize) -> Path {
    Path::from(format!("a/db/compacted/{n}.sst"))
}

/// As the database asks.
fn options(range: Range<u64>) -> GetOptions {
    tagged(range, ObjectStoreCallTag::new(TableStoreKind::Main, SstType::Compacted))
}

fn tagged(range: Range<u64>, tag: ObjectStoreCallTag) -> GetOptions {
    GetOptions { range: Some(GetRange::Bounded(range)), extensions: tag.into(), ..GetOptions::default() }
}

/// Bytes of object `n`, which differ from place to place and from object to object.
fn content(n: usize, range: Range<u64>) -> Vec<u8> {
    range.map(|at| ((at + 1).wrapping_mul(0x5851_f42d_4c95_7f2d + 2 * n as u64) >> 40) as u8).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// Ranges from `from` on, as pieces of a long read are: each begins with the block with which the last one has ended.
fn pieces(from: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    (from..size)
        .step_by(2 * MIB as usize)
        .map(move |at| at.saturating_sub(16 * KIB).max(from)..(at + 2 * MIB).min(size))
}

#[test]
fn an_object_that_is_read_in_order_is_asked_for_once_and_no_more_of_it_than_that() {
    let size = 16 * MIB + 99_999;
    // From its beginning, a little behind it, and from its middle.
    for from in [0, 100 * KIB, 5 * MIB + 1] {
        let at = Setting::new(&[size]);
        let before = (at.counts().gets, at.frames.came.load(Relaxed));
        for range in pieces(from, size) {
            let end = range.end;
            at.read(0, range);
            let came = at.frames.came.load(Relaxed) - before.1;
            let begun = if from <= HEAD { 0 } else { from };
            // What is left of it is taken with the last but one.
            assert!(came <= end - begun + FRAME as u64 + 128 * KIB, "{came} of {end}");
        }
        assert_eq!(at.counts().gets - before.0, 1, "{from}");
        // Nobody needs it again.
        assert!(at.frames.came.load(Relaxed) - before.1 <= size);
    }
}

#[test]
fn ranges_that_are_asked_for_together_come_in_any_order_of_one_answer() {
    let size = 24 * MIB;
    for seed in 0..20 {
        let at = Setting::new(&[size]);
        let gets = at.counts().gets;
        at.read(0, 0..2 * MIB);
        let mut random = Random(seed);
        let mut ranges: Vec<Range<u64>> = pieces(2 * MIB, size).collect();
        // Neighbours change places.
        (1..ranges.len()).filter(|_| random.below(3) == 0).for_each(|n| ranges.swap(n - 1, n));
        let streams = at.streams.clone();
        at.border.wait(async move {
            let reads = futures_util::stream::iter(ranges).map(|range| {
                let streams = streams.clone();
                async move { check(&streams, 0, options(range.clone()), range).await }
            });
            reads.buffer_unordered(8).collect::<Vec<()>>().await;
        });
        // A swap of a swap may be too far.
        assert!(at.counts().gets - gets <= 4, "{seed}: {}", at.counts().gets - gets);
    }
}

#[test]
fn the_next_object_is_asked_for_as_a_whole_wherever_in_it_the_read_goes_on() {
    let at = Setting::new(&[8 * MIB, 8 * MIB]);
    let gets = at.counts().gets;
    pieces(0, 8 * MIB).for_each(|range| at.read(0, range));
    // A part of a piece, behind what else the object has.
    at.read(1, 70 * KIB..300 * KIB);
    pieces(300 * KIB, 8 * MIB).for_each(|range| at.read(1, range));
    assert_eq!(at.counts().gets - gets, 2);
}

#[test]
fn of_a_large_object_little_is_passed_over_so_that_it_is_asked_for_as_a_whole() {
    let size = 40 * MIB;
    for (from, asked) in [(2 * MIB, size), (3 * MIB, size - 3 * MIB)] {
        let at = Setting::new(&[size]);
        let before = at.counts();
        pieces(from, 9 * MIB).for_each(|range| at.read(0, range));
        assert_eq!((at.counts().gets - before.gets, at.counts().get_bytes - before.get_bytes), (1, asked), "{from}");
    }
}

#[test]
fn a_store_that_is_far_away_or_was_never_heard_of_is_asked_for_ranges() {
    let at = Setting::within(&[8 * MIB], Duration::ZERO);
    let gets = at.counts().gets;
    pieces(0, 8 * MIB).for_each(|range| at.read(0, range));
    assert_eq!((at.counts().gets - gets, at.open()), (4, 0));
    let at = Setting::new(&[8 * MIB]);
    at.streams.shared.quickest.store(u64::MAX, Relaxed);
    let gets = at.counts().gets;
    at.read(0, 0..2 * MIB);
    assert_eq!((at.counts().gets - gets, at.open()), (1, 0));
    at.read(0, 2 * MIB..4 * MIB);
    assert_eq!(at.open(), 1);
}

#[test]
fn files_of_this_machine_are_read_by_place() {
    let dir = tempfile::tempdir().unwrap();
    let border = Border::new(1).unwrap();
    let store = object_store::local::LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    let streams = Streams::new(Arc::new(store), FOREVER);
    let read = streams.clone();
    border.wait(async move {
        read.put(&object(0), content(0, 0..8 * MIB).into()).await.unwrap();
        for range in pieces(0, 8 * MIB) {
            check(&read, 0, options(range.clone()), range).await;
        }
    });
    assert!(streams.shared.open.lock().is_empty());
}

#[test]
fn what_is_no_part_of_a_long_read_passes() {
    let at = Setting::new(&[8 * MIB]);
    let gets = at.counts().gets;
    let long = 0..2 * MIB;
    let tag = |kind, sst| ObjectStoreCallTag::new(kind, sst);
    at.read(0, 0..MIB);
    at.read_with(0, tagged(long.clone(), tag(TableStoreKind::Compactor, SstType::Compacted)), long.clone());
    at.read_with(0, tagged(long.clone(), tag(TableStoreKind::Main, SstType::Wal)), long.clone());
    let untagged = GetOptions { range: Some(GetRange::Bounded(long.clone())), ..GetOptions::default() };
    at.read_with(0, untagged, long.clone());
    let since = GetOptions { if_none_match: Some("other".into()), ..options(long.clone()) };
    at.read_with(0, since, long.clone());
    assert_eq!((at.counts().gets - gets, at.open()), (5, 0));
    at.read(0, long);
    // Within an object that comes as a stream, too.
    at.read(0, 2 * MIB..2 * MIB + 100);
    at.read(0, 7 * MIB..8 * MIB);
    at.read(0, 0..100 * KIB);
    assert_eq!((at.counts().gets - gets, at.open()), (9, 1));
    at.read(0, 2 * MIB..4 * MIB);
    assert_eq!(at.counts().gets - gets, 9);
}

#[test]
fn what_was_damaged_on_the_way_is_asked_for_again() {
    let at = Setting::new(&[8 * MIB]);
    at.read(0, 0..2 * MIB);
    let gets = at.counts().gets;
    let again = ObjectStoreCallTag {
        retry: Some(RetryReason::CrcMismatch),
        ..ObjectStoreCallTag::new(TableStoreKind::Main, SstType::Compacted)
    };
    at.read_with(0, tagged(MIB..3 * MIB, again), MIB..3 * MIB);
    assert_eq!((at.counts().gets - gets, at.open()), (1, 0));
}

#[test]
fn an_answer_that_breaks_off_costs_requests_and_nothing_else() {
    let size = 12 * MIB;
    let at = Setting::new(&[size]);
    let gets = at.counts().gets;
    at.frames.breaks.store(5 * MIB, Relaxed);
    pieces(0, size).for_each(|range| at.read(0, range));
    let asked = at.counts().gets - gets;
    assert!((3..=10).contains(&asked), "{asked}");
    // A store that cannot be asked says so to whoever asks.
    at.frames.inner.follow(Plan { fail_before: 1000, ..Plan::default() });
    let streams = at.streams.clone();
    let failed = at.border.wait(async move { streams.get_opts(&object(0), options(0..2 * MIB)).await });
    assert!(failed.is_err());
}

#[test]
fn streams_are_few_and_those_of_who_does_not_read_on_come_seldom() {
    let sizes = [8 * MIB; 8];
    let at = Setting::new(&sizes);
    for range in pieces(0, 4 * MIB) {
        (0..8).for_each(|n| at.read(n, range.clone()));
        assert!(at.open() <= STREAMS, "{}", at.open());
    }
    let at = Setting::new(&sizes);
    let opened = |n: u64| {
        let gets = at.counts().get_bytes;
        at.read((n % 8) as usize, 3 * MIB..5 * MIB);
        // More than the range was asked for.
        at.counts().get_bytes - gets > 2 * MIB
    };
    let opened = (0..80).filter(|n| opened(*n)).count();
    assert!((1..=STREAMS + 80 / CAUTION as usize + 1).contains(&opened), "{opened} of 80");
}

#[test]
fn whoever_stops_reading_holds_no_connection() {
    let at = Setting::new(&[8 * MIB]);
    at.read(0, 0..2 * MIB);
    assert_eq!(at.open(), 1);
    let streams = at.streams.clone();
    // It takes a second or two.
    at.border.wait(async move {
        while !streams.shared.open.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    at.read(0, 2 * MIB..3 * MIB);
}

/// Anybody reads anything.
#[test]
fn every_range_is_right() {
    let sizes = [3 * MIB, 9 * MIB, 20 * MIB];
    for seed in 0..30 {
        let at = Setting::new(&sizes);
        let mut random = Random(seed);
        if seed % 3 == 0 {
            at.frames.breaks.store(MIB + random.below(8 * MIB), Relaxed);
        }
        let mut places = [0u64; 3];
        let mut ranges = vec![];
        for _ in 0..40 {
            let n = random.below(3) as usize;
            let from = match random.below(10) {
                0 => random.below(sizes[n]),
                1 => places[n].saturating_sub(random.below(MIB)),
                2 => places[n] + random.below(5 * MIB),
                _ => places[n],
            };
            let from = from.min(sizes[n] - 1);
            let end = from + 1 + random.below(3 * MIB);
            places[n] = end % sizes[n];
            ranges.push((n, from..end));
        }
        let streams = at.streams.clone();
        let at_once = 1 + random.below(6) as usize;
        at.border.wait(async move {
            let reads = futures_util::stream::iter(ranges).map(|(n, range)| {
                let streams = streams.clone();
                async move {
                    // A break is an error of the plain request, too.
                    let got = streams.get_opts(&object(n), options(range.clone())).await.unwrap();
                    let expected = range.start..range.end.min(got.meta.size);
                    assert_eq!(got.range, expected);
                    if let Ok(bytes) = got.bytes().await {
                        assert!(bytes == content(n, expected), "{range:?} of object {n}");
                    }
                }
            });
            reads.buffer_unordered(at_once).collect::<Vec<()>>().await;
        });
    }
}
