//! Parts of one object that are read one after the other come in one answer of the store.
//!
//! A store over a store. Whoever reads a volume in order asks for one object in many ranges. A store that is near gains nothing from many requests at once, and each of them costs it something: some send a whole object
//! without looking at it, and a part of one through their memory. So the object is asked for once, and what comes is given to the ranges in their order. What follows a range waits in the store until it is asked for; what lies before the first one is passed over.
//!
//! A store that is far away is asked for ranges, as it was before: there, several answers at once are quicker than one.

mod source;

use crate::Bucket;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_env::{Env, System};
use slatedb::object_store_tag::{ObjectStoreCallTag, SstType, TableStoreKind};
use source::Source;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A range of so many bytes is one of a long read.
const LONG: u64 = 3 << 19;

/// Shorter ones never are: single blocks, filters, short indexes.
const SHORT: u64 = 64 << 10;

/// An object of which a range begins so early is asked for as a whole: within so many bytes,
const HEAD: u64 = 256 << 10;
/// or within such a part of the object, if its size is known.
const PART: u64 = 16;

/// Objects whose sizes are remembered: those that answered last.
const SIZES: usize = 64;

/// Streams at once: the newest.
const STREAMS: usize = 4;

/// Who has not read from a stream for so long does not read on. None lasts longer than this many of them, which is less than a client waits for the end of an answer.
const IDLE: Duration = Duration::from_secs(1);
const LASTS: u64 = 10;

/// A store that has ever answered so soon is near: what is far away cannot.
const NEAR: Duration = Duration::from_millis(1);

/// So many chances for a stream pass by after one that served nobody but who opened it.
const CAUTION: u64 = 8;

/// The bucket with streams above its store.
pub(crate) fn over(bucket: &Bucket) -> Bucket {
    bucket.through(Arc::new(Streams::new(bucket.store.clone(), NEAR)))
}

#[derive(Clone)]
pub(crate) struct Streams {
    inner: Arc<dyn ObjectStore>,
    shared: Arc<Shared>,
}

struct Shared {
    near: Duration,
    /// The oldest first.
    open: Mutex<Vec<Arc<Stream>>>,
    /// How long the quickest answer took, in nanoseconds.
    quickest: AtomicU64,
    sizes: Mutex<VecDeque<(Path, u64)>>,
    /// It answers with files of this machine, which are read by place.
    has_files: AtomicBool,
    /// Chances that still pass by.
    caution: AtomicU64,
}

/// One object that is being read.
struct Stream {
    location: Path,
    born: u64,
    is_used: AtomicBool,
    served: AtomicU64,
    /// Whoever has it reads; the others wait in the order in which they came.
    source: tokio::sync::Mutex<Source>,
}

impl Streams {
    /// Over a store, which is near if it answers sooner than this.
    fn new(inner: Arc<dyn ObjectStore>, near: Duration) -> Self {
        let shared = Shared {
            near,
            open: Mutex::default(),
            quickest: AtomicU64::new(u64::MAX),
            sizes: Mutex::default(),
            has_files: AtomicBool::new(false),
            caution: AtomicU64::new(0),
        };
        Self { inner, shared: Arc::new(shared) }
    }

    /// The range that is asked for, if a stream may serve it.
    fn wanted(&self, location: &Path, options: &GetOptions) -> Option<Range<u64>> {
        let GetOptions {
            if_match, if_none_match, if_modified_since, if_unmodified_since, range, version, head, ..
        } = options;
        let has_condition = if_match.is_some()
            || if_none_match.is_some()
            || if_modified_since.is_some()
            || if_unmodified_since.is_some()
            || version.is_some();
        let tag = ObjectStoreCallTag::from_extensions(&options.extensions)?;
        if tag.retry.is_some() {
            // What has come may be damaged.
            self.shared.end(|stream| stream.location == *location);
            return None;
        }
        let is_read =
            tag.sst_type == SstType::Compacted && matches!(tag.kind, TableStoreKind::Main | TableStoreKind::Reader);
        match range {
            Some(GetRange::Bounded(range)) if is_read && !has_condition && !head => {
                (range.end.saturating_sub(range.start) >= SHORT).then(|| range.clone())
            }
            _ => None,
        }
    }

    async fn passed(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let began = System.monotonic_ns();
        let got = self.inner.get_opts(location, options).await?;
        if matches!(got.payload, GetResultPayload::File(..)) {
            self.shared.has_files.store(true, Relaxed);
        }
        self.shared.heard(&got.meta, System.monotonic_ns() - began);
        Ok(got)
    }

    async fn read(&self, location: &Path, options: GetOptions, range: Range<u64>) -> Result<GetResult> {
        if let Some(stream) = self.shared.stream(location, &range) {
            stream.is_used.store(true, Relaxed);
            // One answer that stands still holds nobody up for long.
            let Ok(mut source) = tokio::time::timeout(IDLE, stream.source.lock()).await else {
                return self.passed(location, options).await;
            };
            let taken = source.take(&*self.inner, location, &options, &range).await;
            if source.has_failed() {
                self.shared.end(|other| Arc::ptr_eq(other, &stream));
            }
            drop(source);
            if let Some((bytes, meta)) = taken {
                stream.served.fetch_add(1, Relaxed);
                stream.is_used.store(true, Relaxed);
                return Ok(answer(bytes, meta, range.start));
            }
        }
        self.passed(location, options).await
    }
}

fn answer(bytes: Bytes, meta: ObjectMeta, from: u64) -> GetResult {
    let range = from..from + bytes.len() as u64;
    let payload = GetResultPayload::Stream(futures_util::stream::once(async move { Ok(bytes) }).boxed());
    GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() }
}

impl Shared {
    /// The store has answered.
    fn heard(&self, meta: &ObjectMeta, nanoseconds: u64) {
        self.quickest.fetch_min(nanoseconds, Relaxed);
        let mut sizes = self.sizes.lock();
        sizes.retain(|(location, _)| *location != meta.location);
        sizes.truncate(SIZES - 1);
        sizes.push_front((meta.location.clone(), meta.size));
    }

    /// From where an object is asked for if a range of it is to be the first.
    fn from(&self, location: &Path, start: u64) -> u64 {
        let sizes = self.sizes.lock();
        let size = sizes.iter().find(|(of, _)| of == location).map_or(0, |(_, size)| *size);
        if start <= HEAD.max(size / PART) { 0 } else { start }
    }

    /// The stream of an object from which a range may come: one that is open, or a new one if this looks like a long read.
    fn stream(self: &Arc<Self>, location: &Path, range: &Range<u64>) -> Option<Arc<Stream>> {
        let now = System.monotonic_ns();
        let is_over = |stream: &Stream| now.saturating_sub(stream.born) > LASTS * IDLE.as_nanos() as u64;
        self.end(|stream| is_over(stream));
        let mut open = self.open.lock();
        if let Some(stream) = open.iter().find(|stream| stream.location == *location) {
            return Some(stream.clone());
        }
        let goes_on = range.start <= HEAD && !open.is_empty();
        if !goes_on && range.end - range.start < LONG || !self.is_near() {
            return None;
        }
        let passes = |left: u64| left.checked_sub(1);
        if self.caution.fetch_update(Relaxed, Relaxed, passes).is_ok() {
            return None;
        }
        let source = Source::new(self.from(location, range.start), range.start);
        let stream = Arc::new(Stream {
            location: location.clone(),
            born: now,
            is_used: AtomicBool::new(true),
            served: AtomicU64::new(0),
            source: tokio::sync::Mutex::new(source),
        });
        open.push(stream.clone());
        let oldest = (open.len() > STREAMS).then(|| open.remove(0));
        drop(open);
        oldest.into_iter().for_each(|oldest| self.judge(&oldest));
        tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&stream)));
        Some(stream)
    }

    fn is_near(&self) -> bool {
        !self.has_files.load(Relaxed) && self.quickest.load(Relaxed) < self.near.as_nanos() as u64
    }

    /// Ends some streams. Who waits for one still gets what comes of it.
    fn end(&self, which: impl Fn(&Arc<Stream>) -> bool) {
        let ended: Vec<_> = self.open.lock().extract_if(.., |stream| which(stream)).collect();
        ended.iter().for_each(|stream| self.judge(stream));
    }

    /// A stream has ended. Was it worth it?
    fn judge(&self, stream: &Stream) {
        if stream.served.load(Relaxed) < 2 {
            self.caution.store(CAUTION, Relaxed);
        }
    }
}

/// Ends a stream from which nobody reads any more: it holds a connection.
async fn watch(shared: Weak<Shared>, stream: Weak<Stream>) {
    while stream.upgrade().is_some_and(|stream| stream.is_used.swap(false, Relaxed)) {
        tokio::time::sleep(IDLE).await;
    }
    if let Some(shared) = shared.upgrade() {
        shared.end(|other| Weak::ptr_eq(&Arc::downgrade(other), &stream));
    }
}

/// Stores know credentials.
impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Streams {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.wanted(location, &options) {
            Some(range) => self.read(location, options, range).await,
            None => self.passed(location, options).await,
        }
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

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
