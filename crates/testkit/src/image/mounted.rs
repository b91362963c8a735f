//! An image opened by our own code, without threads: background work happens when it is told to.

use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_env::{Env, Fixed, Progress, Timestamp};
use ondol_journal::jbd2::{self, LogMap, Recovered};
use ondol_journal::{Config, Engine};
use ondol_volume::{DataMode, Error, Image, OnError, Processed, Result, Volume, VolumeOptions};

/// How an image is opened.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// How file data is protected.
    pub data: DataMode,
    /// Bytes of the block cache.
    pub cache_bytes: usize,
    /// Seconds after which a transaction is committed by itself.
    pub commit_interval: u64,
    /// Inodes kept in memory.
    pub cached_inodes: usize,
}

impl MountOptions {
    /// Small caches, so that they are left and entered often.
    pub fn new(data: DataMode) -> Self {
        Self { data, cache_bytes: 256 * 1024, commit_interval: 5, cached_inodes: 16 }
    }
}

/// A volume over a store, its engine, and the clock and random numbers it lives by.
pub struct Mounted {
    store: Arc<dyn BlockStore>,
    engine: Arc<dyn Engine>,
    volume: Volume,
    clock: Arc<Fixed>,
    orphans: Processed,
}

/// A clock that starts at a fixed moment and the random numbers of `seed`.
pub fn clock(seed: u64) -> Arc<Fixed> {
    Arc::new(Fixed::new(Timestamp { sec: 1_700_000_000, nsec: 0 }, seed))
}

/// Replays the journal of the image on `store`, if it holds anything, and marks the image recovered.
///
/// # Errors
/// As opening the image, or corruption of the journal.
pub fn recover(store: &Arc<dyn BlockStore>) -> Result<Recovered> {
    let image = Image::open(store.clone())?;
    let map = log_map(&image)?;
    if !jbd2::info(&**store, &map)?.dirty && !image.needs_recovery() {
        return Ok(Recovered::default());
    }
    let recovered = jbd2::recover(&**store, &map, image.superblock().blocks_count())?;
    Image::open(store.clone())?.mark_recovered()?;
    Ok(recovered)
}

fn log_map(image: &Image) -> Result<LogMap> {
    Ok(LogMap::new(image.superblock().block_size(), image.journal_map()?))
}

impl Mounted {
    /// Replays the journal, opens engine `classic` and the volume, and deals with orphans.
    ///
    /// # Errors
    /// No ext4 image, corruption, features that are not known, or the store's failure.
    pub fn open(store: Arc<dyn BlockStore>, options: MountOptions, clock: Arc<Fixed>) -> Result<Self> {
        recover(&store)?;
        let image = Image::open(store.clone())?;
        image.require_writable()?;
        let shared = image.shared()?;
        let config = Config {
            commit_interval: options.commit_interval,
            dirty_bytes: 32 << 20,
            cache_bytes: options.cache_bytes,
            pending_bytes: 4 << 20,
            journaled_data: options.data == DataMode::Journal,
        };
        let env: Arc<dyn Env> = clock.clone();
        let engine: Arc<dyn Engine> =
            Arc::new(jbd2::open(store.clone(), log_map(&image)?, shared.clone(), env.clone(), config)?);
        image.mark_mounted(clock.now())?;
        let options = VolumeOptions {
            data: options.data,
            on_error: OnError::RemountReadOnly,
            read_only: false,
            atime: false,
            cached_inodes: options.cached_inodes,
        };
        let volume = Volume::new(shared, engine.clone(), env, options);
        let orphans = volume.process_orphans()?;
        Ok(Self { store, engine, volume, clock, orphans })
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// What was left half done when it was opened.
    pub fn orphans(&self) -> Processed {
        self.orphans
    }

    /// Moves the clock and lets all background work run until it finds nothing more to do.
    ///
    /// # Errors
    /// The first failure of a step.
    pub fn idle(&self, seconds: u64) -> Result<()> {
        self.clock.advance(seconds.saturating_mul(1_000_000_000));
        let steps = self.engine.steps();
        // A step that always finds work would be a defect of its own: the bound makes it one that ends.
        for _ in 0..10_000 {
            let mut worked = false;
            for step in &steps {
                worked |= step.step().map_err(Error::from)? == Progress::Worked;
            }
            if !worked {
                return Ok(());
            }
        }
        Err(Error::Invalid("background work does not come to an end"))
    }

    /// Commits everything, empties the journal and marks the image clean.
    ///
    /// # Errors
    /// The journal's or the store's failure.
    pub fn close(self) -> Result<()> {
        self.volume.process_orphans()?;
        self.engine.checkpoint_all()?;
        Image::open(self.store.clone())?.mark_unmounted(&self.volume)
    }
}
