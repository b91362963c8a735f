//! Another number of blocks: a volume grows and shrinks at its end.
//!
//! ```text
//!   grow     extend the last group ─▶ add groups ─▶ ...                  each a transaction
//!   shrink   move blocks ─▶ move inodes ─▶ cut off groups                each many transactions
//!              map: extents, block maps     names, values, superblock
//! ```
//!
//! All of it is done to an image that nobody else has open and whose journal is empty, by transactions of that journal
//! which go home at once ([`edit`]). So a crash leaves a volume that is whole, of some size between the old one and the
//! new one; doing it again goes on from there. `docs/design/resize.md` has the rules of the format.

mod build;
mod cut;
mod edit;
mod grow;
mod least;
mod placed;
mod plan;
mod renumber;
mod reserve;
mod scan;
mod shape;
mod shrink;
mod space;
mod spread;

use crate::image::Image;
use crate::{Error, Progress, Replay, Result};
use edit::Edit;
use grow::NewGroups;
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::Superblock;
pub(crate) use plan::Plan;
use shrink::Shrink;

/// What a resize did, or how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks before.
    pub before: u64,
    /// Blocks afterwards.
    pub blocks: u64,
    /// Groups afterwards.
    pub groups: u32,
}

/// How far a resize is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeStep {
    /// It is checked before anything moves.
    Check(Progress),
    /// Of the files that have something behind the new end, so many have moved.
    Files {
        /// So many,
        done: u64,
        /// of so many.
        total: u64,
    },
    /// Of the inodes behind the last that stays, so many have other numbers.
    Inodes {
        /// So many,
        done: u64,
        /// of so many.
        total: u64,
    },
    /// The volume has another number of blocks, durably.
    Blocks {
        /// When the resize began.
        before: u64,
        /// Now.
        now: u64,
        /// In the end.
        target: u64,
    },
}

/// A volume that is being resized.
pub struct Resize {
    edit: Option<Edit>,
}

/// The size in blocks that comes out when `blocks` are asked for: ends of clusters, and no last group that is too short
/// for its own metadata.
///
/// # Errors
/// `Unsupported`: more than the features of the volume allow for; `Invalid`: no volume can be so small.
pub fn fitted_blocks(sb: &Superblock, blocks: u64) -> Result<u64> {
    shape::fitted(sb, blocks)
}

impl Image {
    /// The fewest blocks that this image, which must be clean, can be resized to: an estimate on the safe side.
    ///
    /// # Errors
    /// Corruption, or the store's failure.
    pub fn least_blocks(&self, env: Arc<dyn Env>) -> Result<u64> {
        Edit::new(self, env)?.least()
    }

    /// Begins to resize the clean image on `store`, whose journal is empty, in it, and was opened for writing by this
    /// program before. From now on the image is marked as one that may need recovery.
    ///
    /// # Errors
    /// What cannot be resized, by name; corruption, or the store's failure.
    pub fn resize(store: &Arc<dyn BlockStore>, env: Arc<dyn Env>) -> Result<Resize> {
        let image = Self::open(store.clone())?;
        image.require_writable()?;
        grow::refuse(image.superblock())?;
        // Everything but the journal is checked before the first change.
        Edit::new(&image, env.clone())?;
        image.mark_changing(Replay::Anybody)?;
        let edit = Edit::new(&Self::open(store.clone())?, env)?;
        Ok(Resize { edit: Some(edit) })
    }
}

impl Resize {
    /// A step that fails does not give it back: it may be what did not happen.
    fn take(&mut self) -> Result<Edit> {
        self.edit.take().ok_or(Error::Invalid("an earlier step has failed"))
    }

    /// Adds blocks, up to `target`, which [`fitted_blocks`] gave and which the store has room for; `tell` is told of
    /// each step when it is durable. Durable when this returns.
    ///
    /// # Errors
    /// `TooBig`: a step does not fit into the journal; corruption, or the store's failure. The volume then has the size
    /// of the last step.
    pub fn grow(&mut self, target: u64, tell: &mut dyn FnMut(ResizeStep)) -> Result<()> {
        let mut edit = self.take()?;
        let room = edit.store.size() / u64::from(edit.sb.block_size());
        if target > room {
            return Err(Error::Invalid("the volume would be larger than what it lies on"));
        }
        let before = edit.sb.blocks_count();
        while edit.sb.blocks_count() < target {
            NewGroups { edit: &mut edit }.grow_step(target)?;
            tell(ResizeStep::Blocks { before, now: edit.sb.blocks_count(), target });
        }
        self.edit = Some(edit);
        Ok(())
    }

    /// Moves what lies behind the first `target` blocks, which [`fitted_blocks`] gave, before them, and cuts off the
    /// rest; `tell` is told of each file and inode that has moved, maybe before that is durable, and of each size when
    /// it is. Structures that break their rules are refused where they are met: the volume is to be checked before.
    /// Durable when this returns.
    ///
    /// # Errors
    /// `NoSpace`: it holds too much; `TooBig`: a step does not fit into the journal; `Unsupported`, by name;
    /// corruption, or the store's failure. The volume then has the size of the last step, and what was moved stays
    /// where it is.
    pub fn shrink(&mut self, target: u64, tell: &mut dyn FnMut(ResizeStep)) -> Result<()> {
        let edit = self.take()?;
        shrink::refuse(&edit.sb, target)?;
        let mut shrink = Shrink::new(edit, target);
        let before = shrink.edit.sb.blocks_count();
        shrink.move_blocks(tell)?;
        shrink.move_inodes(tell)?;
        while shrink.edit.sb.blocks_count() > target {
            shrink.cut_step()?;
            tell(ResizeStep::Blocks { before, now: shrink.edit.sb.blocks_count(), target });
        }
        self.edit = Some(shrink.edit);
        Ok(())
    }

    /// Makes it as small as it can be, to a hundredth of its size: how much room new mappings take is not known before
    /// they are made, so that it tries less where they do not find it. Durable when this returns.
    ///
    /// # Errors
    /// As [`Resize::shrink`], but none for want of room.
    pub fn shrink_to_least(&mut self, tell: &mut dyn FnMut(ResizeStep)) -> Result<()> {
        let mut too_small = 0;
        loop {
            let edit = self.edit.as_ref().ok_or(Error::Invalid("an earlier step has failed"))?;
            let (now, least, env) = (edit.sb.blocks_count(), edit.least()?, edit.env.clone());
            let target = match least > too_small {
                true => least,
                false => shape::fitted(&edit.sb, now - (now - too_small) / 2)?,
            };
            if target >= now || target <= too_small || now - target <= now / 200 {
                return Ok(());
            }
            let store = edit.store.clone();
            match self.shrink(target, tell) {
                Err(Error::NoSpace(_)) => {
                    too_small = target;
                    self.edit = Some(Edit::new(&Image::open(store)?, env)?);
                }
                done => done?,
            }
        }
    }
}

/// Takes the mark away from the image on `store` that recovery may be needed, after the last step, whether that
/// succeeded or failed. Durable when this returns.
///
/// # Errors
/// The store's failure, or corruption.
pub fn end_resize(store: &Arc<dyn BlockStore>, before: u64) -> Result<Resized> {
    let image = Image::open(store.clone())?;
    let sb = image.superblock();
    let done = Resized { block_size: sb.block_size(), before, blocks: sb.blocks_count(), groups: sb.groups() };
    image.mark_recovered()?;
    Ok(done)
}
