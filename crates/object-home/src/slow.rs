//! A store as far away as one likes: each request takes so much longer. A directory of this machine can stand in for a cloud when requests are counted and timed.

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A store whose requests take longer. Requests that are under way together wait together.
#[derive(Clone)]
pub(crate) struct Slow {
    inner: Arc<dyn ObjectStore>,
    delay: Duration,
}

impl Slow {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, delay: Duration) -> Self {
        Self { inner, delay }
    }

    async fn wait(&self) {
        tokio::time::sleep(self.delay).await;
    }

    fn late(&self, list: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
        let delay = self.delay;
        let late = async move {
            tokio::time::sleep(delay).await;
            list
        };
        stream::once(late).flatten().boxed()
    }
}

/// Stores know credentials.
impl fmt::Debug for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slow").field("delay", &self.delay).finish_non_exhaustive()
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Slow {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.wait().await;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.wait().await;
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(SlowUpload { inner, delay: self.delay }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.wait().await;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let delay = self.delay;
        // One after the other: the inner store does not say what it asks at once.
        let late = locations.and_then(move |location| async move {
            tokio::time::sleep(delay).await;
            Ok(location)
        });
        self.inner.delete_stream(late.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.late(self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.late(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.wait().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.wait().await;
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct SlowUpload {
    inner: Box<dyn MultipartUpload>,
    delay: Duration,
}

#[async_trait::async_trait]
impl MultipartUpload for SlowUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (delay, put) = (self.delay, self.inner.put_part(data));
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            put.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        tokio::time::sleep(self.delay).await;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        tokio::time::sleep(self.delay).await;
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Border;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn every_request_waits_and_answers_as_without() {
        let border = Border::new(1).unwrap();
        border.wait(async {
            // Nothing that waits for so long is done before something that does not wait at all.
            let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let far = Slow::new(inner.clone(), Duration::from_secs(3600));
            let (path, done) = (Path::from("a/b"), Arc::new(AtomicBool::new(false)));
            let (to, set) = (path.clone(), done.clone());
            let put = tokio::spawn(async move {
                far.put(&to, PutPayload::from_static(b"x")).await.map(|_| set.store(true, SeqCst))
            });
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(!done.load(SeqCst) && inner.head(&path).await.is_err());
            put.abort();

            let near = Slow::new(inner, Duration::from_millis(1));
            near.put(&path, PutPayload::from_static(b"xy")).await.unwrap();
            let again = near.put_opts(&path, PutPayload::from_static(b"z"), PutMode::Create.into()).await;
            assert!(matches!(again, Err(object_store::Error::AlreadyExists { .. })), "{again:?}");
            assert_eq!(near.get(&path).await.unwrap().bytes().await.unwrap(), "xy");
            let copy = Path::from("a/c");
            near.copy(&path, &copy).await.unwrap();
            let mut upload = near.put_multipart(&Path::from("d")).await.unwrap();
            upload.put_part(PutPayload::from_static(b"part")).await.unwrap();
            upload.complete().await.unwrap();
            let listed: Vec<ObjectMeta> = near.list(Some(&Path::from("a"))).try_collect().await.unwrap();
            assert_eq!(listed.len(), 2);
            assert_eq!(near.list_with_delimiter(None).await.unwrap().common_prefixes.len(), 1);
            assert_eq!(
                near.list_with_offset(None, &copy).map_ok(|meta| meta.size).try_collect::<Vec<_>>().await.unwrap(),
                [4]
            );
            near.delete(&copy).await.unwrap();
            assert!(near.head(&copy).await.is_err());
        });
    }
}
