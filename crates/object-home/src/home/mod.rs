//! A volume in a bucket as a block store.
//!
//! ```text
//!   read      chunks that wait here (loose), then the database: memory, cache, bucket
//!   write     loose chunks; a batch of their own when 8 MiB wait, or at a flush
//!   submit    one batch of the database, with the record of the newest batch; nothing is durable
//!   settle    one flush of the database's log at a time serves all who wait; with a local log, one persist of that
//! ```
//!
//! Invariants:
//!
//! - Every batch has the record of the newest batch, whose number is one more than that of the batch before.
//! - Nothing is acknowledged but by a flush of the database ([`bypass`]: of its log or of its sorted objects) that
//!   began after its batch was handed over, or with a local log ([`local`]) by a persist that began after its record
//!   was written. A writer that was fenced can still write, in memory; it cannot flush.
//! - After the first failure of a write or a flush nothing is written and nothing is acknowledged any more.
//! - Locks: the order of submissions; loose chunks; a local log's ring, how far it is written, its books; the turn to
//!   settle; the lease's number. The first one is held while the database takes a batch, and while there is no room in
//!   a local log; none of the others while the store is waited for.

mod ahead;
mod bypass;
mod cache;
mod change;
mod clone;
mod disk;
mod encode;
mod error;
mod holder;
mod keeper;
mod lease;
mod local;
mod open;
mod read;
mod reader;
mod recent;
mod record;
mod runs;
mod seen;
mod settings;
mod settle;
mod snapshot;
mod still;
mod store;

pub use clone::Of;
pub use disk::{Disk, DiskUse};
pub use error::HomeError;
pub use keeper::Leased;
pub use local::{Lag, Local, LogContents, LogMedium, LoggedBatch, LoggedRanges, RedoFile, RedoNvm};
pub(crate) use open::border;
pub use open::{Making, Opening, What};
pub use snapshot::Snapshot;

use crate::{Border, Bucket, ChunkFormat};
use ahead::Ahead;
use change::{Loose, Put};
use disk::Held;
use keeper::Keeper;
use local::Log;
use ondol_block::Counters;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Mutex, RwLock};
use ondol_env::{Env, System};
use recent::Recent;
use record::{HEADER_KEY, Header, NEWEST_KEY, Newest};
use seen::Seen;
use settle::{Flusher, Turn};
use slatedb::bytes::Bytes;
use slatedb::{Db, DbReader, WriteBatch};
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes that the writes of one batch have.
pub const BATCH: u64 = 16 << 20;

/// So many bytes of loose chunks become a batch.
const LOOSE: usize = 8 << 20;

/// When something has taken so long, it is said.
const SLOW: Duration = Duration::from_secs(30);

/// A batch that is not taken after so long waits for room, which a flush makes.
const NO_ROOM: Duration = Duration::from_secs(1);

/// A volume in a bucket.
pub struct Home {
    bucket: Bucket,
    size: AtomicU64,
    format: ChunkFormat,
    /// As it was found or made by this opening.
    header: Header,
    data: Data,
    writer: Option<Writer>,
    counters: Counters,
    /// Threads for encoding.
    encoders: usize,
    ahead: Arc<Ahead>,
    timeout: Option<Duration>,
    disk: Option<Arc<Held>>,
    seen: Option<Seen>,
    /// Last, so that what runs there ends when nothing here needs it any more.
    border: Border,
}

/// Where chunks are read from.
#[derive(Clone)]
enum Data {
    Writer(Db),
    Reader(Arc<DbReader>),
}

/// What only who may write has.
struct Writer {
    db: Db,
    order: Mutex<Order>,
    loose: RwLock<Loose>,
    turn: Arc<Turn>,
    flusher: Flusher,
    keeper: Keeper,
    /// With `durable=local`.
    log: Option<Log>,
    /// The number of the newest batch when this was opened.
    first: u64,
}

/// A volume that is open for writing.
#[derive(Clone, Copy)]
struct Writing<'h> {
    home: &'h Home,
    writer: &'h Writer,
}

impl Deref for Writing<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        self.writer
    }
}

/// The order of submissions.
struct Order {
    /// The newest batch.
    number: u64,
    /// The attach epoch that batches have.
    epoch: u64,
    closed: bool,
    recent: Recent,
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("bucket", &self.bucket).field("header", &self.header).finish_non_exhaustive()
    }
}

impl Home {
    /// Where it is.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The UUID of the home.
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    /// How often it was opened for writing, this time included.
    pub fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// Whether whoever wrote to it last has closed it, if it was opened for reading.
    pub fn was_closed(&self) -> bool {
        self.header.closed
    }

    /// The size of its chunks.
    pub fn chunk(&self) -> crate::ChunkSize {
        self.format.size()
    }

    /// The number of the newest batch that was submitted.
    ///
    /// # Errors
    /// `NotWriting`.
    pub fn newest(&self) -> Result<u64, HomeError> {
        Ok(self.writer()?.turn.newest())
    }

    /// What was asked of the store since its bucket was reached.
    pub fn requests(&self) -> crate::Requests {
        self.bucket.requests()
    }

    /// The lease of this writer. None: it was opened for reading, or is closed.
    pub fn lease(&self) -> Option<Leased> {
        self.writer.as_ref().and_then(|writer| writer.keeper.held())
    }

    /// What the cache on the local disk has done. None: it has none.
    pub fn disk_use(&self) -> Option<DiskUse> {
        self.disk.as_ref().map(|disk| disk.counts())
    }

    /// Makes everything durable, says that this writer has closed, and gives the lease back. Nothing can be written
    /// afterwards.
    ///
    /// # Errors
    /// The store fails, or somebody else has taken over. A volume that was opened for reading has nothing to close.
    pub fn close(&self) -> Result<(), HomeError> {
        let Ok(writer) = self.writer() else { return Ok(()) };
        let mut order = writer.order.lock();
        if order.closed {
            return Ok(());
        }
        writer.put_loose(&mut order)?;
        let header = Header { closed: true, size: self.size.load(Relaxed), ..self.header };
        writer.put_header(&mut order, header)?;
        order.closed = true;
        Seen::note(self.seen.as_ref(), self.header.uuid, self.header.epoch, order.number);
        let (db, name) = (writer.db.clone(), self.bucket.name.clone());
        let closed = async move { db.close().await.map_err(|e| HomeError::of_database(&name, "to close", &e)) };
        let closed = self.wait("closing", closed);
        let keeper = writer.keeper.clone();
        let returned = self.wait("giving the lease back", async move { keeper.give_back().await });
        closed.and(returned)
    }

    fn writer(&self) -> Result<Writing<'_>, HomeError> {
        let writer = self.writer.as_ref().ok_or_else(|| HomeError::NotWriting { name: self.bucket.name.clone() })?;
        Ok(Writing { home: self, writer })
    }

    /// Waits for `work`, but not for ever.
    fn wait<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, HomeError>> + Send + 'static,
    ) -> Result<T, HomeError> {
        self.border.wait(bounded(self.bucket.name.clone(), what, self.timeout, work))
    }

    /// As [`Home::wait`], on the caller's own thread, for what is short.
    fn drive<T>(&self, what: &'static str, work: impl Future<Output = Result<T, HomeError>>) -> Result<T, HomeError> {
        self.border.drive(bounded(self.bucket.name.clone(), what, self.timeout, work))
    }
}

impl Writing<'_> {
    /// Hands a batch over: these chunks, the record of the newest batch, and perhaps the header.
    fn put(self, order: &mut Order, puts: Vec<Put>, header: Option<Header>) -> Result<(), HomeError> {
        self.turn.require()?;
        if order.closed {
            return Err(HomeError::NotWriting { name: self.home.bucket.name.clone() });
        }
        let newest = Newest { number: order.number + 1, epoch: order.epoch, time: System.now().sec };
        self.flusher.bypass.give(puts.iter().map(|(_, value)| 64 + value.as_ref().map_or(0, Bytes::len)).sum());
        puts.iter().for_each(|(number, value)| order.recent.change(*number, value.as_ref()));
        let batch = batch(self.home.header.seed, puts, newest, header);
        let put = self.home.drive("taking a batch", hand_over(&self.flusher, batch));
        match put {
            Ok(seq) => {
                order.number = newest.number;
                self.turn.submitted(newest.number, seq);
                Ok(())
            }
            Err(e) => Err(self.turn.fail(self.explained(e))),
        }
    }

    /// Makes loose chunks a batch. They are seen in one place or the other all the time.
    fn put_loose(self, order: &mut Order) -> Result<(), HomeError> {
        let loose = self.loose.read().clone_chunks();
        if loose.is_empty() {
            return Ok(());
        }
        let (written, unused): (Vec<_>, Vec<_>) = loose.into_iter().partition(|(_, chunk)| chunk.is_some());
        let written: Vec<_> = written.into_iter().filter_map(|(number, chunk)| Some((number, chunk?))).collect();
        let mut puts = self.home.encode_all(&written)?;
        puts.extend(unused.into_iter().map(|(number, _)| (number, None)));
        self.take(order, puts)?;
        *self.loose.write() = Loose::default();
        Ok(())
    }
}

/// Chunks, the record of the newest batch, and perhaps the header.
fn batch(seed: u32, puts: Vec<Put>, newest: Newest, header: Option<Header>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (number, value) in puts {
        let key = ChunkFormat::key(number);
        match value {
            Some(value) => batch.put_bytes(key.to_vec().into(), value),
            None => batch.delete(key),
        }
    }
    batch.put(NEWEST_KEY, newest.encode(seed));
    if let Some(header) = header {
        batch.put(HEADER_KEY, header.encode());
    }
    batch
}

/// The database's own number of the batch.
async fn hand_over(flusher: &Flusher, batch: WriteBatch) -> Result<u64, HomeError> {
    let mut write = Box::pin(flusher.db.write(batch));
    loop {
        match tokio::time::timeout(NO_ROOM, &mut write).await {
            Ok(Ok(handle)) => return Ok(handle.seqnum()),
            Ok(Err(e)) => return Err(settle::fault_of(&flusher.db, &flusher.name, "to take a batch", &e)),
            // It waits for room, and nobody else may be about to make some.
            Err(_) => flusher.make_room(),
        }
    }
}

/// Does `work`, gives it up after `limit`, and says so when it takes long.
pub(crate) async fn bounded<T>(
    name: String,
    what: &'static str,
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, HomeError>>,
) -> Result<T, HomeError> {
    let mut work = Box::pin(work);
    let first = limit.map_or(SLOW, |limit| limit.min(SLOW));
    if let Ok(done) = tokio::time::timeout(first, &mut work).await {
        return done;
    }
    let Some(limit) = limit else {
        tracing::warn!("{name} has not answered for {} seconds: {what} waits", first.as_secs());
        return work.await;
    };
    if limit > first {
        tracing::warn!(
            "{name} has not answered for {} seconds: {what} waits, up to {} seconds",
            first.as_secs(),
            limit.as_secs()
        );
    }
    match tokio::time::timeout(limit - first, work).await {
        Ok(done) => done,
        Err(_) => Err(HomeError::away(&name, what, limit)),
    }
}

/// Random letters that nobody else has.
fn token() -> String {
    System.random_uuid().iter().map(|byte| format!("{byte:02x}")).collect()
}
