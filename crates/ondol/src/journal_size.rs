//! A journal of another size. The new one is written as a file without a name; then it and the journal change places.
//!
//! They change places by a transaction (the blocks of both inodes, the superblock and its copies) that stands in the
//! log of **both** journals before any of it goes home, in the old one last: its commit block there decides. Replaying
//! either is all there is to do, and recovery does that: whichever journal the image has after a crash, its log holds
//! what is missing. From before the file is made until everything is home the image is marked as one that only Ondol
//! can recover. Before the decision the file is an orphan with the new blocks, afterwards one with the old blocks; the
//! next who opens the image deletes it. `docs/design/journal.md` has the steps.
//!
//! Why a crash does no harm: as long as the journal's inode has its old map, the old log is unchanged, since it is
//! emptied only when everything is in place and flushed. As soon as the inode has the new map, the new log counts, and
//! it is emptied only after the old one. What changes of an inode lies in its first 160 bytes, in one sector, so it
//! does not arrive in part. Recovery looks, after one journal is replayed, whether the image has another one now, and
//! replays that. Two writes of inodes in a fixed order would need a recovery of their own, and leave out the
//! superblock's copies.

use crate::compose::{self, Composed};
use crate::media::Media;
use crate::{DataMode, Error, JournalEngine, Options, Result, counted};
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_journal::{LogMap, jbd2};
use ondol_volume::{Error as VolumeError, Fallocate, Image, Ino, Volume as Inodes};

/// Bytes of zeros written at once.
const CHUNK: u64 = 1 << 20;

/// Gives the image on `media` a journal of `bytes`, rounded down to whole blocks, if its own is of another size; says
/// whether it was. Then the image needs recovery, which whoever opens it next does.
///
/// # Errors
/// The journal lies on another device; it would be too short, or take more than half of what is free; the image is in
/// use or corrupt; the store's failure. The old journal is in its place then, or the new one after recovery.
pub(crate) fn ensure(media: &Media, bytes: u64, options: &Options, env: &Arc<dyn Env>) -> Result<bool> {
    let image = Image::open(media.store.clone())?;
    let state = |what: String| Error::state(image.name(), what);
    let sb = image.superblock();
    if sb.journal_inum().is_none() {
        return Err(state("its journal is not in it, and has the size of its own device".into()));
    }
    let blocks = bytes / u64::from(sb.block_size());
    let old = media.log_map(&image)?;
    // One that is too short becomes as long as its file when the image is opened for this.
    let is_short = jbd2::info(&*media.store, &old)?.is_short();
    if blocks == old.blocks() && !is_short {
        return Ok(false);
    }
    let least = jbd2::least_blocks(&*media.store, &old)?;
    if blocks < least {
        return Err(state(format!("a journal of {}: the least is {least}", counted(blocks, "block"))));
    }
    if sb.cluster_ratio() > 1 && !blocks.is_multiple_of(sb.cluster_ratio().into()) {
        return Err(state(format!(
            "a journal of {}: it has clusters of {} blocks",
            counted(blocks, "block"),
            sb.cluster_ratio()
        )));
    }
    let mut plain = options.clone().with_journal(JournalEngine::Classic).with_data(DataMode::Ordered);
    (plain.journal.size, plain.image.mounted_on) = (None, None);
    let composed = compose::open_guarded(media.clone(), &plain, env.clone())?;
    if blocks == old.blocks() {
        return composed.close().map(|()| true);
    }
    match prepare(&composed, &image, blocks) {
        Ok(twin) => exchange(media, &composed, twin, env).map(|()| true),
        Err(e) => {
            if let Err(e) = composed.close() {
                tracing::warn!("{}: it needs recovery: {e}", image.name());
            }
            Err(e)
        }
    }
}

/// Writes the file that is to be the journal: zeros, at home when this returns.
fn prepare(composed: &Composed, image: &Image, blocks: u64) -> Result<Ino> {
    let inodes = &composed.inodes;
    let free = inodes.statfs().free;
    if blocks > free / 2 {
        let what = format!("a journal of {}: more than half of the {free} that are free", counted(blocks, "block"));
        return Err(Error::state(image.name(), what));
    }
    let twin = inodes.journal_twin(image)?.ino;
    let written = write_zeros(inodes, twin, blocks * u64::from(image.superblock().block_size()));
    let home = written.and_then(|()| Ok(composed.engine.checkpoint_all()?));
    if let Err(e) = home {
        // Its blocks are free again, or it stays an orphan.
        if let Err(e) = inodes.inode_ops().release(twin) {
            tracing::warn!("{}: {e}", image.name());
        }
        return Err(e);
    }
    Ok(twin)
}

fn write_zeros(inodes: &Inodes, ino: Ino, bytes: u64) -> Result<()> {
    match inodes.files().fallocate(ino, Fallocate::Allocate, 0, bytes) {
        // Files with ext2's block maps are only ever written.
        Ok(()) | Err(VolumeError::Unsupported(_)) => {}
        Err(e) => return Err(e.into()),
    }
    let zeros = vec![0; CHUNK as usize];
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(CHUNK);
        at += inodes.files().write(ino, at, &zeros[..len as usize])? as u64;
    }
    Ok(inodes.sync()?)
}

/// Lets the two change places, beneath an engine that has nothing to write any more. The transaction is durable when
/// this returns.
fn exchange(media: &Media, composed: &Composed, twin: Ino, env: &Arc<dyn Env>) -> Result<()> {
    let store = &media.store;
    store.flush()?;
    if let Some(hold) = &composed.hold {
        hold.keep()?;
    }
    let image = Image::open(store.clone())?;
    let old = media.log_map(&image)?;
    let new = LogMap::new(image.superblock().block_size(), image.twin_map(twin)?);
    jbd2::succeed(&**store, &old, &new)?;
    let changes = image.exchanged(twin)?;
    for map in [&new, &old] {
        jbd2::commit_alone(store, map, env.clone(), changes.clone())?;
    }
    Ok(composed.hold.as_ref().map_or(Ok(()), |hold| hold.release())?)
}
