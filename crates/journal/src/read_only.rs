//! An engine for volumes that are not written: it reads, and refuses everything else.

use crate::cache::AtHome;
use crate::common::Common;
use crate::contract::{Engine, Extent, Tid};
use crate::device::Bound;
use crate::stats::EngineStats;
use crate::{Ground, JournalError, Result, WriteSet};
use ondol_env::Step;
use ondol_env::sync::Arc;

/// See the module documentation.
pub struct ReadOnlyEngine {
    common: Common,
}

impl ReadOnlyEngine {
    /// Over the image as it lies on the store.
    pub fn new(ground: Ground) -> Self {
        let home = Arc::new(AtHome::of(&ground));
        Self { common: Common::new(ground, home, Bound { kept: 0, dirty: 0 }) }
    }
}

fn refused<T>() -> Result<T> {
    Err(JournalError::Unsupported("the volume is mounted read-only".into()))
}

impl Engine for ReadOnlyEngine {
    fn name(&self) -> &'static str {
        "none"
    }
    fn common(&self) -> &Common {
        &self.common
    }
    fn max_blocks(&self) -> u32 {
        0
    }
    fn reserve(&self, _blocks: u32) -> Result<()> {
        refused()
    }
    fn extend(&self, _blocks: u32) -> bool {
        false
    }
    fn unreserve(&self, _blocks: u32) {}
    fn publish(&self, _set: WriteSet<'_>, _reserved: u32) -> Tid {
        // No handle can be open: `reserve` refuses them all.
        Tid(0)
    }
    fn write_data(&self, _block: u64, _offset: usize, _bytes: &[u8]) -> Result<()> {
        refused()
    }
    fn takes_new_data(&self) -> bool {
        false
    }
    fn new_data_cost(&self, blocks: u32) -> u32 {
        blocks
    }
    fn takes_over(&self, _extent: Extent, _bytes: usize) -> bool {
        false
    }
    fn journal_data(&self) {}
    fn caches_data(&self) -> bool {
        false
    }
    fn discard(&self, _extent: Extent) -> Result<bool> {
        refused()
    }
    fn tid(&self) -> Tid {
        Tid(0)
    }
    fn wait_for(&self, _tid: Tid, _written: u64) -> Result<()> {
        Ok(())
    }
    fn checkpoint(&self) -> Result<bool> {
        Ok(false)
    }
    fn checkpoint_all(&self) -> Result<()> {
        Ok(())
    }
    fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>> {
        Vec::new()
    }
    fn stop(&self, _why: &str) {}
    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}
