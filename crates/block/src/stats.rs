//! Counters that do not depend on how busy the machine is.

use ondol_env::sync::atomic::Ordering::Relaxed;

ondol_env::counters! {
    /// What a store has done since it was opened.
    pub struct BlockStats, "device_";
    /// Live counters of a store.
    live pub struct Counters;
    reads: Counter, Number, "Read calls to the image's medium.";
    read_bytes: Counter, Bytes, "Bytes read from the image's medium.";
    writes: Counter, Number, "Write calls to the image's medium; a vectored one is one.";
    written_bytes: Counter, Bytes, "Bytes written to the image's medium.";
    flushes: Counter, Number, "Flushes of the image's medium.";
    discards: Counter, Number, "Ranges of the image's medium that were declared unused.";
    discarded_bytes: Counter, Bytes, "Bytes of those ranges.";
}

impl Counters {
    /// Counts one read of `bytes` bytes.
    pub fn read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts one write of `bytes` bytes.
    pub fn write(&self, bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts one flush.
    pub fn flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Counts one discard of `bytes` bytes.
    pub fn discard(&self, bytes: u64) {
        self.discards.fetch_add(1, Relaxed);
        self.discarded_bytes.fetch_add(bytes, Relaxed);
    }
}
