//! What there is to know of a volume in object storage.

use serde::Serialize;

/// The home of a volume in object storage.
#[derive(Clone, Debug, Serialize)]
pub struct BucketInfo {
    /// UUID of the home, which is not that of the volume.
    pub uuid: String,
    /// How often it was opened for writing.
    pub epoch: u64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes of the home.
    pub size: u64,
    /// Whoever wrote to it last has closed it. False: somebody has it open, or was cut off.
    pub closed: bool,
    /// How many snapshots there are; unknown of a volume that is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<u64>,
    /// With `durable=local`: how far the bucket is behind the log on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagInfo>,
    /// The lease of whoever has it open for writing here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseInfo>,
    /// Objects and bytes that it takes in the bucket; unknown where the store does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredInfo>,
    /// What was asked of the store since it was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestInfo>,
    /// The cache on the local disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_cache: Option<DiskCacheInfo>,
}

/// What is acknowledged and not in the bucket.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LagInfo {
    /// UUID of the log on this machine.
    pub log: String,
    /// Bytes.
    pub bytes: u64,
    /// Transactions.
    pub transactions: u64,
    /// Age of the oldest.
    pub seconds: u64,
    /// Bytes at which operations wait.
    pub most_bytes: u64,
    /// Age at which they do.
    pub most_seconds: u64,
}

/// What keeps others from writing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeaseInfo {
    /// Others keep away for so many seconds after it was renewed.
    pub length_seconds: u64,
    /// So many seconds ago it was taken or renewed: a third of that at most, where the store answers.
    pub age_seconds: u64,
}

/// What a volume takes in its bucket. What a clone reads of its original is counted with the original.
#[derive(Clone, Debug, Serialize)]
pub struct StoredInfo {
    /// All objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of chunks.
    pub data_bytes: u64,
    /// Bytes of the database's log.
    pub log_bytes: u64,
    /// Bytes of everything else.
    pub other_bytes: u64,
}

/// Requests since a volume was opened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RequestInfo {
    /// For how long they were counted, in seconds.
    pub seconds: u64,
    /// Objects that were put, parts of large ones included.
    pub puts: u64,
    /// Objects that were read, or parts of them.
    pub gets: u64,
    /// Objects that were only looked at.
    pub heads: u64,
    /// Lists.
    pub lists: u64,
    /// Objects that were deleted.
    pub deletes: u64,
    /// Copies within the store.
    pub copies: u64,
    /// Beginnings and ends of uploads in parts.
    pub uploads: u64,
    /// Bytes that went up.
    pub up: u64,
    /// Bytes that came down.
    pub down: u64,
    /// Requests that were made again by the client of a cloud.
    pub repeated: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that the store had no time for.
    pub throttled: u64,
    /// For so many seconds the store has answered nothing that it was asked; 0 if it answers.
    pub unanswered_seconds: u64,
}

/// The cache on the local disk.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiskCacheInfo {
    /// Bytes that it has room for.
    pub room: u64,
    /// Bytes that it has.
    pub bytes: u64,
    /// Parts that were wanted and there.
    pub hits: u64,
    /// Parts that were wanted and not there.
    pub misses: u64,
}

/// A snapshot of a volume in object storage: `TARGET?snapshot=NAME` names the volume as it was, for reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970 by the clock of the machine that made it.
    pub made: i64,
}
