//! A volume of another size: see `ondol_volume::Resize` for how, and `docs/design/resize.md` for why it survives
//! crashes.

use crate::bucket::{self, Terms};
use crate::machine::claim;
use crate::media::Media;
use crate::target::{is_in_bucket, pool_of};
use crate::{DataMode, Error, JournalEngine, Options, Progress, Remedy, Result, Volume, compose, home};
use ondol_block::{Access, BlockStore};
use ondol_env::sync::Arc;
use ondol_env::{Env, System};
use ondol_format::superblock::{OFFSET, SIZE, STATE_ERROR};
use ondol_format::{Incompat, Superblock};
use ondol_volume::{Image, ResizeStep, Resized, end_resize, fitted_blocks};
use serde::Serialize;
use std::path::Path;

/// The size that a volume is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    /// All of the file or device.
    Whole,
    /// So many bytes, less what is no whole block (or cluster).
    Bytes(u64),
    /// The smallest that is possible.
    Least,
}

/// What [`resize`] did.
#[derive(Clone, Debug, Serialize)]
pub struct ResizeReport {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks before.
    pub before: u64,
    /// Blocks now.
    pub blocks: u64,
    /// Block groups now.
    pub groups: u32,
    /// Bytes of the file now, where the image is a file that was made longer or cut off.
    pub file_bytes: Option<u64>,
}

/// Gives the volume at `path` another size: a file, a block device, a part of one, `nvm:POOL`, or a place in object
/// storage. A journal that holds transactions is replayed first. A file is made longer where the volume would not fit
/// into it, and is cut off behind a volume that has become smaller.
///
/// Durable when this returns. When it is cut short, by a crash as well, the volume is whole and has a size between the
/// old one and the new one; calling it again goes on from there.
///
/// # Errors
/// The volume is in use, has errors, has no journal in it, or has a feature with which it cannot be written; it cannot
/// be so large, or what it lies on cannot; it holds too much to be so small; a step does not fit into its journal; the
/// store's failure.
pub fn resize(path: impl AsRef<Path>, to: NewSize) -> Result<ResizeReport> {
    resize_telling(path, to, &mut |_| {})
}

/// As [`resize`], telling how far it is: of files and inodes that have moved, maybe before that is durable, and of each
/// size when it is.
///
/// # Errors
/// As [`resize`].
pub fn resize_telling(path: impl AsRef<Path>, to: NewSize, tell: &mut dyn FnMut(Progress)) -> Result<ResizeReport> {
    let tell = &mut |step: ResizeStep| tell(step.into());
    let path = path.as_ref();
    let env: Arc<dyn Env> = Arc::new(System);
    if pool_of(path).is_some() {
        return Ok(report(resize_media(&home::media(path, Access::Write)?, to, env, tell)?, None));
    }
    if is_in_bucket(path) {
        let held = bucket::open_held(path, Access::Write, &Terms::of("resizing it"))?;
        let store = held.clone().store();
        if let NewSize::Bytes(bytes) = to {
            store.lengthen(lengthened(&*store, bytes)?)?;
        }
        // Without its home in it, which is needed after the first of several openings.
        let done = resize_media(&Media::image(store), to, env, tell)?;
        held.close()?;
        return Ok(report(done, None));
    }
    let mut store = claim::open(path, Access::Write)?;
    let (had, fixed) = (store.size(), store.has_fixed_size());
    let longer = match to {
        NewSize::Bytes(bytes) if bytes > had => lengthened(&store, bytes)?,
        _ => had,
    };
    if longer > had {
        if fixed {
            let what = format!("it has {had} bytes, and the volume cannot have {longer}");
            return Err(Error::state(store.name(), what));
        }
        store.resize(longer)?;
    }
    let done = resize_media(&Media::image(Arc::new(store)), to, env, tell);
    let kept = match &done {
        Ok(done) if done.blocks < done.before => done.blocks * u64::from(done.block_size),
        Ok(_) => longer,
        // What was not needed is given back; nobody else has opened it.
        Err(_) => had,
    };
    let cut = (!fixed && kept < longer).then_some(kept);
    let cut = cut.map(|kept| cut_off(path, kept)).transpose();
    let done = done?;
    cut?;
    Ok(report(done, (!fixed && kept != had).then_some(kept)))
}

fn report(done: Resized, file_bytes: Option<u64>) -> ResizeReport {
    let Resized { block_size, before, blocks, groups } = done;
    ResizeReport { block_size, before, blocks, groups, file_bytes }
}

/// Cuts a file off behind the volume, but never what belongs to that: its log, if it is still to be replayed, may hold
/// a larger volume.
fn cut_off(path: &Path, bytes: u64) -> Result<()> {
    let mut store = claim::open(path, Access::Write)?;
    let recovered = superblock(&store)?.filter(|sb| !sb.has_incompat(Incompat::RECOVER));
    let Some(sb) = recovered else { return Ok(()) };
    Ok(store.resize(bytes.max(sb.blocks_count() * u64::from(sb.block_size())))?)
}

fn superblock(store: &dyn BlockStore) -> Result<Option<Superblock>> {
    let mut bytes = [0; SIZE];
    if store.size() < OFFSET + SIZE as u64 {
        return Ok(None);
    }
    store.read(OFFSET, &mut bytes)?;
    Ok(Superblock::parse(&bytes, u64::MAX).ok())
}

/// The bytes that a file must have for a volume of `bytes`; what it has if it holds none, which is found later.
fn lengthened(store: &dyn BlockStore, bytes: u64) -> Result<u64> {
    let Some(sb) = superblock(store)? else { return Ok(store.size()) };
    let block_size = u64::from(sb.block_size());
    Ok((fitted_blocks(&sb, bytes / block_size)? * block_size).max(store.size()))
}

/// As [`resize`], of the image on `media`, with any clock; `tell` is told of each step.
///
/// # Errors
/// As [`resize`]; what it lies on is too short.
pub fn resize_media(
    media: &Media,
    to: NewSize,
    env: Arc<dyn Env>,
    tell: &mut dyn FnMut(ResizeStep),
) -> Result<Resized> {
    prepare(media, &env)?;
    let image = Image::open(media.store.clone())?;
    let holding = crate::holding::Holding::take(&image, env.clone())?;
    let block_size = u64::from(image.superblock().block_size());
    let before = image.superblock().blocks_count();
    let room = media.store.size() / block_size;
    let target = match to {
        NewSize::Whole => fitted_blocks(image.superblock(), room)?,
        NewSize::Bytes(bytes) => fitted_blocks(image.superblock(), bytes / block_size)?,
        NewSize::Least => image.least_blocks(env.clone())?,
    };
    if target > room {
        let what = format!("it lies on {} bytes, and needs {}", media.store.size(), target * block_size);
        return Err(Error::state(image.name(), what));
    }
    if target < before {
        require_room(&image, target, &env, tell)?;
    }
    if target == before {
        let (block_size, groups) = (image.superblock().block_size(), image.superblock().groups());
        return Ok(Resized { block_size, before, blocks: before, groups });
    }
    let mut resize = Image::resize(&media.store, env.clone())?;
    let done = match to {
        NewSize::Least => resize.shrink_to_least(tell),
        _ if target > before => resize.grow(target, tell),
        _ => resize.shrink(target, tell),
    };
    drop(resize);
    holding.check()?;
    match done {
        Ok(()) => Ok(end_resize(&media.store, before)?),
        // As it is after the last step; if that cannot be said, whoever opens it next replays its journal.
        Err(e) => {
            compose::recover_media(media, env).map(drop).unwrap_or_else(|e| {
                tracing::warn!("{}: it needs recovery: {e}", media.store.name());
            });
            Err(e.into())
        }
    }
}

/// Refuses to make a volume smaller that has faults, or holds too much.
fn require_room(image: &Image, target: u64, env: &Arc<dyn Env>, tell: &mut dyn FnMut(ResizeStep)) -> Result<()> {
    let state = |what: String| Error::state(image.name(), what);
    let least = image.least_blocks(env.clone())?;
    if target < least {
        let bytes = least * u64::from(image.superblock().block_size());
        return Err(state(format!(
            "it holds too much for {target} blocks: the least is {least}, that is {bytes} bytes"
        )));
    }
    let found = ondol_volume::check(image, &mut |progress| tell(ResizeStep::Check(progress)))?;
    match found.problems.first() {
        Some(first) => Err(state(format!("it has faults, and nothing is moved ({first}): `e2fsck -f` mends them"))),
        None => Ok(()),
    }
}

/// What [`resize`] can do with a volume.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the volume.
    pub blocks: u64,
    /// The fewest that it can have with what it holds: an estimate on the safe side.
    pub least: u64,
    /// Blocks of the file or device, the most that it can have there without making the file longer.
    pub room: u64,
}

/// What sizes the clean volume at `path` can have. Changes nothing.
///
/// # Errors
/// The volume is in use, needs recovery, or is corrupt; the store's failure.
pub fn sizes(path: impl AsRef<Path>) -> Result<Sizes> {
    let store = home::look(path.as_ref())?;
    let image = Image::open(store.clone())?;
    if image.needs_recovery() {
        let image = Some(image.name().to_owned());
        return Err(Error::state(store.name(), "its journal may hold transactions: recover it first")
            .helped(Remedy::Recover { image }));
    }
    let sb = image.superblock();
    Ok(Sizes {
        block_size: sb.block_size(),
        blocks: sb.blocks_count(),
        least: image.least_blocks(Arc::new(System))?,
        room: fitted_blocks(sb, store.size() / u64::from(sb.block_size())).unwrap_or_else(|_| sb.blocks_count()),
    })
}

impl Volume {
    /// Lets the volume grow while it is used, to `bytes` or to all of its device. An image file is made longer first,
    /// if it has to be. Other operations go on. Durable when this returns; cut short by a crash, the volume has some
    /// size between the old one and the new one.
    ///
    /// ```
    /// # use ondol::{FormatOptions, Volume};
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&image)?;
    /// let before = volume.statfs().blocks;
    /// volume.resize(Some(128 << 20))?;
    /// assert!(volume.statfs().blocks > before);
    /// volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `EINVAL`: fewer bytes than it has; `EBUSY`: it grows already; `ENOSPC`: what it lies on cannot be longer;
    /// `E2BIG`: a step does not fit into its journal; `EOPNOTSUPP`, by name; `EROFS`. The volume then has the size of
    /// the last step.
    pub fn resize(&self, bytes: Option<u64>) -> Result<Resized> {
        let inodes = self.usable()?;
        let store = &self.doors.composed().store;
        let sb = superblock(&**store)?.ok_or_else(|| Error::state(store.name(), "its superblock cannot be read"))?;
        let block_size = u64::from(sb.block_size());
        if sb.journal_inum().is_none() {
            return Err(
                ondol_volume::Error::Unsupported("a resize of a volume whose journal is elsewhere".into()).into()
            );
        }
        let blocks = fitted_blocks(&sb, bytes.unwrap_or(store.size()) / block_size)?;
        Ok(inodes.space().grow(store, blocks)?)
    }
}

/// Replays what is to be replayed and deletes orphans, with an engine whose journal is what everybody can read.
fn prepare(media: &Media, env: &Arc<dyn Env>) -> Result<()> {
    let image = Image::open(media.store.clone())?;
    let state = |what: &str| Error::state(image.name(), what);
    if image.superblock().journal_inum().is_none() {
        let elsewhere = image.superblock().journal_device_uuid().is_some();
        return Err(state(if elsewhere {
            "its journal is on another device, and a resize needs one in the volume"
        } else {
            "it has no journal, without which a resize cannot be safe (`tune2fs -j` gives it one)"
        }));
    }
    image.require_writable()?;
    let plain = Options::default().with_journal(JournalEngine::Classic).with_data(DataMode::Ordered);
    compose::open_media(media.clone(), &plain, env.clone())?.close()?;
    if Image::open(media.store.clone())?.superblock().raw().s_state.get() & STATE_ERROR != 0 {
        return Err(state("the volume has errors: `e2fsck -f` mends it, then it can be resized"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_block::{BlockError, BlockStats, Caps, RamStore};
    use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use ondol_env::{Fixed, Timestamp};
    use std::fs;
    use std::process::Command;

    fn clock() -> Arc<dyn Env> {
        Arc::new(Fixed::new(Timestamp::default(), 1))
    }

    /// It takes so many writes.
    struct Failing(RamStore, AtomicU64);

    impl BlockStore for Failing {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn size(&self) -> u64 {
            self.0.size()
        }

        fn caps(&self) -> Caps {
            self.0.caps()
        }

        fn read(&self, offset: u64, buf: &mut [u8]) -> ondol_block::Result<()> {
            self.0.read(offset, buf)
        }

        fn write_vectored(&self, offset: u64, bufs: &[std::io::IoSlice<'_>]) -> ondol_block::Result<()> {
            if self.1.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
                let source = std::io::Error::from_raw_os_error(5);
                return Err(BlockError::Io { op: "write", name: "a disk".into(), offset, len: 0, source });
            }
            self.0.write_vectored(offset, bufs)
        }

        fn flush(&self) -> ondol_block::Result<()> {
            self.0.flush()
        }

        fn discard(&self, offset: u64, len: u64) -> ondol_block::Result<bool> {
            self.0.discard(offset, len)
        }

        fn stats(&self) -> BlockStats {
            self.0.stats()
        }
    }

    /// Wherever the medium fails, the file stays as long as the volume that its log holds.
    #[test]
    fn a_file_keeps_what_its_log_has_not_brought_home() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = dir.path().join("image");
        let had = 6 << 20;
        let Some(mke2fs) = ondol_skips::find("mke2fs") else { return ondol_skips::skip("mke2fs is missing") };
        let words = ["-q", "-t", "ext4", "-b", "1024", "-J", "size=1", "-N", "512", "-g", "1024"];
        let made = Command::new(mke2fs).args(words).arg(&path).arg((had / 1024).to_string()).status();
        assert!(made.expect("mke2fs").success());
        let mut bytes = fs::read(&path).expect("an image");
        bytes.resize(9 << 20, 0);
        let mut kept = 0;
        for writes in 0.. {
            let failing = Arc::new(Failing(RamStore::from_bytes(bytes.clone()), AtomicU64::new(writes)));
            if resize_media(&Media::image(failing.clone()), NewSize::Whole, clock(), &mut |_| ()).is_ok() {
                break;
            }
            fs::write(&path, failing.0.to_bytes()).expect("a file");
            cut_off(&path, had).expect("a file cut off");
            kept += u64::from(fs::metadata(&path).expect("its length").len() > had);
            let opened = Volume::open(&path).unwrap_or_else(|e| panic!("{writes} writes: {e}"));
            opened.close().unwrap_or_else(|e| panic!("{writes} writes: {e}"));
            let found = crate::check(&path).unwrap_or_else(|e| panic!("{writes} writes: {e}"));
            assert!(found.is_clean(), "{writes} writes: {:?}", found.problems);
        }
        assert!(kept > 0, "nothing was kept");
    }
}
