//! The answers of a cloud, one by one: its client repeats requests by itself and says nothing of it.

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Sees each answer. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    seen: Arc<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    repeated: AtomicU64,
    throttled: AtomicU64,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) repeated: u64,
    pub(super) throttled: u64,
}

impl Wire {
    pub(super) fn seen(&self) -> Seen {
        Seen { repeated: self.seen.repeated.load(Relaxed), throttled: self.seen.throttled.load(Relaxed) }
    }

    fn note(&self, status: Option<u16>) {
        // What has no answer, or one of these, is asked again.
        let is_repeated = status.is_none_or(|status| status >= 500 || matches!(status, 408 | 429));
        self.seen.repeated.fetch_add(u64::from(is_repeated), Relaxed);
        self.seen.throttled.fetch_add(u64::from(matches!(status, Some(429 | 503))), Relaxed);
    }
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Watched { inner, wire: self.clone() }))
    }
}

#[derive(Debug)]
struct Watched {
    inner: HttpClient,
    wire: Wire,
}

#[async_trait::async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.inner.execute(request).await;
        self.wire.note(answer.as_ref().ok().map(|answer| answer.status().as_u16()));
        answer
    }
}
