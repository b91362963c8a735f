//! The buffer as its owner has it.

use crate::file::FileState;
use crate::flush::Flusher;
use crate::handle::File;
use crate::home::{Home, Identity};
use crate::options::Options;
use crate::reclaim::Reclaimer;
use crate::recover::{Report, recover_area};
use crate::shared::Core;
use crate::stats::BufferStats;
use crate::sync::Syncer;
use crate::tree::Tree;
use crate::{BufferError, Result, check};
use ondol_env::sync::{Arc, RwLock};
use ondol_env::{Env, Step};
use ondol_medium::Pool;

/// NVM before the files of a home. See the crate documentation.
#[derive(Clone, Debug)]
pub struct Buffer {
    core: Arc<Core>,
}

impl Buffer {
    /// Opens the buffer of a pool that has the areas for one ([`crate::Shape::areas`]); makes it if there is none. What
    /// it holds from before is brought home first.
    ///
    /// The caller holds the pool's lock and sees to it that nobody else changes the home's files.
    ///
    /// # Errors
    /// `NoAreas`, `Shape`, `Newer`, `Header`, `Foreign`, `Damaged`; the home's or the NVM's failure.
    pub fn open(pool: &Pool, home: Arc<dyn Home>, env: Arc<dyn Env>, options: &Options) -> Result<(Self, Report)> {
        let (area, report) = recover_area(pool, &*home, options.shape, options.on_damage)?;
        Ok((Self { core: Arc::new(Core::new(area, home, env, options)) }, report))
    }

    /// Opens a file; makes it if it is not there and `make` is set.
    ///
    /// # Errors
    /// `NotFound`, `Files`, the home's or the NVM's failure.
    pub fn open_file(&self, identity: &Identity, make: bool) -> Result<File> {
        self.core.open_file(identity, make)
    }

    /// Removes a file. Durable when this returns. Handles that are open to it can do nothing any more.
    ///
    /// # Errors
    /// `NotFound`, otherwise as for [`Buffer::open_file`] and [`File::write_at`].
    pub fn remove(&self, identity: &Identity) -> Result<()> {
        self.core.remove_file(identity)
    }

    /// Brings everything home, durably: before the buffer is closed, say.
    ///
    /// # Errors
    /// The home's or the NVM's failure. The rest stays in NVM.
    pub fn settle(&self) -> Result<()> {
        let files = {
            let mut files = self.core.files.lock();
            self.core.settle_removed(&mut files)?;
            files.all()
        };
        self.core.settle(&files)?;
        self.core.release_idle()?;
        Ok(())
    }

    /// All stages, for [`ondol_env::Background`]: without threads, writers do their work when the buffer is full.
    pub fn steps(&self) -> Vec<Arc<dyn Step<Error = BufferError>>> {
        let mut steps: Vec<Arc<dyn Step<Error = BufferError>>> =
            vec![Arc::new(self.syncer()), Arc::new(self.reclaimer())];
        steps.extend(self.flushers().into_iter().map(|flusher| Arc::new(flusher) as _));
        steps
    }

    /// One flusher for each dirty queue.
    pub fn flushers(&self) -> Vec<Flusher> {
        (0..self.core.dirty.count()).map(|queue| Flusher { core: self.core.clone(), queue }).collect()
    }

    /// The syncer. More than one thread may step it.
    pub fn syncer(&self) -> Syncer {
        Syncer { core: self.core.clone() }
    }

    /// The reclaimer. More than one thread may step it.
    pub fn reclaimer(&self) -> Reclaimer {
        Reclaimer { core: self.core.clone() }
    }

    /// What was done, and how full it is.
    pub fn stats(&self) -> BufferStats {
        let core = &self.core;
        let files = core.files.lock().all();
        let dirty = |file: &Arc<FileState>| -> u64 {
            let of_shard = |shard: &RwLock<Tree>| -> u64 {
                let tree = shard.read();
                let dirty = tree.nodes.values().filter(|node| !node.phase.is_clean());
                dirty.flat_map(|node| &node.segments).map(|s| u64::from(s.len())).sum()
            };
            file.shards().map(of_shard).sum()
        };
        let blocks: u64 = core.area.header.blocks.into();
        let free_blocks: u64 = core.space.available().into();
        BufferStats {
            blocks,
            free_blocks,
            held_bytes: blocks.saturating_sub(free_blocks) * core.area.block_size(),
            live_bytes: core.space.all_held().map(|(live, _)| live).sum(),
            dirty_bytes: files.iter().map(dirty).sum(),
            files: files.len() as u64,
            ..core.counters.snapshot()
        }
    }

    /// What must hold in memory at any moment at which nobody uses the buffer. Empty if all of it does.
    pub fn check(&self) -> Vec<String> {
        check::check(&self.core)
    }
}
