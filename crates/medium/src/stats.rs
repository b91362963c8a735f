//! Counters that do not depend on how busy the machine is. Each thread has its own cache line, or shares it with few.

use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::thread_number;

/// Bytes of a processor's cache line, the unit of write-backs and of poison.
pub(crate) const LINE: u64 = ondol_power::LINE as u64;

const SHARDS: usize = 16;

/// What has been done to an NVM since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmStats {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes stored through the caches.
    pub stored_bytes: u64,
    /// Bytes copied past the caches by non-temporal stores.
    pub copied_bytes: u64,
    /// Lines written back: by an instruction, or by `msync`. Lines of non-temporal copies are not among them.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
}

/// Live counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    shards: [Shard; SHARDS],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    copied_bytes: AtomicU64,
    lines: AtomicU64,
    fences: AtomicU64,
}

impl Stats {
    fn mine(&self) -> &Shard {
        &self.shards[thread_number() as usize % SHARDS]
    }

    pub(crate) fn read(&self, bytes: u64) {
        let shard = self.mine();
        shard.reads.fetch_add(1, Relaxed);
        shard.read_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn stored(&self, bytes: u64) {
        self.mine().stored_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn copied(&self, bytes: u64) {
        self.mine().copied_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn written_back(&self, lines: u64) {
        self.mine().lines.fetch_add(lines, Relaxed);
    }

    pub(crate) fn fence(&self) {
        self.mine().fences.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> NvmStats {
        self.shards.iter().fold(NvmStats::default(), |sum, shard| NvmStats {
            reads: sum.reads + shard.reads.load(Relaxed),
            read_bytes: sum.read_bytes + shard.read_bytes.load(Relaxed),
            stored_bytes: sum.stored_bytes + shard.stored_bytes.load(Relaxed),
            copied_bytes: sum.copied_bytes + shard.copied_bytes.load(Relaxed),
            lines: sum.lines + shard.lines.load(Relaxed),
            fences: sum.fences + shard.fences.load(Relaxed),
        })
    }
}
