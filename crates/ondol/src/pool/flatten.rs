//! Making the image in a pool flat: block n in page n.

use crate::{Error, Remedy, Result, nvm};
use ondol_journal::JournalError;
use ondol_medium::{AreaKind, Pool};
use ondol_nvm_log::{Contents, OnDamage};
use ondol_page_table::PageTable;
use serde::Serialize;
use std::path::Path;

/// What `pool flatten` has done. Numbers of blocks and pages, 4096 bytes each.
#[derive(Clone, Debug, Serialize)]
pub struct FlattenedPool {
    /// The pool, as the user named it.
    pub pool: String,
    /// Blocks of the image that have a page.
    pub mapped: u64,
    /// Blocks that were in another page than that of their own number.
    pub moved: u64,
    /// Pages that were copied for that.
    pub copied: u64,
    /// Ranges of blocks whose pages followed each other before.
    pub extents_before: u64,
    /// And now.
    pub extents: u64,
}

/// Puts the blocks of the image in the pool at `path` into the pages of their own numbers, in place. No block of the
/// image changes. Durable when this returns; after a crash on the way the image is as it was, partly flat, and this
/// goes on from there. A transaction of the page table that was cut off is undone first.
///
/// # Errors
/// The pool is in use, or holds no image; `State` where it has a log with operations that are not home; the table is
/// damaged; the memory's failure.
pub fn flatten(path: impl AsRef<Path>) -> Result<FlattenedPool> {
    flatten_pool(&nvm::open(path.as_ref(), false)?)
}

/// As [`flatten`], of a pool that is open.
///
/// # Errors
/// As [`flatten`]'s.
pub fn flatten_pool(pool: &Pool) -> Result<FlattenedPool> {
    // Records of a log may name pages that no block has yet.
    let commits = unfinished(pool)?;
    let name = pool.nvm().name().to_owned();
    if commits > 0 {
        let what = format!(
            "its log has {commits} commits that are not at home yet: open and close the volume that it belongs to, or \
             recover it"
        );
        return Err(Error::state(name, what).helped(Remedy::Recover { image: None }));
    }
    let mut table = PageTable::attach(pool)?;
    let before = table.flatness();
    let done = table.flatten()?;
    let extents = table.flatness().extents;
    Ok(FlattenedPool {
        pool: name,
        mapped: done.mapped,
        moved: done.moved,
        copied: done.copied,
        extents_before: before.extents,
        extents,
    })
}

fn unfinished(pool: &Pool) -> Result<usize> {
    if pool.area(AreaKind::JOURNAL_LOG).is_none() {
        return Ok(0);
    }
    let contents = Contents::inspect(pool, OnDamage::Refuse).map_err(JournalError::from)?;
    Ok(contents.map_or(0, |contents| contents.commits().len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_block::BlockStore;
    use ondol_env::System;
    use ondol_env::sync::Arc;
    use ondol_medium::{Nvm, NvmOptions, PoolSpec};
    use ondol_nvm_log::{Log, Options};
    use ondol_page_table::TableSpec;

    #[test]
    fn a_pool_whose_log_has_commits_is_refused_and_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let nvm = Nvm::create(&path, 8 << 20, &NvmOptions::default()).unwrap();
        let areas = vec![(AreaKind::JOURNAL_LOG, 1 << 20)];
        let mut pool = Pool::create(nvm, &PoolSpec { areas, ..PoolSpec::default() }).unwrap();
        TableSpec { uuid: [4; 16], ..TableSpec::default() }.make(&mut pool).unwrap();
        let table = PageTable::attach(&pool).unwrap();
        table.write(4096, &[1; 8192]).unwrap();
        table.flush().unwrap();
        let contents = Contents::open(&pool, &System, OnDamage::Refuse).unwrap();
        let log = Log::start(contents, Arc::new(System), &Options::default()).unwrap();
        log.commit(log.promise(100).unwrap().claim(10).complete(b"warm floor").unwrap()).unwrap();
        drop((log, table, pool));
        let before = std::fs::read(&path).unwrap();
        let e = flatten(&path).unwrap_err();
        assert!(matches!(e, Error::State { .. }) && e.to_string().contains("1 commits"), "{e}");
        assert!(std::fs::read(&path).unwrap() == before);
        let pool = nvm::open(&path, false).unwrap();
        // A log that starts is empty: what it had is home.
        let contents = Contents::open(&pool, &System, OnDamage::Refuse).unwrap();
        drop(Log::start(contents, Arc::new(System), &Options::default()).unwrap());
        drop(pool);
        assert_eq!(flatten(&path).unwrap().moved, 2);
    }
}
