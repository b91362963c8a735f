//! What a volume does to the NVM that it lies on, or has in front of it.

use ondol_env::sync::Arc;
use ondol_medium::Nvm;

/// Reads the counters of a volume's NVM. It holds the pool, and with it the pool's lock, until it is dropped.
#[derive(Clone, Debug, Default)]
pub struct NvmMeter(Vec<Arc<Nvm>>);

/// What was done to NVM since its pool was opened. What reaches the medium is 64 bytes for each line that was written back, and the copied bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmCounts {
    /// Bytes stored, through the caches or past them.
    pub bytes: u64,
    /// Those of them that were copied past the caches.
    pub copied_bytes: u64,
    /// Lines written back; those of copies are not among them, nor any where caches survive.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
    /// Bytes read.
    pub bytes_read: u64,
}

impl NvmMeter {
    pub(crate) fn new(media: Vec<Arc<Nvm>>) -> Self {
        Self(media)
    }

    /// The counts now; all zero where the volume has no NVM.
    pub fn read(&self) -> NvmCounts {
        self.0.iter().map(|nvm| nvm.stats()).fold(NvmCounts::default(), |sum, stats| NvmCounts {
            bytes: sum.bytes + stats.stored_bytes + stats.copied_bytes,
            copied_bytes: sum.copied_bytes + stats.copied_bytes,
            lines: sum.lines + stats.lines,
            fences: sum.fences + stats.fences,
            bytes_read: sum.bytes_read + stats.read_bytes,
        })
    }
}
