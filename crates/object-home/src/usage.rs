//! What a volume takes in its bucket, by listing it.

use crate::home::{border, bounded};
use crate::{Bucket, HomeError};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use std::time::Duration;

/// Objects of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a volume takes in its bucket. What a clone reads of its original is counted with the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Chunks.
    pub data: Share,
    /// The database's log.
    pub log: Share,
    /// What says which objects count: manifests, and the state of compactions.
    pub manifests: Share,
    /// Leases.
    pub leases: Share,
    /// Everything else.
    pub other: Share,
}

impl Usage {
    /// Lists the volume's objects: one request for each 1000. Needs no lease. A place that holds nothing takes nothing.
    ///
    /// # Errors
    /// The store fails or does not let us.
    pub fn of(bucket: &Bucket, timeout: Option<Duration>) -> Result<Self, HomeError> {
        let b = bucket.clone();
        let work = async move {
            let mut usage = Self::default();
            let mut list = b.store.list(Some(&b.prefix));
            loop {
                match list.try_next().await {
                    Ok(Some(meta)) => usage.add(&b.prefix, &meta.location, meta.size),
                    Ok(None) => return Ok(usage),
                    Err(e) => return Err(HomeError::of_store(&b.name, "to list objects", &e)),
                }
            }
        };
        border(bucket)?.wait(bounded(bucket.name.clone(), "listing objects", timeout, work))
    }

    /// All of it.
    pub fn total(&self) -> Share {
        let mut total = Share::default();
        for share in [self.data, self.log, self.manifests, self.leases, self.other] {
            total.objects += share.objects;
            total.bytes += share.bytes;
        }
        total
    }

    fn add(&mut self, prefix: &Path, location: &Path, bytes: u64) {
        let parts: Vec<String> =
            location.prefix_match(prefix).into_iter().flatten().map(|part| part.as_ref().to_owned()).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let share = match parts[..] {
            ["db", "compacted", ..] => &mut self.data,
            ["db", "wal", ..] => &mut self.log,
            ["db", "manifest" | "compactions" | "gc", ..] => &mut self.manifests,
            ["lease", ..] => &mut self.leases,
            _ => &mut self.other,
        };
        share.objects += 1;
        share.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_apart_by_where_they_are() {
        let mut usage = Usage::default();
        let prefix = Path::from("a/b");
        for (n, name) in
            ["db/compacted/1.sst", "db/wal/2.sst", "db/manifest/3", "db/compactions/4", "lease/5", "clones/6"]
                .into_iter()
                .enumerate()
        {
            usage.add(&prefix, &Path::from(format!("a/b/{name}")), 1 << n);
        }
        let share = |objects, bytes| Share { objects, bytes };
        let expected = Usage {
            data: share(1, 1),
            log: share(1, 2),
            manifests: share(2, 4 + 8),
            leases: share(1, 16),
            other: share(1, 32),
        };
        assert_eq!(usage, expected);
        assert_eq!(usage.total(), share(6, 63));
    }
}
