//! What is done to an image that is not mounted: recovery and checking.

use crate::compose;
use crate::home;
use crate::media::Media;
use crate::options::{IN_POOL, NOT_ASKED_FOR, data_code};
use crate::progress::{Progress, Told};
use crate::{DataMode, Error, JournalEngine, Options, Remedy, Result, journal_size, nvm};
use ondol_block::{Access, BlockStore};
use ondol_env::sync::Arc;
use ondol_env::{Env, System};
use ondol_journal::jbd2::Recovered;
use ondol_journal::{LogMap, batch, jbd2, remap, swap};
use ondol_volume::{Error as VolumeError, Image, Processed};
use serde::Serialize;
use std::path::Path;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RecoverReport {
    /// Transactions replayed.
    pub transactions: u64,
    /// Blocks written home.
    pub blocks: u64,
    /// Images that a revoke held back.
    pub revoked: u64,
    /// Inodes without names that were deleted.
    pub orphans_deleted: u64,
    /// Files whose truncate was finished.
    pub orphans_truncated: u64,
}

impl RecoverReport {
    pub(crate) fn of(replayed: Recovered, orphans: Processed) -> Self {
        Self { orphans_deleted: orphans.deleted, orphans_truncated: orphans.truncated, ..Self::replayed(replayed) }
    }

    pub(crate) fn replayed(r: Recovered) -> Self {
        Self { transactions: r.transactions, blocks: r.blocks, revoked: r.revoked, ..Self::default() }
    }
}

/// Replays the journal of the image at `path`, deletes orphans, and marks the image clean: any ext4 program can take it
/// then. Of an image that is mounted read-only because of its features, the journal alone is replayed. Durable when
/// this returns.
///
/// # Errors
/// The image is in use, corrupt, or needs a feature that is not known.
pub fn recover(path: impl AsRef<Path>) -> Result<RecoverReport> {
    recover_whole(&home::media(path.as_ref(), Access::Write)?, Arc::new(System))
}

/// As [`recover`], of the image on `media`.
pub(crate) fn recover_whole(media: &Media, env: Arc<dyn Env>) -> Result<RecoverReport> {
    let (replayed, orphans) = compose::recover(media, env)?;
    Ok(RecoverReport::of(replayed, orphans))
}

/// As [`recover`], of an image whose last changes lie in the NVM pool at `pool`. Image and pool need each other no more
/// then.
///
/// # Errors
/// As [`recover`]; the pool is in use, is none, or is another.
pub fn recover_with_pool(path: impl AsRef<Path>, pool: impl AsRef<Path>) -> Result<RecoverReport> {
    let media = home::media(path.as_ref(), Access::Write)?.with_pool(nvm::open(pool.as_ref(), false)?);
    recover_whole(&media, Arc::new(System))
}

/// As [`recover`], or with a pool as [`recover_with_pool`], telling what is written.
///
/// # Errors
/// As those.
pub fn recover_telling(path: impl AsRef<Path>, pool: Option<&Path>, told: Told) -> Result<RecoverReport> {
    let mut media = home::media(path.as_ref(), Access::Write)?.watched(told);
    if let Some(pool) = pool {
        media = media.with_pool(nvm::open(pool, false)?);
    }
    recover_whole(&media, Arc::new(System))
}

/// Replays the journal of the image on `media`, if it holds anything, and marks the image recovered. Orphans stay for
/// the next who opens it. Durable when this returns.
///
/// # Errors
/// The image is not ext4, corrupt, or needs a feature that is not known; or the store's failure.
pub fn recover_media(media: impl Into<Media>) -> Result<RecoverReport> {
    Ok(RecoverReport::replayed(compose::recover_media(&media.into(), Arc::new(System))?))
}

/// What is to change in how an image is journaled; what is not set stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tune {
    /// The engine that a mount takes unless told otherwise.
    pub journal: Option<JournalEngine>,
    /// The data mode that a mount takes unless told otherwise.
    pub data: Option<DataMode>,
    /// The size of the journal in bytes, rounded down to whole blocks.
    pub journal_size: Option<u64>,
}

/// Changes how the clean image at `path` is journaled. It stays an image that every ext4 program takes. Durable when
/// this returns.
///
/// # Errors
/// The image is in use, is not clean, or has no journal of its own; the size is less than 1024 blocks or more than half
/// of what is free; or the store's failure. When that cuts a change of the size short, opening the image brings it to
/// its end or back.
pub fn tune(path: impl AsRef<Path>, tune: &Tune) -> Result<()> {
    tune_store(home::open(path.as_ref(), Access::Write)?, tune, Arc::new(System))
}

/// As [`tune`], of the image on `store`, with any clock.
///
/// # Errors
/// As [`tune`].
pub fn tune_store(store: Arc<dyn BlockStore>, tune: &Tune, env: Arc<dyn Env>) -> Result<()> {
    let image = Image::open(store.clone())?;
    let state = |what: &str| Error::state(image.name(), what);
    if tune.journal == Some(JournalEngine::Scalable) {
        return Err(state(NOT_ASKED_FOR));
    }
    let block_size = image.superblock().block_size();
    let is_possible = match tune.journal {
        Some(JournalEngine::Swap) => swap::is_possible(&*store, block_size),
        Some(JournalEngine::Remap) => remap::is_possible(&*store, block_size),
        _ => true,
    };
    if tune.journal == Some(JournalEngine::Batch) && !batch::is_possible(&*store, block_size) {
        return Err(state("engine batch needs a home that takes batches: choose another journal"));
    }
    if let (Some(engine), false) = (tune.journal, is_possible) {
        let needs = state(&format!("engine {} needs {}", engine.name(), IN_POOL));
        return Err(needs.helped(Remedy::MakeInPool { pool: None }));
    }
    image.require_unused(&*env)?;
    if image.superblock().journal_inum().is_none() {
        return Err(state("it has no journal of its own: `tune2fs -j` gives it one"));
    }
    let map = LogMap::new(image.superblock().block_size(), image.journal_map()?);
    let journal = jbd2::info(&*store, &map)?;
    if image.needs_recovery() || journal.dirty || journal.nvm.is_some() {
        let image = Some(image.name().to_owned());
        return Err(state("it was not closed cleanly: recover it first").helped(Remedy::Recover { image }));
    }
    if let Some(bytes) = tune.journal_size {
        image.require_writable()?;
        let media = Media::image(store.clone());
        if journal_size::ensure(&media, bytes, &Options::default(), &env)? {
            compose::open_media(media, &Options::default(), env)?.close()?;
        }
    }
    if tune.journal.is_some() || tune.data.is_some() {
        let map = LogMap::new(image.superblock().block_size(), Image::open(store.clone())?.journal_map()?);
        jbd2::ask(&*store, &map, tune.journal.map(JournalEngine::code), tune.data.map(data_code))?;
    }
    Ok(())
}

/// What a check found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckReport {
    /// The journal holds transactions, which must be replayed before anything else can be judged.
    pub needs_recovery: bool,
    /// The image is marked as mounted or not unmounted cleanly, and its journal is empty. Everything has been looked
    /// at; whoever opens it for writing takes the mark away.
    pub unclean: bool,
    /// What breaks the rules, one line each, up to ten thousand.
    pub problems: Vec<String>,
    /// Problems beyond those.
    pub omitted: u64,
    /// What is worth knowing and no problem.
    pub notes: Vec<String>,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Inodes that the next mount will delete or truncate.
    pub orphans: u64,
}

impl CheckReport {
    /// Nothing is wrong, nothing needs to be replayed, and the image says so.
    pub fn is_clean(&self) -> bool {
        !self.needs_recovery && !self.unclean && self.problems.is_empty() && self.omitted == 0
    }
}

/// Checks every structure of the image at `path`, as `e2fsck -fn` does. Changes nothing.
///
/// # Errors
/// The image is in use, is not ext4, or has structures that are not known here.
pub fn check(path: impl AsRef<Path>) -> Result<CheckReport> {
    check_telling(path, None, &mut |_| {})
}

/// As [`check`], or by a copy of the superblock as [`check_by_copy`], telling how far it is.
///
/// # Errors
/// As those.
pub fn check_telling(path: impl AsRef<Path>, copy: Option<u64>, tell: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    let store = home::look(path.as_ref())?;
    let image = match copy {
        None => Image::open(store.clone())?,
        Some(block) => by_copy(&store, block)?,
    };
    check_image(&Media::image(store), &image, tell)
}

/// As [`check`], by the copy of the superblock in block number `block` of the image, whatever the size of its blocks.
///
/// # Errors
/// No superblock begins there; or as [`check`].
pub fn check_by_copy(path: impl AsRef<Path>, block: u64) -> Result<CheckReport> {
    check_telling(path, Some(block), &mut |_| {})
}

fn by_copy(store: &Arc<dyn BlockStore>, block: u64) -> Result<Image> {
    let none = || Error::state(store.name(), format!("no superblock begins in block {block}"));
    // The size of the blocks is in the superblock itself.
    let image = [1024u32, 2048, 4096].into_iter().find_map(|size| {
        let offset = block.saturating_mul(u64::from(size));
        Image::open_copy(store.clone(), offset).ok().filter(|image| image.superblock().block_size() == size)
    });
    image.ok_or_else(none)
}

/// Records in the image at `path` that [`check`] found it clean: the mark of earlier errors, which kernels and fsck
/// look at, is taken away. Durable when this returns.
///
/// # Errors
/// The image is in use or is not ext4; or the store's failure.
pub fn mark_checked(path: impl AsRef<Path>) -> Result<()> {
    let store = home::open(path.as_ref(), Access::Write)?;
    let image = Image::open(store)?;
    image.require_unused(&System)?;
    Ok(image.mark_checked(System.now())?)
}

/// As [`check`], of the image on `media`; a journal's device is looked into as well.
///
/// # Errors
/// As [`check`].
pub fn check_media(media: impl Into<Media>) -> Result<CheckReport> {
    let media = media.into();
    check_image(&media, &Image::open(media.store.clone())?, &mut |_| {})
}

fn check_image(media: &Media, image: &Image, tell: &mut dyn FnMut(Progress)) -> Result<CheckReport> {
    image.require_unused(&System)?;
    let unclean = image.needs_recovery();
    match holds_transactions(media, image) {
        Ok(false) => {}
        Ok(true) => return Ok(CheckReport { needs_recovery: true, ..CheckReport::default() }),
        Err(e @ Error::Volume(VolumeError::Corrupt(_))) if unclean => {
            return Ok(CheckReport { unclean, problems: vec![e.to_string()], ..CheckReport::default() });
        }
        // What is wrong with an unused journal is found below.
        Err(Error::Volume(VolumeError::Corrupt(_))) => {}
        Err(e) => return Err(e),
    }
    let found = ondol_volume::check(image, &mut |progress| tell(progress.into()))?;
    Ok(CheckReport {
        needs_recovery: false,
        unclean,
        problems: found.problems.iter().map(ToString::to_string).collect(),
        omitted: found.omitted,
        notes: found.notes,
        inodes: found.inodes,
        directories: found.directories,
        blocks: found.blocks,
        orphans: found.orphans,
    })
}

/// Whether there is anything to replay. Of a journal on another device that is not here the image itself knows.
pub(crate) fn holds_transactions(media: &Media, image: &Image) -> Result<bool> {
    let sb = image.superblock();
    if sb.journal_inum().is_none() && !(sb.journal_device_uuid().is_some() && media.has_device()) {
        return Ok(image.needs_recovery() && sb.journal_device_uuid().is_some());
    }
    let map = media.log_map(image)?;
    let journal = jbd2::info(image.store(), &map)?;
    if journal.dirty || journal.nvm.is_some() {
        return Ok(true);
    }
    // Fast commits may follow an empty log.
    Ok(image.needs_recovery() && jbd2::fast_commits(image.store(), &map)?.is_some())
}
