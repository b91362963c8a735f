//! What a volume does to the NVM that it lies on, or has in front of it.

use ondol_env::counters::Counts;
use ondol_env::sync::Arc;
use ondol_medium::{Nvm, NvmStats};

/// Reads the counters of a volume's NVM. It holds the pool, and with it the pool's lock, until it is dropped.
#[derive(Clone, Debug, Default)]
pub struct NvmMeter(Vec<Arc<Nvm>>);

impl NvmMeter {
    pub(crate) fn new(media: Vec<Arc<Nvm>>) -> Self {
        Self(media)
    }

    /// The counts since the pool was opened; all zero where the volume has no NVM.
    pub fn read(&self) -> NvmStats {
        self.0.iter().fold(NvmStats::default(), |sum, nvm| sum.plus(&nvm.stats()))
    }
}
