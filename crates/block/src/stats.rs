//! Counters that do not depend on how busy the machine is.

use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Live counters of a store.
#[derive(Debug, Default)]
pub struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    discarded_bytes: AtomicU64,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Read calls.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write calls (one vectored write is one call).
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Ranges declared unused.
    pub discards: u64,
    /// Bytes of those.
    pub discarded_bytes: u64,
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

    /// The counts so far.
    pub fn snapshot(&self) -> BlockStats {
        BlockStats {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            discards: self.discards.load(Relaxed),
            discarded_bytes: self.discarded_bytes.load(Relaxed),
        }
    }
}
