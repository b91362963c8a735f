//! An engine for volumes that are not written: it reads, and refuses everything else.

use crate::cache::AtHome;
use crate::common::Common;
use crate::contract::{About, Engine};
use crate::names::Tid;
use crate::stats::EngineStats;
use crate::{Ground, JournalError, Placement, Result, Run, WriteSet};
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
        Self { common: Common::read_only(ground, home) }
    }
}

impl Engine for ReadOnlyEngine {
    fn common(&self) -> &Common {
        &self.common
    }
    fn about(&self) -> About {
        About { name: "none", max_blocks: 0, logs_bytes: false }
    }
    fn reserve(&self, _blocks: u32) -> Result<()> {
        self.common.check_alive()
    }
    fn extend(&self, _blocks: u32) -> bool {
        false
    }
    fn unreserve(&self, _blocks: u32) {}
    fn publish(&self, _set: WriteSet<'_>, _reserved: u32) -> Tid {
        // No handle can be open: `reserve` refuses them all.
        Tid(0)
    }
    fn place(&self, run: &Run) -> (Placement, u32) {
        (Placement::InPlace, run.extent.len)
    }
    fn write_new(&self, _block: u64, _bytes: &[u8]) -> Result<bool> {
        self.common.check_alive().map(|()| false)
    }
    fn new_data_cost(&self, blocks: u32) -> u32 {
        blocks
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
    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}
