//! A volume with an NVM pool in front of it: which pool belongs to which image, attaching, recovery.
//!
//! The pool is told of a new attach first, then the volume's superblock that it is mounted, then the journal's
//! superblock; as long as that names the pool with the bit `ondol_nvm`, nobody else takes the image. What is found, and
//! what is done then, is listed in `docs/design/scalable.md`, *Identity*.

use crate::machine::pools;
use crate::media::Media;
use crate::options::IN_POOL;
use crate::words::uuid_text;
use crate::{Error, JournalEngine, Options, Remedy, Result};
use ondol_block::BlockStore;
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System};
use ondol_format::Superblock;
use ondol_format::jbd2::{Attached, Extension};
use ondol_journal::jbd2::{self, Recovered};
use ondol_journal::scalable::{self, Geometry, Replayed};
use ondol_journal::{Journal, JournalError, Kind, LogMap, Ranges, batch, remap, swap};
use ondol_medium::{AREAS_START, Access, AreaKind, NvmModel, NvmOptions, PAGE, Pool};
use ondol_nvm_log::{Contents, Log, OnDamage};
use ondol_page_table::pool_size;
use ondol_volume::{DataMode, Image};
use serde::Serialize;
use std::path::Path;

/// Opens the pool at `path`.
pub(crate) fn open(path: &Path, read_only: bool) -> Result<Pool> {
    open_modelled(path, read_only, NvmModel::default())
}

/// As [`open`], as slow as `model`.
pub(crate) fn open_modelled(path: &Path, read_only: bool, model: NvmModel) -> Result<Pool> {
    let access = if read_only { Access::Read } else { Access::Write };
    Ok(Pool::open(pools::open(path, &NvmOptions { access, model, ..NvmOptions::default() })?)?)
}

fn state<T>(image: &Image, what: String) -> Result<T> {
    Err(Error::state(image.name(), what))
}

/// Engine `engine` was asked for, of an image that cannot have it.
fn needs_pool(image: &Image, engine: &str) -> Error {
    let what = format!("`journal={engine}` needs {IN_POOL}: choose another journal, or such an image");
    Error::state(image.name(), what).helped(Remedy::MakeInPool { pool: None })
}

/// The options with the engine that they come to, where those of the image are `asks`: a pool and `scalable` go
/// together.
pub(crate) fn options(media: &Media, image: &Image, options: &Options, asks: Extension) -> Result<Options> {
    let mut options = options.clone();
    if media.pool.is_some() {
        let engine = *options.journal.engine.get_or_insert(JournalEngine::Scalable);
        if engine != JournalEngine::Scalable {
            let what = format!("an NVM pool goes with `journal=scalable`, not with `journal={}`", engine.name());
            return state(image, what);
        }
    }
    batch_or_other(media, image, &mut options)?;
    let asked = options.journal.engine;
    let mut options = options.over(image.superblock(), asks);
    if media.pool.is_none() && options.journal.engine == Some(JournalEngine::Scalable) {
        let what = "`journal=scalable` needs an NVM pool: name it with `nvm=POOL`, or choose another journal";
        return Err(Error::state(image.name(), what).helped(Remedy::MakePool { pool: None }));
    }
    if options.journal.engine == Some(JournalEngine::Swap)
        && !swap::is_possible(&*media.store, image.superblock().block_size())
    {
        if asked.is_some() {
            return Err(needs_pool(image, "swap"));
        }
        // An image that asks for it may have been exported: the log is the same.
        options.journal.engine = Some(JournalEngine::Classic);
    }
    remap_or_other(media, image, &mut options, asked)?;
    Ok(options)
}

/// Engine `batch` where nothing else is asked for and the home takes batches.
fn batch_or_other(media: &Media, image: &Image, options: &mut Options) -> Result<()> {
    let is_possible = batch::is_possible(&*media.store, image.superblock().block_size());
    match options.journal.engine {
        None if is_possible => options.journal.engine = Some(JournalEngine::Batch),
        Some(JournalEngine::Batch) if !is_possible => {
            let what =
                "`journal=batch` needs a home that takes batches, as object storage does: choose another journal";
            return state(image, what.into());
        }
        _ => {}
    }
    Ok(())
}

/// Engine `remap` where nothing else is asked for and the image lies in a pool that can have its log; another one where
/// only the image asks for it and it cannot be had.
fn remap_or_other(media: &Media, image: &Image, options: &mut Options, asked: Option<JournalEngine>) -> Result<()> {
    let is_wanted = options.journal.engine.is_none_or(|engine| engine == JournalEngine::Remap);
    if !is_wanted || (media.pool.is_some() && asked.is_none()) {
        return Ok(());
    }
    let Some(home) = media.home.as_ref().filter(|_| remap::is_possible(&*media.store, image.superblock().block_size()))
    else {
        if asked == Some(JournalEngine::Remap) {
            return Err(needs_pool(image, "remap"));
        }
        // An image that asks for it may have been exported: its journal is empty.
        options.journal.engine = options.journal.engine.map(|_| JournalEngine::Classic);
        return Ok(());
    };
    let home = home.lock();
    if home.area(AreaKind::JOURNAL_LOG).is_none() && room(&home) < LEAST_LOG {
        let name = home.nvm().name();
        let what = format!(
            "the pool {name} has no log for `journal=remap`, and no room for one: move the image into a new pool, or \
             choose another journal"
        );
        if asked == Some(JournalEngine::Remap) {
            return Err(Error::state(image.name(), what).helped(Remedy::MoveToNewPool));
        }
        tracing::debug!("{what}");
        options.journal.engine = options.journal.engine.map(|_| JournalEngine::Classic);
        return Ok(());
    }
    if options.journal.engine.is_none() {
        options.journal.data.get_or_insert(DataMode::Journal);
    }
    options.journal.engine = Some(JournalEngine::Remap);
    Ok(())
}

/// Bytes of the log of engine `remap` in the pool of an image of `size` bytes.
pub(crate) fn log_bytes(size: u64) -> u64 {
    (size / LOG_PART).clamp(SMALLEST_LOG, LARGEST_LOG).next_multiple_of(PAGE)
}

/// So great a part of an image its log is, from 2 to 32 MiB; a pool that was made without is given one of at least 1
/// MiB.
const LOG_PART: u64 = 32;
const SMALLEST_LOG: u64 = 2 << 20;
const LARGEST_LOG: u64 = 32 << 20;
const LEAST_LOG: u64 = 1 << 20;

fn room(pool: &Pool) -> u64 {
    pool.header().free().map(|range| range.end - range.start).max().unwrap_or(0)
}

/// Bytes of the log that is to be made beside a new image of `size` bytes, or one as large as fits, in this pool: 0
/// where there is one, or no room for both.
pub(crate) fn new_log(pool: &Pool, size: Option<u64>) -> u64 {
    if pool.area(AreaKind::JOURNAL_LOG).is_some() {
        return 0;
    }
    let room = room(pool);
    let log = log_bytes(size.unwrap_or(room));
    // Of what is not to be filled by the image, so much at least remains for it. The pool's own header is no part of
    // what is free.
    let image = size.map_or(Some(8 * SMALLEST_LOG), |size| Some(pool_size(size)?.saturating_sub(AREAS_START)));
    if image.is_some_and(|image| image + log <= room) { log } else { 0 }
}

/// Before a new image is made in the pool: what a log in it has, it has no more, and an image that names the pool is
/// refused from now on. A new one of so many bytes is made, if any.
pub(crate) fn renew_log(pool: &mut Pool, new: u64) -> Result<()> {
    // One attach more than it knows of, and an empty log, is what a crash amid attaching leaves: then nothing is lost.
    for volume in [pool.header().volume; 2].into_iter().flatten() {
        pool.attach(volume)?;
    }
    if new > 0 {
        pool.allot(AreaKind::JOURNAL_LOG, new)?;
    } else if pool.area(AreaKind::JOURNAL_LOG).is_some() {
        Contents::erase(pool).map_err(JournalError::from)?;
        pool.detach()?;
    }
    Ok(())
}

/// What a volume holds of its pool as long as it is open.
pub(crate) struct Hold {
    map: LogMap,
    attached: Attached,
    pool: Arc<Mutex<Pool>>,
}

impl Hold {
    /// Which crashes the pool survives, and with it a completed fsync.
    pub(crate) fn survives(&self) -> &'static str {
        self.pool.lock().nvm().describe()
    }

    /// What is newer than home lies in the pool from now on, says the image. It is marked as mounted already.
    pub(crate) fn begin(&self, store: &Arc<dyn BlockStore>) -> Result<()> {
        Ok(jbd2::attach(&**store, &self.map, self.attached)?)
    }

    /// Everything is home: image and pool know nothing of each other any more.
    pub(crate) fn end(&self, store: &Arc<dyn BlockStore>) -> Result<()> {
        jbd2::detach(&**store, &self.map)?;
        Ok(self.pool.lock().detach()?)
    }
}

/// Changes that are not home.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lost {
    /// Commits.
    pub commits: u64,
    /// When the first and the last of them were made, in seconds since 1970.
    pub between: Option<(u64, u64)>,
    /// Operations that they have made durable.
    pub operations: u64,
    /// Blocks that they have changed.
    pub blocks: u64,
    /// Numbers of the inodes that they have changed.
    pub inodes: Vec<u32>,
}

/// Bytes of the largest block.
const LARGEST_BLOCK: usize = 64 << 10;

fn geometry(sb: &Superblock) -> Geometry {
    Geometry { blocks: sb.blocks_count(), block_size: sb.block_size() as usize }
}

/// What the log in a pool, if it has one, holds that is not home. Whose inodes that are only the superblock of its
/// volume tells.
///
/// # Errors
/// The log, or a record, cannot be read.
pub(crate) fn lost_in(pool: &Pool, of: Option<&Superblock>) -> Result<Lost> {
    if pool.area(AreaKind::JOURNAL_LOG).is_none() {
        return Ok(Lost::default());
    }
    let contents = Contents::inspect(pool, OnDamage::GoOn).map_err(JournalError::from)?;
    let Some(contents) = contents else { return Ok(Lost::default()) };
    let commits = contents.commits();
    let seconds = |commit: &ondol_nvm_log::Commit| commit.time / 1_000_000_000;
    let volume = of.map_or(Geometry { blocks: u64::MAX, block_size: LARGEST_BLOCK }, geometry);
    let changed = scalable::changed(&contents, volume)?;
    let of_block = |sb, (kind, ranges): &(Kind, Ranges)| ondol_volume::inodes_changed(sb, *kind, ranges);
    let mut inodes: Vec<u32> =
        of.into_iter().flat_map(|sb| changed.iter().flat_map(move |changed| of_block(sb, changed))).collect();
    inodes.sort_unstable();
    inodes.dedup();
    Ok(Lost {
        commits: commits.len() as u64,
        between: commits.first().zip(commits.last()).map(|(first, last)| (seconds(first), seconds(last))),
        operations: commits.iter().map(|commit| commit.records.len() as u64).sum(),
        blocks: changed.len() as u64,
        inodes,
    })
}

/// What is lost of file data, if anything is.
fn lost_text(pool: &str, blocks: &[u64]) -> Option<String> {
    let first = blocks.first()?;
    Some(match blocks.len() {
        1 => format!("{pool}: file data of one block is lost, that of block {first}"),
        n => format!("{pool}: file data of {n} blocks is lost, the first in block {first}"),
    })
}

pub(crate) fn require_same(image: &Image, pool: &Pool, attached: Attached) -> Result<()> {
    let (wanted, found) = (attached.pool, pool.header().uuid);
    if wanted == found {
        return Ok(());
    }
    let (wanted, found, name) = (uuid_text(&wanted), uuid_text(&found), pool.nvm().name());
    state(
        image,
        format!("its last changes lie in the NVM pool with UUID {wanted}; {name} is the one with UUID {found}"),
    )
}

/// Attaches the pool of `media`, whose image has an empty journal, and starts its log. [`Hold::begin`] tells the image.
pub(crate) fn attach(
    media: &Media,
    image: &Image,
    map: LogMap,
    env: Arc<dyn Env>,
    buffer: Option<u64>,
) -> Result<(Journal, Hold)> {
    // In front of the image, or the one that it lies in.
    let in_front = media.pool.is_some();
    let Some(shared_pool) = media.pool.as_ref().or(media.home.as_ref()) else {
        return state(image, "no NVM pool".into());
    };
    let sb = image.superblock();
    let mut pool = shared_pool.lock();
    if in_front {
        lay_out(&mut pool, image, buffer)?;
    } else if pool.area(AreaKind::JOURNAL_LOG).is_none() {
        let log = log_bytes(media.store.size()).min(room(&pool) / PAGE * PAGE);
        pool.allot(AreaKind::JOURNAL_LOG, log)?;
    }
    let contents = Contents::open(&pool, &*env, OnDamage::Refuse).map_err(JournalError::from)?;
    let contents = if in_front { contents } else { contents.over_table(&pool) };
    if let Some(newest) = contents.commits().last() {
        let what = format!(
            "the pool {} has {} commits, up to number {}, which this image does not know of: one of both is a copy \
             from another time",
            pool.nvm().name(),
            contents.commits().len(),
            newest.number
        );
        return state(image, what);
    }
    let epoch = pool.attach(sb.raw().s_uuid)?;
    let attached = Attached { pool: pool.header().uuid, epoch };
    let log = Log::start(contents, env, &ondol_nvm_log::Options::default()).map_err(JournalError::from)?;
    let of = if in_front { Journal::Scalable } else { Journal::Remap };
    Ok((of(log, sb.blocks_count()), Hold { map, attached, pool: shared_pool.clone() }))
}

/// File data takes so much of a new pool at most, unless told otherwise: more than a cache of the usual size keeps back
/// is of no use.
const MOST_BUFFER: u64 = 256 << 20;

/// Divides a pool that has no log yet into a log and pages for file data, in one change of its header.
fn lay_out(pool: &mut Pool, image: &Image, buffer: Option<u64>) -> Result<()> {
    let wanted = buffer.map(|bytes| bytes.next_multiple_of(PAGE));
    let name = pool.nvm().name().to_owned();
    if pool.area(AreaKind::JOURNAL_LOG).is_some() {
        let found = pool.area(AreaKind::JOURNAL_PAGES).map_or(0, |area| area.len);
        return match wanted.filter(|wanted| *wanted != found) {
            None => Ok(()),
            Some(wanted) => {
                let what = format!(
                    "the pool {name} was laid out with {found} bytes for file data, not {wanted}: leave `buffer=` \
                     out, or make the pool anew"
                );
                Err(Error::state(image.name(), what).helped(Remedy::RemakePool { pool: name }))
            }
        };
    }
    let room = pool.header().free().map(|range| range.end - range.start).max().unwrap_or(0);
    let pages = wanted.unwrap_or((room / 2).min(MOST_BUFFER) / PAGE * PAGE);
    if pages > room / 4 * 3 {
        let what = format!(
            "`buffer={pages}` leaves too little of the pool {name} for its log: at most three quarters of its {room} \
             bytes"
        );
        return state(image, what);
    }
    let areas = [(AreaKind::JOURNAL_LOG, room - pages), (AreaKind::JOURNAL_PAGES, pages)];
    pool.allot_all(if pages == 0 { &areas[..1] } else { &areas })?;
    Ok(())
}

/// Brings home what the pool has of an image that says that it was attached to `attached`. Durable when this returns;
/// the pool is empty then, and the image says so, but where everything stays in memory. With [`OnDamage::GoOn`], what
/// lies behind a damage of the log is given up, and told: the image is marked as one with errors then, since a
/// checkpoint may have brought some of that home.
pub(crate) fn recover(
    media: &Media,
    image: &Image,
    map: &LogMap,
    attached: Attached,
    on_damage: OnDamage,
) -> Result<(Recovered, Option<String>)> {
    let is_home = |pool: &&Arc<Mutex<Pool>>| pool.lock().header().uuid == attached.pool;
    let home = media.home.as_ref().filter(is_home);
    let Some(pool) = home.or(media.pool.as_ref()) else {
        let wanted = uuid_text(&attached.pool);
        let what = format!("its last changes lie in the NVM pool with UUID {wanted}: name it with `nvm=POOL`");
        return state(image, what);
    };
    let pool = pool.lock();
    let (name, header) = (pool.nvm().name(), pool.header());
    require_same(image, &pool, attached)?;
    let contents = match media.in_memory {
        true => Contents::inspect(&pool, on_damage).map_err(JournalError::from)?,
        false => Some(Contents::open(&pool, &System, on_damage).map_err(JournalError::from)?),
    };
    let Some(contents) = contents else { return Ok(Default::default()) };
    let contents = if home.is_some() { contents.over_table(&pool) } else { contents };
    let pages = if home.is_some() { remap::pages(&contents)? } else { Vec::new() };
    let damage = contents.damage().map(|damage| format!("the log of {name}: {damage}"));
    // A pool that is one attach ahead and empty: a crash came between the two steps.
    let is_ahead = header.epoch == attached.epoch + 1 && contents.commits().is_empty();
    if header.epoch != attached.epoch && !is_ahead {
        let (epoch, known) = (header.epoch, attached.epoch);
        let what = format!(
            "the pool {name} was attached {epoch} times, this image knows of {known}: one of both is a copy from \
             another time"
        );
        return state(image, what);
    }
    // Where things lie never changes, and a descriptor is in one sector: those at home can be believed whatever a
    // checkpoint has done to the rest.
    let client = image.shared()?;
    let volume = geometry(image.superblock());
    let Replayed { recovered, lost } = scalable::recover(&media.store, volume, &contents, &*client, &System)?;
    let damage = match (damage, lost_text(name, &lost)) {
        (Some(damage), Some(lost)) => Some(format!("{damage}; {lost}")),
        (damage, lost) => damage.or(lost),
    };
    // Before the log forgets it.
    if damage.is_some() {
        image.mark_salvaged(true)?;
    }
    if !media.in_memory {
        let env: Arc<dyn Env> = Arc::new(System);
        drop(Log::start(contents, env, &ondol_nvm_log::Options::default()).map_err(JournalError::from)?);
        media.store.lender().into_iter().for_each(|lender| lender.give(&pages));
    }
    jbd2::detach(&*media.store, map)?;
    Ok((recovered, damage))
}
