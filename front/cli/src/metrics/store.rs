//! What a volume in object storage asked of its store, and how far behind the store is: metrics of those volumes alone.

use ondol::CounterKind as Kind;
use serde_json::Value;

/// One number, or one of several that belong together.
pub(crate) struct Field {
    /// Where it is in what the server tells.
    pub(crate) pointer: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) kind: Kind,
    /// Which one of several it is.
    pub(crate) label: Option<(&'static str, &'static str)>,
    pub(crate) help: &'static str,
}

const REQUESTS: &str = "ondol_store_requests_total";
const OF_REQUESTS: &str = "Requests to object storage, by kind.";

const fn request(pointer: &'static str, kind: &'static str) -> Field {
    Field { pointer, metric: REQUESTS, kind: Kind::Counter, label: Some(("request", kind)), help: OF_REQUESTS }
}

const fn counter(pointer: &'static str, metric: &'static str, help: &'static str) -> Field {
    Field { pointer, metric, kind: Kind::Counter, label: None, help }
}

const fn gauge(pointer: &'static str, metric: &'static str, help: &'static str) -> Field {
    Field { pointer, metric, kind: Kind::Gauge, label: None, help }
}

/// Those of one metric follow each other.
#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    request("/bucket/requests/puts", "put"),
    request("/bucket/requests/gets", "get"),
    request("/bucket/requests/heads", "head"),
    request("/bucket/requests/lists", "list"),
    request("/bucket/requests/deletes", "delete"),
    request("/bucket/requests/copies", "copy"),
    request("/bucket/requests/uploads", "upload"),
    counter("/bucket/requests/repeated", "ondol_store_repeated_requests_total", "Requests that the client of object \
        storage made again."),
    counter("/bucket/requests/failed", "ondol_store_failed_requests_total", "Requests to object storage that failed."),
    counter("/bucket/requests/throttled", "ondol_store_throttled_requests_total", "Requests that object storage had \
        no time for."),
    counter("/bucket/requests/up", "ondol_store_sent_bytes_total", "Bytes that went up to object storage."),
    counter("/bucket/requests/down", "ondol_store_received_bytes_total", "Bytes that came down from object storage."),
    gauge("/bucket/requests/unanswered_seconds", "ondol_store_unanswered_seconds", "For how long object storage has \
        answered nothing that it was asked; 0 while it answers."),
    gauge("/bucket/lease/length_seconds", "ondol_lease_seconds", "How long others keep away after the lease was \
        renewed."),
    gauge("/bucket/lease/age_seconds", "ondol_lease_age_seconds", "How long ago the lease was taken or renewed."),
    gauge("/bucket/lag/bytes", "ondol_lag_bytes", "Bytes that are durable in the log on this machine and not in the \
                                                   bucket."),
    gauge("/bucket/lag/transactions", "ondol_lag_transactions", "Transactions of which the same is true."),
    gauge("/bucket/lag/seconds", "ondol_lag_seconds", "Age of the oldest of them."),
    gauge("/bucket/lag/most_bytes", "ondol_lag_limit_bytes", "How many bytes that may be before operations wait."),
    gauge("/bucket/lag/most_seconds", "ondol_lag_limit_seconds", "How old they may get before operations wait."),
    counter("/bucket/disk_cache/hits", "ondol_disk_cache_hits_total", "Parts of objects that the cache on the local \
        disk had."),
    counter("/bucket/disk_cache/misses", "ondol_disk_cache_misses_total", "Parts of objects that it had not."),
];

/// Those of a mount, each with its value. None of a volume that is in no object storage.
pub(crate) fn told(stats: &Value) -> impl Iterator<Item = (&'static Field, u64)> + '_ {
    FIELDS.iter().filter_map(|field| Some((field, stats.pointer(field.pointer)?.as_u64()?)))
}
