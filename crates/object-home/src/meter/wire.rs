//! The answers of a cloud, one by one: its client repeats requests by itself and says nothing of it. So it is here, too, that fewer are made when the store asks for that.

use super::pace::{Pace, Turn};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Sees each answer, and lets no more requests out than the store takes. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    seen: Arc<Answers>,
}

#[derive(Debug)]
struct Answers {
    pace: Pace,
    repeated: AtomicU64,
    throttled: AtomicU64,
}

impl Default for Answers {
    fn default() -> Self {
        Self { pace: Pace::new(), repeated: AtomicU64::new(0), throttled: AtomicU64::new(0) }
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) repeated: u64,
    pub(super) throttled: u64,
    /// So many requests may be under way at once.
    pub(super) at_once: u64,
}

impl Wire {
    pub(super) fn seen(&self) -> Seen {
        let Answers { pace, repeated, throttled } = &*self.seen;
        let at_once = pace.limit() as u64;
        Seen { repeated: repeated.load(Relaxed), throttled: throttled.load(Relaxed), at_once }
    }

    fn note(&self, turn: Turn<'_>, status: Option<u16>) {
        // What has no answer, or one of these, is asked again.
        let is_repeated = status.is_none_or(|status| status >= 500 || matches!(status, 408 | 429));
        self.seen.repeated.fetch_add(u64::from(is_repeated), Relaxed);
        match status {
            Some(429 | 503) => {
                self.seen.throttled.fetch_add(1, Relaxed);
                turn.throttled();
            }
            Some(status) if status < 500 => turn.served(),
            // Says nothing of how many it takes.
            _ => drop(turn),
        }
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
        let turn = self.wire.seen.pace.enter().await;
        let answer = self.inner.execute(request).await;
        self.wire.note(turn, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
        answer
    }
}
