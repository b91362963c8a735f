//! Opening and closing: the only place that chooses and joins layers.
//!
//! ```text
//!   FileStore (locked) ─▶ Image (superblock) ─▶ replay ─▶ mark mounted ─▶ engine ─▶ inode-level volume ─▶ orphans
//! ```

use crate::{Error, Options, Result};
use ondol_block::{Access, BlockStore, FileStore};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_env::{Env, System};
use ondol_format::superblock as sb;
use ondol_journal::jbd2::{self, LogMap, Recovered};
use ondol_journal::{Config, Engine, JournalError, ReadOnlyEngine};
use ondol_volume::{DataMode, Image, OnError, Processed, Volume as Inodes, VolumeOptions};
use std::path::Path;

/// Everything that a mounted volume is made of.
pub(crate) struct Composed {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) recovered: Recovered,
    pub(crate) orphans: Processed,
}

/// What a cached inode takes in memory, roughly, in bytes.
const INODE_BYTES: u64 = 640;

/// Opens the image at `path`.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Composed> {
    if !options.read_only {
        let store: Arc<dyn BlockStore> = Arc::new(FileStore::open(path, Access::Write)?);
        return open_store(store, options, Arc::new(System));
    }
    let store: Arc<dyn BlockStore> = Arc::new(FileStore::open(path, Access::Read)?);
    if options.recovery && Image::open(store.clone())?.needs_recovery() {
        drop(store);
        replay_before_reading(path)?;
        return open_store(Arc::new(FileStore::open(path, Access::Read)?), options, Arc::new(System));
    }
    open_store(store, options, Arc::new(System))
}

/// As ext4, a read-only mount replays the journal where it can write.
fn replay_before_reading(path: &Path) -> Result<()> {
    let store = FileStore::open(path, Access::Write).map_err(|e| Error::State {
        target: path.display().to_string(),
        what: format!("its journal must be replayed first, which needs to write ({e}); `norecovery` reads it as it is"),
    })?;
    recover_store(&(Arc::new(store) as Arc<dyn BlockStore>)).map(|_| ())
}

/// Opens the image on `store`.
pub(crate) fn open_store(store: Arc<dyn BlockStore>, options: &Options, env: Arc<dyn Env>) -> Result<Composed> {
    let image = Image::open(store.clone())?;
    let writable = !options.read_only && can_be_written(&image);
    if !writable {
        return open_read_only(store, &image, options, env);
    }
    require_journal(&image)?;
    let recovered = recover_store(&store)?;
    let image = Image::open(store.clone())?;
    let shared = image.shared()?;
    let map = log_map(&image)?;
    let data = data_mode(options, &image);
    let engine: Arc<dyn Engine> =
        Arc::new(jbd2::open(store.clone(), map, shared.clone(), env.clone(), engine_config(options, data))?);
    image.mark_mounted(env.now())?;
    let volume_options = volume_options(options, &image, data, false);
    let inodes = Arc::new(Inodes::new(shared, engine.clone(), env, volume_options));
    let orphans = inodes.process_orphans()?;
    Ok(Composed { store, engine, inodes, recovered, orphans })
}

fn open_read_only(store: Arc<dyn BlockStore>, image: &Image, options: &Options, env: Arc<dyn Env>) -> Result<Composed> {
    if options.recovery && image.needs_recovery() && !store.caps().read_only {
        recover_store(&store)?;
    }
    let image = Image::open(store.clone())?;
    let shared = image.shared()?;
    let block_size = image.superblock().block_size();
    let cache = (options.cache_bytes / 2) as usize;
    let engine: Arc<dyn Engine> = Arc::new(ReadOnlyEngine::new(store.clone(), block_size, shared.clone(), cache));
    let volume_options = volume_options(options, &image, DataMode::Ordered, true);
    let inodes = Arc::new(Inodes::new(shared, engine.clone(), env, volume_options));
    Ok(Composed { store, engine, inodes, recovered: Recovered::default(), orphans: Processed::default() })
}

fn can_be_written(image: &Image) -> bool {
    match image.require_writable() {
        Ok(()) => true,
        Err(e) => {
            tracing::warn!("mounted read-only: {e}");
            false
        }
    }
}

fn require_journal(image: &Image) -> Result<()> {
    if image.superblock().journal_inum().is_some() {
        return Ok(());
    }
    Err(Error::State {
        target: image.name().to_owned(),
        what:
            "it has no internal journal, without which it cannot be written safely: mount it with `ro`, or give it one \
               with `tune2fs -j`"
                .into(),
    })
}

pub(crate) fn log_map(image: &Image) -> Result<LogMap> {
    Ok(LogMap::new(image.superblock().block_size(), image.journal_map()?))
}

/// Replays the journal of the image on `store` if it holds anything, and marks the image recovered.
pub(crate) fn recover_store(store: &Arc<dyn BlockStore>) -> Result<Recovered> {
    let image = Image::open(store.clone())?;
    if image.superblock().journal_inum().is_none() {
        return Ok(Recovered::default());
    }
    let map = log_map(&image)?;
    let dirty = jbd2::info(&**store, &map)?.dirty;
    if !dirty && !image.needs_recovery() {
        return Ok(Recovered::default());
    }
    let recovered = jbd2::recover(&**store, &map, image.superblock().blocks_count())?;
    Image::open(store.clone())?.mark_recovered()?;
    tracing::info!("{}: replayed {} transactions", store.name(), recovered.transactions);
    Ok(recovered)
}

fn data_mode(options: &Options, image: &Image) -> DataMode {
    options.data.unwrap_or(match image.superblock().default_mount_opts() & sb::DEFM_JMODE {
        sb::DEFM_JMODE_DATA => DataMode::Journal,
        sb::DEFM_JMODE_WBACK => DataMode::Writeback,
        _ => DataMode::Ordered,
    })
}

fn engine_config(options: &Options, data: DataMode) -> Config {
    Config {
        commit_interval: options.commit_seconds,
        dirty_bytes: options.dirty_bytes,
        cache_bytes: (options.cache_bytes / 2) as usize,
        pending_bytes: options.cache_bytes / 4,
        journaled_data: data == DataMode::Journal,
    }
}

fn volume_options(options: &Options, image: &Image, data: DataMode, read_only: bool) -> VolumeOptions {
    let from_image = match image.superblock().errors() {
        sb::ERRORS_CONTINUE => OnError::Continue,
        _ => OnError::RemountReadOnly,
    };
    VolumeOptions {
        data,
        on_error: options.on_error.unwrap_or(from_image),
        read_only,
        atime: options.atime,
        nodiratime: options.nodiratime,
        cached_inodes: options.cached_inodes.unwrap_or((options.cache_bytes / 4 / INODE_BYTES) as usize),
    }
}

impl Composed {
    /// Commits everything, empties the journal and marks the image clean. The lock is released when the store is dropped.
    pub(crate) fn close(&self) -> Result<()> {
        if let Some(why) = self.engine.aborted() {
            return Err(JournalError::Aborted(why).into());
        }
        if self.engine.max_blocks() == 0 {
            return Ok(());
        }
        if !self.inodes.is_read_only() {
            self.inodes.process_orphans()?;
        }
        if plant::is(Defect::FlagClearedEarly) {
            Image::open(self.store.clone())?.mark_unmounted(&self.inodes)?;
        }
        self.engine.checkpoint_all()?;
        let image = Image::open(self.store.clone())?;
        Ok(image.mark_unmounted(&self.inodes)?)
    }
}
