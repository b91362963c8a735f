//! What a volume counts.

use crate::Volume;

ondol_env::counters! {
    /// Counters of a volume since it was opened.
    pub struct VolumeStats, "";
    orphans: Gauge, Number, "Inodes that are deleted and still in use, or being truncated.";
    cached_inodes: Gauge, Number, "Inodes in memory.";
    view_lent_bytes: Counter, Bytes, "Bytes of views and maps of files that were lent as they are stored.";
    view_copied_bytes: Counter, Bytes, "Bytes of views and maps of files that were copied.";
    batches: Counter, Number, "Changes at several places of files that were made as one: commits of maps and of \
                               databases.";
    batch_bytes: Counter, Bytes, "Bytes that these wrote.";
    batch_exchanges: Counter, Number, "Those that were done by an exchange.";
}

impl Volume {
    /// The counters now. Nothing is read from the medium.
    pub fn stats(&self) -> VolumeStats {
        let (viewed, made) = (&self.viewed, &self.made);
        VolumeStats {
            orphans: self.orphans.known(),
            cached_inodes: self.nodes.len() as u64,
            view_lent_bytes: viewed.lent.sum().cast_unsigned(),
            view_copied_bytes: viewed.copied.sum().cast_unsigned(),
            batches: made.calls.sum().cast_unsigned(),
            batch_bytes: made.bytes.sum().cast_unsigned(),
            batch_exchanges: made.exchanges.sum().cast_unsigned(),
        }
    }
}
