//! The log on this machine of `durable=local`, and the cache on its disk: where they are, and how they are made.

use super::error;
use crate::{Result, nvm};
use ondol_env::sync::Arc;
use ondol_medium::{AreaKind, Pool};
use ondol_object_home::{Local, LogContents, LogMedium, RedoFile, RedoNvm};
use rustix::io::Errno;
use std::path::Path;

/// A log in a file is so large unless told otherwise.
const SIZE: u64 = 256 << 20;

/// Of a pool, so much stays for others.
const REST: u64 = 1 << 20;

/// The log in a file, which is made if it is not there.
pub(super) fn in_file(path: &Path, size: Option<u64>) -> Result<Local> {
    let opened = match RedoFile::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => RedoFile::create(path, size.unwrap_or(SIZE)),
        opened => opened,
    };
    let file = opened.map_err(|e| {
        let errno = e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        error(errno, format!("the local log {} cannot be used: {e}", path.display()))
    })?;
    Ok(Local::new(Arc::new(file)))
}

/// Removes a log in a file that was made for a volume which then could not be opened. One that any volume may know of
/// stays.
pub(super) fn remove_unused(path: &Path) {
    let Ok(file) = RedoFile::open(path) else { return };
    let file: Arc<dyn LogMedium> = Arc::new(file);
    if matches!(LogContents::of(&file), Ok(None))
        && let Err(e) = std::fs::remove_file(path)
    {
        tracing::warn!("{} stays, which nothing uses: {e}", path.display());
    }
}

/// The log in an area of a pool, which gets one if it has none: as large as `size` says, or all that is free.
pub(super) fn in_pool(path: &Path, size: Option<u64>) -> Result<Local> {
    Ok(Local::new(medium(nvm::open(path, false)?, size)?))
}

fn medium(mut pool: Pool, size: Option<u64>) -> Result<Arc<dyn LogMedium>> {
    let area = match pool.area(AreaKind::HOME_LOG) {
        Some(area) => area,
        None => {
            let free = pool.header().free().map(|range| range.end - range.start).max().unwrap_or(0);
            let size = size.unwrap_or(free.saturating_sub(REST).min(SIZE));
            pool.allot(AreaKind::HOME_LOG, size)?
        }
    };
    Ok(Arc::new(RedoNvm::new(pool.nvm().clone(), area)))
}
