//! Opening and closing: the only place that chooses and joins layers.
//!
//! ```text
//!   FileStore (locked) ─▶ Image (superblock) ─▶ replay ─▶ mark mounted ─▶ engine ─▶ inode-level volume ─▶ orphans
//! ```

use crate::{Error, Options, Result};
use ondol_block::{Access, BlockStore, FileStore, OverlayStore};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_env::{Env, Progress, Step, System};
use ondol_format::superblock as sb;
use ondol_journal::jbd2::{self, LogMap, Recovered};
use ondol_journal::{Config, Engine, JournalError, ReadOnlyEngine};
use ondol_volume::{DataMode, Image, Processed, Volume as Inodes, VolumeOptions};
use std::os::unix::ffi::OsStrExt;
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
/// Seconds after which a commit is made, as ext4 has it.
const DEFAULT_COMMIT: u64 = 5;

/// Opens the image at `path`.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Composed> {
    let access = if options.read_only { Access::Read } else { Access::Write };
    open_store(Arc::new(FileStore::open(path, access)?), options, Arc::new(System))
}

/// Opens the image on `store`.
pub(crate) fn open_store(store: Arc<dyn BlockStore>, options: &Options, env: Arc<dyn Env>) -> Result<Composed> {
    let image = open_image(store.clone(), options)?;
    let writable = !options.read_only && can_be_written(&image);
    if !writable {
        return open_read_only(store, image, options, env);
    }
    require_whole(&image, options)?;
    let recovered = recover_store(&store)?;
    let image = Image::open(store.clone())?;
    let options = &options.clone().over(image.superblock());
    let shared = image.shared()?;
    let map = log_map(&image)?;
    let errno = jbd2::info(&*store, &map)?.errno;
    if errno != 0 {
        image.mark_journal_error(env.now(), errno)?;
    }
    if image.superblock().state() & sb::STATE_ERROR != 0 {
        tracing::warn!("{}: the volume has errors; `e2fsck -f` mends it", image.name());
    }
    let data = options.data.unwrap_or_default();
    let engine: Arc<dyn Engine> =
        Arc::new(jbd2::open(store.clone(), map, shared.clone(), env.clone(), engine_config(options, data))?);
    let mounted_on = options.mounted_on.as_ref().map(|dir| dir.as_os_str().as_bytes());
    image.mark_mounted(env.now(), mounted_on)?;
    let inodes = Arc::new(Inodes::new(shared, engine.clone(), env, volume_options(options, data, false)));
    let orphans = inodes.process_orphans()?;
    Ok(Composed { store, engine, inodes, recovered, orphans })
}

fn open_image(store: Arc<dyn BlockStore>, options: &Options) -> Result<Image> {
    Ok(match options.superblock {
        Some(offset) => Image::open_copy(store, offset)?,
        None => Image::open(store)?,
    })
}

/// Opens for reading. Not a byte of the store changes: a journal that holds transactions is replayed into memory.
fn open_read_only(
    mut store: Arc<dyn BlockStore>,
    mut image: Image,
    options: &Options,
    env: Arc<dyn Env>,
) -> Result<Composed> {
    let mut recovered = Recovered::default();
    // A copy of the superblock does not know whether the journal is needed.
    if options.recovery && (image.needs_recovery() || image.is_by_copy()) {
        store = Arc::new(OverlayStore::new(store));
        recovered = replay(&store, &image)?;
        image = open_image(store.clone(), options)?;
    }
    let options = &options.clone().over(image.superblock());
    let shared = image.shared()?;
    let block_size = image.superblock().block_size();
    let cache = (options.cache_bytes / 2) as usize;
    let engine: Arc<dyn Engine> = Arc::new(ReadOnlyEngine::new(store.clone(), block_size, shared.clone(), cache));
    let volume_options = volume_options(options, DataMode::Ordered, true);
    let inodes = Arc::new(Inodes::new(shared, engine.clone(), env, volume_options));
    Ok(Composed { store, engine, inodes, recovered, orphans: Processed::default() })
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

/// Refuses to write what cannot be written safely.
fn require_whole(image: &Image, options: &Options) -> Result<()> {
    let state = |what: String| Err(Error::State { target: image.name().to_owned(), what });
    if image.is_by_copy() {
        return state(
            "a copy of the superblock is good for reading only: mount it with `ro`, or mend it with e2fsck".into(),
        );
    }
    if !options.recovery && image.needs_recovery() {
        return state("its journal holds transactions: `norecovery` goes with `ro`".into());
    }
    require_journal(image)
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
    replay(store, &Image::open(store.clone())?)
}

fn replay(store: &Arc<dyn BlockStore>, image: &Image) -> Result<Recovered> {
    if image.superblock().journal_inum().is_none() {
        return Ok(Recovered::default());
    }
    let map = log_map(image)?;
    let dirty = jbd2::info(&**store, &map)?.dirty;
    if !dirty && !image.needs_recovery() {
        return Ok(Recovered::default());
    }
    let recovered = jbd2::recover(&**store, &map, image.superblock().blocks_count())?;
    if !image.is_by_copy() {
        Image::open(store.clone())?.mark_recovered()?;
    }
    tracing::info!("{}: replayed {} transactions", store.name(), recovered.transactions);
    Ok(recovered)
}

fn engine_config(options: &Options, data: DataMode) -> Config {
    Config {
        commit_interval: options.commit_seconds.unwrap_or(DEFAULT_COMMIT),
        dirty_bytes: options.dirty_bytes,
        cache_bytes: (options.cache_bytes / 2) as usize,
        pending_bytes: options.cache_bytes / 4,
        journaled_data: data == DataMode::Journal,
    }
}

fn volume_options(options: &Options, data: DataMode, read_only: bool) -> VolumeOptions {
    VolumeOptions {
        data,
        on_error: options.on_error.unwrap_or_default(),
        read_only,
        atime: options.atime.unwrap_or(true),
        grpid: options.grpid.unwrap_or(false),
        cached_inodes: options.cached_inodes.unwrap_or((options.cache_bytes / 4 / INODE_BYTES) as usize),
    }
}

/// The volume's own background work, beside the engine's.
struct ErrorWriter(Arc<Inodes>);

impl Step for ErrorWriter {
    type Error = JournalError;

    fn step(&self) -> std::result::Result<Progress, JournalError> {
        self.0.save_errors()
    }
}

impl Composed {
    /// Everything that is to be done in the background.
    pub(crate) fn steps(&self) -> Vec<Arc<dyn Step<Error = JournalError>>> {
        if self.engine.max_blocks() == 0 {
            return Vec::new();
        }
        let mut steps = self.engine.steps();
        steps.push(Arc::new(ErrorWriter(self.inodes.clone())));
        steps
    }

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
        self.inodes.save_errors()?;
        self.engine.checkpoint_all()?;
        let image = Image::open(self.store.clone())?;
        Ok(image.mark_unmounted(&self.inodes)?)
    }
}
