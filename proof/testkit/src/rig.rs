//! Volumes by inode number over images in memory, with any engine in any data mode: the one way in which tests below
//! the library open them.
//!
//! [`Setup`] says which engine and mode. A test takes it from [`Setup::current`], which is that of the `over_setups!`
//! that runs it:
//!
//! ```text
//!   over_setups! { grows, shrinks }     each of the functions as a test for each of Setup::ALL, such as
//!                                       `compressed_ordered::grows`
//! ```

use crate::batching::Batching;
use crate::exchanging::Exchanging;
use crate::image::options;
use crate::lending::Lending;
use ondol::{DataMode, JournalEngine, Media, Options};
use ondol_block::{BlockStore, DeviceClass};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System};
use ondol_journal::{Config, Engine, Ground, Journal, LogMap, compressed, jbd2, scalable};
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec};
use ondol_nvm_log::{Contents, Log, OnDamage};
use ondol_volume::{Image, Volume, VolumeOptions};
use std::cell::{Cell, RefCell};

/// An engine, a data mode, and the size of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The engine.
    pub engine: JournalEngine,
    /// How file data is protected.
    pub data: DataMode,
    /// Bytes of the block cache, blocks that are not committed among them: one more than that ends a transaction.
    pub cache_bytes: usize,
}

/// With a small cache, so that it is left and entered often, and transactions are short.
const fn setup(engine: JournalEngine, data: DataMode) -> Setup {
    Setup { engine, data, cache_bytes: 1 << 20 }
}

thread_local! {
    static CURRENT: Cell<Setup> = const { Cell::new(Setup::CLASSIC_ORDERED) };
}

impl Setup {
    /// Engine `classic`, data journaled.
    pub const CLASSIC_JOURNAL: Self = setup(JournalEngine::Classic, DataMode::Journal);
    /// Engine `classic`, data home before the commit.
    pub const CLASSIC_ORDERED: Self = setup(JournalEngine::Classic, DataMode::Ordered);
    /// Engine `classic`, data home at any time.
    pub const CLASSIC_WRITEBACK: Self = setup(JournalEngine::Classic, DataMode::Writeback);
    /// Engine `compressed`, data journaled.
    pub const COMPRESSED_JOURNAL: Self = setup(JournalEngine::Compressed, DataMode::Journal);
    /// Engine `compressed`, long overwrites home before the commit.
    pub const COMPRESSED_ORDERED: Self = setup(JournalEngine::Compressed, DataMode::Ordered);
    /// Engine `compressed`, long overwrites home at any time.
    pub const COMPRESSED_WRITEBACK: Self = setup(JournalEngine::Compressed, DataMode::Writeback);

    /// Engine `swap`, data journaled.
    pub const SWAP_JOURNAL: Self = setup(JournalEngine::Swap, DataMode::Journal);
    /// Engine `swap`, data home before the commit.
    pub const SWAP_ORDERED: Self = setup(JournalEngine::Swap, DataMode::Ordered);

    /// Engine `scalable`, data journaled.
    pub const SCALABLE_JOURNAL: Self = setup(JournalEngine::Scalable, DataMode::Journal);
    /// Engine `scalable`, long overwrites home before the commit.
    pub const SCALABLE_ORDERED: Self = setup(JournalEngine::Scalable, DataMode::Ordered);

    /// Engine `remap`, data journaled.
    pub const REMAP_JOURNAL: Self = setup(JournalEngine::Remap, DataMode::Journal);
    /// Engine `remap`, long overwrites home before the commit.
    pub const REMAP_ORDERED: Self = setup(JournalEngine::Remap, DataMode::Ordered);

    /// Engine `batch`, for which all data modes are the same but to the volume.
    pub const BATCH_JOURNAL: Self = setup(JournalEngine::Batch, DataMode::Journal);
    /// Engine `batch`, called `ordered`.
    pub const BATCH_ORDERED: Self = setup(JournalEngine::Batch, DataMode::Ordered);

    /// Every engine whose log lies in the image in every data mode, those that need NVM, and `batch`.
    pub const ALL: [Self; 14] = [
        Self::CLASSIC_ORDERED,
        Self::COMPRESSED_JOURNAL,
        Self::SWAP_ORDERED,
        Self::CLASSIC_JOURNAL,
        Self::REMAP_JOURNAL,
        Self::SCALABLE_ORDERED,
        Self::BATCH_JOURNAL,
        Self::COMPRESSED_ORDERED,
        Self::CLASSIC_WRITEBACK,
        Self::SCALABLE_JOURNAL,
        Self::COMPRESSED_WRITEBACK,
        Self::SWAP_JOURNAL,
        Self::BATCH_ORDERED,
        Self::REMAP_ORDERED,
    ];

    /// That of the test that this thread runs.
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// The `n`th two, of different engines: for tests of many cases, which take turns.
    pub fn pair(n: usize) -> [Self; 2] {
        let half = Self::ALL.len() / 2;
        [Self::ALL[n % half], Self::ALL[n % half + half]]
    }

    /// Runs a test with it.
    pub fn run<R>(self, test: impl FnOnce() -> R) -> R {
        struct Before(Setup);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _before = Before(CURRENT.replace(self));
        test()
    }

    /// The same engine in another data mode.
    #[must_use]
    pub fn with_data(self, data: DataMode) -> Self {
        Self { data, ..self }
    }

    /// The same engine with another cache.
    #[must_use]
    pub fn with_cache(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// Whether its log lies in a pool.
    pub fn has_pool(self) -> bool {
        self.engine.logs_records()
    }

    /// Whether its image lies in a pool, where it is not on a store that stands in for one.
    pub fn lies_in_pool(self) -> bool {
        matches!(self.engine, JournalEngine::Swap | JournalEngine::Remap)
    }

    /// Whether what its engine asks of a store is done for each block by itself here: exchanges, which a page table
    /// spares, and what is in a batch.
    pub fn goes_block_by_block(self) -> bool {
        matches!(self.engine, JournalEngine::Swap | JournalEngine::Batch)
    }

    /// Whether the data of all files goes through the journal.
    pub fn journals_data(self) -> bool {
        self.data == DataMode::Journal || self.engine == JournalEngine::Batch
    }

    /// Whether stored bytes that are written over stay as they are until the commit.
    pub fn takes_overwrites(self) -> bool {
        !self.engine.logs_as_jbd2()
    }

    /// Whether new data stays in memory until its commit, or until much of it waits, and what is written over it then,
    /// too.
    pub fn keeps_new_data(self) -> bool {
        self.engine == JournalEngine::Classic && self.data != DataMode::Journal
    }

    /// As mount options, over those of [`options`].
    pub fn options(self) -> Options {
        options(self.data).with_journal(self.engine)
    }

    /// What a volume on `store` lies on: with a new pool, if it needs one.
    ///
    /// # Panics
    /// There is no memory for it.
    pub fn media(self, store: Arc<dyn BlockStore>) -> Media {
        match self.engine {
            JournalEngine::Remap => {
                let pool = pool(LOG, AreaKind::PAGE_DATA);
                Media::in_pool(Arc::new(Lending::new(store, &pool)), Arc::new(Mutex::new(pool)))
            }
            JournalEngine::Scalable => Media::image(store).with_pool(pool(LOG, AreaKind::JOURNAL_PAGES)),
            _ => Media::image(self.home(store)),
        }
    }

    /// The store that its volume lies on, which is `store` but for what its engine needs of one.
    fn home(self, store: Arc<dyn BlockStore>) -> Arc<dyn BlockStore> {
        match self.engine {
            JournalEngine::Swap => Arc::new(Exchanging::new(store)),
            JournalEngine::Batch if store.caps().batch.is_none() => Arc::new(Batching::new(store)),
            _ => store,
        }
    }

    /// How its engine is set up: with bounds of dirty data that differ between modes, so that they are reached in some.
    fn config(self) -> Config {
        let dirty_bytes = match self.data {
            DataMode::Ordered => 8 << 20,
            DataMode::Journal => 2 << 20,
            DataMode::Writeback => 512 << 10,
        };
        Config {
            commit_interval: 5,
            dirty_bytes,
            kept_bytes: Some(dirty_bytes / 4),
            device: DeviceClass::Disk,
            cache_bytes: self.cache_bytes,
            pending_bytes: 8 << 20,
            journaled_data: self.journals_data(),
            discard: false,
            zeroing: false,
            checkpoint_threads: None,
        }
    }
}

/// Replays the journal on `store`, whichever engine wrote it.
///
/// # Panics
/// The image cannot be recovered.
pub fn recover(store: &Arc<dyn BlockStore>) -> LogMap {
    let image = Image::open(store.clone()).expect("an image");
    let volume = jbd2::Volume { blocks: image.superblock().blocks_count(), made: image.superblock().raw().mkfs_time() };
    let map = LogMap::new(image.superblock().block_size(), image.journal_map().expect("a journal"));
    let of_units = jbd2::info(&**store, &map).expect("a journal's superblock").compressed;
    if of_units { compressed::recover(&**store, &map, volume.blocks) } else { jbd2::recover(&**store, &map, volume) }
        .expect("recovery");
    recover_from_pool(store, &image);
    map
}

thread_local! {
    /// The store that was opened last, and its pool: what in the product the journal's superblock tells.
    static POOL: RefCell<Option<(Arc<dyn BlockStore>, Pool)>> = RefCell::default();
}

fn recover_from_pool(store: &Arc<dyn BlockStore>, image: &Image) {
    let last = POOL.take().filter(|(of, _)| Arc::ptr_eq(of, store));
    let Some((_, pool)) = last else { return };
    let contents = Contents::open(&pool, &System, OnDamage::Refuse).expect("a log");
    let is_home = pool.area(AreaKind::PAGE_DATA).is_some();
    let contents = if is_home { contents.over_table(&pool) } else { contents };
    let sb = image.superblock();
    let size = scalable::Geometry { blocks: sb.blocks_count(), block_size: sb.block_size() as usize };
    let client = image.shared().expect("groups");
    scalable::recover(store, size, &contents, &*client, &System).expect("recovery from the pool");
}

/// Bytes for file data beside it.
const PAGES: u64 = 4 << 20;

/// Bytes of the log of a pool in front of a whole volume: little enough to be filled.
const LOG: u64 = 6 << 20;

/// A new pool in memory, with a log of so many bytes and some pages for file data of this kind: fewer than some tests
/// write.
fn pool(log: u64, pages: AreaKind) -> Pool {
    let areas = vec![(AreaKind::JOURNAL_LOG, log), (pages, PAGES)];
    let spec = PoolSpec { uuid: System.random_uuid(), areas, ..PoolSpec::default() };
    Pool::create(Nvm::volatile(log + PAGES + (1 << 20)).expect("memory"), &spec).expect("a pool")
}

/// A log in a new pool, whose pages are those of the home if it is for `remap`, and that home.
fn records(
    store: Arc<dyn BlockStore>,
    image: &Image,
    env: &Arc<dyn Env>,
    engine: JournalEngine,
) -> (Arc<dyn BlockStore>, Journal) {
    let is_home = engine == JournalEngine::Remap;
    // With it, operations are about as large as with the journal in the image.
    let journal = image.journal_map().expect("a journal").iter().map(|(_, blocks)| blocks).sum::<u64>();
    let log = journal * u64::from(image.superblock().block_size()) * 3 / 2;
    let pool = pool(log, if is_home { AreaKind::PAGE_DATA } else { AreaKind::JOURNAL_PAGES });
    let contents = Contents::open(&pool, &System, OnDamage::Refuse).expect("a log");
    let contents = if is_home { contents.over_table(&pool) } else { contents };
    let log = Log::start(contents, env.clone(), &ondol_nvm_log::Options::default()).expect("a log");
    let home: Arc<dyn BlockStore> = if is_home { Arc::new(Lending::new(store.clone(), &pool)) } else { store.clone() };
    POOL.set(Some((store, pool)));
    let of = if is_home { Journal::Remap } else { Journal::Scalable };
    (home, of(log, image.superblock().blocks_count()))
}

/// Recovers what is on `store` and opens it with the current [`Setup`], orphans not yet processed. The data mode is the
/// setup's, whatever `options` say.
///
/// # Panics
/// It cannot be opened.
pub fn open(store: Arc<dyn BlockStore>, env: Arc<dyn Env>, options: VolumeOptions) -> (Arc<dyn Engine>, Volume) {
    let setup = Setup::current();
    let map = recover(&store);
    let store = setup.home(store);
    let image = Image::open(store.clone()).expect("an image");
    image.require_writable().expect("a writable image");
    let shared = image.shared().expect("groups");
    let (block_size, client, config) = (map.block_size(), shared.clone(), setup.config());
    let (store, journal) = match setup.engine {
        JournalEngine::Classic => (store, Journal::Classic(map)),
        JournalEngine::Compressed => (store, Journal::Compressed(map)),
        JournalEngine::Swap => (store, Journal::Swap(map)),
        JournalEngine::Batch => (store, Journal::Batch),
        JournalEngine::Scalable | JournalEngine::Remap => records(store, &image, &env, setup.engine),
    };
    let ground = Ground { store, block_size, client, env: env.clone(), config };
    let engine: Arc<dyn Engine> = Arc::from(ondol_journal::open(ground, journal).expect("an engine"));
    let volume = Volume::new(shared, engine.clone(), env, VolumeOptions { data: setup.data, ..options });
    (engine, volume)
}

/// Each of the functions as a test for each of [`Setup::ALL`].
#[macro_export]
macro_rules! over_setups {
    ($($test:ident),+ $(,)?) => {
        $crate::over_image_setups! { $($test),+ }
        $crate::over_setups! { @ swap_ordered SWAP_ORDERED $($test)+ }
        $crate::over_setups! { @ swap_journal SWAP_JOURNAL $($test)+ }
        $crate::over_setups! { @ scalable_ordered SCALABLE_ORDERED $($test)+ }
        $crate::over_setups! { @ scalable_journal SCALABLE_JOURNAL $($test)+ }
        $crate::over_setups! { @ remap_journal REMAP_JOURNAL $($test)+ }
        $crate::over_setups! { @ batch_ordered BATCH_ORDERED $($test)+ }
        $crate::over_setups! { @ batch_journal BATCH_JOURNAL $($test)+ }
    };
    (@ $module:ident $setup:ident $($test:ident)+) => {
        mod $module {
            $(#[test]
            fn $test() {
                $crate::rig::Setup::$setup.run(super::$test);
            })+
        }
    };
}

/// As [`over_setups!`], of the engines whose log lies in the image: for tests that cut the power of the image alone.
#[macro_export]
macro_rules! over_image_setups {
    ($($test:ident),+ $(,)?) => {
        $crate::over_setups! { @ classic_ordered CLASSIC_ORDERED $($test)+ }
        $crate::over_setups! { @ classic_journal CLASSIC_JOURNAL $($test)+ }
        $crate::over_setups! { @ classic_writeback CLASSIC_WRITEBACK $($test)+ }
        $crate::over_setups! { @ compressed_ordered COMPRESSED_ORDERED $($test)+ }
        $crate::over_setups! { @ compressed_journal COMPRESSED_JOURNAL $($test)+ }
        $crate::over_setups! { @ compressed_writeback COMPRESSED_WRITEBACK $($test)+ }
    };
}

/// As [`crate::over_engines!`], of the engines whose log lies in the image.
#[macro_export]
macro_rules! over_image_engines {
    ($($test:ident),+ $(,)?) => {
        $crate::over_setups! { @ classic_ordered CLASSIC_ORDERED $($test)+ }
        $crate::over_setups! { @ compressed_journal COMPRESSED_JOURNAL $($test)+ }
    };
}

/// Each of the functions as a test for one [`Setup`] of each engine: for tests that take long, or whose subject no data
/// mode touches.
#[macro_export]
macro_rules! over_engines {
    ($($test:ident),+ $(,)?) => {
        $crate::over_image_engines! { $($test),+ }
        $crate::over_setups! { @ swap_journal SWAP_JOURNAL $($test)+ }
        $crate::over_setups! { @ scalable_ordered SCALABLE_ORDERED $($test)+ }
        $crate::over_setups! { @ batch_journal BATCH_JOURNAL $($test)+ }
    };
}

/// As [`over_engines!`], of an engine that logs blocks and of one that logs records: for tests that take very long,
/// whose subject no engine touches.
#[macro_export]
macro_rules! over_two_engines {
    ($($test:ident),+ $(,)?) => {
        $crate::over_setups! { @ classic CLASSIC_ORDERED $($test)+ }
        $crate::over_setups! { @ scalable SCALABLE_ORDERED $($test)+ }
    };
}
