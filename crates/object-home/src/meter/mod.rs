//! Counts what a store is asked, right above it: everything else that asks, the database included, is above this.
//!
//! What a client of a cloud repeats by itself is seen in its answers alone ([`Wire`]).

mod pulse;
mod upload;
mod wire;

pub use wire::Wire;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::{Env, System};
use pulse::Pulse;
use std::fmt;
use std::sync::Arc;

/// So many objects are in one answer to a list.
const PAGE: u64 = 1000;

/// What a store was asked since the counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Seconds since the counting began.
    pub seconds: u64,
    /// Objects that were put in one piece.
    pub puts: u64,
    /// Reads.
    pub gets: u64,
    /// Questions for size and version.
    pub heads: u64,
    /// Pages of lists.
    pub lists: u64,
    /// Deletes.
    pub deletes: u64,
    /// Copies within the store.
    pub copies: u64,
    /// Beginnings, ends and cancellations of uploads in parts.
    pub uploads: u64,
    /// Parts of such uploads.
    pub parts: u64,
    /// Requests of a client that were made again, seen in their answers.
    pub repeated: u64,
    /// Bytes of puts and parts that were acknowledged.
    pub up: u64,
    /// Bytes that have come of reads.
    pub down: u64,
    /// Answers that are none: the store failed, refused the credentials, or was not reached. That an object is missing
    /// or exists is an answer.
    pub failed: u64,
    /// Answers that ask for fewer requests.
    pub throttled: u64,
    /// For so many seconds the store has answered nothing that it was asked. 0: it answers, or nothing is asked.
    pub unanswered: u64,
}

/// The counters themselves.
#[derive(Debug)]
pub(crate) struct Counts {
    began: u64,
    puts: AtomicU64,
    gets: AtomicU64,
    heads: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    copies: AtomicU64,
    uploads: AtomicU64,
    parts: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    failed: AtomicU64,
    throttled: AtomicU64,
    wire: Option<Wire>,
    pulse: Pulse,
}

impl Counts {
    pub(crate) fn new(wire: Option<Wire>) -> Self {
        Self {
            began: System.monotonic_ns(),
            puts: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            heads: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            uploads: AtomicU64::new(0),
            parts: AtomicU64::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            wire,
            pulse: Pulse::default(),
        }
    }

    /// As they are now.
    pub(crate) fn requests(&self) -> Requests {
        let of = |count: &AtomicU64| count.load(Relaxed);
        let wire = self.wire.as_ref().map(Wire::seen).unwrap_or_default();
        Requests {
            seconds: (System.monotonic_ns() - self.began) / 1_000_000_000,
            puts: of(&self.puts),
            gets: of(&self.gets),
            heads: of(&self.heads),
            lists: of(&self.lists),
            deletes: of(&self.deletes),
            copies: of(&self.copies),
            uploads: of(&self.uploads),
            parts: of(&self.parts),
            repeated: wire.repeated,
            up: of(&self.up),
            down: of(&self.down),
            failed: of(&self.failed),
            // A client that repeats hides what it was told before.
            throttled: of(&self.throttled).max(wire.throttled),
            unanswered: self.pulse.unanswered(),
        }
    }

    /// A request begins.
    fn ask(self: &Arc<Self>) -> Asked {
        self.pulse.asked();
        Asked { counts: Some(self.clone()) }
    }

    /// Looks at an answer, and counts `bytes` in `to` if it is one.
    fn answered<T>(&self, answer: &Result<T>, to: &AtomicU64, bytes: impl FnOnce(&T) -> u64) {
        match answer {
            Ok(done) => {
                to.fetch_add(bytes(done), Relaxed);
            }
            Err(e) => self.refused(e),
        }
    }

    fn refused(&self, e: &Error) {
        if is_failure(e) {
            self.failed.fetch_add(1, Relaxed);
            self.throttled.fetch_add(u64::from(is_throttle(e)), Relaxed);
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
struct Asked {
    /// Until it has ended.
    counts: Option<Arc<Counts>>,
}

impl Asked {
    /// This is its end.
    fn heard<T>(mut self, answer: &Result<T>) {
        if let Some(counts) = self.counts.take() {
            let is_answer = answer.as_ref().map_or_else(|e| !is_failure(e), |_| true);
            counts.pulse.ended(Some(is_answer));
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.take() {
            counts.pulse.ended(None);
        }
    }
}

fn one(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

fn is_failure(e: &Error) -> bool {
    !matches!(
        e,
        Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Precondition { .. }
            | Error::NotModified { .. }
            | Error::NotImplemented { .. }
    )
}

/// Whether an error asks for fewer requests. The client of a cloud says so in words alone.
pub(crate) fn is_throttle(e: &Error) -> bool {
    let mut source: Option<&dyn std::error::Error> = Some(e);
    while let Some(e) = source {
        let text = e.to_string();
        if ["503 Service Unavailable", "429 Too Many Requests", "SlowDown"].iter().any(|sign| text.contains(sign)) {
            return true;
        }
        source = e.source();
    }
    false
}

/// A store that is counted.
#[derive(Clone)]
pub(crate) struct Meter {
    inner: Arc<dyn ObjectStore>,
    counts: Arc<Counts>,
}

impl Meter {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, counts: Arc<Counts>) -> Self {
        Self { inner, counts }
    }

    fn listed(&self, list: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
        one(&self.counts.lists);
        let (counts, mut found, mut asked) = (self.counts.clone(), 0u64, Some(self.counts.ask()));
        let seen = list.inspect(move |meta| {
            if let Some(asked) = asked.take() {
                asked.heard(meta);
            }
            match meta {
                Ok(_) => {
                    found += 1;
                    // The first page was counted when it was asked for.
                    if found > 1 && found % PAGE == 1 {
                        one(&counts.lists);
                    }
                }
                Err(e) => counts.refused(e),
            }
        });
        seen.boxed()
    }
}

/// Stores know credentials.
impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").finish_non_exhaustive()
    }
}

impl fmt::Display for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Meter {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        one(&self.counts.puts);
        let bytes = payload.content_length() as u64;
        let asked = self.counts.ask();
        let put = self.inner.put_opts(location, payload, opts).await;
        asked.heard(&put);
        self.counts.answered(&put, &self.counts.up, |_| bytes);
        put
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        one(&self.counts.uploads);
        let asked = self.counts.ask();
        let begun = self.inner.put_multipart_opts(location, opts).await;
        asked.heard(&begun);
        self.counts.answered(&begun, &self.counts.up, |_| 0);
        Ok(Box::new(upload::Counted::new(begun?, self.counts.clone())))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        one(if is_head { &self.counts.heads } else { &self.counts.gets });
        let asked = self.counts.ask();
        let got = self.inner.get_opts(location, options).await;
        asked.heard(&got);
        let bytes = |got: &GetResult| match got.payload {
            GetResultPayload::File(..) if !is_head => got.range.end - got.range.start,
            // What comes is counted when it does: whoever reads may stop.
            _ => 0,
        };
        self.counts.answered(&got, &self.counts.down, bytes);
        let mut got = got?;
        if let GetResultPayload::Stream(stream) = got.payload {
            let counts = self.counts.clone();
            let counted = stream.inspect_ok(move |bytes| {
                counts.down.fetch_add(bytes.len() as u64, Relaxed);
            });
            got.payload = GetResultPayload::Stream(counted.boxed());
        }
        Ok(got)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (asked, counts) = (self.counts.clone(), self.counts.clone());
        let locations = locations.inspect_ok(move |_| one(&asked.deletes)).boxed();
        let deleted = self.inner.delete_stream(locations);
        let deleted = deleted.inspect(move |done| match done {
            Ok(_) => counts.pulse.answered(),
            Err(e) => counts.refused(e),
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        one(&self.counts.lists);
        let asked = self.counts.ask();
        let listed = self.inner.list_with_delimiter(prefix).await;
        asked.heard(&listed);
        let more = |listed: &ListResult| {
            let found = listed.objects.len() + listed.common_prefixes.len();
            (found as u64).saturating_sub(1) / PAGE
        };
        self.counts.answered(&listed, &self.counts.lists, more);
        listed
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        one(&self.counts.copies);
        let asked = self.counts.ask();
        let copied = self.inner.copy_opts(from, to, options).await;
        asked.heard(&copied);
        self.counts.answered(&copied, &self.counts.up, |()| 0);
        copied
    }
}

#[cfg(test)]
mod tests;
