//! Clones, and deleting volumes.
//!
//! A clone is a database of its own whose manifest names objects of the original; a checkpoint in the original keeps
//! those. The database does not say whose checkpoint that is, so a clone is noted at each volume whose objects it
//! names, before there is one: who deletes such a volume first says so, then looks at the notes; who makes a clone
//! first leaves its notes, then looks whether a volume is being deleted. So one of the two sees the other.

mod delete;
mod notes;

use super::open::{admin, database, leases};
use super::record::Header;
use super::{Home, HomeError, Opening, bounded, settle, snapshot, token};
use crate::Bucket;
use crate::home::open::border;
use notes::{Note, Origin};
use object_store::path::Path;
use slatedb::CloneSourceSpec;
use slatedb::VersionedManifest;
use slatedb::config::{CheckpointOptions, CheckpointScope};
use std::time::Duration;
use uuid::Uuid;

/// A checkpoint that only serves to make a clone ends by itself, if whoever made it cannot delete it.
const LIFETIME: Duration = Duration::from_secs(3600);

/// From which state of a volume a clone is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of<'a> {
    /// What is there now. Nobody may write to the volume: it is opened for a moment.
    Newest,
    /// The snapshot of this name. Whoever writes goes on.
    Snapshot(&'a str),
}

impl Home {
    /// Makes a volume at `to` that holds what the one at `from` does, and shares its objects. No chunk is copied. The
    /// two need not know of each other afterwards, but the original cannot be deleted while the clone names its
    /// objects.
    ///
    /// # Errors
    /// The two are not in one store, or one lies in the other; something is at `to`; there is no volume or no such
    /// snapshot at `from`, somebody writes to it, or it is being deleted; the store fails or does not let us.
    pub fn clone_of(from: &Bucket, of: Of<'_>, to: &Bucket, opening: &Opening) -> Result<(), HomeError> {
        fit(from, to)?;
        match of {
            Of::Newest => {
                let opening = Opening { purpose: format!("making the clone {}", to.name), ..opening.clone() };
                let home = Self::open(from, &opening)?;
                let made = home.clone_to(to);
                let closed = home.close();
                made.and(closed)
            }
            Of::Snapshot(name) => {
                let (f, t, name) = (from.clone(), to.clone(), name.to_owned());
                let work = async move {
                    let id = snapshot::find(&f, &name).await?;
                    make(&f, id, &t).await
                };
                border(from)?.wait(bounded(from.name.clone(), "making a clone", opening.timeout, work))
            }
        }
    }

    /// The same of what was written, submitted and discarded here before, while this volume stays open.
    ///
    /// # Errors
    /// As [`Home::clone_of`]; this volume is open for reading.
    pub fn clone_to(&self, to: &Bucket) -> Result<(), HomeError> {
        let writer = self.writer()?;
        fit(&self.bucket, to)?;
        let mut order = writer.order.lock();
        writer.put_loose(&mut order)?;
        let number = order.number;
        writer.settle_to(number)?;
        let (db, name) = (writer.db.clone(), self.bucket.name.clone());
        let marked = self.wait("making a clone", async move {
            let options = CheckpointOptions { lifetime: Some(LIFETIME), ..CheckpointOptions::default() };
            let made = db.create_checkpoint(CheckpointScope::All, &options).await;
            Ok(made.map_err(|e| settle::fault_of(&db, &name, "to make a clone", &e))?.id)
        });
        // Held so that nothing comes between what is durable and the checkpoint.
        drop(order);
        let id = marked.map_err(|e| writer.explained(e))?;
        let (from, to) = (self.bucket.clone(), to.clone());
        self.wait("making a clone", async move {
            let made = make(&from, id, &to).await;
            if let Err(e) = admin(&from).delete_checkpoint(id).await {
                tracing::debug!("{}: a checkpoint ends by itself only: {e}", from.name);
            }
            made
        })
    }

    /// The clones that need objects of a volume, as they were named when they were made. Needs no lease.
    ///
    /// # Errors
    /// There is no volume; the store fails or does not let us.
    pub fn clones(bucket: &Bucket, timeout: Option<Duration>) -> Result<Vec<String>, HomeError> {
        let b = bucket.clone();
        let work = async move {
            if super::open::manifest(&b).await?.is_none() {
                return Err(HomeError::Missing { name: b.name });
            }
            Ok(delete::needed(&b, None).await?.into_iter().map(|note| note.name).collect())
        };
        border(bucket)?.wait(bounded(bucket.name.clone(), "looking for clones", timeout, work))
    }
}

/// The two places can be those of a volume and its clone.
fn fit(from: &Bucket, to: &Bucket) -> Result<(), HomeError> {
    let (name, clone) = (from.name.clone(), to.name.clone());
    if !from.is_beside(to) {
        return Err(HomeError::OtherStore { name, clone });
    }
    if from.prefix.prefix_matches(&to.prefix) || to.prefix.prefix_matches(&from.prefix) {
        return Err(HomeError::Inside { name, clone });
    }
    Ok(())
}

/// Makes a clone of a checkpoint.
async fn make(from: &Bucket, checkpoint: Uuid, to: &Bucket) -> Result<(), HomeError> {
    let Some(manifest) = super::open::manifest(from).await? else {
        return Err(HomeError::Missing { name: from.name.clone() });
    };
    match super::open::manifest(to).await? {
        Some(found) if found.initialized() => return Err(HomeError::Exists { name: to.name.clone() }),
        Some(_) => return Err(HomeError::HalfMade { name: to.name.clone() }),
        None => {}
    }
    let mut originals = vec![from.prefix.clone()];
    originals.extend(external(&manifest).filter(|path| *path != from.prefix));
    let origin = Origin { uuid: Uuid::from_bytes(fresh()), token: token(), originals };
    origin.create(to).await?;
    let note = Note { name: to.name.clone(), prefix: to.prefix.clone() };
    match attach(from, checkpoint, to, &origin, &note).await {
        Ok(()) => Ok(()),
        Err(e) => {
            // What was begun keeps its notes: it is deleted like a volume.
            if matches!(super::open::manifest(to).await, Ok(None)) {
                delete::forget(to, &origin).await;
            }
            Err(e)
        }
    }
}

async fn attach(from: &Bucket, checkpoint: Uuid, to: &Bucket, origin: &Origin, note: &Note) -> Result<(), HomeError> {
    for prefix in &origin.originals {
        note.leave(from, prefix, &origin.token).await?;
    }
    for prefix in &origin.originals {
        let name = if *prefix == from.prefix { &from.name } else { prefix.as_ref() };
        if leases(&from.beside(name, prefix.clone())).marked().await?.is_some() {
            return Err(HomeError::BeingDeleted { name: name.to_owned() });
        }
    }
    let source = CloneSourceSpec::with_checkpoint(database(from), checkpoint);
    let made = admin(to).create_clone_builder_from_source(source).build().await;
    made.map_err(|e| HomeError::of_database(&to.name, "to make a clone", &e))
}

/// The volumes whose objects a database names.
fn external(manifest: &VersionedManifest) -> impl Iterator<Item = Path> + '_ {
    manifest.external_dbs().iter().filter_map(|db| volume(&db.path))
}

/// The prefix of the volume with this database.
fn volume(database: &str) -> Option<Path> {
    match database.strip_suffix("db")? {
        "" => Some(Path::default()),
        prefix => Path::parse(prefix.strip_suffix('/')?).ok(),
    }
}

fn fresh() -> [u8; 16] {
    use ondol_env::{Env, System};
    System.random_uuid()
}

/// The header of a clone is that of its original until the clone is opened for writing: the UUID is its own, and no
/// local log fits.
pub(super) async fn own(bucket: &Bucket, manifest: &VersionedManifest, header: Header) -> Result<Header, HomeError> {
    if manifest.external_dbs().is_empty() {
        return Ok(header);
    }
    match Origin::read(bucket).await? {
        Some(origin) if header.uuid != *origin.uuid.as_bytes() => {
            Ok(Header { uuid: *origin.uuid.as_bytes(), log: [0; 16], ..header })
        }
        Some(_) => Ok(header),
        None => {
            tracing::warn!("{}: nothing says whose clone it is; it keeps the UUID of its original", bucket.name);
            Ok(header)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bucket;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    #[test]
    fn a_database_lies_in_its_volume() {
        assert_eq!(volume("some/volume/db"), Some(Path::from("some/volume")));
        assert_eq!(volume("db"), Some(Path::default()));
        assert_eq!((volume("some/volume"), volume("some/xdb")), (None, None));
    }

    #[test]
    fn a_clone_lies_beside_its_original() {
        let one = Bucket::new(Arc::new(InMemory::new()), "one", Path::from("a/one"));
        assert!(fit(&one, &one.beside("two", Path::from("a/two"))).is_ok());
        for prefix in ["a/one", "a/one/two", "a"] {
            let e = fit(&one, &one.beside("two", Path::from(prefix))).unwrap_err();
            assert!(matches!(e, HomeError::Inside { .. }), "{prefix}");
        }
        let elsewhere = Bucket::new(Arc::new(InMemory::new()), "two", Path::from("a/two"));
        assert!(matches!(fit(&one, &elsewhere), Err(HomeError::OtherStore { .. })));
    }
}
