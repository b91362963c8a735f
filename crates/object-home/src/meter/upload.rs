//! An upload in parts that is counted.

use super::{Counts, one};
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Counted {
    inner: Box<dyn MultipartUpload>,
    counts: Arc<Counts>,
}

impl Counted {
    pub(super) fn new(inner: Box<dyn MultipartUpload>, counts: Arc<Counts>) -> Self {
        Self { inner, counts }
    }
}

#[async_trait::async_trait]
impl MultipartUpload for Counted {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (counts, bytes) = (self.counts.clone(), data.content_length() as u64);
        one(&counts.parts);
        let put = self.inner.put_part(data);
        Box::pin(async move {
            let asked = counts.ask();
            let put = put.await;
            asked.heard(&put);
            counts.answered(&put, &counts.up, |()| bytes);
            put
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        one(&self.counts.uploads);
        let asked = self.counts.ask();
        let done = self.inner.complete().await;
        asked.heard(&done);
        self.counts.answered(&done, &self.counts.up, |_| 0);
        done
    }

    async fn abort(&mut self) -> Result<()> {
        one(&self.counts.uploads);
        let asked = self.counts.ask();
        let done = self.inner.abort().await;
        asked.heard(&done);
        self.counts.answered(&done, &self.counts.up, |()| 0);
        done
    }
}
