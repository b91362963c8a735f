//! Giving up what an image has in its NVM pool.

use crate::media::Media;
use crate::nvm::{self, Lost};
use crate::words::uuid_text;
use crate::{Error, Result, home};
use ondol_env::System;
use ondol_env::sync::{Arc, Mutex};
use ondol_format::jbd2::Attached;
use ondol_journal::{JournalError, jbd2};
use ondol_medium::{AreaKind, Pool};
use ondol_nvm_log::{Contents, OnDamage};
use ondol_volume::Image;
use serde::Serialize;
use std::path::Path;

/// What is lost with the changes of an image that lie in an NVM pool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Discarded {
    /// UUID of the pool.
    pub pool: String,
    /// What the pool has, if it was there to be looked at.
    pub lost: Option<Lost>,
}

/// Gives up what the image at `path` has in its NVM pool, and takes away the marks that keep others from the image. A
/// checkpoint may have been under way, so the image is marked as one with errors, for e2fsck to mend. Nothing is
/// written to the pool at `pool`, which is only looked at for what is lost; the log of an image in a pool is made anew.
/// Durable when this returns.
///
/// # Errors
/// The image is in use, or needs no pool; the pool is another, is in use, or cannot be read.
pub fn discard(path: impl AsRef<Path>, pool: Option<&Path>) -> Result<Discarded> {
    discard_media(&home::media_to_give_up(path.as_ref())?, || pool.map(|pool| nvm::open(pool, true)).transpose())
}

/// As [`discard`], on media that are open and have no pool; `pool` opens the one that is looked at.
///
/// # Errors
/// As [`discard`]'s.
pub fn discard_media(media: &Media, pool: impl FnOnce() -> Result<Option<Pool>>) -> Result<Discarded> {
    let store = media.store.clone();
    let image = Image::open(store.clone())?;
    let map = media.log_map(&image)?;
    let named = jbd2::info(&*store, &map)?.nvm;
    // The pool that the image lies in has its log; also where a crash, or damage of the journal's superblock, has left
    // that without its name.
    let is_its_own = |home: &&Arc<Mutex<Pool>>| match named {
        Some(attached) => home.lock().header().uuid == attached.pool,
        None => holds_something_of(&image, &home.lock()),
    };
    let home = media.home.as_ref().filter(is_its_own);
    let of_home = home.map(|home| home.lock().header().clone());
    let of_home = of_home.map(|header| Attached { pool: header.uuid, epoch: header.epoch });
    let Some(attached) = named.or(of_home) else {
        return Err(Error::state(image.name(), "it has nothing in an NVM pool"));
    };
    image.require_unused(&System)?;
    let lost = match home {
        // Where it cannot be read, giving it up is the way out.
        Some(home) => lost(&image, &home.lock(), attached).inspect_err(|e| tracing::warn!("{e}")).ok(),
        None => pool()?.map(|pool| lost(&image, &pool, attached)).transpose()?,
    };
    image.mark_salvaged(true)?;
    // Before the journal forgets the pool: cut off in between, it is given up once more.
    if let Some(home) = home {
        Contents::erase(&home.lock()).map_err(JournalError::from)?;
    }
    jbd2::detach(&*store, &map)?;
    if let Some(home) = home {
        home.lock().detach()?;
    }
    Ok(Discarded { pool: uuid_text(&attached.pool), lost })
}

/// Whether the log in the pool that an image lies in, which the image does not name, has commits of it, or cannot be
/// read.
fn holds_something_of(image: &Image, home: &Pool) -> bool {
    let is_of = home.header().volume.is_none_or(|volume| volume == image.superblock().raw().s_uuid);
    let commits = || Contents::inspect(home, OnDamage::GoOn).map(|found| found.map_or(0, |log| log.commits().len()));
    home.area(AreaKind::JOURNAL_LOG).is_some() && is_of && commits().map_or(true, |commits| commits > 0)
}

fn lost(image: &Image, pool: &Pool, attached: Attached) -> Result<Lost> {
    nvm::require_same(image, pool, attached)?;
    nvm::lost_in(pool, Some(image.superblock()))
}
