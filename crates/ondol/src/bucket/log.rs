//! What the log on this machine of `durable=local` holds, for people: without its bucket, and changing nothing.

#[cfg(not(feature = "object"))]
use absent::{each, in_pool, of_file, of_pool};
#[cfg(feature = "object")]
use shown::{each, in_pool, of_file, of_pool};

use crate::Result;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A log on a machine, of a volume in object storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalLogInfo {
    /// UUID of the log.
    pub log: String,
    /// UUID of the home in object storage that it belongs to.
    pub home: String,
    /// Of that home, how often it had been opened for writing.
    pub epoch: u64,
    /// Number of the first batch that it has, or will have.
    pub first: u64,
    /// Batches that it has, one after the other.
    pub batches: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Those of them that it does not know to be in the bucket.
    pub not_in_bucket: u64,
    /// The number of a batch that was durable, is not known to be in the bucket, and cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

/// The log in an area of a pool: what it holds, or why that cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LocalLogState {
    /// It can be read.
    Sound(LocalLogInfo),
    /// It cannot.
    Damaged {
        /// Why.
        problem: String,
    },
}

/// One batch of such a log, as it changes the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalBatch {
    /// Its number.
    pub number: u64,
    /// When it was written: seconds since 1970.
    pub time: i64,
    /// Ranges of bytes that are written, in order, neighbours together: first byte and length.
    pub writes: Vec<(u64, u64)>,
    /// Ranges that hold nothing afterwards.
    pub discards: Vec<(u64, u64)>,
}

/// What a header begins with, of which there are two.
const MAGIC: &[u8; 8] = b"OndolLog";
const HEADERS: [u64; 2] = [0, 4096];

/// Whether a file looks like such a log, damaged or not. Builds without the feature `object` know none.
pub fn is_local_log(path: &Path) -> bool {
    let begins = |file: &File, at: u64| {
        let mut found = [0; MAGIC.len()];
        file.read_exact_at(&mut found, at).is_ok() && found == *MAGIC
    };
    cfg!(feature = "object")
        && path.is_file()
        && File::open(path).is_ok_and(|file| HEADERS.iter().any(|at| begins(&file, *at)))
}

/// Describes the log in a file. `None`: it holds zeros. Changes nothing.
///
/// # Errors
/// It is in use, damaged, or none.
pub fn local_log(path: &Path) -> Result<Option<LocalLogInfo>> {
    of_file(path)
}

/// Shows each batch of the log in a file, in order, up to the first that is not whole.
///
/// # Errors
/// As [`local_log`]; a batch has no meaning; `shown` fails.
pub fn local_log_batches(path: &Path, shown: &mut dyn FnMut(LocalBatch) -> std::io::Result<()>) -> Result<()> {
    each(path, false, shown)
}

/// As [`local_log_batches`], of the log in a pool. Nothing, if there is none.
///
/// # Errors
/// The same; the pool cannot be opened.
pub fn local_log_batches_in_pool(pool: &Path, shown: &mut dyn FnMut(LocalBatch) -> std::io::Result<()>) -> Result<()> {
    each(pool, true, shown)
}

/// Describes the log in a pool that has room for one.
pub(crate) fn state_in_pool(pool: &Path) -> Result<Option<LocalLogState>> {
    if !in_pool(pool)? {
        return Ok(None);
    }
    Ok(match of_pool(pool) {
        Ok(found) => found.map(LocalLogState::Sound),
        Err(e) => Some(LocalLogState::Damaged { problem: e.to_string() }),
    })
}

#[cfg(feature = "object")]
mod shown {
    use super::{LocalBatch, LocalLogInfo};
    use crate::bucket::error;
    use crate::words::uuid_text;
    use crate::{Result, nvm};
    use ondol_env::sync::Arc;
    use ondol_medium::AreaKind;
    use ondol_object_home::{LogContents, LogMedium, LoggedRanges, RedoFile, RedoNvm};
    use rustix::io::Errno;
    use std::path::Path;

    fn file(path: &Path) -> Result<Arc<dyn LogMedium>> {
        let opened = RedoFile::look(path).map_err(|e| {
            let errno = e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
            error(errno, format!("the local log {} cannot be read: {e}", path.display()))
        })?;
        Ok(Arc::new(opened))
    }

    fn area(pool: &Path) -> Result<Option<Arc<dyn LogMedium>>> {
        let pool = nvm::open(pool, true)?;
        let area = pool.area(AreaKind::HOME_LOG);
        Ok(area.map(|area| Arc::new(RedoNvm::new(pool.nvm().clone(), area)) as Arc<dyn LogMedium>))
    }

    /// Whether a pool has room for one.
    pub(super) fn in_pool(pool: &Path) -> Result<bool> {
        Ok(area(pool)?.is_some())
    }

    fn info(found: &LogContents) -> LocalLogInfo {
        let LogContents { uuid, home, epoch, first, batches, bytes, shipped, lost } = *found;
        LocalLogInfo {
            log: uuid_text(&uuid),
            home: uuid_text(&home),
            epoch,
            first,
            batches,
            bytes,
            not_in_bucket: (first + batches).saturating_sub(first.max(shipped.saturating_add(1))),
            lost,
        }
    }

    pub(super) fn of_file(path: &Path) -> Result<Option<LocalLogInfo>> {
        Ok(LogContents::of(&file(path)?)?.as_ref().map(info))
    }

    pub(super) fn of_pool(pool: &Path) -> Result<Option<LocalLogInfo>> {
        let Some(medium) = area(pool)? else { return Ok(None) };
        Ok(LogContents::of(&medium)?.as_ref().map(info))
    }

    pub(super) fn each(
        path: &Path,
        is_pool: bool,
        shown: &mut dyn FnMut(LocalBatch) -> std::io::Result<()>,
    ) -> Result<()> {
        let medium = if is_pool { area(path)? } else { Some(file(path)?) };
        let Some(medium) = medium else { return Ok(()) };
        Ok(LogContents::list(&medium, |LoggedRanges { number, time, writes, discards }| {
            shown(LocalBatch { number, time, writes: joined(writes), discards: joined(discards) })
        })?)
    }

    /// Ranges in order, those that touch as one.
    pub(super) fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (at, len) in ranges {
            match joined.last_mut() {
                Some((first, have)) if first.checked_add(*have) == Some(at) => *have = have.saturating_add(len),
                _ => joined.push((at, len)),
            }
        }
        joined
    }
}

#[cfg(not(feature = "object"))]
mod absent {
    use super::{LocalBatch, LocalLogInfo};
    use crate::Result;
    use crate::bucket::without::lacks;
    use std::path::Path;

    pub(super) fn in_pool(_pool: &Path) -> Result<bool> {
        Ok(false)
    }

    pub(super) fn of_file(_path: &Path) -> Result<Option<LocalLogInfo>> {
        Err(lacks())
    }

    pub(super) fn of_pool(_pool: &Path) -> Result<Option<LocalLogInfo>> {
        Ok(None)
    }

    pub(super) fn each(
        _path: &Path,
        is_pool: bool,
        _shown: &mut dyn FnMut(LocalBatch) -> std::io::Result<()>,
    ) -> Result<()> {
        if is_pool { Ok(()) } else { Err(lacks()) }
    }
}

#[cfg(all(test, feature = "object"))]
mod tests {
    use super::shown::joined;

    #[test]
    fn ranges_that_touch_are_one() {
        let ranges = vec![(8192, 4096), (0, 4096), (4096, 4096), (u64::MAX, 7), (20480, 1)];
        assert_eq!(joined(ranges), [(0, 12288), (20480, 1), (u64::MAX, 7)]);
    }
}
