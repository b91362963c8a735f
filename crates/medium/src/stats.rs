//! Counters that do not depend on how busy the machine is. Each thread has its own cache line, or shares it with few.

use ondol_env::counters::Counts;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_env::thread_number;

/// Bytes of a processor's cache line, the unit of write-backs and of poison.
pub(crate) const LINE: u64 = ondol_power::LINE as u64;

const SHARDS: usize = 16;

ondol_env::counters! {
    /// What has been done to an NVM since it was opened.
    pub struct NvmStats, "nvm_";
    #[repr(align(128))]
    live struct Shard;
    reads: Counter, Number, "Reads of NVM.";
    read_bytes: Counter, Bytes, "Bytes read from NVM.";
    stored_bytes: Counter, Bytes, "Bytes stored to NVM through the caches.";
    copied_bytes: Counter, Bytes, "Bytes copied to NVM past the caches, by non-temporal stores.";
    lines: Counter, Number, "Cache lines written back to NVM; those of copies are not among them.";
    fences: Counter, Number, "Fences behind stores to NVM.";
}

impl NvmStats {
    /// Bytes stored, through the caches or past them.
    pub fn all_bytes(&self) -> u64 {
        self.stored_bytes + self.copied_bytes
    }

    /// Bytes that have reached the medium: lines and copies. Where caches survive nobody writes lines back.
    pub fn reached_bytes(&self) -> u64 {
        self.lines * LINE + self.copied_bytes
    }
}

/// Live counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    shards: [Shard; SHARDS],
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
        self.shards.iter().fold(NvmStats::default(), |sum, shard| sum.plus(&shard.snapshot()))
    }
}
