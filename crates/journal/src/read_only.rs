//! An engine for volumes that are not written: it reads, and refuses everything else.

use crate::Block;
use crate::cache::{Cache, Home};
use crate::contract::{Client, Engine, Extent, Tid};
use crate::piece::{Piece, Sources};
use crate::stats::EngineStats;
use crate::{JournalError, Result, WriteSet};
use ondol_block::BlockStore;
use ondol_env::Step;
use ondol_env::sync::Arc;

struct Source {
    store: Arc<dyn BlockStore>,
    block_size: usize,
}

impl Home for Source {
    fn committed(&self, _block: u64) -> Option<Block> {
        None
    }

    fn read_home(&self, block: u64, bytes: &mut [u8]) -> Result<()> {
        Ok(self.store.read(block * self.block_size as u64, bytes)?)
    }
}

/// See the module documentation.
pub struct ReadOnlyEngine {
    source: Arc<Source>,
    cache: Cache,
}

impl ReadOnlyEngine {
    /// Over the image as it lies on `store`, with a cache of `cache_bytes`.
    pub fn new(store: Arc<dyn BlockStore>, block_size: u32, client: Arc<dyn Client>, cache_bytes: usize) -> Self {
        let source = Arc::new(Source { store, block_size: block_size as usize });
        let cache = Cache::new(block_size as usize, cache_bytes, source.clone(), client);
        Self { source, cache }
    }
}

fn refused<T>() -> Result<T> {
    Err(JournalError::Unsupported("the volume is mounted read-only".into()))
}

impl Engine for ReadOnlyEngine {
    fn name(&self) -> &'static str {
        "none"
    }
    fn cache(&self) -> &Cache {
        &self.cache
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
    fn read_data(&self, block: u64, offset: usize, buf: &mut [u8]) -> Result<()> {
        Ok(self.source.store.read(block * self.source.block_size as u64 + offset as u64, buf)?)
    }
    fn view_data(&self, block: u64, offset: usize, len: usize, bounded: bool, pieces: &mut Vec<Piece>) -> Result<()> {
        let (store, block_size) = (&*self.source.store, self.source.block_size);
        Sources { cache: None, store, block_size, bounded }.view(block, offset, len, pieces)
    }
    fn discard(&self, _extent: Extent) -> Result<bool> {
        refused()
    }
    fn tid(&self) -> Tid {
        Tid(0)
    }
    fn written(&self) -> u64 {
        0
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
    fn aborted(&self) -> Option<String> {
        None
    }
    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}
