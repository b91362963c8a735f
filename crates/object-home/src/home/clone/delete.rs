//! Deleting a volume. What was begun is finished by deleting again; meanwhile the volume cannot be opened.

use super::super::holder::Holder;
use super::super::keeper::Keeper;
use super::super::lease::{Lease, Mark};
use super::super::open::{admin, border, database, leases, manifest};
use super::super::{Home, HomeError, Opening, bounded, token};
use super::notes::{Note, Origin, read};
use super::volume;
use crate::Bucket;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};
use slatedb::admin::AdminBuilder;
use slatedb::config::{GarbageCollectorOptions, GarbageCollectorScheduleOptions};
use std::time::Duration;

/// For so long, a clone that was noted and is not there may be in the making.
const MAKING: Duration = Duration::from_secs(3600);

impl Home {
    /// Deletes a volume with its snapshots. Whoever writes to it is in the way, whatever `opening` says.
    ///
    /// # Errors
    /// There is none; somebody writes to it; clones need its objects: they are named; the store fails or does not let
    /// us.
    pub fn delete(bucket: &Bucket, opening: &Opening) -> Result<(), HomeError> {
        let (b, o) = (bucket.clone(), opening.clone());
        border(bucket)?.wait(bounded(bucket.name.clone(), "deleting", opening.timeout, delete(b, o)))
    }
}

async fn delete(bucket: Bucket, opening: Opening) -> Result<(), HomeError> {
    let leases = leases(&bucket);
    let is_begun = leases.marked().await? == Some(Mark::Begun);
    let origin = Origin::read(&bucket).await;
    if !is_begun && matches!(origin, Ok(None)) && manifest(&bucket).await?.is_none() {
        return Err(HomeError::Missing { name: bucket.name });
    }
    let holder = Holder::this("deleting it");
    let lease = Lease { holder, token: token(), length: opening.lease, returned: false };
    let number = leases.take(&lease, false).await?;
    let keeper = Keeper::new(leases.clone(), lease.clone(), number);
    let marked = leases.mark(if is_begun { Mark::Begun } else { Mark::Asked }).await?;
    let needed = match needed(&bucket, Some(&marked)).await {
        Ok(needed) if needed.is_empty() => Ok(()),
        Ok(needed) => {
            let clones = needed.into_iter().map(|note| note.name).collect();
            Err(HomeError::Needed { name: bucket.name.clone(), clones })
        }
        Err(e) => Err(e),
    };
    if let Err(e) = needed {
        // What an earlier attempt has begun stays so.
        if !is_begun {
            remove(&bucket, &marked.location).await?;
        }
        keeper.give_back().await?;
        return Err(e);
    }
    // Whoever has taken the lease meanwhile, because this took long, is not disturbed.
    if let Err(by) = leases.create(number + 1, &lease).await? {
        return Err(HomeError::Fenced { name: bucket.name, by });
    }
    leases.mark(Mark::Begun).await?;
    let deleted = admin(&bucket).delete_db(true).await;
    deleted.map_err(|e| HomeError::of_database(&bucket.name, "to delete", &e))?;
    match origin {
        Ok(Some(origin)) => forget(&bucket, &origin).await,
        Ok(None) => {}
        Err(e) => tracing::warn!("{}: its originals keep a note of it: {e}", bucket.name),
    }
    for part in ["probe", "clones"] {
        clear(&bucket, &bucket.prefix.clone().join(part), None).await?;
    }
    remove(&bucket, &Origin::place(&bucket)).await?;
    clear(&bucket, &leases.dir, Some(&marked.location)).await?;
    remove(&bucket, &marked.location).await
}

/// The clones that need objects of this volume. `now`: an object that was just put.
pub(super) async fn needed(bucket: &Bucket, now: Option<&ObjectMeta>) -> Result<Vec<Note>, HomeError> {
    let dir = bucket.prefix.clone().join("clones");
    let notes: Vec<ObjectMeta> = bucket.store.list(Some(&dir)).try_collect().await.map_err(|e| fault(bucket, &e))?;
    let mut needed = vec![];
    for meta in notes {
        let Some(bytes) = read(bucket, &meta.location).await? else { continue };
        let Some(note) = Note::decode(&bytes) else {
            // Nobody knows what it needs.
            let name = format!("a clone of which {} says nothing that can be read", meta.location);
            needed.push(Note { name, prefix: Path::default() });
            continue;
        };
        let clone = bucket.beside(&note.name, note.prefix.clone());
        let is_young =
            |now: &ObjectMeta| (now.last_modified - meta.last_modified).to_std().is_ok_and(|age| age < MAKING);
        match needs(&clone, bucket).await? {
            Some(true) => needed.push(note),
            None if now.is_some_and(is_young) => needed.push(note),
            Some(false) | None => {}
        }
    }
    Ok(needed)
}

/// Whether a clone names objects of the original. It may name some no longer, without having said so. None: there is no
/// clone.
async fn needs(clone: &Bucket, original: &Bucket) -> Result<Option<bool>, HomeError> {
    let names = async || {
        let fault = |e| HomeError::of_database(&clone.name, "to see what a clone needs", &e);
        let manifest = admin(clone).read_manifest(None).await.map_err(fault)?;
        let named = |path: &str| volume(path).is_some_and(|volume| volume == original.prefix);
        let names = |db: &[_]| db.iter().any(|db: &slatedb::manifest::ExternalDb| named(&db.path));
        Ok(manifest.map(|manifest| (manifest.initialized(), names(manifest.external_dbs()))))
    };
    match names().await? {
        None => Ok(None),
        Some((true, true)) => {
            let none = GarbageCollectorOptions {
                manifest_options: None,
                wal_options: None,
                wal_fence_options: None,
                compacted_options: None,
                compactions_options: None,
                detach_options: Some(GarbageCollectorScheduleOptions::default()),
                ..GarbageCollectorOptions::default()
            };
            let ran = AdminBuilder::new(database(clone), clone.store.clone()).build().run_gc_once(none).await;
            ran.map_err(|e| HomeError::of_database(&clone.name, "to detach a clone", &e))?;
            Ok(names().await?.map(|(_, names)| names))
        }
        Some((false, names) | (true, names)) => Ok(Some(names)),
    }
}

/// Takes a clone's notes away from its originals.
pub(super) async fn forget(clone: &Bucket, origin: &Origin) {
    for original in &origin.originals {
        if let Err(e) = remove(clone, &Note::place(original, &origin.token)).await {
            tracing::warn!("{original} keeps a note of {}: {e}", clone.name);
        }
    }
    if let Err(e) = remove(clone, &Origin::place(clone)).await {
        tracing::warn!("{}: what was begun is to be deleted: {e}", clone.name);
    }
}

async fn remove(bucket: &Bucket, path: &Path) -> Result<(), HomeError> {
    match bucket.store.delete(path).await {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        Err(e) => Err(fault(bucket, &e)),
    }
}

/// Deletes everything below, but for `kept`.
async fn clear(bucket: &Bucket, dir: &Path, kept: Option<&Path>) -> Result<(), HomeError> {
    let found: Vec<ObjectMeta> = bucket.store.list(Some(dir)).try_collect().await.map_err(|e| fault(bucket, &e))?;
    let paths: Vec<_> = found.into_iter().map(|meta| meta.location).filter(|path| Some(path) != kept).map(Ok).collect();
    let mut deleted = bucket.store.delete_stream(futures_util::stream::iter(paths).boxed());
    while let Some(deleted) = deleted.next().await {
        match deleted {
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(fault(bucket, &e)),
        }
    }
    Ok(())
}

fn fault(bucket: &Bucket, e: &Error) -> HomeError {
    HomeError::of_store(&bucket.name, "to delete", e)
}
