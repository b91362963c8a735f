//! Making and opening volumes.
//!
//! For writing: probe, lease, database (from here on an older writer is fenced), header and newest batch, what a local
//! log has, and one batch that raises the attach epoch. Each step that fails leaves everything as it was, but for the
//! lease, and the fence once it is there. Whoever takes over looks for the local log before, so as to fence nobody in
//! vain.

use super::ahead::Ahead;
use super::bypass::{Bypass, Empty, NOTE_KEY, Note};
use super::cache::cache;
use super::change::Loose;
use super::disk::{Disk, Held};
use super::holder::Holder;
use super::keeper::Keeper;
use super::lease::{DEFAULT_LENGTH, Lease, Leases};
use super::local::{Joined, Local, NONE, Survey};
use super::reader::{Sees, judged, leave, noted, reader, require_log};
use super::recent::Recent;
use super::record::{HEADER_KEY, Header, NEWEST_KEY, Newest};
use super::seen::Seen;
use super::settings::{collector, filters, settings};
use super::settle::{Flusher, Turn, explain, fault};
use super::still::Still;
use super::{Data, Home, HomeError, Order, Writer, bounded, clone, encode, snapshot, token};
use crate::{Border, Bucket, ChunkFormat, ChunkSize, probe};
use bytes::Bytes;
use ondol_block::Counters;
use ondol_env::sync::atomic::AtomicU64;
use ondol_env::sync::{Mutex, RwLock};
use ondol_env::{Env, System};
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::DbReaderOptions;
use slatedb::object_store::path::Path;
use slatedb::{
    BlockCachePolicy, CacheTarget, Db, DbReaderMode, GarbageCollectorBuilder, SstBlockSize, VersionedManifest,
};
use std::sync::Arc;
use std::time::Duration;

/// Threads of the runtime: two for requests, one more so that compactions do not hold them up.
const THREADS: usize = 3;

/// What is read at once of an object when one chunk is wanted. Larger blocks make indexes smaller, and long reads
/// cheaper.
const BLOCK: SstBlockSize = SstBlockSize::Block16Kib;

/// Who looks for newer states so seldom sees none.
pub(super) const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Take the volume from whoever writes to it.
    pub take_over: bool,
    /// For how long others keep away after this process was last heard of.
    pub lease: Duration,
    /// What for, or where: told to others who want the volume.
    pub purpose: String,
    /// For how long the store may be away before everything ends. None: for ever.
    pub timeout: Option<Duration>,
    /// Bytes of memory for what is read of the database.
    pub cache: usize,
    /// A cache on the local disk, below that one.
    pub disk: Option<Disk>,
    /// Bytes that are gathered in memory before they become an object of the database; four times as much may wait.
    pub object: usize,
    /// Acknowledge what is durable in a log on this machine. None: what is in the bucket.
    pub local: Option<Local>,
    /// UUIDs of local logs of which it does not matter if what they hold never comes to the bucket.
    pub give_up: Vec<[u8; 16]>,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            take_over: false,
            lease: DEFAULT_LENGTH,
            purpose: String::new(),
            timeout: Some(Duration::from_secs(600)),
            cache: 64 << 20,
            disk: None,
            object: 16 << 20,
            local: None,
            give_up: Vec::new(),
        }
    }
}

/// What a new volume is.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// Its size in bytes: a multiple of the size of a chunk.
    pub size: u64,
    /// The size of a chunk.
    pub chunk: ChunkSize,
}

/// Which state of a volume is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The newest that is durable; it changes while somebody writes.
    Newest,
    /// The newest that is durable when it is opened. It stays as it is; what somebody who writes has replaced since may
    /// be gone after an hour, and reading it then fails.
    Now,
    /// The snapshot of this name.
    Snapshot(String),
}

/// The database of who writes, as it was found.
struct Database {
    flusher: Flusher,
    /// The rows up to this one are in the manifest that it has begun with.
    sorted: u64,
    header: Header,
    newest: Newest,
    joined: Option<Joined>,
}

/// What a database says of the volume in it.
struct Records {
    header: Header,
    newest: Newest,
    joined: Option<Joined>,
    note: Note,
}

/// What is known before the database is opened.
struct Found {
    bucket: Bucket,
    opening: Opening,
    /// The store can update an object if it is unchanged.
    updates: bool,
    /// The number of the newest manifest.
    manifest: u64,
    leases: Leases,
    lease: Lease,
    number: u64,
    disk: Option<Arc<Held>>,
}

impl Home {
    /// Makes a volume that holds zeros, and opens it for writing.
    ///
    /// # Errors
    /// There is one, or somebody is making one; the store is not fit, fails, or does not let us.
    pub fn make(bucket: &Bucket, making: Making, opening: &Opening) -> Result<Self, HomeError> {
        let chunk = making.chunk.bytes() as u64;
        if making.size == 0 || !making.size.is_multiple_of(chunk) {
            return Err(HomeError::Size { size: making.size, chunk });
        }
        Self::opened(bucket, opening, Some(making))
    }

    /// Opens a volume for writing.
    ///
    /// # Errors
    /// There is none, or somebody writes to it; the store is not fit, fails, or does not let us; a record is damaged.
    pub fn open(bucket: &Bucket, opening: &Opening) -> Result<Self, HomeError> {
        Self::opened(bucket, opening, None)
    }

    /// Opens a volume for reading: takes no lease and fences nobody.
    ///
    /// # Errors
    /// There is none, or no such snapshot; the store fails or does not let us; a record is damaged.
    pub fn view(bucket: &Bucket, what: &What, opening: &Opening) -> Result<Self, HomeError> {
        let border = border(bucket)?;
        let disk = Held::open(opening.disk.as_ref(), bucket.name())?;
        let (mut b, what, o, cached) = (bucket.clone(), what.clone(), opening.clone(), disk.clone());
        let work = async move {
            let polls = if what == What::Now { NEVER } else { DbReaderOptions::default().manifest_poll_interval };
            let still = Still::over(&mut b, what == What::Now);
            let mode = match what {
                What::Newest | What::Now => DbReaderMode::FollowLatest,
                What::Snapshot(name) => DbReaderMode::Checkpoint(snapshot::find(&b, &name).await?),
            };
            let found = manifest(&b).await?.ok_or_else(|| HomeError::Missing { name: b.name.clone() })?;
            require(&b, &found)?;
            // A snapshot is older than what was seen.
            let seen = Seen::beside(o.disk.as_ref()).filter(|_| matches!(mode, DbReaderMode::FollowLatest));
            let (reader, header) = reader(&b, Sees { mode, polls }, &o, &still, cached.as_deref()).await?;
            if let Err(e) = Seen::require(seen.as_ref(), &b.name, &header, None) {
                still.begin_anew();
                leave(reader).await;
                return Err(e);
            }
            Ok((reader, header))
        };
        let (reader, header) =
            border.wait(bounded(bucket.name.clone(), "opening for reading", opening.timeout, work))?;
        let mut home = Self::of(bucket, header, Data::Reader(Arc::new(reader)), opening, border);
        home.disk = disk;
        Ok(home)
    }

    fn opened(bucket: &Bucket, opening: &Opening, making: Option<Making>) -> Result<Self, HomeError> {
        let border = border(bucket)?;
        let disk = Held::open(opening.disk.as_ref(), bucket.name())?;
        let (b, o, cached) = (bucket.clone(), opening.clone(), disk.clone());
        let work = async move {
            let found = Found { disk: cached, ..Found::find(b, o, making.is_some()).await? };
            match found.database(making).await {
                Ok(open) => Ok((found, open)),
                Err(e) => {
                    let e = explain(&found.keeper(), e).await;
                    let returned = found.keeper().give_back().await;
                    if let Err(e) = returned {
                        tracing::debug!("the lease stays: {e}");
                    }
                    Err(e)
                }
            }
        };
        let (found, Database { flusher, sorted, header, newest, joined }) =
            border.wait(bounded(bucket.name.clone(), "opening for writing", opening.timeout, work))?;
        let turn = flusher.turn.clone();
        let keeper = found.keeper();
        border.spawn(keeper.clone().keep(turn.clone()));
        let first = newest.number;
        let order = Mutex::new(Order { number: first, epoch: newest.epoch, closed: false, recent: Recent::default() });
        let (log, survey) = Joined::split(joined);
        let (db, loose) = (flusher.db.clone(), RwLock::new(Loose::default()));
        let writer = Writer { db: db.clone(), order, loose, turn, flusher, keeper, log, first };
        let mut home = Self::of(bucket, header, Data::Writer(db), opening, border);
        home.writer = Some(writer);
        home.disk = disk;
        home.seen = Seen::beside(opening.disk.as_ref());
        match home.attach(sorted, survey.as_ref()) {
            Ok(()) => {
                Seen::note(home.seen.as_ref(), header.uuid, header.epoch, home.newest()?);
                Ok(home)
            }
            Err(e) => {
                home.leave();
                Err(e)
            }
        }
    }

    fn of(bucket: &Bucket, header: Header, data: Data, opening: &Opening, border: Border) -> Self {
        let (format, size) = (ChunkFormat::new(header.seed, header.chunk), AtomicU64::new(header.size));
        Self {
            bucket: bucket.clone(),
            size,
            format,
            header,
            data,
            writer: None,
            counters: Counters::default(),
            encoders: encode::threads(),
            ahead: Arc::new(Ahead::new(header.chunk.bytes(), opening.cache / 2)),
            timeout: opening.timeout,
            disk: None,
            seen: None,
            border,
        }
    }

    /// Nobody is to wait for a lease of who could not attach.
    fn leave(&self) {
        let Ok(writer) = self.writer() else { return };
        let keeper = writer.keeper.clone();
        if let Err(e) = self.wait("giving the lease back", async move { keeper.give_back().await }) {
            tracing::debug!("the lease stays: {e}");
        }
    }

    /// What a local log has comes to the bucket; then the batch that makes this writer known. It is durable before
    /// anything else is written.
    fn attach(&self, sorted: u64, survey: Option<&Survey>) -> Result<(), HomeError> {
        let writer = self.writer()?;
        writer.start_shipper();
        let mut order = writer.order.lock();
        // What the last writer has left out and not noted lies before all that this one puts.
        self.drive("noting what is not in the log", writer.flusher.note(Some(sorted)))?;
        writer.join(&mut order, survey)?;
        order.epoch = self.header.epoch;
        writer.put_header(&mut order, self.header)
    }
}

impl Found {
    async fn find(bucket: Bucket, opening: Opening, make: bool) -> Result<Self, HomeError> {
        let leases = leases(&bucket);
        // The first request says best what is wrong with the bucket.
        let found = manifest(&bucket).await?;
        let (is_there, newest) = (found.is_some(), found.as_ref().map_or(0, VersionedManifest::id));
        found.map_or(Ok(()), |manifest| require(&bucket, &manifest))?;
        if !make && !is_there {
            return Err(HomeError::Missing { name: bucket.name });
        }
        // Nobody loses a volume to who wants to make another one. Whoever was interrupted while making one has left a
        // database without a header.
        if make && is_there {
            match reader(&bucket, Sees::NOW, &opening, &Still::default(), None).await {
                Err(HomeError::Missing { .. }) => {}
                Ok((reader, _)) => {
                    leave(reader).await;
                    return Err(HomeError::Exists { name: bucket.name });
                }
                Err(e) => return Err(e),
            }
        }
        let depth = if make { crate::Depth::Whole } else { bucket.depth };
        let under = bucket.prefix.clone().join("probe").join(token());
        let probed = probe(bucket.store.clone(), &bucket.name, under, depth).await;
        let updates = probed.map_err(|e| HomeError::Probe(Arc::new(e)))?.updates;
        let lease =
            Lease { holder: Holder::this(&opening.purpose), token: token(), length: opening.lease, returned: false };
        let number = match leases.take(&lease, false).await {
            // Nobody is fenced by who could not go on without a log.
            Err(HomeError::Held { .. }) if opening.take_over => {
                require_log(&bucket, &opening).await?;
                leases.take(&lease, true).await?
            }
            taken => taken?,
        };
        Ok(Self { bucket, opening, updates, manifest: newest, leases, lease, number, disk: None })
    }

    fn keeper(&self) -> Keeper {
        Keeper::new(self.leases.clone(), self.lease.clone(), self.number)
    }

    /// Opens the database and raises the epoch in its header, which is not written yet.
    async fn database(&self, making: Option<Making>) -> Result<Database, HomeError> {
        let Bucket { name, store, .. } = &self.bucket;
        let (cache, empty) = (cache(self.opening.cache), Arc::new(Empty::default()));
        let bypass = Bypass::new(store.clone(), self.opening.object / 2, empty.clone());
        let builder = Db::builder(database(&self.bucket), bypass.clone());
        let collecting = GarbageCollectorBuilder::new(database(&self.bucket), store.clone());
        let builder = builder.with_gc_builder(collecting.with_options(collector(self.updates)).with_gc_filter(empty));
        let settings = settings(&self.opening, Held::options(self.disk.as_deref()));
        let builder = builder.with_settings(settings).with_db_cache(cache, 0).with_filter_policies(filters());
        let builder = match &self.disk {
            Some(disk) => builder.with_metrics_recorder(disk.recorder.clone()),
            None => builder,
        };
        // What was written is in the cache of who writes.
        let cached = BlockCachePolicy::default().with_flush_targets(&[CacheTarget::Index, CacheTarget::Filters]);
        let built = builder.with_block_cache_policy(cached).with_sst_block_size(BLOCK).build().await;
        let db = built.map_err(|e| fault(name, "to open", &e))?;
        let begun = self.begun(db.manifest().writer_epoch()).await?;
        let records = self.records(&db, &begun, making).await?;
        let Records { header, newest, joined, note } = records;
        let log = joined.as_ref().map_or(NONE, |joined| joined.uuid);
        // A clone has a log of its own.
        let empty = if note.uuid == header.uuid { note.empty } else { Vec::new() };
        bypass.empty().load(&empty);
        bypass.take_note(Note { empty, ..note });
        let turn = Arc::new(Turn::new(newest.number));
        let flusher = Flusher { db, turn, name: name.clone(), seed: header.seed, uuid: header.uuid, bypass };
        let header = Header { epoch: header.epoch + 1, closed: false, log, ..header };
        Ok(Database { flusher, sorted: begun.last_l0_seq(), header, newest, joined })
    }

    /// Reads what is known of the volume, and judges it.
    async fn records(&self, db: &Db, begun: &VersionedManifest, making: Option<Making>) -> Result<Records, HomeError> {
        let name = &self.bucket.name;
        let damaged = |what| HomeError::Damaged { name: name.clone(), what };
        let (header, newest) = match (record(db, name, HEADER_KEY).await?, making) {
            (Some(_), Some(_)) => return Err(HomeError::Exists { name: name.clone() }),
            (None, None) => return Err(HomeError::Missing { name: name.clone() }),
            (None, Some(making)) => (new_header(making), Newest { number: 0, epoch: 0, time: 0 }),
            (Some(bytes), None) => {
                let header = Header::decode(&bytes).map_err(damaged)?;
                let missing = || damaged("the record of the newest batch is missing".into());
                let newest = record(db, name, NEWEST_KEY).await?.ok_or_else(missing)?;
                (header, Newest::decode(header.seed, &newest).map_err(damaged)?)
            }
        };
        let header = clone::own(&self.bucket, begun, header).await?;
        let seen = Seen::beside(self.opening.disk.as_ref());
        Seen::require(seen.as_ref(), name, &header, Some(newest.number))?;
        if newest.epoch != header.epoch {
            let what = format!("the newest batch is of epoch {}, the header of epoch {}", newest.epoch, header.epoch);
            return Err(damaged(what));
        }
        if !header.closed && header.epoch > 0 {
            tracing::info!("{name}: the last writer has not closed");
        }
        let joined = judged(&self.opening, name, &header, newest.number)?;
        let note = noted(name, header.seed, record(db, name, NOTE_KEY).await?)?;
        let sorted = begun.last_l0_seq();
        if note.seq > sorted {
            return Err(damaged(format!("the manifest has rows up to {sorted}, and had them up to {}", note.seq)));
        }
        Ok(Records { header, newest, joined, note })
    }

    /// The manifest that the writer of this epoch has begun with. The database's own is ahead of what is in the store
    /// while objects that it has replayed are being put.
    async fn begun(&self, epoch: u64) -> Result<VersionedManifest, HomeError> {
        let (name, admin) = (&self.bucket.name, admin(&self.bucket));
        for id in self.manifest + 1.. {
            let read = admin.read_manifest(Some(id)).await;
            let found = read.map_err(|e| fault(name, "to read a manifest", &e))?;
            let missing = || HomeError::Damaged { name: name.clone(), what: format!("manifest {id} is missing") };
            let found = found.ok_or_else(missing)?;
            if found.writer_epoch() == epoch {
                return Ok(found);
            }
        }
        unreachable!("numbers of manifests do not end")
    }
}

async fn record(db: &Db, name: &str, key: &[u8]) -> Result<Option<Bytes>, HomeError> {
    db.get(key).await.map_err(|e| fault(name, "to read a record", &e))
}

fn new_header(making: Making) -> Header {
    let (seed, uuid) = (System.random_u32(), System.random_uuid());
    Header { chunk: making.chunk, closed: false, seed, uuid, size: making.size, epoch: 0, log: [0; 16] }
}

/// The newest manifest, if there is a database; that may be an empty one.
pub(super) async fn manifest(bucket: &Bucket) -> Result<Option<VersionedManifest>, HomeError> {
    leases(bucket).is_reached().await?;
    let manifest = admin(bucket).read_manifest(None).await;
    manifest.map_err(|e| HomeError::of_database(&bucket.name, "to look for a volume", &e))
}

/// The database is not a clone in the making.
fn require(bucket: &Bucket, manifest: &VersionedManifest) -> Result<(), HomeError> {
    if manifest.initialized() { Ok(()) } else { Err(HomeError::HalfMade { name: bucket.name.clone() }) }
}

pub(super) fn leases(bucket: &Bucket) -> Leases {
    Leases { store: bucket.store.clone(), dir: bucket.prefix.clone().join("lease"), name: bucket.name.clone() }
}

pub(super) fn database(bucket: &Bucket) -> Path {
    bucket.prefix.clone().join("db")
}

/// The database without a writer.
pub(super) fn admin(bucket: &Bucket) -> Admin {
    AdminBuilder::new(database(bucket), bucket.store.clone()).build()
}

pub(crate) fn border(bucket: &Bucket) -> Result<Border, HomeError> {
    Border::new(THREADS).map_err(|e| HomeError::Threads { name: bucket.name.clone(), why: e.to_string() })
}
