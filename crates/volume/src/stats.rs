//! What a volume counts.

use crate::Volume;

ondol_env::counters! {
    /// Counters of a volume since it was opened.
    pub struct VolumeStats, "";
    orphans: Gauge, Number, "Inodes that are deleted and still in use, or being truncated.";
    cached_inodes: Gauge, Number, "Inodes in memory.";
    view_lent_bytes: Counter, Bytes, "Bytes of views and maps of files that were lent as they are stored.";
    view_copied_bytes: Counter, Bytes, "Bytes of views and maps of files that were copied.";
    map_commits: Counter, Number, "Commits of mapped files.";
    map_commit_bytes: Counter, Bytes, "Bytes that commits of mapped files wrote.";
    map_commit_exchanges: Counter, Number, "Commits of mapped files that were done by an exchange.";
}

impl Volume {
    /// The counters now. Nothing is read from the medium.
    pub fn stats(&self) -> VolumeStats {
        let (viewed, committed) = (&self.viewed, &self.committed);
        VolumeStats {
            orphans: self.orphans_known(),
            cached_inodes: self.nodes.len() as u64,
            view_lent_bytes: viewed.lent.sum().cast_unsigned(),
            view_copied_bytes: viewed.copied.sum().cast_unsigned(),
            map_commits: committed.calls.sum().cast_unsigned(),
            map_commit_bytes: committed.bytes.sum().cast_unsigned(),
            map_commit_exchanges: committed.exchanges.sum().cast_unsigned(),
        }
    }
}
