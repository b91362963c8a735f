//! Snapshots: checkpoints of the database with a name and without an end.

use super::open::{admin, border};
use super::{Home, HomeError, Opening, bounded, settle};
use crate::Bucket;
use slatedb::config::{CheckpointOptions, CheckpointScope};
use std::time::Duration;

/// With what the names of our checkpoints begin: readers and clones have checkpoints, too.
const PREFIX: &str = "snapshot/";

/// The most bytes of a name.
const NAME: usize = 255;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970 by the clock of the machine that made it.
    pub made: i64,
}

impl Home {
    /// Makes a snapshot of what was written, submitted and discarded before. It is durable when this returns, and so is
    /// all of that.
    ///
    /// # Errors
    /// There is one of this name, or it is none; the volume is open for reading; the store fails, or somebody else has
    /// taken over.
    pub fn snapshot(&self, snapshot: &str) -> Result<(), HomeError> {
        let writer = self.writer()?;
        check(snapshot)?;
        let mut order = writer.order.lock();
        writer.put_loose(&mut order)?;
        let number = order.number;
        writer.settle_to(number)?;
        let (db, bucket, snapshot) = (writer.db.clone(), self.bucket.clone(), snapshot.to_owned());
        let made = self.wait("making a snapshot", async move {
            let name = bucket.name.clone();
            if all(&bucket).await?.iter().any(|(found, _)| found.name == snapshot) {
                return Err(HomeError::SnapshotExists { name, snapshot });
            }
            let options =
                CheckpointOptions { name: Some(format!("{PREFIX}{snapshot}")), ..CheckpointOptions::default() };
            let made = db.create_checkpoint(CheckpointScope::All, &options).await;
            made.map_err(|e| settle::fault_of(&db, &name, "to make a snapshot", &e))?;
            Ok(())
        });
        // Held so that nothing comes between what is durable and the snapshot.
        drop(order);
        made.map_err(|e| writer.explained(e))
    }
}

impl Snapshot {
    /// Makes a snapshot of a volume that nobody writes to: it is opened for a moment, so that what a crash has left is
    /// part of it.
    ///
    /// # Errors
    /// As [`Home::open`] and [`Home::snapshot`].
    pub fn make(bucket: &Bucket, snapshot: &str, opening: &Opening) -> Result<(), HomeError> {
        check(snapshot)?;
        let opening = Opening { purpose: format!("making the snapshot {snapshot}"), ..opening.clone() };
        let home = Home::open(bucket, &opening)?;
        let made = home.snapshot(snapshot);
        made.and(home.close())
    }

    /// The snapshots of a volume, oldest first. Needs no lease.
    ///
    /// # Errors
    /// There is no volume; the store fails or does not let us.
    pub fn list(bucket: &Bucket, timeout: Option<Duration>) -> Result<Vec<Self>, HomeError> {
        let b = bucket.clone();
        let work = async move { Ok(all(&b).await?.into_iter().map(|(snapshot, _)| snapshot).collect()) };
        border(bucket)?.wait(bounded(bucket.name.clone(), "listing snapshots", timeout, work))
    }

    /// Deletes a snapshot. Needs no lease: whoever writes goes on. What only the snapshot needed is collected later, by
    /// the writer.
    ///
    /// # Errors
    /// There is none of this name; the store fails or does not let us.
    pub fn delete(bucket: &Bucket, snapshot: &str, timeout: Option<Duration>) -> Result<(), HomeError> {
        let (b, snapshot) = (bucket.clone(), snapshot.to_owned());
        let work = async move {
            let id = find(&b, &snapshot).await?;
            let deleted = admin(&b).delete_checkpoint(id).await;
            deleted.map_err(|e| HomeError::of_database(&b.name, "to delete a snapshot", &e))
        };
        border(bucket)?.wait(bounded(bucket.name.clone(), "deleting a snapshot", timeout, work))
    }
}

/// The checkpoint of a snapshot.
pub(super) async fn find(bucket: &Bucket, snapshot: &str) -> Result<uuid::Uuid, HomeError> {
    let found = all(bucket).await?.into_iter().find(|(found, _)| found.name == snapshot);
    let missing = || HomeError::SnapshotMissing { name: bucket.name.clone(), snapshot: snapshot.to_owned() };
    found.map(|(_, id)| id).ok_or_else(missing)
}

async fn all(bucket: &Bucket) -> Result<Vec<(Snapshot, uuid::Uuid)>, HomeError> {
    let admin = admin(bucket);
    let fault = |e| HomeError::of_database(&bucket.name, "to list snapshots", &e);
    if admin.read_manifest(None).await.map_err(fault)?.is_none() {
        return Err(HomeError::Missing { name: bucket.name.clone() });
    }
    let mut found: Vec<(Snapshot, uuid::Uuid)> = vec![];
    for checkpoint in admin.list_checkpoints(None).await.map_err(fault)? {
        if let Some(name) = checkpoint.name.as_deref().and_then(|name| name.strip_prefix(PREFIX)) {
            let snapshot = Snapshot { name: name.to_owned(), made: checkpoint.create_time.timestamp() };
            found.push((snapshot, checkpoint.id));
        }
    }
    found.sort_by(|(a, _), (b, _)| (a.made, &a.name).cmp(&(b.made, &b.name)));
    Ok(found)
}

/// Names stand in places, behind a question mark, and in lists.
fn check(snapshot: &str) -> Result<(), HomeError> {
    let why = if snapshot.is_empty() {
        "it is empty"
    } else if snapshot.len() > NAME {
        "it has more than 255 bytes"
    } else if snapshot.contains(|c: char| c.is_control() || c.is_whitespace() || "/?#&=%".contains(c)) {
        "it has a space, a control character or one of /?#&=%"
    } else {
        return Ok(());
    };
    Err(HomeError::SnapshotName { snapshot: snapshot.to_owned(), why })
}
