//! Whole images from one home to another: out of a pool or object storage into a file that every ext4 program takes,
//! and back.

use crate::bucket;
use crate::format::forget;
use crate::machine::claim;
use crate::media::Media;
use crate::pool::GivenUp;
use crate::progress::Progress;
use crate::target::{is_in_bucket, pool_of};
use crate::{Error, Remedy, Result, home, maintain};
use ondol_block::{Access, BlockStore, FileStore};
use ondol_env::sync::Arc;
use ondol_env::{Env, System};
use ondol_format::RoCompat;
use ondol_format::superblock::{OFFSET, SIZE};
use ondol_medium::{PAGE, Pool};
use ondol_page_table::PageTable;
use ondol_volume::Image;
use ondol_volume::contents;
use serde::Serialize;
use std::io::{ErrorKind, IoSlice};
use std::path::Path;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// What was copied.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Transferred {
    /// Bytes of the image.
    pub size: u64,
    /// Bytes of it that are not in pages of zeros: only those were written, but to a device.
    pub written: u64,
    /// Transactions that were replayed into the copy.
    pub transactions: u64,
    /// What the pool had into which an image was brought.
    pub given_up: GivenUp,
}

/// Writes the image at `target` to a file or device at `to`, its blocks in their logical order: an image that the
/// kernel and e2fsck take. What its journal holds is replayed into the copy; nothing of the target is changed. Durable
/// when this returns. A file that was not there before is removed again when this fails.
///
/// # Errors
/// The target is in use, is not ext4, or is corrupt; `Holds` when there is something at `to` and `force` is not set; a
/// store's failure.
pub fn export(target: impl AsRef<Path>, to: impl AsRef<Path>, force: bool) -> Result<Transferred> {
    export_telling(target, to, force, &mut |_| {})
}

/// As [`export`], telling how far it is.
///
/// # Errors
/// As [`export`].
pub fn export_telling(
    target: impl AsRef<Path>,
    to: impl AsRef<Path>,
    force: bool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Transferred> {
    let (store, transactions, size) = exported(home::media(target.as_ref(), Access::Read)?)?;
    let to = to.as_ref();
    let mut copy = |to: &FileStore| copy(&*store, to, size, !to.has_fixed_size(), tell);
    let written = match std::fs::metadata(to) {
        Err(e) if e.kind() == ErrorKind::NotFound && crate::part_of(to).is_none() => {
            let file = FileStore::create(to, size)?;
            copy(&file).inspect_err(|_| {
                // The failure that led here is the one to tell.
                let _ = std::fs::remove_file(to);
            })?
        }
        _ => {
            let mut file = claim::open(to, Access::Write)?;
            let name = || file.name().to_owned();
            if !force && let Some(what) = contents::of(&file)? {
                return Err(Error::holds(name(), what));
            }
            if file.has_fixed_size() && file.size() < size {
                let what = format!("it has only {} bytes, and the image {size}", file.size());
                return Err(Error::state(name(), what));
            }
            if !file.has_fixed_size() {
                // Cut to nothing and extended again, it holds zeros.
                file.resize(0)?;
                file.resize(size)?;
            }
            copy(&file)?
        }
    };
    Ok(Transferred { size, written, transactions, given_up: GivenUp::default() })
}

/// What an export copies, the transactions that were replayed into it, and its size.
fn exported(media: Media) -> Result<(Arc<dyn BlockStore>, u64, u64)> {
    let (store, transactions) = clean(media)?;
    let image = Image::open(store.clone())?;
    let sb = image.superblock();
    let size = (sb.blocks_count() * u64::from(sb.block_size())).min(store.size());
    Ok((store, transactions, size))
}

/// As [`export`], of what lies on `media`, over whatever is on `to`, which may hold zeros alone (`has_zeros`).
///
/// # Errors
/// As [`export`].
pub fn export_media(media: Media, to: &dyn BlockStore, has_zeros: bool) -> Result<()> {
    let (store, _, size) = exported(media)?;
    copy(&*store, to, size, has_zeros, &mut |_| {}).map(drop)
}

/// The image as it is once its journal is replayed and its orphans are gone: in memory, where that is not so.
fn clean(media: Media) -> Result<(Arc<dyn BlockStore>, u64)> {
    let image = Image::open(media.store.clone())?;
    let is_clean = !image.needs_recovery()
        && image.superblock().raw().s_last_orphan.get() == 0
        && !image.superblock().features().ro_compat.contains(RoCompat::ORPHAN_PRESENT)
        && !maintain::holds_transactions(&media, &image)?;
    if is_clean {
        return Ok((media.store, 0));
    }
    let media = media.in_memory();
    let report = maintain::recover_whole(&media, Arc::new(System))?;
    Ok((media.store, report.transactions))
}

/// Copies the image at `from` into the NVM pool that `target`, `nvm:POOL`, names; the pool is made if it is not there.
/// It is the same image then, byte for byte, with what its journal holds. Or into object storage: then what its journal
/// holds is replayed into the copy. Durable when this returns.
///
/// # Errors
/// `from` is in use, is not ext4, or has blocks that are not of 4096 bytes, as those in a pool have; `target` names
/// neither; `Holds` when the pool has an image and `force` is not set; the pool has no room; a store's failure.
pub fn import(from: impl AsRef<Path>, target: impl AsRef<Path>, force: bool) -> Result<Transferred> {
    let (from, target) = (from.as_ref(), target.as_ref());
    if is_in_bucket(target) {
        return import_into_bucket(from, target, force);
    }
    let state = |of: &Path, what: String| Error::state(of.display().to_string(), what);
    let pool = pool_of(target).ok_or_else(|| {
        let named = target.display();
        state(target, format!("it names no pool: nvm:{named} is the image in a pool"))
    })?;
    let store = home::open(from, Access::Read)?;
    let image = Image::open(store.clone())?;
    image.require_unused(&System)?;
    if pool_of(from).is_some() && maintain::holds_transactions(&Media::image(store.clone()), &image)? {
        let image = Some(from.display().to_string());
        let what = "its last changes may lie in its pool: recover it first";
        return Err(state(from, what.into()).helped(Remedy::Recover { image }));
    }
    let sb = image.superblock();
    if u64::from(sb.block_size()) != PAGE {
        let what = format!("its blocks have {} bytes, a page table's {PAGE}: copy its files instead", sb.block_size());
        return Err(state(from, what));
    }
    let size = sb.blocks_count() * PAGE;
    if size > store.size() {
        return Err(state(from, format!("it is cut short: it has {} bytes of {size}", store.size())));
    }
    let mut written = 0;
    let ready = |_| Ok(());
    let given_up = home::make(pool, Some(size), force, ready, |(), table| {
        written = copy(&*store, table, size, true, &mut |_| {})?;
        Ok(())
    })?;
    Ok(Transferred { size, written, transactions: 0, given_up })
}

/// As [`import`], into a pool and over whatever it has, with any clock.
///
/// # Errors
/// As [`import`].
pub fn import_store(from: &dyn BlockStore, pool: &mut Pool, env: &dyn Env) -> Result<()> {
    let fill = |(), table: &PageTable| copy(from, table, from.size(), true, &mut |_| {}).map(drop);
    home::make_in(pool, Some(from.size()), env, |_| Ok(()), fill).map(drop)
}

fn import_into_bucket(from: &Path, target: &Path, force: bool) -> Result<Transferred> {
    bucket::require_named(target)?;
    let media = home::media(from, Access::Read)?;
    Image::open(media.store.clone())?.require_unused(&System)?;
    let (store, transactions) = clean(media)?;
    let image = Image::open(store.clone())?;
    let sb = image.superblock();
    let size = sb.blocks_count() * u64::from(sb.block_size());
    if size > store.size() {
        let what = format!("it is cut short: it has {} bytes of {size}", store.size());
        return Err(Error::state(from.display().to_string(), what));
    }
    let mut written = 0;
    bucket::fill(target, size, force, |home| {
        written = copy(&*store, home, size, true, &mut |_| {})?;
        Ok(())
    })?;
    Ok(Transferred { size, written, transactions, given_up: GivenUp::default() })
}

/// Copies the first `size` bytes, durably; pages of zeros only if they are not there already. Bytes that were written.
/// Nobody takes for a volume what a crash leaves of this: what was there goes first, and the superblock comes last.
fn copy(
    from: &dyn BlockStore,
    to: &dyn BlockStore,
    size: u64,
    has_zeros: bool,
    tell: &mut dyn FnMut(Progress),
) -> Result<u64> {
    if !has_zeros {
        forget(to)?;
    }
    let mut superblock = [0; SIZE];
    from.read(OFFSET, &mut superblock)?;
    let (mut piece, mut written) = (vec![0; PIECE as usize], 0);
    for start in (0..size).step_by(PIECE as usize) {
        tell(Progress { what: "copied", done: start, total: size, bytes: true });
        let piece = &mut piece[..PIECE.min(size - start) as usize];
        from.read(start, piece)?;
        if start == 0 {
            piece.iter_mut().skip(OFFSET as usize).take(SIZE).for_each(|byte| *byte = 0);
        }
        let pages: Vec<&[u8]> = piece.chunks(PAGE as usize).collect();
        let is_left_out = |page: &[u8]| has_zeros && page.iter().all(|byte| *byte == 0);
        let mut at = start;
        for run in pages.chunk_by(|a, b| is_left_out(a) == is_left_out(b)) {
            let bytes: u64 = run.iter().map(|page| page.len() as u64).sum();
            if !is_left_out(run[0]) {
                let bufs: Vec<IoSlice<'_>> = run.iter().map(|page| IoSlice::new(page)).collect();
                to.write_vectored(at, &bufs)?;
                written += bytes;
            }
            at += bytes;
        }
    }
    to.flush()?;
    to.write(OFFSET, &superblock)?;
    to.flush()?;
    Ok(written + SIZE as u64)
}
