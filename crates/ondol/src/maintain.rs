//! What is done to an image that is not mounted: recovery and checking.

use crate::{Result, compose};
use ondol_block::{Access, BlockStore, FileStore};
use ondol_env::sync::Arc;

use ondol_journal::jbd2;
use ondol_volume::Image;
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
}

/// Replays the journal of the image at `path`, deletes orphans, and marks the image clean: any ext4 program can take it
/// then. Durable when this returns.
///
/// # Errors
/// The image is in use, corrupt, or needs a feature that is not known.
pub fn recover(path: impl AsRef<Path>) -> Result<RecoverReport> {
    let composed = compose::open(path.as_ref(), &crate::Options::default())?;
    composed.close()?;
    let r = composed.recovered;
    Ok(RecoverReport { transactions: r.transactions, blocks: r.blocks, revoked: r.revoked })
}

/// What a check found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckReport {
    /// The journal holds transactions, which must be replayed before anything else can be judged.
    pub needs_recovery: bool,
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

/// Checks every structure of the image at `path`, as `e2fsck -fn` does. Changes nothing.
///
/// # Errors
/// The image is in use, is not ext4, or has structures that are not known here.
pub fn check(path: impl AsRef<Path>) -> Result<CheckReport> {
    let store: Arc<dyn BlockStore> = Arc::new(FileStore::open(path.as_ref(), Access::Read)?);
    let image = Image::open(store)?;
    let dirty = match image.superblock().journal_inum() {
        Some(_) => jbd2::info(image.store(), &compose::log_map(&image)?)?.dirty,
        None => false,
    };
    if image.needs_recovery() || dirty {
        return Ok(CheckReport { needs_recovery: true, ..CheckReport::default() });
    }
    let found = ondol_volume::check(&image, &mut |_| {})?;
    Ok(CheckReport {
        needs_recovery: false,
        problems: found.problems.iter().map(ToString::to_string).collect(),
        omitted: found.omitted,
        notes: found.notes,
        inodes: found.inodes,
        directories: found.directories,
        blocks: found.blocks,
        orphans: found.orphans,
    })
}
