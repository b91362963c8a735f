//! A reader of what is there now looks for nothing newer.
//!
//! The database's reader looks once more as soon as it is open, whatever it is told. What it finds then nobody has
//! judged ([`super::bypass`]: it may have rows behind a gap). It reads the manifest first and the log afterwards, each
//! time. So as soon as it has asked for the log, there is no manifest for it any more, and it goes on with what it has.

use crate::Bucket;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether manifests can be read no more, where that is wanted at all.
#[derive(Clone, Default)]
pub(super) struct Still(Option<Arc<AtomicBool>>);

impl Still {
    /// Puts it above the store of `bucket`, if it is wanted.
    pub(super) fn over(bucket: &mut Bucket, wanted: bool) -> Self {
        if !wanted {
            return Self::default();
        }
        let is_still = Arc::new(AtomicBool::new(false));
        *bucket = bucket.through(Arc::new(Store { inner: bucket.store.clone(), is_still: is_still.clone() }));
        Self(Some(is_still))
    }

    /// The next reader may read the manifest again.
    pub(super) fn begin_anew(&self) {
        if let Some(flag) = &self.0 {
            flag.store(false, SeqCst);
        }
    }
}

struct Store {
    inner: Arc<dyn ObjectStore>,
    is_still: Arc<AtomicBool>,
}

impl Store {
    /// What is asked for is no manifest, or the log was not asked for before.
    fn require(&self, path: Option<&Path>) -> Result<()> {
        let is_of = |kind: &str| path.is_some_and(|path| path.parts().any(|part| part.as_ref() == kind));
        if is_of("wal") {
            self.is_still.store(true, SeqCst);
        }
        if is_of("manifest") && self.is_still.load(SeqCst) {
            return Err(Error::NotSupported { source: "nothing newer is looked for".into() });
        }
        Ok(())
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        list: impl FnOnce() -> BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.require(prefix) {
            Ok(()) => list(),
            Err(e) => futures_util::stream::once(async move { Err(e) }).boxed(),
        }
    }
}

#[async_trait::async_trait]
impl ObjectStore for Store {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.require(Some(location))?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, || self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, || self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.require(prefix)?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Stores know credentials.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Still").finish_non_exhaustive()
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
