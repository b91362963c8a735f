//! Recovery of a volume that cannot be recovered whole: what is sound in its journal goes home, the rest is given up by
//! name, and what is left is an image that e2fsck can mend.

use crate::compose;
use crate::holding::Holding;
use crate::home;
use crate::maintain::recover_whole;
use crate::media::Media;
use crate::{Error, RecoverReport, Result, nvm};
use ondol_block::{Access, BlockStore};
use ondol_env::counters::Counts;
use ondol_env::sync::Arc;
use ondol_env::{Env, System};
use ondol_format::Incompat;
use ondol_journal::jbd2::{self, Recovered};
use ondol_journal::{JournalError, LogMap, Salvaged, compressed};
use ondol_nvm_log::{LogError, OnDamage};
use ondol_volume::{Error as VolumeError, Image};
use serde::Serialize;
use std::path::Path;

/// What recovery by force did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ForcedReport {
    /// What was recovered.
    pub recovered: RecoverReport,
    /// What was given up, one line each; nothing where ordinary recovery was enough.
    pub given_up: Vec<String>,
    /// What keeps the volume from being mounted now, if anything does: it is for e2fsck to mend.
    pub damage: Option<String>,
}

/// As [`recover`](crate::recover); where that is refused because of damage, the journal is replayed as far as it is
/// sound and emptied, and the marks that keep others from the image are taken away. Structures are not mended: e2fsck
/// does that. Durable when this returns.
///
/// # Errors
/// The image is in use, is not ext4, or needs a feature that is not known; or the store's failure.
pub fn recover_by_force(path: impl AsRef<Path>) -> Result<ForcedReport> {
    recover_media_by_force(&home::media(path.as_ref(), Access::Write)?, Arc::new(System))
}

/// As [`recover_by_force`], of an image whose last changes lie in the NVM pool at `pool`: where the pool's log is
/// damaged, what was committed before the damage goes home, and the rest is given up. Image and pool need each other no
/// more then.
///
/// # Errors
/// As [`recover_by_force`]; the pool is in use, is none, or is another; its log cannot be found at all, where only
/// giving it up helps ([`discard_nvm`](crate::discard_nvm)).
pub fn recover_with_pool_by_force(path: impl AsRef<Path>, pool: impl AsRef<Path>) -> Result<ForcedReport> {
    let media = home::media(path.as_ref(), Access::Write)?;
    recover_media_by_force(&media.with_pool(nvm::open(pool.as_ref(), false)?), Arc::new(System))
}

/// As [`recover_by_force`], of the image on `store`, with any clock.
///
/// # Errors
/// As [`recover_by_force`].
pub fn recover_store_by_force(store: &Arc<dyn BlockStore>, env: Arc<dyn Env>) -> Result<ForcedReport> {
    recover_media_by_force(&Media::image(store.clone()), env)
}

fn recover_media_by_force(media: &Media, env: Arc<dyn Env>) -> Result<ForcedReport> {
    let mut report = match recover_whole(media, env.clone()) {
        Err(Error::Volume(e @ VolumeError::Corrupt(_))) => salvage(media, env.clone(), e)?,
        Err(Error::Volume(VolumeError::Journal(JournalError::Log(e)))) if matches!(*e, LogError::Damaged { .. }) => {
            salvage_pool(media, env.clone())?
        }
        Err(Error::Volume(VolumeError::Journal(JournalError::LostData { .. }))) => salvage_pool(media, env.clone())?,
        other => return other.map(|recovered| ForcedReport { recovered, ..ForcedReport::default() }),
    };
    match recover_whole(media, env) {
        Ok(then) => {
            let replayed = report.recovered;
            report.recovered = RecoverReport {
                transactions: replayed.transactions + then.transactions,
                blocks: replayed.blocks + then.blocks,
                revoked: replayed.revoked + then.revoked,
                ..then
            };
        }
        Err(Error::Volume(e @ VolumeError::Corrupt(_))) => report.damage = Some(e.to_string()),
        Err(e) => return Err(e),
    }
    Ok(report)
}

/// Empties the journal and takes the marks away, of a volume that cannot be recovered because of `why`.
fn salvage(media: &Media, env: Arc<dyn Env>, why: VolumeError) -> Result<ForcedReport> {
    let mut report = ForcedReport::default();
    let store = &media.store;
    // By a copy of the superblock the journal is found, and the superblock stays for e2fsck to mend.
    let image = Image::open(store.clone()).or_else(|e| Image::open_any_copy(store.clone()).ok_or(e))?;
    let holding = match Holding::take(&image, env.clone()) {
        Err(Error::Volume(e @ VolumeError::Corrupt(_))) => {
            report.given_up.push(format!("looking who else has the volume: {e}"));
            None
        }
        other => Some(other?),
    };
    match replay(media, &image, &*env, why) {
        Ok(parts) => parts.into_iter().for_each(|part| {
            report.recovered = RecoverReport::replayed(report.recovered.journal().plus(&part.recovered));
            report.given_up.extend(part.given_up.map(|lost| match lost.first == lost.last {
                true => format!("transaction {}: {}", lost.first, lost.why),
                false => format!("transactions {} to {}: {}", lost.first, lost.last, lost.why),
            }));
        }),
        Err(Error::Volume(e @ VolumeError::Corrupt(_))) => report.given_up.push(format!("the whole journal: {e}")),
        Err(e) => return Err(e),
    }
    holding.as_ref().map_or(Ok(()), Holding::check)?;
    if !image.is_by_copy() {
        let image = Image::open(store.clone())?;
        image.mark_salvaged(!report.given_up.is_empty())?;
        if let Some(e) = compose::orphan_list_damage(media, &image, env)? {
            // One that e2fsck cannot read either: it ends at it, every time. The kernel forgets such a list, too.
            image.forget_orphan_list()?;
            report.given_up.push(format!("the list of orphans, whose space e2fsck finds: {e}"));
        }
    }
    Ok(report)
}

/// Brings home what was committed in the pool before the damage of its log, and takes the marks away.
fn salvage_pool(media: &Media, env: Arc<dyn Env>) -> Result<ForcedReport> {
    let image = Image::open(media.store.clone())?;
    let holding = Holding::take(&image, env)?;
    let map = media.log_map(&image)?;
    let Some(attached) = jbd2::info(&*media.store, &map)?.nvm else { return Ok(ForcedReport::default()) };
    let (recovered, damage) = nvm::recover(media, &image, &map, attached, OnDamage::GoOn)?;
    holding.check()?;
    let recovered = RecoverReport::replayed(recovered);
    Ok(ForcedReport { recovered, given_up: damage.into_iter().collect(), damage: None })
}

/// Replays what is sound in the journal and empties it.
fn replay(media: &Media, image: &Image, env: &dyn Env, why: VolumeError) -> Result<Vec<Salvaged>> {
    if !Media::has_journal(image) {
        return Ok(Vec::new());
    }
    let map = media.log_map(image)?;
    let guarded = image.superblock().has_incompat(Incompat::ONDOL_JOURNAL);
    let fast_commits = || jbd2::fast_commits(&*media.store, &map).is_ok_and(|found| found.is_some());
    if !guarded && image.needs_recovery() && fast_commits() {
        // They would be lost here, and e2fsck can take the image as it is.
        let what = format!("{why}; e2fsck replays its fast commits");
        return Err(Error::state(image.name(), what));
    }
    let salvaged = salvage_log(media, image, &map);
    if let Err(Error::Volume(VolumeError::Corrupt(_))) = salvaged {
        if !image.is_by_copy() {
            image.mark_losses()?;
        }
        // Nobody takes a journal with such a superblock, not even to mend it.
        jbd2::renew(&*media.store, &map, env.random_uuid())?;
    }
    let mut parts = vec![salvaged?];
    if guarded && !image.is_by_copy() {
        // As in ordinary recovery: the journal may have been exchanged.
        let map_now = media.log_map(&Image::open(media.store.clone())?)?;
        if map_now != map {
            parts.push(salvage_log(media, image, &map_now)?);
        }
    }
    Ok(parts)
}

fn salvage_log(media: &Media, image: &Image, map: &LogMap) -> Result<Salvaged> {
    let store = &*media.store;
    let lose = &mut || match image.is_by_copy() {
        true => Ok(()),
        false => image.mark_losses().map_err(|e| JournalError::Aborted(e.to_string())),
    };
    Ok(match jbd2::info(store, map)?.compressed {
        true => compressed::salvage(store, map, image.superblock().blocks_count(), lose)?,
        false => jbd2::salvage(store, map, compose::volume_of(image), lose)?,
    })
}

impl RecoverReport {
    /// What the journal came to.
    fn journal(&self) -> Recovered {
        Recovered { transactions: self.transactions, blocks: self.blocks, revoked: self.revoked }
    }
}
