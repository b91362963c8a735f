//! Opening and closing: the only place that chooses and joins layers.
//!
//! ```text
//!   FileStore (locked) ─▶ Image (superblock) ─▶ hold (MMP) ─▶ replay ─▶ examine
//!     ─▶ engine ─▶ mark mounted ─▶ inode-level volume ─▶ orphans
//! ```
//!
//! Up to *examine* only replay and MMP write. What fails later takes the marks of a mounted volume away again: whoever
//! mends it must be able to open it.

use crate::background::Work;
use crate::bucket::{self, Held};
use crate::holding::Holding;
use crate::home;
use crate::machine::claim;
use crate::media::Media;
use crate::nvm_meter::NvmMeter;
use crate::settings::{engine_config, volume_options};
use crate::target::is_in_bucket;
use crate::{Error, JournalEngine, Options, Remedy, Result, counted, fast_commit, journal_size, nvm};
use ondol_block::{Access, BlockStore};
use ondol_env::counters::Counts;
use ondol_env::sync::Arc;
use ondol_env::{Bell, Env, Progress, Step, System};
use ondol_format::Incompat;
use ondol_format::jbd2::{Extension, MIN_BLOCKS};
use ondol_format::superblock as sb;
use ondol_journal::jbd2::{self, JournalInfo, Recovered};
use ondol_journal::{Engine, Ground, Journal, JournalError, LogMap, ReadOnlyEngine, compressed};
use ondol_nvm_log::OnDamage;
use ondol_volume::{DataMode, Error as VolumeError, Image, Mmp, Processed, Replay, Shared, Volume as Inodes};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Everything that a mounted volume is made of.
pub(crate) struct Composed {
    pub(crate) store: Arc<dyn BlockStore>,
    /// The NVM that it lies on, or has in front of it.
    pub(crate) nvm: NvmMeter,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) inodes: Arc<Inodes>,
    /// The home in object storage, if it is one.
    pub(crate) held: Option<Arc<Held>>,
    /// The NVM pool in front of it.
    pub(crate) attached: Option<nvm::Hold>,
    /// With multiple mount protection: what keeps others away.
    pub(crate) hold: Option<Arc<Mmp>>,
    pub(crate) recovered: Recovered,
    pub(crate) orphans: Processed,
    /// The options that were taken, over those of the image.
    pub(crate) options: Options,
}

/// Opens the image at `path`.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Composed> {
    let access = if options.image.read_only { Access::Read } else { Access::Write };
    if is_in_bucket(path) {
        bucket::require_fitting(path, options)?;
        let media = Media::in_bucket(bucket::open_held(path, access, &options.terms())?);
        if let Some(warning) = media.held.as_ref().and_then(|held| held.warning()) {
            tracing::warn!("{}: {warning}", path.display());
        }
        return open_media(media, &options.of_bucket(), Arc::new(System));
    }
    bucket::require_none(path, options)?;
    let media = match &options.image.journal_path {
        None => home::modelled_media(path, access, options.pool.model)?,
        Some(journal) => {
            let store = home::open(path, access)?;
            let block_size = open_image(store.clone(), options)?.superblock().block_size();
            Media::joined(store, Arc::new(claim::open(journal, access)?), block_size)?
        }
    };
    open_media(media, options, Arc::new(System))
}

/// Opens the image on `media`.
pub(crate) fn open_media(mut media: Media, options: &Options, env: Arc<dyn Env>) -> Result<Composed> {
    if let Some(pool) = &options.pool.path {
        media = media.with_pool(nvm::open_modelled(pool, options.image.read_only, options.pool.model)?);
    }
    if !options.pool.model.is_off() && media.nvm().is_empty() {
        let what = "`nvm_model=` makes an NVM slower, and there is none: name a pool in front of the image \
                    (nvm=POOL), or open an image in one (nvm:POOL)";
        return Err(Error::state(media.store.name(), what));
    }
    let image = open_image(media.store.clone(), options)?;
    if options.image.read_only {
        return open_read_only(media, image, options, env);
    }
    if let Some(why) = why_read_only(&image) {
        tracing::warn!("mounted read-only: {why}");
        return open_read_only(media, image, options, env);
    }
    require_whole(&image, options)?;
    if let Some(bytes) = options.journal.size {
        journal_size::ensure(&media, bytes, options, &env)?;
    }
    let replay = |engine: JournalEngine| match engine {
        JournalEngine::Batch => Replay::Nobody,
        engine if engine.logs_as_jbd2() => Replay::Anybody,
        _ => Replay::Ondol,
    };
    open_whole(media, options, env, Short::Refuse, replay)
}

/// Opens an image for writing that nobody but Ondol is to recover, whatever the engine, to give it another journal. One
/// that is too short becomes as long as its file.
pub(crate) fn open_guarded(media: Media, options: &Options, env: Arc<dyn Env>) -> Result<Composed> {
    open_whole(media, options, env, Short::Lengthen, |_| Replay::Ondol)
}

/// What becomes of a journal that is too short to be written to.
#[derive(PartialEq, Eq)]
enum Short {
    Refuse,
    Lengthen,
}

fn open_whole(
    media: Media,
    options: &Options,
    env: Arc<dyn Env>,
    short: Short,
    who: impl FnOnce(JournalEngine) -> Replay,
) -> Result<Composed> {
    let image = Image::open(media.store.clone())?;
    // A journal that is not there is said before anything is written.
    media.log_map(&image)?;
    let holding = Holding::take(&image, env.clone())?;
    let recovered = replay(&media, &image, env.clone())?;
    holding.check()?;
    let image = Image::open(media.store.clone())?;
    let map = media.log_map(&image)?;
    let store = media.store.clone();
    let journal = jbd2::info(&*store, &map)?;
    match short {
        Short::Lengthen if journal.is_short() => jbd2::lengthen(&*store, &map)?,
        _ => require_long(&image, &journal)?,
    }
    let options = &nvm::options(&media, &image, options, journal.asks)?;
    let shared = image.shared()?;
    reader(store.clone(), &image, shared.clone(), options, env.clone()).1.examine(&image)?;
    if journal.errno != 0 {
        image.mark_journal_error(env.now(), journal.errno)?;
    }
    if image.superblock().raw().s_state.get() & sb::STATE_ERROR != 0 {
        tracing::warn!("{}: the volume has errors; `e2fsck -f` mends it", image.name());
    }
    let data = options.journal.data.unwrap_or_default();
    let journal = options.journal.engine.unwrap_or_default();
    let (block_size, client) = (map.block_size(), shared.clone());
    let config = engine_config(options, &*store, data);
    let ground = Ground { store: store.clone(), block_size, client, env: env.clone(), config };
    let (log, attached) = log_of(&media, &image, map, &env, options)?;
    let engine: Arc<dyn Engine> = Arc::from(ondol_journal::open(ground, log)?);
    let inodes = Arc::new(Inodes::new(shared, engine.clone(), env.clone(), volume_options(options, data, false)));
    let orphans = Processed::default();
    let options = options.clone();
    let mounted_on = options.image.mounted_on.as_ref().map(|dir| dir.as_os_str().as_bytes().to_vec());
    let nvm = NvmMeter::new(media.nvm());
    let held = media.held.clone();
    let mut composed = Composed { store, nvm, engine, inodes, held, attached, hold: None, recovered, orphans, options };
    holding.check()?;
    let begun = image.mark_mounted(env.now(), mounted_on.as_deref(), who(journal));
    match begun.map_err(Error::from).and_then(|()| composed.begin()) {
        Ok(orphans) => composed.orphans = orphans,
        Err(e) => {
            holding.check()?;
            composed.withdraw();
            return Err(e);
        }
    }
    composed.hold = holding.end()?;
    let (name, engine) = (composed.store.name(), composed.engine.name());
    let replayed = counted(composed.recovered.transactions, "transaction");
    tracing::info!("{name}: opened, journal {engine}, data {}, {replayed} replayed", data.name());
    Ok(composed)
}

/// The log of the engine that `options` name, and the pool that has it, if one has: that is attached now.
fn log_of(
    media: &Media,
    image: &Image,
    map: LogMap,
    env: &Arc<dyn Env>,
    options: &Options,
) -> Result<(Journal, Option<nvm::Hold>)> {
    Ok(match options.journal.engine.unwrap_or_default() {
        JournalEngine::Classic => (Journal::Classic(map), None),
        JournalEngine::Compressed => (Journal::Compressed(map), None),
        JournalEngine::Swap => (Journal::Swap(map), None),
        JournalEngine::Batch => (Journal::Batch, None),
        JournalEngine::Scalable | JournalEngine::Remap => {
            let (log, hold) = nvm::attach(media, image, map, env.clone(), options.pool.buffer)?;
            (log, Some(hold))
        }
    })
}

/// A volume for reading, over the image as it lies on `store`.
fn reader(
    store: Arc<dyn BlockStore>,
    image: &Image,
    shared: Arc<Shared>,
    options: &Options,
    env: Arc<dyn Env>,
) -> (Arc<dyn Engine>, Arc<Inodes>) {
    let config = engine_config(options, &*store, DataMode::Ordered);
    let (block_size, client) = (image.superblock().block_size() as usize, shared.clone());
    let ground = Ground { store, block_size, client, env: env.clone(), config };
    let engine: Arc<dyn Engine> = Arc::new(ReadOnlyEngine::new(ground));
    let inodes = Inodes::new(shared, engine.clone(), env, volume_options(options, DataMode::Ordered, true));
    (engine, Arc::new(inodes))
}

fn open_image(store: Arc<dyn BlockStore>, options: &Options) -> Result<Image> {
    Ok(match options.image.superblock {
        Some(offset) => Image::open_copy(store, offset)?,
        None => Image::open(store)?,
    })
}

/// Opens for reading. Not a byte of the store changes: a journal that holds transactions is replayed into memory.
fn open_read_only(mut media: Media, mut image: Image, options: &Options, env: Arc<dyn Env>) -> Result<Composed> {
    image.require_unused(&*env)?;
    let mut recovered = Recovered::default();
    // A copy of the superblock does not know whether the journal is needed.
    if options.image.recovery && (image.needs_recovery() || image.is_by_copy()) {
        media = media.in_memory();
        recovered = replay(&media, &image, env.clone())?;
        image = open_image(media.store.clone(), options)?;
    }
    let store = media.store.clone();
    let options = &options.clone().over(image.superblock(), Extension::default());
    let (engine, inodes) = reader(store.clone(), &image, image.shared()?, options, env);
    let (orphans, options, nvm) = (Processed::default(), options.clone(), NvmMeter::new(media.nvm()));
    tracing::info!(
        "{}: opened read-only, {} replayed in memory",
        store.name(),
        counted(recovered.transactions, "transaction")
    );
    let (held, attached, hold) = (media.held.clone(), None, None);
    Ok(Composed { store, nvm, engine, inodes, held, attached, hold, recovered, orphans, options })
}

fn why_read_only(image: &Image) -> Option<Error> {
    image.require_writable().map_err(Error::from).and_then(|()| require_journal(image)).err()
}

/// Refuses to write what cannot be written safely.
fn require_whole(image: &Image, options: &Options) -> Result<()> {
    let state = |what: &str| Err(Error::state(image.name(), what));
    if image.is_by_copy() {
        return state("a copy of the superblock is good for reading only: open it with `ro`, or mend it with e2fsck");
    }
    if !options.image.recovery && image.needs_recovery() {
        return state("its journal holds transactions: `norecovery` goes with `ro`");
    }
    Ok(())
}

fn require_journal(image: &Image) -> Result<()> {
    if Media::has_journal(image) {
        return Ok(());
    }
    let what = "it has no journal, without which it cannot be written safely (`tune2fs -j` gives it one)";
    Err(Error::state(image.name(), what))
}

/// Refuses to write with a log that is too short.
fn require_long(image: &Image, journal: &JournalInfo) -> Result<()> {
    if !journal.is_short() {
        return Ok(());
    }
    let has = counted(journal.log_blocks.into(), "block");
    let what = format!("a journal of {has} is too short to be written to: the least is {MIN_BLOCKS}");
    let helps = image.superblock().journal_inum().map(|_| Remedy::LongerJournal { image: image.name().to_owned() });
    Err(Error::state(image.name(), what).helped(helps))
}

/// Replays the journal of the image on `media` if it holds anything, and marks the image recovered.
pub(crate) fn recover_media(media: &Media, env: Arc<dyn Env>) -> Result<Recovered> {
    replay(media, &Image::open(media.store.clone())?, env)
}

/// Replays the journal, deletes orphans, and closes: for an image that nobody mounts. Where it can only be read, or its
/// journal is too short to be written to, orphans stay.
pub(crate) fn recover(media: &Media, env: Arc<dyn Env>) -> Result<(Recovered, Processed)> {
    let image = Image::open(media.store.clone())?;
    if why_read_only(&image).is_none() && !jbd2::info(&*media.store, &media.log_map(&image)?)?.is_short() {
        let composed = open_media(media.clone(), &Options::default(), env)?;
        composed.close()?;
        return Ok((composed.recovered, composed.orphans));
    }
    let holding = Holding::take(&image, env.clone())?;
    let recovered = replay(media, &image, env)?;
    holding.check()?;
    Ok((recovered, Processed::default()))
}

/// What is wrong with the list of orphans, if there is one.
pub(crate) fn orphan_list_damage(media: &Media, image: &Image, env: Arc<dyn Env>) -> Result<Option<VolumeError>> {
    if image.superblock().raw().s_last_orphan.get() == 0 {
        return Ok(None);
    }
    let reader = image.shared().map(|shared| reader(media.store.clone(), image, shared, &Options::default(), env).1);
    match reader.and_then(|inodes| inodes.examine_orphans()) {
        Ok(()) => Ok(None),
        Err(e @ VolumeError::Corrupt(_)) => Ok(Some(e)),
        Err(e) => Err(e.into()),
    }
}

fn replay(media: &Media, image: &Image, env: Arc<dyn Env>) -> Result<Recovered> {
    if !Media::has_journal(image) {
        return Ok(Recovered::default());
    }
    let map = media.log_map(image)?;
    let store = &media.store;
    let journal = jbd2::info(&**store, &map)?;
    if let Some(attached) = journal.nvm {
        let (recovered, _) = nvm::recover(media, image, &map, attached, OnDamage::Refuse)?;
        return recovered_image(media, image, recovered);
    }
    if !journal.dirty && !image.needs_recovery() {
        return Ok(Recovered::default());
    }
    if journal.compressed {
        let recovered = compressed::recover(&**store, &map, image.superblock().blocks_count())?;
        return recovered_image(media, image, recovered);
    }
    let volume = volume_of(image);
    let before = match jbd2::fast_commits(&**store, &map)? {
        Some(commits) => fast_commit::replay(media, volume, &map, &commits, env)?,
        None => Recovered::default(),
    };
    let mut recovered = before.plus(&jbd2::recover(&**store, &map, volume)?);
    if image.superblock().has_incompat(Incompat::ONDOL_JOURNAL) {
        // The image may have been given another journal, whose log holds the same: see `journal_size`.
        let map_now = media.log_map(&Image::open(store.clone())?)?;
        if map_now != map {
            recovered = recovered.plus(&jbd2::recover(&**store, &map_now, volume)?);
        }
    }
    recovered_image(media, image, recovered)
}

pub(crate) fn volume_of(image: &Image) -> jbd2::Volume {
    let sb = image.superblock();
    jbd2::Volume { blocks: sb.blocks_count(), made: sb.raw().mkfs_time() }
}

/// Marks an image whose journal has been emptied.
fn recovered_image(media: &Media, image: &Image, recovered: Recovered) -> Result<Recovered> {
    if !image.is_by_copy() {
        Image::open(media.store.clone())?.mark_recovered()?;
    }
    tracing::debug!("{}: replayed: {recovered:?}", media.store.name());
    Ok(recovered)
}

/// The volume's own background work, beside the engine's.
struct ErrorWriter(Arc<Inodes>);

/// Keeps the hold on a volume with multiple mount protection.
struct Keeper {
    hold: Arc<Mmp>,
    engine: Arc<dyn Engine>,
    /// Nobody rings it: it goes by the clock.
    bell: Bell,
}

impl Step for Keeper {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        "protect"
    }

    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn step(&self) -> std::result::Result<Progress, JournalError> {
        self.hold.keep().map_err(|e| {
            self.engine.stop(&e.to_string());
            JournalError::Aborted(e.to_string())
        })
    }
}

impl Step for ErrorWriter {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        "errors"
    }

    fn bell(&self) -> &Bell {
        self.0.errors_noted()
    }

    fn step(&self) -> std::result::Result<Progress, JournalError> {
        self.0.save_errors()
    }
}

impl Composed {
    /// Everything that is to be done in the background.
    pub(crate) fn steps(&self) -> Vec<Work> {
        if self.engine.max_blocks() == 0 {
            return Vec::new();
        }
        let mut steps = self.engine.steps();
        steps.push(Arc::new(ErrorWriter(self.inodes.clone())));
        if let Some(hold) = &self.hold {
            steps.push(Arc::new(Keeper { hold: hold.clone(), engine: self.engine.clone(), bell: Bell::default() }));
        }
        steps
    }

    /// Commits everything, empties the journal and marks the image clean, even if orphans are damaged and stay: e2fsck
    /// must be able to take it. The lock is released when the store is dropped.
    pub(crate) fn close(&self) -> Result<()> {
        if let Some(why) = self.engine.aborted() {
            // There is no log to recover.
            let of_bucket = self.held.is_some().then(|| bucket::stopped(self.store.name(), &why));
            return Err(of_bucket.unwrap_or_else(|| JournalError::Aborted(why).into()));
        }
        if self.engine.max_blocks() == 0 {
            return Ok(());
        }
        let orphans = self.inodes.inode_ops().process_orphans();
        self.give_back()?;
        self.hold.as_ref().map_or(Ok(()), |hold| hold.release())?;
        self.held.as_ref().map_or(Ok(()), |held| held.close())?;
        tracing::info!("{}: closed, clean", self.store.name());
        Ok(orphans.map(drop)?)
    }

    /// What comes first on a volume that is marked as mounted.
    fn begin(&self) -> Result<Processed> {
        self.attached.as_ref().map_or(Ok(()), |hold| hold.begin(&self.store))?;
        Ok(self.inodes.inode_ops().process_orphans()?)
    }

    /// Empties the journal and takes the marks of a mounted volume away.
    fn give_back(&self) -> Result<()> {
        self.inodes.save_errors()?;
        self.engine.checkpoint_all()?;
        self.attached.as_ref().map_or(Ok(()), |hold| hold.end(&self.store))?;
        Ok(Image::open(self.store.clone())?.mark_unmounted(&self.inodes)?)
    }

    /// As [`Composed::close`], of a volume that could not be opened to the end.
    fn withdraw(&self) {
        if let Err(e) = self.give_back() {
            tracing::warn!("{}: it needs recovery: {e}", self.store.name());
        }
    }
}
