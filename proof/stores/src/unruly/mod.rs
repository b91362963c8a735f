//! A store that misbehaves on purpose, for tests: it delays, fails before or after it did what was asked, reorders, and
//! lies.
//!
//! What it does to a request follows from the seed, the request, and how many such requests for the same object came
//! before: not from the time, and not from the order in which requests for different objects come. So the same plan
//! treats the same requests alike.

mod plan;
mod record;
mod serve;
mod states;
mod upload;

pub use plan::{Conditions, Plan};
pub use record::{Answer, Counts, Event, Mode, Request};
pub use states::{Objects, StoreCut};

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::AtomicU64;
use plan::Fate;
use record::Ledger;
use std::fmt;
use std::sync::Arc;

/// A store that passes requests on to another one, as its plan wants. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Unruly {
    inner: Arc<dyn ObjectStore>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    plan: Mutex<Plan>,
    ledger: Mutex<Ledger>,
    /// What objects held before they were last put, for reads that are stale.
    before: InMemory,
    /// Puts with a condition that look out for each other.
    contending: AtomicU64,
}

impl Unruly {
    /// Over `inner`. It behaves until it gets a plan.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        let shared = Shared {
            plan: Mutex::default(),
            ledger: Mutex::default(),
            before: InMemory::new(),
            contending: AtomicU64::new(0),
        };
        Self { inner, shared: Arc::new(shared) }
    }

    /// Replaces the plan, for requests that come from now on.
    pub fn follow(&self, plan: Plan) {
        *self.shared.plan.lock() = plan;
    }

    /// The store below.
    pub fn inner(&self) -> &Arc<dyn ObjectStore> {
        &self.inner
    }

    /// Requests that have come so far, and their bytes.
    pub fn counts(&self) -> Counts {
        self.shared.ledger.lock().counts()
    }

    /// The most reads that were under way at once since this was last asked.
    pub fn most_gets(&self) -> u64 {
        self.shared.ledger.lock().most_reading()
    }

    /// Notes each change and its answer from now on, beginning with nothing.
    pub fn record(&self) {
        self.shared.ledger.lock().record();
    }

    /// As [`Unruly::record`], and `tell` is called with how many were noted so far, each time before anything that
    /// comes of it.
    pub fn record_telling(&self, tell: impl Fn(usize) + Send + Sync + 'static) {
        self.shared.ledger.lock().record_telling(Box::new(tell));
    }

    /// What was noted, in the order in which it was.
    pub fn events(&self) -> Vec<Event> {
        self.shared.ledger.lock().events()
    }
}

impl fmt::Display for Unruly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unruly({})", self.inner)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Unruly {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mode = match opts.mode {
            PutMode::Overwrite => Mode::Overwrite,
            PutMode::Create => Mode::Create,
            PutMode::Update(_) => Mode::Update,
        };
        let request = Request::Put { path: location.clone(), bytes: payload.clone().into(), mode };
        self.serve(request, |fate| self.put_under(fate, location, payload, opts)).await
    }

    /// Beginning, parts and end are requests like others.
    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let request = Request::Upload { path: location.clone() };
        let inner = self.serve(request, |_| self.inner.put_multipart_opts(location, opts)).await?;
        Ok(Box::new(upload::Upload::new(self.clone(), location.clone(), inner)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let request = Request::Get { path: location.clone() };
        let got = self.serve(request, |fate| async move {
            let from: &dyn ObjectStore = if fate.stale { &self.shared.before } else { &self.inner };
            from.get_opts(location, options).await
        });
        let got = got.await?;
        self.shared.ledger.lock().got(got.range.end - got.range.start);
        Ok(got)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let deleted = locations.and_then(move |location| {
            let this = this.clone();
            async move {
                let request = Request::Delete { path: location.clone() };
                let delete = |fate: Fate| {
                    let (inner, location) = (&this.inner, &location);
                    async move { if fate.dropped { Ok(()) } else { inner.delete(location).await } }
                };
                this.serve(request, delete).await?;
                Ok(location)
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let request = Request::List { prefix: prefix.clone() };
            let inner = &this.inner;
            let newest = this.shared.ledger.lock().newest();
            let list = |fate: Fate| async move {
                let listed = inner.list(prefix.as_ref());
                Ok(match (fate.unlisted, fate.behind) {
                    (true, _) => futures_util::stream::empty().boxed(),
                    (false, true) => without(listed, newest),
                    (false, false) => listed,
                })
            };
            this.serve(request, list).await
        };
        futures_util::stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let request = Request::List { prefix: prefix.cloned() };
        self.serve(request, |_| self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let mode = match options.mode {
            CopyMode::Overwrite => Mode::Overwrite,
            CopyMode::Create => Mode::Create,
        };
        let request = Request::Copy { from: from.clone(), to: to.clone(), mode };
        self.serve(request, |fate| self.copy_under(fate, from, to, options)).await
    }
}

/// A list that knows nothing of one object yet.
fn without(
    list: BoxStream<'static, Result<ObjectMeta>>,
    unseen: Option<Path>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let is_seen = move |meta: &ObjectMeta| Some(&meta.location) != unseen.as_ref();
    list.try_filter(move |meta| std::future::ready(is_seen(meta))).boxed()
}

#[cfg(test)]
mod tests;
