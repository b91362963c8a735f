//! How volumes in object storage are made and opened, and their snapshots found.

use super::mark::Mark;
use super::{Held, LogAt, LogTerms, Shape, Snapshot, Terms, error, local};
use crate::{Error, Result};
use ondol_block::{Access, BlockStore};
use ondol_env::sync::Arc;
use ondol_object_home::{
    Bucket, ChunkSize, Disk, Home, HomeError, Making, Of, Opening, Place, Snapshot as Stored, What,
};
use ondol_volume::contents;
use rustix::io::Errno;
use std::path::Path;

fn place(target: &Path) -> Result<Place> {
    let name = target.to_str().ok_or_else(|| error(Errno::INVAL, "the name of a place in object storage is UTF-8"))?;
    let parsed = Place::parse(name).ok_or_else(|| error(Errno::INVAL, format!("{name} is in no object storage")))?;
    Ok(parsed?)
}

/// Whether a target is named as one may be. Nothing is asked of a store.
pub(super) fn check(target: &Path) -> Result<()> {
    place(target).map(drop)
}

impl Terms {
    fn opening(&self) -> Result<Opening> {
        let mut opening = Opening { take_over: self.take_over, purpose: self.purpose.clone(), ..Opening::default() };
        opening.lease = self.lease.unwrap_or(opening.lease);
        if let Some(timeout) = self.timeout {
            opening.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        if let Some(bytes) = self.cache {
            opening.cache = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        opening.disk = self.disk.clone().map(|(dir, bytes)| Disk { dir, bytes });
        opening.give_up.clone_from(&self.give_up);
        if let Some(LogTerms { at, size, lag, lag_time }) = &self.log {
            let mut log = match at {
                LogAt::File(path) => local::in_file(path, *size)?,
                LogAt::Pool(path) => local::in_pool(path, *size)?,
            };
            (log.lag, log.lag_time) = (lag.or(log.lag), lag_time.unwrap_or(log.lag_time));
            opening.local = Some(log);
        }
        Ok(opening)
    }
}

/// Opens the volume that `target` names, for whoever closes it himself.
pub(crate) fn open_held(target: &Path, access: Access, terms: &Terms) -> Result<Arc<Held>> {
    let new_log = match &terms.log {
        Some(LogTerms { at: LogAt::File(path), .. }) if !path.exists() => Some(path),
        _ => None,
    };
    let held = try_open(target, access, terms);
    if let (Err(_), Some(path)) = (&held, new_log) {
        local::remove_unused(path);
    }
    held
}

fn try_open(target: &Path, access: Access, terms: &Terms) -> Result<Arc<Held>> {
    let place = place(target)?;
    let opening = terms.opening()?;
    let bucket = place.bucket(false)?;
    let home = match (access, place.snapshot()) {
        (Access::Write, Some(_)) => {
            return Err(error(Errno::ROFS, format!("{}: a snapshot can only be read", place.name())));
        }
        (Access::Write, None) => Home::open(&bucket, &opening)?,
        (Access::Read, Some(snapshot)) => Home::view(&bucket, &What::Snapshot(snapshot.to_owned()), &opening)?,
        (Access::Read, None) => Home::view(&bucket, &What::Now, &opening)?,
    };
    Ok(Arc::new(Held::new(home, Mark::new(target, access))))
}

/// Makes a volume. `ready` is asked first, with the size, and what it answers is what `fill` writes over zeros. Durable
/// when this returns.
pub(super) fn make<T>(
    target: &Path,
    shape: Shape,
    ready: &dyn Fn(u64) -> Result<T>,
    no_size: &dyn Fn() -> Error,
    fill: impl FnOnce(T, &dyn BlockStore) -> Result<()>,
) -> Result<()> {
    let place = place(target)?;
    if place.snapshot().is_some() {
        return Err(error(Errno::INVAL, format!("{}: a snapshot is of a volume that is there", place.name())));
    }
    let chunk = shape.chunk.map_or(Ok(ChunkSize::MIN), ChunkSize::new);
    let chunk = chunk.map_err(|e| Error::format(place.name().to_string(), e.to_string()))?;
    let opening = Terms::of(MAKING).opening()?;
    let Some(size) = shape.size else {
        let size = size_of(&place, no_size)?;
        let contents = ready(size)?;
        return finish(&over(&place, target, size, &shape)?, contents, fill);
    };
    // A home is one of whole chunks, as a volume is of whole blocks.
    let size = size / chunk.bytes() as u64 * chunk.bytes() as u64;
    let contents = ready(size)?;
    let held = match Home::make(&place.bucket(true)?, Making { size, chunk }, &opening) {
        Err(HomeError::Exists { .. }) => over(&place, target, size, &shape)?,
        made => Held::new(made?, Mark::new(target, Access::Write)),
    };
    finish(&held, contents, fill)
}

const MAKING: &str = "making a file system";

fn finish<T>(held: &Held, contents: T, fill: impl FnOnce(T, &dyn BlockStore) -> Result<()>) -> Result<()> {
    fill(contents, held)?;
    held.flush()?;
    held.close()
}

/// The size of the volume that is there.
fn size_of(place: &Place, no_size: &dyn Fn() -> Error) -> Result<u64> {
    let found = place.bucket(false).map_err(Error::from);
    let found = found.and_then(|bucket| Ok(Home::view(&bucket, &What::Now, &Opening::default())?));
    match found {
        Ok(found) => Ok(found.size()),
        Err(e) if e.errno() == Errno::NOENT.raw_os_error() => Err(no_size()),
        Err(e) => Err(e),
    }
}

/// A volume that is there, with nothing in it any more.
fn over(place: &Place, target: &Path, size: u64, shape: &Shape) -> Result<Held> {
    let (bucket, opening) = (place.bucket(false)?, Terms::of(MAKING).opening()?);
    let found = Home::view(&bucket, &What::Now, &opening)?;
    // Whoever was interrupted has left a volume of zeros.
    if !shape.force
        && let Some(what) = contents::of(&found)?
    {
        return Err(Error::holds(place.name(), what));
    }
    let chunk = found.chunk().bytes() as u64;
    if shape.chunk.is_some_and(|asked| asked != chunk) {
        let what =
            format!("{}: the volume there has chunks of {chunk} bytes, which stay; delete it first", place.name());
        return Err(error(Errno::INVAL, what));
    }
    drop(found);
    let held = Held::new(Home::open(&bucket, &opening)?, Mark::new(target, Access::Write));
    held.lengthen(size)?;
    held.discard(0, held.size())?;
    Ok(held)
}

fn bucket_of(target: &Path) -> Result<Bucket> {
    let place = place(target)?;
    if place.snapshot().is_some() {
        return Err(error(Errno::INVAL, format!("{}: name the volume, not a snapshot of it", place.name())));
    }
    Ok(place.bucket(false)?)
}

pub(super) fn list(target: &Path) -> Result<Vec<Snapshot>> {
    // A snapshot's place has those of its volume.
    let bucket = place(target)?.bucket(false)?;
    let found = Stored::list(&bucket, Opening::default().timeout)?;
    Ok(found.into_iter().map(|Stored { name, made }| Snapshot { name, made }).collect())
}

pub(super) fn delete(target: &Path, name: &str) -> Result<()> {
    Ok(Stored::delete(&bucket_of(target)?, name, Opening::default().timeout)?)
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (place(from)?, place(to)?);
    if to.snapshot().is_some() {
        return Err(error(Errno::INVAL, format!("{}: a clone is a volume, not a snapshot", to.name())));
    }
    let of = from.snapshot().map_or(Of::Newest, Of::Snapshot);
    Ok(Home::clone_of(&from.bucket(false)?, of, &to.bucket(true)?, &Opening::default())?)
}

pub(super) fn destroy(target: &Path) -> Result<()> {
    Ok(Home::delete(&bucket_of(target)?, &Terms::of("deleting it").opening()?)?)
}
