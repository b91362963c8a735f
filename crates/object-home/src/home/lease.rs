//! Who writes to a volume says so, and others keep away while it does.
//!
//! This is politeness: it is the database's fence that keeps two writers apart. A lease is an object `lease/NUMBER`,
//! created if absent. The highest number counts. It is renewed by creating the next one, so whoever finds that number
//! taken was taken over. Age is judged by the store's clock alone.
//!
//! The object is text, a key and a value in each line; what has another first line is a lease of somebody who cannot be
//! named.

use super::HomeError;
use super::holder::Holder;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const FIRST: &str = "ondol lease 1";

/// An object among the leases, where whoever opens the volume finds it without a request of its own.
const DELETING: &str = "deleting";

/// What it holds once there is no way back.
const BEGUN: &str = "begun";

/// How far somebody is who wants to delete a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is looked at who needs the volume. Whoever does that has the lease: if that runs out, nothing was done.
    Asked,
    /// There is no way back.
    Begun,
}

/// Objects that are older are of no use to anybody, in lengths of a lease.
const OLD: u32 = 60;

/// So often a request is made before its error counts.
const ATTEMPTS: u32 = 8;
/// After the first attempt; then twice as long each time.
const PAUSE: Duration = Duration::from_millis(20);

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) holder: Holder,
    /// Another one for each opening.
    pub(super) token: String,
    pub(super) length: Duration,
    /// It was given back.
    pub(super) returned: bool,
}

/// Where leases of a volume are.
#[derive(Clone)]
pub(super) struct Leases {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) dir: Path,
    pub(super) name: String,
}

/// A lease that somebody has or had.
struct Found {
    number: u64,
    lease: Option<Lease>,
    meta: ObjectMeta,
}

impl Found {
    fn by(&self) -> String {
        self.lease
            .as_ref()
            .map_or_else(|| "somebody whose lease cannot be read".to_owned(), |lease| lease.holder.to_string())
    }
}

impl Lease {
    pub(super) fn encode(&self) -> String {
        // A value is one line, whatever is in it.
        let line = |text: &str| text.replace(char::is_control, "?");
        let Holder { machine, boot, space, process, start, user, purpose } = &self.holder;
        format!(
            "{FIRST}\ntoken {}\nlength {}\nreturned {}\nmachine {}\nboot {}\nspace {}\nprocess {process} {start}\n\
             user {user}\npurpose {}\n",
            line(&self.token),
            self.length.as_secs_f64(),
            self.returned,
            line(machine),
            line(boot),
            line(space),
            line(purpose)
        )
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        if lines.next()? != FIRST {
            return None;
        }
        let mut take = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let token = take("token")?.to_owned();
        let length = Duration::try_from_secs_f64(take("length")?.parse().ok()?).ok()?;
        let returned = take("returned")?.parse().ok()?;
        let (machine, boot, space) = (take("machine")?.into(), take("boot")?.into(), take("space")?.into());
        let (process, start) = take("process")?.split_once(' ')?;
        let (process, start) = (process.parse().ok()?, start.parse().ok()?);
        let user = take("user")?.parse().ok()?;
        let purpose = take("purpose")?.to_owned();
        Some(Self { holder: Holder { machine, boot, space, process, start, user, purpose }, token, length, returned })
    }
}

impl Leases {
    /// Takes the lease: its number. Whoever has it loses it if `take_over`, and is in the way otherwise.
    pub(super) async fn take(&self, lease: &Lease, take_over: bool) -> Result<u64, HomeError> {
        loop {
            let (found, is_marked) = self.newest().await?;
            if let Some(found) = &found {
                self.may_replace(found, take_over).await?;
            }
            let next = found.map_or(1, |found| found.number + 1);
            match self.create(next, lease).await? {
                Ok(number) if is_marked => return self.unmark().await.map(|()| number),
                Ok(number) => return Ok(number),
                // Somebody else came first: it is for that one that the question is asked again.
                Err(_) => continue,
            }
        }
    }

    async fn may_replace(&self, found: &Found, take_over: bool) -> Result<(), HomeError> {
        let name = self.name.clone();
        let Some(lease) = &found.lease else {
            let (age, length) = (self.age(&found.meta).await?, DEFAULT_LENGTH);
            return self.judge(found, age, length, take_over);
        };
        if lease.returned {
            return Ok(());
        }
        if lease.holder.is_gone() {
            tracing::info!("{name}: {} is gone without closing", lease.holder);
            return Ok(());
        }
        let age = self.age(&found.meta).await?;
        self.judge(found, age, lease.length, take_over)
    }

    fn judge(&self, found: &Found, age: Duration, length: Duration, take_over: bool) -> Result<(), HomeError> {
        let (name, by) = (self.name.clone(), found.by());
        if age >= length {
            tracing::warn!("{name}: {by} has not been heard of for {} seconds; its lease has run out", age.as_secs());
        } else if take_over {
            tracing::warn!("{name}: taken over from {by}");
        } else {
            return Err(HomeError::Held { name, by, age: age.as_secs(), length: length.as_secs() });
        }
        Ok(())
    }

    /// Creates lease `number`, or a later one if an earlier attempt to do so was done after all. The inner error says
    /// who has that number.
    pub(super) async fn create(&self, mut number: u64, lease: &Lease) -> Result<Result<u64, String>, HomeError> {
        loop {
            let (path, text) = (self.path(number), lease.encode());
            let options = PutOptions::from(PutMode::Create);
            let put = again(|| self.store.put_opts(&path, text.clone().into(), options.clone())).await;
            match put {
                Ok(_) => return Ok(Ok(number)),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                Err(e) => return Err(self.fault("to take the lease", &e)),
            }
            match self.read(number).await? {
                Some(Some(other)) if other == *lease => return Ok(Ok(number)),
                Some(Some(other)) if other.token == lease.token => number += 1,
                Some(other) => return Ok(Err(other.map_or_else(String::new, |other| other.holder.to_string()))),
                // Deleted since.
                None => number += 1,
            }
        }
    }

    /// Who holds the newest lease, if it is not `token`'s.
    pub(super) async fn other_than(&self, token: &str) -> Result<Option<String>, HomeError> {
        let (found, _) = self.newest().await?;
        Ok(found.filter(|found| found.lease.as_ref().is_none_or(|lease| lease.token != token)).map(|found| found.by()))
    }

    /// Deletes what is old, but never the newest.
    pub(super) async fn sweep(&self, length: Duration) -> Result<(), HomeError> {
        let mut all = self.all().await?;
        all.sort_by_key(|(number, _)| *number);
        let Some((_, newest)) = all.pop() else { return Ok(()) };
        for (number, meta) in all {
            if between(&meta, &newest) >= length * OLD {
                let path = self.path(number);
                match again(|| self.store.delete(&path)).await {
                    Ok(()) | Err(Error::NotFound { .. }) => {}
                    Err(e) => return Err(self.fault("to delete an old lease", &e)),
                }
            }
        }
        Ok(())
    }

    /// The bucket is there and lets itself be listed, and nobody has begun to delete the volume.
    pub(super) async fn is_reached(&self) -> Result<(), HomeError> {
        match self.marked().await? {
            Some(Mark::Begun) => Err(HomeError::BeingDeleted { name: self.name.clone() }),
            Some(Mark::Asked) | None => Ok(()),
        }
    }

    /// How far somebody is who wants to delete the volume.
    pub(super) async fn marked(&self) -> Result<Option<Mark>, HomeError> {
        if !is_marked(&self.listed().await?) {
            return Ok(None);
        }
        let path = self.mark_path();
        match again(|| async { self.store.get(&path).await?.bytes().await }).await {
            Ok(bytes) if bytes == BEGUN => Ok(Some(Mark::Begun)),
            Ok(_) => Ok(Some(Mark::Asked)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.fault("to see whether it is being deleted", &e)),
        }
    }

    /// Says that the volume is to be deleted.
    pub(super) async fn mark(&self, mark: Mark) -> Result<ObjectMeta, HomeError> {
        let (path, text) = (self.mark_path(), if mark == Mark::Begun { BEGUN } else { "" });
        let fault = |e: Error| self.fault("to begin deleting", &e);
        again(|| self.store.put(&path, text.into())).await.map_err(fault)?;
        again(|| self.store.head(&path)).await.map_err(fault)
    }

    /// It is not to be deleted, unless that was begun.
    async fn unmark(&self) -> Result<(), HomeError> {
        if self.marked().await? != Some(Mark::Asked) {
            return Ok(());
        }
        tracing::info!("{}: whoever wanted to delete it has not begun", self.name);
        let path = self.mark_path();
        match again(|| self.store.delete(&path)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.fault("to go on with what was to be deleted", &e)),
        }
    }

    fn mark_path(&self) -> Path {
        self.dir.clone().join(DELETING)
    }

    /// The newest lease, and whether somebody wants or wanted to delete the volume.
    async fn newest(&self) -> Result<(Option<Found>, bool), HomeError> {
        loop {
            let listed = self.listed().await?;
            let is_marked = is_marked(&listed);
            let Some((number, meta)) = numbered(listed).max_by_key(|(number, _)| *number) else {
                return Ok((None, is_marked));
            };
            // It is only deleted when there is a newer one.
            if let Some(lease) = self.read(number).await? {
                return Ok((Some(Found { number, lease, meta }), is_marked));
            }
        }
    }

    async fn all(&self) -> Result<Vec<(u64, ObjectMeta)>, HomeError> {
        Ok(numbered(self.listed().await?).collect())
    }

    async fn listed(&self) -> Result<Vec<ObjectMeta>, HomeError> {
        let listed = again(|| self.store.list(Some(&self.dir)).try_collect::<Vec<_>>()).await;
        match listed {
            Ok(listed) => Ok(listed),
            Err(e @ Error::NotFound { .. }) => Err(HomeError::NoBucket { name: self.name.clone(), why: e.to_string() }),
            Err(e) => Err(self.fault("to list leases", &e)),
        }
    }

    /// Lease `number`: none if there is none, and none of it if it cannot be read.
    async fn read(&self, number: u64) -> Result<Option<Option<Lease>>, HomeError> {
        let path = self.path(number);
        let got: Result<Bytes, Error> = again(|| async { self.store.get(&path).await?.bytes().await }).await;
        match got {
            Ok(bytes) => Ok(Some(Lease::decode(&bytes))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.fault("to read the lease", &e)),
        }
    }

    /// How old an object is, by the store's clock: it stamps another one.
    async fn age(&self, meta: &ObjectMeta) -> Result<Duration, HomeError> {
        let path = self.dir.clone().join(format!("clock-{}", super::token()));
        let fault = |e: Error| self.fault("to ask the store for the time", &e);
        again(|| self.store.put(&path, "".into())).await.map_err(fault)?;
        let now = again(|| self.store.head(&path)).await.map_err(fault)?;
        if let Err(e) = again(|| self.store.delete(&path)).await {
            tracing::debug!("{path} stays: {e}");
        }
        Ok(between(meta, &now))
    }

    fn path(&self, number: u64) -> Path {
        self.dir.clone().join(format!("{number:020}"))
    }

    fn fault(&self, what: &'static str, e: &Error) -> HomeError {
        HomeError::of_store(&self.name, what, e)
    }
}

/// For how long a lease is good if it does not say so, and if nobody wants it otherwise.
pub(super) const DEFAULT_LENGTH: Duration = Duration::from_secs(60);

fn is_marked(listed: &[ObjectMeta]) -> bool {
    listed.iter().any(|meta| meta.location.filename() == Some(DELETING))
}

fn numbered(listed: Vec<ObjectMeta>) -> impl Iterator<Item = (u64, ObjectMeta)> {
    let number = |meta: &ObjectMeta| meta.location.filename()?.parse().ok();
    listed.into_iter().filter_map(move |meta| Some((number(&meta)?, meta)))
}

/// How much later the second object was last put.
fn between(earlier: &ObjectMeta, later: &ObjectMeta) -> Duration {
    (later.last_modified - earlier.last_modified).to_std().unwrap_or_default()
}

/// Makes a request, and again if its answer may be another one next time.
async fn again<T, F: Future<Output = Result<T, Error>>>(mut request: impl FnMut() -> F) -> Result<T, Error> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match request().await {
            Err(Error::Generic { .. }) => {}
            answered => return answered,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    request().await
}

#[cfg(test)]
mod tests;
