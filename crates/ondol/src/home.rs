//! Opens an image where it lies: in a file or on a block device, in an NVM pool under a page table, or in object
//! storage. What a target names is told apart here, and nowhere above.

use crate::bucket::{self, Terms};
use crate::format::{plan, write};
use crate::machine::{claim, pools};
use crate::media::Media;
use crate::pool::{GivenUp, GivenUpChanges, GivenUpImage};
use crate::target::{is_in_bucket, pool_of, target_of};
use crate::words::uuid_text;
use crate::{Error, FormatOptions, JournalEngine, Remedy, Result, nvm};
use ondol_block::{Access, BlockStore, PageLender};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System};
use ondol_journal::{JournalError, remap};
use ondol_medium::{Access as NvmAccess, AreaKind, NvmModel, NvmOptions, PAGE, Pool, PoolSpec};
use ondol_nvm_log::{Contents, OnDamage};
use ondol_page_table::{PageTable, TableError, TableReport, TableSpec, has_table, pool_size};
use serde::Serialize;
use std::path::Path;

/// Opens the image that a target names, so that nobody else writes it.
pub(crate) fn open(target: &Path, access: Access) -> Result<Arc<dyn BlockStore>> {
    Ok(match pool_of(target) {
        None if is_in_bucket(target) => bucket::open(target, access, &Terms::default())?,
        None => Arc::new(claim::open(target, access)?),
        Some(pool) => Arc::new(table(pool, access)?),
    })
}

/// As [`open`], with the pool that the image lies in, if it does.
pub(crate) fn media(target: &Path, access: Access) -> Result<Media> {
    modelled_media(target, access, NvmModel::default())
}

/// As [`media`], from a pool as slow as `model`.
pub(crate) fn modelled_media(target: &Path, access: Access, model: NvmModel) -> Result<Media> {
    if is_in_bucket(target) {
        return Ok(Media::in_bucket(bucket::open_held(target, access, &Terms::default())?));
    }
    let Some(pool) = pool_of(target) else { return Ok(Media::image(open(target, access)?)) };
    in_pool(nvm::open_modelled(pool, access == Access::Read, model)?, attach)
}

/// As [`media`], for writing, of an image whose log in its pool is to be given up, readable or not.
pub(crate) fn media_to_give_up(target: &Path) -> Result<Media> {
    let Some(pool) = pool_of(target) else { return Ok(Media::image(open(target, Access::Write)?)) };
    in_pool(open_pool(pool, Access::Write)?, |pool| Ok(PageTable::attach(pool)?))
}

fn in_pool(pool: Pool, attach: impl FnOnce(&Pool) -> Result<PageTable>) -> Result<Media> {
    Ok(Media::in_pool(Arc::new(attach(&pool)?), Arc::new(Mutex::new(pool))))
}

/// As [`open`] for reading only; the kernel may be writing to a file or device.
pub(crate) fn look(target: &Path) -> Result<Arc<dyn BlockStore>> {
    Ok(match pool_of(target) {
        None if is_in_bucket(target) => bucket::open(target, Access::Read, &Terms::default())?,
        None => Arc::new(claim::look(target)?),
        Some(pool) => Arc::new(table(pool, Access::Read)?),
    })
}

fn open_pool(path: &Path, access: Access) -> Result<Pool> {
    nvm::open(path, access == Access::Read)
}

fn table(pool: &Path, access: Access) -> Result<PageTable> {
    attach(&open_pool(pool, access)?)
}

/// Attaches the page table in a pool. Pages that a log in the same pool names are nobody else's from the first write
/// on.
///
/// # Errors
/// There is no table, or it is damaged; the pool is open for writing, and its log cannot be read; the medium's failure.
pub fn attach(pool: &Pool) -> Result<PageTable> {
    let table = PageTable::attach(pool)?;
    if pool.area(AreaKind::JOURNAL_LOG).is_none() || is_of_another(pool, &table)? {
        return Ok(table);
    }
    let found = Contents::inspect(pool, OnDamage::GoOn).map_err(JournalError::from);
    match found.and_then(|found| found.map(|contents| remap::pages(&contents)).transpose()) {
        Ok(pages) => table.claim(&pages.unwrap_or_default()),
        // Nothing is written, so nothing is taken.
        Err(e) if pool.nvm().is_read_only() => tracing::warn!("{}: {e}", pool.nvm().name()),
        Err(e) => return Err(e.into()),
    }
    Ok(table)
}

/// Whether the log in the pool is that of an image elsewhere, in front of which the pool is.
fn is_of_another(pool: &Pool, table: &PageTable) -> Result<bool> {
    let Some(volume) = pool.header().volume else { return Ok(false) };
    let mut uuid = [0; 16];
    table.read(UUID_AT, &mut uuid)?;
    Ok(uuid != volume)
}

/// Where an image has its superblock, and there its UUID.
const SUPERBLOCK_AT: u64 = 1024;
const UUID_AT: u64 = SUPERBLOCK_AT + 0x68;

/// The page table of an image in a pool. Numbers of pages of 4096 bytes.
#[derive(Clone, Debug, Serialize)]
pub struct TableInfo {
    /// UUID of the table.
    pub uuid: String,
    /// Pages of the pool that the table has.
    pub pages: u64,
    /// Pages that hold blocks of the image; all others are free, and read as zeros.
    pub mapped: u64,
    /// Ranges of blocks whose pages follow each other; one, if the image is full and its pool flat.
    pub extents: u64,
    /// Blocks in another page than that of their own number: `ondol pool flatten` moves them.
    pub displaced: u64,
    /// Bytes of undo records that one transaction can have.
    pub log_bytes: u64,
    /// A transaction was cut off: the next use undoes it.
    pub open: bool,
    /// Which crashes the pool survives, and with it a completed fsync.
    pub survives: &'static str,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

/// Describes the page table below a target, if there is one. Changes nothing.
pub(crate) fn table_info(target: &Path) -> Result<Option<TableInfo>> {
    pool_of(target).map_or(Ok(None), table_in)
}

/// Describes the page table in a pool, if there is one. Changes nothing.
pub(crate) fn table_in(pool: &Path) -> Result<Option<TableInfo>> {
    let pool = open_pool(pool, Access::Read)?;
    if !has_table(&pool)? {
        return Ok(None);
    }
    let found = match ondol_page_table::check(&pool) {
        Err(e @ TableError::Newer { .. }) => TableReport { problems: vec![e.to_string()], ..TableReport::default() },
        found => found?,
    };
    Ok(Some(TableInfo {
        uuid: uuid_text(&found.uuid),
        pages: found.pages,
        mapped: found.mapped,
        extents: found.flatness.extents,
        displaced: found.flatness.displaced,
        log_bytes: found.log_lines * ondol_page_table::LINE,
        open: found.open,
        survives: pool.nvm().describe(),
        problems: found.problems,
    }))
}

/// Makes an empty volume in a pool. It asks for engine `remap` unless told otherwise. Returns what the pool had before.
pub(crate) fn format(pool: &Path, options: &FormatOptions) -> Result<GivenUp> {
    let target = target_of(pool);
    let fail = |what: String| Error::format(target.display().to_string(), what);
    let (size, block_size, force) = options.asked();
    if block_size.is_some_and(|bytes| u64::from(bytes) != PAGE) {
        return Err(fail(format!("a page table has blocks of {PAGE} bytes, and the volume must have the same")));
    }
    let options = options.clone().block_size(PAGE as u32);
    let options = options.journal_or(JournalEngine::Remap);
    let planned = |size: u64| plan(&options, size, true, &System).map_err(|e| fail(e.to_string()));
    // A new table's blocks have no pages, and are zeros, as the plan has it.
    make(pool, size, force, planned, |plan, table| write(table, &plan))
}

/// Makes a table for an image of `size` bytes (of all that fits without it) in a pool, which is made if it is not
/// there. `ready` is asked first, with the size, and what it answers is what `fill` writes. Durable when this returns,
/// which says what the pool had before. A pool that was not there before is removed again when this fails.
///
/// # Errors
/// `Holds` when there is a table already, or the pool is attached to a volume, and `force` is not set; the pool is in
/// use, is none, or has no room; what `ready` and `fill` say.
pub(crate) fn make<T>(
    path: &Path,
    size: Option<u64>,
    force: bool,
    ready: impl FnOnce(u64) -> Result<T>,
    fill: impl FnOnce(T, &PageTable) -> Result<()>,
) -> Result<GivenUp> {
    let target = || target_of(path).display().to_string();
    let no_image = |pool: &Pool| {
        let holds = in_the_way(pool, has_table(pool)?, target()).filter(|_| !force);
        holds.map_or(Ok(()), Err)
    };
    let is_new = !path.try_exists().unwrap_or(true);
    let no_size =
        || Error::format(target(), "the pool does not exist: say how large the image shall be").helped(Remedy::Size);
    let made = (|| {
        let mut pool = match is_new {
            true => create(path, size.ok_or_else(no_size)?)?,
            false => open_pool(path, Access::Write)?,
        };
        no_image(&pool)?;
        make_in(&mut pool, size, &System, ready, fill)
    })();
    if made.is_err() && is_new {
        // The failure that led here is the one to tell.
        let _ = std::fs::remove_file(path);
    }
    made
}

/// As [`make`], in a pool that is there, whatever it has.
pub(crate) fn make_in<T>(
    pool: &mut Pool,
    size: Option<u64>,
    env: &dyn Env,
    ready: impl FnOnce(u64) -> Result<T>,
    fill: impl FnOnce(T, &PageTable) -> Result<()>,
) -> Result<GivenUp> {
    let has_image = has_table(pool)?;
    let given_up = GivenUp::of(pool, has_image);
    let log = nvm::new_log(pool, size);
    let spec = TableSpec { uuid: env.random_uuid(), blocks: size.map(|bytes| bytes / PAGE), reserve: None };
    let mut blocks = spec.fits(pool).map_err(|e| no_room(pool, has_image, e))?;
    if size.is_none() {
        blocks -= log / PAGE;
    }
    let contents = ready(blocks * PAGE)?;
    nvm::renew_log(pool, log)?;
    let spec = TableSpec { blocks: Some(blocks), ..spec };
    spec.make(pool)?;
    let table = PageTable::attach(pool)?;
    fill(contents, &table)?;
    table.flush()?;
    Ok(given_up)
}

/// As [`crate::Volume::format`], in a pool and over whatever it has, with any clock.
///
/// # Errors
/// As [`crate::Volume::format`].
pub fn format_pool(pool: &mut Pool, options: &FormatOptions, env: &dyn Env) -> Result<()> {
    let name = pool.nvm().name().to_owned();
    let options = options.clone().block_size(PAGE as u32).journal_or(JournalEngine::Remap);
    let planned = |size| plan(&options, size, true, env).map_err(|e| Error::format(name, e.to_string()));
    make_in(pool, options.asked().0, env, planned, |plan, table| write(table, &plan)).map(drop)
}

/// That something in a pool is lost when an image is made in it, if that is so.
fn in_the_way(pool: &Pool, has_image: bool, target: String) -> Option<Error> {
    let image = has_image.then(|| GivenUpImage::of(pool));
    let changes = GivenUpChanges::of(pool, image.as_ref());
    let image = image.map(|_| "an image under a page table".to_owned());
    let found: Vec<String> = image.into_iter().chain(changes.as_ref().map(GivenUpChanges::in_the_way)).collect();
    let remedy = changes.map(|changes| changes.remedy());
    (!found.is_empty()).then(|| Error::holds(target, found.join(", and ")).helped(remedy))
}

/// Why there is no room; also who has it, where that is an image elsewhere.
fn no_room(pool: &Pool, has_image: bool, e: TableError) -> Error {
    if has_image || pool.area(AreaKind::JOURNAL_LOG).is_none() {
        return e.into();
    }
    let name = pool.nvm().name();
    let what = "it is laid out to stand in front of an image, and has no room for one";
    Error::state(name, what).helped(Remedy::RemakePool { pool: name.to_owned() })
}

/// A new pool that has room for the image and nothing else.
fn create(path: &Path, size: u64) -> Result<Pool> {
    let what = || format!("{size} bytes are no size of an image in a pool");
    let too_large = || Error::format(target_of(path).display().to_string(), what());
    let bytes = pool_size(size).ok_or_else(too_large)? + nvm::log_bytes(size);
    let nvm = pools::create(path, bytes, &NvmOptions { access: NvmAccess::Write, ..NvmOptions::default() })?;
    Ok(Pool::create(nvm, &PoolSpec { uuid: System.random_uuid(), ..PoolSpec::default() })?)
}
