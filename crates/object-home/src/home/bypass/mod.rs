//! What is large is written once: it bypasses the database's log.
//!
//! The database puts what it takes into an object of its log, and later, sorted, into an object of its own. For what is
//! large, the first of the two is a waste: the second one follows at once. So an object of the log that would be large
//! is put as an empty one. A flush then makes the sorted objects and the manifest that names them durable, in place of
//! the log.
//!
//! ```text
//!   Log ──── a large object is left out ───▶ Pending
//!   Pending ─ everything is left out ──────▶ Pending
//!   Pending ─ the manifest has all of it ──▶ Closed
//!   Closed ── something is left out ───────▶ Pending
//!   Closed ── the note is written ─────────▶ Log
//! ```
//!
//! Invariants:
//!
//! - An object of the log has its rows only if the newest manifest has all rows that were left out before. So what a
//!   crash leaves is a prefix, whichever objects it leaves.
//! - A flush that finds something left out succeeds only when the manifest has it.
//! - Pending ends only with a flush of the memtable that was given every row that was put into the log or left out, and
//!   beside which neither a large object was left out nor another flush ran. The database's own manifest does not say
//!   what is durable: it is ahead of the store's while a flush goes on. The flush waits for rows that were frozen since
//!   it began, which nobody else would flush; so after each 100 ms in which as much came as may have frozen a memtable,
//!   that is flushed beside it.
//! - The number of an object of the log is taken by an empty object, too: whoever takes over counts them, and fences by
//!   making the next one.
//! - An object that is put again after a failure is left out exactly if it was the first time.
//! - The first object with rows after what was left out has the [`Note`] that says what the manifest must have. Whoever
//!   reads without a lease may have read the manifest before that.

mod empty;
mod note;

pub(super) use empty::Empty;
pub(super) use note::{NOTE_KEY, Note};

use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use slatedb::object_store_tag::{ObjectStoreCallTag, SstType};
use std::fmt;
use std::sync::Arc;

/// The store of who writes.
pub(super) struct Bypass {
    inner: Arc<dyn ObjectStore>,
    /// Objects of the log with so many bytes are left out.
    limit: usize,
    state: Mutex<State>,
    /// Bytes of batches that the database was given.
    given: AtomicU64,
    empty: Arc<Empty>,
}

#[derive(Default)]
struct State {
    mode: Mode,
    /// Large objects that were left out.
    large: u64,
    /// Flushes beside the one that closes, as many as ever were.
    others: u64,
    /// Those of them that go on.
    running: u64,
    /// The object that was put last, and whether it was left out.
    last: Option<(Path, bool)>,
    /// The newest note.
    note: Note,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Log,
    Pending,
    Closed,
}

/// How it stood when a flush began that may close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    large: u64,
    others: u64,
    is_alone: bool,
    given: u64,
}

/// A flush that nobody waits for, which may have rows of its own left out.
pub(super) struct Beside(Arc<Bypass>);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
    }
}

impl Bypass {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, limit: usize, empty: Arc<Empty>) -> Arc<Self> {
        Arc::new(Self { inner, limit, state: Mutex::default(), given: AtomicU64::new(0), empty })
    }

    /// Something was left out that the manifest may not have.
    pub(super) fn is_pending(&self) -> bool {
        self.state.lock().mode != Mode::Log
    }

    /// A flush of sorted objects begins.
    pub(super) fn begin(&self) -> Begun {
        let (state, given) = (self.state.lock(), self.given.load(Relaxed));
        Begun { large: state.large, others: state.others, is_alone: state.running == 0, given }
    }

    /// That flush has succeeded, and the store's manifest has the database's rows up to `sorted`. Those up to `put`
    /// have been put into the log or left out. True: the manifest has all that was left out.
    pub(super) fn end(&self, begun: Begun, sorted: u64, put: u64) -> bool {
        let mut state = self.state.lock();
        let is_alone =
            begun.is_alone && state.running == 0 && begun.large == state.large && begun.others == state.others;
        let is_all = is_alone && sorted >= put;
        if is_all {
            state.mode = Mode::Closed;
        }
        is_all
    }

    /// The note is written. True: the log is used again. A flush beside it may have closed an object without the note,
    /// which is still to be put.
    pub(super) fn reopen(&self, begun: Begun) -> bool {
        let mut state = self.state.lock();
        let is_alone = state.running == 0 && begun.others == state.others;
        if state.mode == Mode::Closed {
            state.mode = if is_alone { Mode::Log } else { Mode::Pending };
        }
        state.mode == Mode::Log
    }

    /// The database is given a batch of so many bytes.
    pub(super) fn give(&self, bytes: usize) {
        self.given.fetch_add(bytes as u64, Relaxed);
    }

    /// So much was given since that the database may have begun a sorted object by itself.
    pub(super) fn is_much_since(&self, begun: Begun) -> bool {
        self.given.load(Relaxed) - begun.given >= self.limit as u64
    }

    /// A flush that nobody waits for goes on.
    pub(super) fn is_beside(&self) -> bool {
        self.state.lock().running > 0
    }

    /// A flush that nobody waits for goes on until what is returned is dropped.
    pub(super) fn beside(self: &Arc<Self>) -> Beside {
        let mut state = self.state.lock();
        state.others += 1;
        state.running += 1;
        Beside(self.clone())
    }

    /// The newest note.
    pub(super) fn noted(&self) -> Note {
        self.state.lock().note.clone()
    }

    /// This note is the newest one.
    pub(super) fn take_note(&self, note: Note) {
        self.state.lock().note = note;
    }

    /// The objects of the log that are empty because they were left out.
    pub(super) fn empty(&self) -> &Empty {
        &self.empty
    }

    /// Whether an object of the log with `len` bytes is left out.
    fn leaves_out(&self, location: &Path, len: usize) -> bool {
        let mut state = self.state.lock();
        let again = state.last.as_ref().filter(|(path, _)| path == location).map(|(_, left_out)| *left_out);
        let is_large = len >= self.limit;
        let left_out = again.unwrap_or(is_large || state.mode != Mode::Log);
        if left_out {
            state.mode = Mode::Pending;
            state.large += u64::from(is_large);
        }
        state.last = Some((location.clone(), left_out));
        left_out
    }
}

/// The number of an object of the log.
fn number(location: &Path) -> Option<u64> {
    location.filename()?.strip_suffix(".sst")?.parse().ok()
}

#[async_trait::async_trait]
impl ObjectStore for Bypass {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let tag = ObjectStoreCallTag::from_extensions(&opts.extensions);
        let is_log = tag.is_some_and(|tag| tag.sst_type == SstType::Wal);
        // An empty one is a fence.
        let len = payload.content_length();
        if !is_log || len == 0 || !self.leaves_out(location, len) {
            return self.inner.put_opts(location, payload, opts).await;
        }
        drop(payload);
        let put = self.inner.put_opts(location, PutPayload::default(), opts).await?;
        if let Some(number) = number(location) {
            self.empty.add(number);
        }
        Ok(put)
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
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

/// Stores know credentials.
impl fmt::Debug for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bypass").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl fmt::Display for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[cfg(test)]
mod tests;
