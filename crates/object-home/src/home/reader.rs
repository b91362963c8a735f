//! Readers of the database: what they see, and when they begin again.

use super::bypass::{NOTE_KEY, Note};
use super::cache::cache;
use super::disk::Held;
use super::local::{Joined, judge};
use super::open::{NEVER, Opening, database};
use super::record::{HEADER_KEY, Header, NEWEST_KEY, Newest};
use super::settings::filters;
use super::still::Still;
use super::{HomeError, clone};
use crate::Bucket;
use bytes::Bytes;
use slatedb::config::DbReaderOptions;
use slatedb::{DbReader, DbReaderMode};
use std::time::Duration;

/// A reader that is overtaken by writers so often gives up.
const OVERTAKEN: u32 = 20;
/// It waits so long after the first time, and longer each time.
const PAUSE: Duration = Duration::from_millis(10);

/// What a reader sees of the database.
pub(super) struct Sees {
    pub(super) mode: DbReaderMode,
    /// How often it looks whether there is more.
    pub(super) polls: Duration,
}

impl Sees {
    /// What is there when it begins.
    pub(super) const NOW: Self = Self { mode: DbReaderMode::FollowLatest, polls: NEVER };
}

/// A reader of the database, and the header that it sees.
///
/// It reads the manifest first and then the log. A writer may have written the manifest anew in between, and gone on in
/// the log, from which what the manifest has then is missing: the note there tells, and the reader begins again.
pub(super) async fn reader(
    bucket: &Bucket,
    Sees { mode, polls }: Sees,
    opening: &Opening,
    still: &Still,
    disk: Option<&Held>,
) -> Result<(DbReader, Header), HomeError> {
    let name = &bucket.name;
    let mut tries = 0;
    loop {
        let options = DbReaderOptions {
            manifest_poll_interval: polls,
            object_store_cache_options: Held::options(disk),
            ..DbReaderOptions::default()
        };
        let builder = DbReader::builder(database(bucket), bucket.store.clone()).with_reader_mode(mode);
        let builder = match disk {
            Some(disk) => builder.with_metrics_recorder(disk.recorder.clone()),
            None => builder,
        };
        let built = builder
            .with_options(options)
            .with_db_cache(cache(opening.cache), 0)
            .with_filter_policies(filters())
            .build()
            .await;
        let reader = built.map_err(|e| HomeError::of_database(name, "to open", &e))?;
        let header = match header(bucket, &reader).await {
            Ok(Some(header)) => return Ok((reader, header)),
            other => other,
        };
        still.begin_anew();
        let ended = reader.close().await;
        header?;
        ended.map_err(|e| HomeError::of_database(name, "to be read", &e))?;
        tries += 1;
        if tries == OVERTAKEN {
            return Err(HomeError::Overtaken { name: name.clone(), tries });
        }
        tokio::time::sleep(PAUSE * tries).await;
    }
}

/// Closes a reader that is of no use any more. Until then, or until it is too old, what it reads is kept in the bucket:
/// a failure loses nothing.
pub(super) async fn leave(reader: DbReader) {
    reader.close().await.ok();
}

/// The header that a reader sees; none if a writer has overtaken it.
async fn header(bucket: &Bucket, reader: &DbReader) -> Result<Option<Header>, HomeError> {
    let name = &bucket.name;
    let get = async |key| reader.get(key).await.map_err(|e| HomeError::of_database(name, "to read a record", &e));
    let Some(header) = get(HEADER_KEY).await? else { return Err(HomeError::Missing { name: name.clone() }) };
    let header = Header::decode(&header).map_err(|what| HomeError::Damaged { name: name.clone(), what })?;
    let note = noted(name, header.seed, get(NOTE_KEY).await?)?;
    if reader.manifest().last_l0_seq() < note.seq {
        return Ok(None);
    }
    clone::own(bucket, &reader.manifest(), header).await.map(Some)
}

/// The local log that a volume needs is here, as far as can be seen while somebody else writes to it.
pub(super) async fn require_log(bucket: &Bucket, opening: &Opening) -> Result<(), HomeError> {
    let name = &bucket.name;
    let (reader, header) = match reader(bucket, Sees::NOW, opening, &Still::default(), None).await {
        Ok(found) => found,
        Err(HomeError::Missing { .. }) => return Ok(()),
        Err(e) => return Err(e),
    };
    let newest = reader.get(NEWEST_KEY).await.map_err(|e| HomeError::of_database(name, "to read a record", &e));
    leave(reader).await;
    let number = newest?.and_then(|newest| Newest::decode(header.seed, &newest).ok()).map_or(0, |newest| newest.number);
    judged(opening, name, &header, number).map(drop)
}

/// The local log of an opening, looked at by a thread that may wait.
pub(super) fn judged(opening: &Opening, name: &str, header: &Header, newest: u64) -> Result<Option<Joined>, HomeError> {
    tokio::task::block_in_place(|| judge(opening, name, header, newest))
}

/// The note about the database's log. None was written before the first bypass.
pub(super) fn noted(name: &str, seed: u32, bytes: Option<Bytes>) -> Result<Note, HomeError> {
    let damaged = |what| HomeError::Damaged { name: name.to_owned(), what };
    bytes.map_or(Ok(Note::default()), |bytes| Note::decode(seed, &bytes).map_err(damaged))
}
