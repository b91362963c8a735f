//! Making volumes.

use crate::format::{forget, plan, wipe, write, written};
use crate::machine::claim;
use crate::options::IN_POOL;
use crate::pool::{self, GivenUp};
use crate::target::{is_in_bucket, pool_of};
use crate::{Error, FormatOptions, JournalEngine, Remedy, Result, Volume, bucket, home};
use ondol_block::{Access, BlockStore, FileStore};
use ondol_env::System;
use ondol_format::mkfs::Plan;
use ondol_volume::contents;
use std::io::ErrorKind;
use std::path::Path;

impl Volume {
    /// Makes an empty ext4 volume on the file or block device at `path`, in the NVM pool that `nvm:POOL` names (see
    /// [`crate::pool_of`]), or in object storage ([`crate::is_in_bucket`]). Durable when this returns.
    ///
    /// Everything that can be known before is checked before anything is written: the options, what the target holds,
    /// and that a regular file's medium has room. A file that was not there before is removed again when this fails.
    /// Returns what a pool had before, which is lost.
    ///
    /// # Errors
    /// `Holds` when there is something already and `force` is not set; the size is missing or too small; an option
    /// cannot be honoured; the target is in use; the store's failure.
    pub fn format(path: impl AsRef<Path>, options: &FormatOptions) -> Result<GivenUp> {
        let path = path.as_ref();
        let (size, _, force) = options.asked();
        if is_in_bucket(path) {
            return bucket::format(path, options).map(|()| GivenUp::default());
        }
        let fail = |what: String| Error::format(path.display().to_string(), what);
        if options.chunk_asked().is_some() {
            return Err(fail("only volumes in object storage are made of chunks".into()));
        }
        if let Some(pool) = pool_of(path) {
            return home::format(pool, options);
        }
        if options.engine() == Some(JournalEngine::Batch) {
            return Err(fail(
                "engine batch needs a home that takes batches, which neither a file nor a device does".into(),
            ));
        }
        if let Some(engine @ (JournalEngine::Swap | JournalEngine::Remap)) = options.engine() {
            let needs = fail(format!("engine {} needs {IN_POOL}", engine.name()));
            return Err(needs.helped(Remedy::MakeInPool { pool: None }));
        }
        let mut given_up = GivenUp::default();
        let plan = |size, zeroed| plan(options, size, zeroed, &System).map_err(|e| fail(e.to_string()));
        match std::fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound && crate::part_of(path).is_none() => {
                let no_size = || fail("it does not exist: say how large it shall be".into()).helped(Remedy::Size);
                let size = size.ok_or_else(no_size)?;
                let plan = plan(size, true)?;
                let store = FileStore::create(path, size)?;
                write(&store, &plan).inspect_err(|_| {
                    // The failure that led here is the one to tell.
                    let _ = std::fs::remove_file(path);
                })?;
            }
            _ => {
                if force && path.is_file() {
                    // What is no pool has nothing of the kind.
                    given_up = GivenUp::in_pool(path).unwrap_or_default();
                }
                let mut store = claim::open(path, Access::Write)?;
                if !force && let Some(what) = contents::of(&store)? {
                    let target = store.name().to_owned();
                    drop(store);
                    return Err(pool::also(path, Error::holds(target, what)));
                }
                if store.has_fixed_size() {
                    let what = if store.part().is_some() { "the part of the disk" } else { "the device" };
                    if size.is_some_and(|s| s > store.size()) {
                        return Err(fail(format!("{what} has only {} bytes", store.size())));
                    }
                    write(&store, &plan(store.size(), false)?)?;
                    return Ok(given_up);
                }
                let size = size.unwrap_or(store.size());
                let plan = plan(size, true)?;
                clear(&mut store, &plan, size)?;
                write(&store, &plan)?;
            }
        }
        Ok(given_up)
    }
}

/// Makes a regular file one of `size` zeros. Its medium's room for all that `plan` writes is taken first, so that a
/// full one costs nothing of what was there.
fn clear(store: &mut FileStore, plan: &Plan, size: u64) -> Result<()> {
    let written = written(plan);
    let mut reserved = true;
    for range in &written {
        reserved = reserved && store.reserve(range.start, range.end - range.start)?;
    }
    let end = store.size();
    if size > end {
        store.resize(size)?;
    }
    // What is no longer whole must not be taken for what it was.
    forget(store)?;
    if !(reserved && wipe(store, &written, end)?) {
        // Cut to nothing and extended again, it holds zeros, too.
        store.resize(0)?;
    }
    if size != store.size() {
        store.resize(size)?;
    }
    Ok(())
}
