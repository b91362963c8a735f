//! Uploads in parts. What was uploaded is an object when the end is acknowledged, and nothing before.

use super::{Request, Unruly};
use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

/// An upload to a store that misbehaves.
#[derive(Debug)]
pub(super) struct Upload {
    store: Unruly,
    path: Path,
    inner: Box<dyn MultipartUpload>,
    parts: Vec<Bytes>,
}

impl Upload {
    pub(super) fn new(store: Unruly, path: Path, inner: Box<dyn MultipartUpload>) -> Self {
        Self { store, path, inner, parts: vec![] }
    }

    fn whole(&self) -> Bytes {
        let mut whole = BytesMut::new();
        self.parts.iter().for_each(|part| whole.extend_from_slice(part));
        whole.freeze()
    }
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let bytes: Bytes = data.clone().into();
        let request = Request::Part { path: self.path.clone(), number: self.parts.len(), bytes: bytes.len() as u64 };
        self.parts.push(bytes);
        let (store, put) = (self.store.clone(), self.inner.put_part(data));
        Box::pin(async move { store.serve(request, |_| put).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let request = Request::Complete { path: self.path.clone(), bytes: self.whole() };
        let (store, path, inner) = (self.store.clone(), self.path.clone(), &mut self.inner);
        let complete = |fate: super::plan::Fate| {
            let store = store.clone();
            async move {
                if fate.dropped {
                    return Ok(super::serve::dropped());
                }
                let old = store.old(&path).await;
                let done = inner.complete().await?;
                store.keep(&path, old).await?;
                Ok(done)
            }
        };
        store.serve(request, complete).await
    }

    async fn abort(&mut self) -> Result<()> {
        let request = Request::Abort { path: self.path.clone() };
        let (store, inner) = (self.store.clone(), &mut self.inner);
        store.serve(request, |_| inner.abort()).await
    }
}
