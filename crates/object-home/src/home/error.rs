//! Why a volume in a bucket cannot be opened, or is not written any more.

use crate::{ChunkError, ProbeError};
use std::time::Duration;

/// What went wrong with a volume in a bucket. Clones are cheap enough to be told to everybody who waits.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// There is no volume.
    #[error("{name} holds no volume")]
    Missing {
        /// The place, as the user named it.
        name: String,
    },
    /// There is one.
    #[error("{name} holds a volume already")]
    Exists {
        /// The place, as the user named it.
        name: String,
    },
    /// Somebody writes to it.
    #[error("{name} is in use by {by}, who was last heard of {age} seconds ago and counts as alive for {length}")]
    Held {
        /// The place, as the user named it.
        name: String,
        /// Who.
        by: String,
        /// Seconds since the lease was renewed, by the store's clock.
        age: u64,
        /// Seconds for which a lease is good.
        length: u64,
    },
    /// Somebody else writes to it now. Nothing that was acknowledged is lost.
    #[error("{name} was taken over by {by}: nothing is written from here any more")]
    Fenced {
        /// The place, as the user named it.
        name: String,
        /// Who.
        by: String,
    },
    /// The store does not answer.
    #[error("{name} has not answered for {seconds} seconds: {what} was given up")]
    Away {
        /// The place, as the user named it.
        name: String,
        /// What was tried.
        what: &'static str,
        /// For so long.
        seconds: u64,
    },
    /// The bucket is not there.
    #[error("the bucket of {name} does not exist: {why}")]
    NoBucket {
        /// The place, as the user named it.
        name: String,
        /// What the store says.
        why: String,
    },
    /// The store does not let us.
    #[error("{name} may not be used with these credentials: {why}")]
    Denied {
        /// The place, as the user named it.
        name: String,
        /// What the store says.
        why: String,
    },
    /// The store fails a request.
    #[error("{what} at {name} failed: {why}")]
    Store {
        /// The place, as the user named it.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What the store or the database says.
        why: String,
    },
    /// A record of the volume is broken.
    #[error("{name} is damaged: {what}")]
    Damaged {
        /// The place, as the user named it.
        name: String,
        /// Where, and how.
        what: String,
    },
    /// A chunk is broken.
    #[error("{name} is damaged: {source}")]
    Chunk {
        /// The place, as the user named it.
        name: String,
        /// Which, and how.
        source: ChunkError,
    },
    /// The store is not fit for volumes.
    #[error(transparent)]
    Probe(std::sync::Arc<ProbeError>),
    /// A volume cannot have this size.
    #[error("a volume of {size} bytes cannot be made of chunks of {chunk}")]
    Size {
        /// Size of the volume.
        size: u64,
        /// Size of a chunk.
        chunk: u64,
    },
    /// A snapshot cannot have this name.
    #[error("a snapshot cannot be named {snapshot:?}: {why}")]
    SnapshotName {
        /// The name.
        snapshot: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is a snapshot of this name.
    #[error("{name} has a snapshot {snapshot} already")]
    SnapshotExists {
        /// The place, as the user named it.
        name: String,
        /// The name of the snapshot.
        snapshot: String,
    },
    /// There is none.
    #[error("{name} has no snapshot {snapshot}")]
    SnapshotMissing {
        /// The place, as the user named it.
        name: String,
        /// The name of the snapshot.
        snapshot: String,
    },
    /// A volume and its clone are not in one store.
    #[error("{clone} is not in the store of {name}: a clone shares the objects of its original")]
    OtherStore {
        /// The place of the original, as the user named it.
        name: String,
        /// The place of the clone, as the user named it.
        clone: String,
    },
    /// One of two volumes would lie in the other one.
    #[error("{name} and {clone} lie in one another: a volume has a prefix of its own")]
    Inside {
        /// The place of the original, as the user named it.
        name: String,
        /// The place of the clone, as the user named it.
        clone: String,
    },
    /// Whoever writes was faster than a reader, each time.
    #[error("{name} is written so fast that no state of it could be read in {tries} tries: try again")]
    Overtaken {
        /// The place, as the user named it.
        name: String,
        /// How often it was tried.
        tries: u32,
    },
    /// A clone was begun there, and not finished.
    #[error("{name} holds a clone that was never finished: delete it")]
    HalfMade {
        /// The place, as the user named it.
        name: String,
    },
    /// Somebody has begun to delete the volume.
    #[error("{name} is being deleted: deleting it once more finishes that")]
    BeingDeleted {
        /// The place, as the user named it.
        name: String,
    },
    /// Clones need objects of the volume.
    #[error("{name} is needed by {}: these share its objects", clones.join(", "))]
    Needed {
        /// The place, as the user named it.
        name: String,
        /// The clones, as they were named when they were made.
        clones: Vec<String>,
    },
    /// This machine has seen a newer state of the volume: the store has lost something, or somebody has put an older
    /// one in its place.
    #[error(
        "{name} is at {what} {found}, and this machine has seen {seen}: the store has lost what it acknowledged, or \
         holds an older copy. Whoever means that one deletes {file}"
    )]
    Older {
        /// The place, as the user named it.
        name: String,
        /// Which number is smaller.
        what: &'static str,
        /// As it is there.
        found: u64,
        /// As it was seen.
        seen: u64,
        /// Where that is kept.
        file: String,
    },
    /// The cache on the local disk is none, or cannot be made.
    #[error("{dir} cannot be used as a cache: {why}")]
    DiskCache {
        /// Its directory.
        dir: String,
        /// Why.
        why: String,
    },
    /// The volume was closed, or opened for reading.
    #[error("{name} is not open for writing")]
    NotWriting {
        /// The place, as the user named it.
        name: String,
    },
    /// The last writer has left batches in a local log, and that is not the one that was given.
    #[error("the last writer of {name} has left transactions in its local log {log}, which is not here")]
    LogMissing {
        /// The place, as the user named it.
        name: String,
        /// The UUID of the log.
        log: String,
    },
    /// A local log belongs to another volume.
    #[error("the local log {log} ({uuid}) belongs to another volume than {name}")]
    LogForeign {
        /// The place, as the user named it.
        name: String,
        /// The log's medium.
        log: String,
        /// The UUID of the log.
        uuid: String,
    },
    /// Others have written to the volume since.
    #[error(
        "{name} was written elsewhere since: {batches} transactions in the local log {log} ({uuid}) belong to a \
         history that went another way"
    )]
    LogOld {
        /// The place, as the user named it.
        name: String,
        /// The log's medium.
        log: String,
        /// The UUID of the log.
        uuid: String,
        /// How many are in no bucket, as far as the log knows.
        batches: u64,
    },
    /// The bucket has lost what it had acknowledged.
    #[error("{name} is older than the local log {log} ({uuid}) knows it: {what}")]
    BucketOld {
        /// The place, as the user named it.
        name: String,
        /// The log's medium.
        log: String,
        /// The UUID of the log.
        uuid: String,
        /// How that is seen.
        what: String,
    },
    /// A local log is broken.
    #[error("the local log {log} is damaged: {what}")]
    LogDamaged {
        /// The log's medium, with the UUID of the log as far as that is known.
        log: String,
        /// Where, and how.
        what: String,
    },
    /// A local log has no room.
    #[error("the local log {log} has {size} bytes, and needs {least} at least")]
    LogSmall {
        /// The log's medium.
        log: String,
        /// Its size.
        size: u64,
        /// The least.
        least: u64,
    },
    /// The medium of a local log fails.
    #[error("{what} the local log {log} failed: {why}")]
    Log {
        /// The log's medium.
        log: String,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        why: String,
    },
    /// The system gives no threads.
    #[error("threads for {name} cannot be started: {why}")]
    Threads {
        /// The place, as the user named it.
        name: String,
        /// What the system says.
        why: String,
    },
}

impl HomeError {
    /// What `source`, an answer of the store to `what`, means for the volume `name`.
    pub(crate) fn of_store(name: &str, what: &'static str, source: &object_store::Error) -> Self {
        let (name, why) = (name.to_owned(), source.to_string());
        match source {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Self::Denied { name, why }
            }
            _ => Self::Store { name, what, why },
        }
    }

    /// The same for an answer of the database.
    pub(super) fn of_database(name: &str, what: &'static str, source: &slatedb::Error) -> Self {
        Self::Store { name: name.to_owned(), what, why: source.to_string() }
    }

    pub(super) fn away(name: &str, what: &'static str, limit: Duration) -> Self {
        Self::Away { name: name.to_owned(), what, seconds: limit.as_secs() }
    }
}

/// Whether a newer writer is behind this error.
pub(super) fn is_fence(e: &slatedb::Error) -> bool {
    e.kind() == slatedb::ErrorKind::Closed(slatedb::CloseReason::Fenced)
}
