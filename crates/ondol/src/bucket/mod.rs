//! Volumes in object storage: which targets name them, and how they are made, opened, looked at and closed.
//!
//! ```text
//!   target → place → bucket                      with the feature `object`; without it, an error that says so
//!   open for writing    lease, fence, `Held`     given back when it is closed or dropped
//!   open for reading    the newest state, as it is at that moment, or a snapshot
//! ```

#[cfg(feature = "object")]
mod at_hand;
#[cfg(feature = "object")]
mod fault;
#[cfg(feature = "object")]
mod held;
mod info;
#[cfg(feature = "object")]
mod local;
mod log;
mod mark;
mod snapshot;
mod terms;
#[cfg(feature = "object")]
mod with;
#[cfg(not(feature = "object"))]
mod without;

pub use info::{BucketInfo, DiskCacheInfo, LagInfo, LeaseInfo, RequestInfo, Snapshot, StoredInfo};
pub use log::{
    LocalBatch, LocalLogInfo, LocalLogState, is_local_log, local_log, local_log_batches, local_log_batches_in_pool,
};
pub use mark::{mark_of, says_closed};
pub use snapshot::{Snapshots, clone_volume, delete_volume, snapshot, snapshot_delete, snapshots};
pub use terms::Durable;
pub(crate) use terms::{LogAt, LogTerms, Terms};

#[cfg(feature = "object")]
pub(crate) use held::Held;
pub(crate) use log::state_in_pool as local_log_in_pool;
#[cfg(feature = "object")]
pub(crate) use with::open_held;
#[cfg(feature = "object")]
use with::{check, copy, delete, destroy, list, make};
#[cfg(not(feature = "object"))]
pub(crate) use without::{Held, open_held};
#[cfg(not(feature = "object"))]
use without::{check, copy, delete, destroy, list, make};

use crate::format::plan;
use crate::target::is_in_bucket;
use crate::{Error, FormatOptions, JournalEngine, Options, Remedy, Result};
use ondol_block::{Access, BlockStore};
use ondol_env::System;
use ondol_env::sync::Arc;
use ondol_format::mkfs::Chunk;
use rustix::io::Errno;
use std::path::Path;

/// What blocks have unless told otherwise: the size of a chunk, so that no write has to read.
const BLOCK: u32 = 4096;

/// Whether this build opens volumes in object storage.
pub const HAS_BUCKETS: bool = cfg!(feature = "object");

/// Opens the volume that a target in object storage names.
pub(crate) fn open(target: &Path, access: Access, terms: &Terms) -> Result<Arc<dyn BlockStore>> {
    Ok(open_held(target, access, terms)?.store())
}

/// Opens what a target names for reading, and describes it, if it is in object storage. Changes nothing.
pub(crate) fn look(target: &Path) -> Result<Option<(Arc<dyn BlockStore>, BucketInfo)>> {
    if !is_in_bucket(target) {
        return Ok(None);
    }
    let held = open_held(target, Access::Read, &Terms::default())?;
    let mut info = BucketInfo { snapshots: Some(list(target)?.len() as u64), ..held.info() };
    held.weigh(&mut info);
    Ok(Some((held.store(), info)))
}

/// Whether a target in object storage has a volume.
///
/// # Errors
/// It is none, cannot be reached, or is damaged.
pub fn is_there(target: &Path) -> Result<bool> {
    match open_held(target, Access::Read, &Terms::default()) {
        Ok(_) => Ok(true),
        Err(e) if e.errno() == Errno::NOENT.raw_os_error() => Ok(false),
        Err(e) => Err(e),
    }
}

/// An error about a target in object storage.
fn error(errno: Errno, what: impl Into<String>) -> Error {
    Error::Bucket { what: what.into(), errno: errno.raw_os_error(), remedy: None }
}

/// A volume in object storage that is written no more because of `why`.
pub(crate) fn stopped(name: &str, why: &str) -> Error {
    error(Errno::IO, format!("{name} could not be written to the end: {why}; what was synced before is there"))
}

/// Refuses a target in object storage that is named wrongly, or that this build cannot open. Nothing is asked of a
/// store. That comes first: there may be a password in it.
///
/// # Errors
/// That it is so. It names no target with a password in it.
pub fn require_named(target: &Path) -> Result<()> {
    check(target)
}

/// What a volume in object storage is to be made of.
#[cfg_attr(not(feature = "object"), expect(dead_code, reason = "nobody makes any"))]
struct Shape {
    /// In bytes. None: as it is.
    size: Option<u64>,
    /// The bytes of its chunks, if that was asked for.
    chunk: Option<u64>,
    /// Over what is there, too.
    force: bool,
}

/// Makes an empty volume in object storage. Durable when this returns.
pub(crate) fn format(target: &Path, options: &FormatOptions) -> Result<()> {
    require_named(target)?;
    let fail = |what: String| Error::format(target.display().to_string(), what);
    if let Some(engine) = options.engine().filter(|engine| *engine != JournalEngine::Batch) {
        let what = format!("engine {} keeps a log, and object storage has its own: its engine is batch", engine.name());
        return Err(fail(what));
    }
    let (size, block_size, force) = options.asked();
    let options = options.clone().block_size(block_size.unwrap_or(BLOCK)).journal_or(JournalEngine::Batch);
    let planned = |size: u64| plan(&options, size, true, &System).map_err(|e| fail(e.to_string()));
    let no_size = || fail("it does not exist: say how large it shall be".into()).helped(Remedy::Size);
    let shape = Shape { size, chunk: options.chunk_asked(), force };
    make(target, shape, &planned, &no_size, |plan, home| {
        plan.emit(|part| match part {
            Chunk::Bytes { offset, bytes } => home.write(offset, bytes),
            Chunk::Zeros { .. } => Ok(()),
        })?;
        Ok(())
    })
}

/// Makes a volume of `size` bytes in object storage, for `fill` to write over zeros. Durable when this returns.
pub(crate) fn fill(
    target: &Path,
    size: u64,
    force: bool,
    fill: impl FnOnce(&dyn BlockStore) -> Result<()>,
) -> Result<()> {
    let size = size.next_multiple_of(u64::from(BLOCK));
    let no_size = || error(Errno::INVAL, "its size is known");
    let shape = Shape { size: Some(size), chunk: None, force };
    make(target, shape, &|_| Ok(()), &no_size, |(), home| fill(home))
}

/// Refuses options that make no sense in object storage, by name.
pub(crate) fn require_fitting(target: &Path, options: &Options) -> Result<()> {
    check(target)?;
    let engine = options.journal.engine.filter(|engine| *engine != JournalEngine::Batch);
    let engine = engine.map(|engine| format!("journal={}", engine.name()));
    let has = |is: bool, name: &'static str| is.then(|| name.to_owned());
    let wrong = engine
        .or_else(|| has(!options.pool.model.is_off(), "nvm_model="))
        .or_else(|| has(options.pool.buffer.is_some(), "buffer="))
        .or_else(|| has(options.image.journal_path.is_some(), "journal_path="))
        .or_else(|| has(options.journal.size.is_some(), "journal_size="))
        .or_else(|| has(options.journal.zeroing == Some(true), "zeroing"))
        .or_else(|| has(options.journal.checkpoint_threads.is_some(), "checkpoint_threads="))
        .or_else(|| has(!options.image.recovery, "norecovery"));
    let name = target.display();
    if let Some(word) = wrong {
        let what = format!("{name}: `{word}` makes no sense for a volume in object storage, whose engine keeps no log");
        return Err(error(Errno::INVAL, what));
    }
    require_one_promise(options).map_err(|what| error(Errno::INVAL, format!("{name}: {what}")))
}

/// What is said of the log on this machine fits together.
fn require_one_promise(options: &Options) -> std::result::Result<(), String> {
    let bucket = &options.bucket;
    let logs = [(options.pool.path.is_some(), "nvm="), (bucket.redo.is_some(), "redo=")];
    let of_logs = [
        (bucket.redo_size.is_some(), "redo_size="),
        (bucket.lag.is_some(), "lag="),
        (bucket.lag_seconds.is_some(), "lag_seconds="),
    ];
    match (bucket.durable.unwrap_or_default(), logs.iter().filter(|(is, _)| *is).count()) {
        (Durable::Local, 1) => Ok(()),
        (Durable::Local, 0) => Err("`durable=local` needs a log on this machine: `redo=FILE` or `nvm=POOL`".into()),
        (Durable::Local, _) => Err("the log on this machine is in a file or in a pool, not in both".into()),
        (Durable::Remote, _) => match logs.iter().chain(&of_logs).find(|(is, _)| *is) {
            Some((_, word)) => Err(format!("`{word}` goes with `durable=local` alone")),
            None => Ok(()),
        },
    }
}

/// Refuses options that only volumes in object storage have, by name.
pub(crate) fn require_none(target: &Path, options: &Options) -> Result<()> {
    match options.bucket.any() {
        None => Ok(()),
        Some(word) => {
            let what = format!("{}: `{word}` is for volumes in object storage alone", target.display());
            Err(error(Errno::INVAL, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(feature = "object"))]
    fn a_build_without_object_storage_says_so_and_names_nothing() {
        let target = Path::new("s3://user:word@b/p");
        for e in [
            crate::Volume::open(target).map(drop).unwrap_err(),
            crate::Volume::format(target, &FormatOptions::new().size(1 << 24)).map(drop).unwrap_err(),
            crate::check(target).map(drop).unwrap_err(),
            crate::info(target).map(drop).unwrap_err(),
            snapshots(target).map(drop).unwrap_err(),
        ] {
            assert!(e.to_string().contains("without the feature `object`") && !e.to_string().contains("word"), "{e}");
            assert_eq!(e.remedy(), Some(Remedy::OtherBuild));
        }
    }

    #[test]
    #[cfg(feature = "object")]
    fn options_without_sense_are_refused_by_name() {
        let (place, file) = (Path::new("s3://b/p"), Path::new("disk.img"));
        for word in [
            "journal=classic",
            "nvm=/x",
            "redo=/x",
            "lag=1M",
            "durable=local",
            "buffer=1M",
            "journal_size=64M",
            "zeroing",
            "ro,norecovery",
        ] {
            let e = require_fitting(place, &Options::parse(word).unwrap()).unwrap_err().to_string();
            let name = word.trim_start_matches("ro,");
            assert!(e.contains(name.split_inclusive('=').next().unwrap()), "{word}: {e}");
        }
        require_fitting(place, &Options::parse("durable=local,redo=/x,nvm=/y").unwrap()).unwrap_err();
        for words in ["journal=batch,data=journal,ro,lease=5", "durable=local,nvm=/x,lag=1M", "durable=local,redo=/x"] {
            require_fitting(place, &Options::parse(words).unwrap()).unwrap();
        }
        let words = ["take_over", "lease=60", "store_timeout=0", "store_cache=1M", "durable=remote", "disk_cache=/x"];
        for word in words {
            let e = require_none(file, &Options::parse(word).unwrap()).unwrap_err().to_string();
            assert!(e.contains(word.split_inclusive('=').next().unwrap()), "{word}: {e}");
        }
        require_none(file, &Options::default()).unwrap();
    }
}
