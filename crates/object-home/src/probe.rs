//! Asks a store, before anything is believed, whether it keeps the conditions that it is given.
//!
//! What keeps two writers apart is *create if absent* ([`PutMode::Create`]). A store that ignores it acknowledges
//! writes of a writer that another one has fenced, and they are lost. What a store merely cannot do is told apart from
//! what it pretends to do.

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, UpdateVersion};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// So many at once in a race.
const RACERS: usize = 16;

/// So many races of each kind: a store that errs in one of them by luck does so in another.
const RACES: usize = 4;

/// So often a probe begins anew, when the store gives no answer.
const ATTEMPTS: u32 = 6;

/// Between the first two attempts; then twice as long each time.
const PAUSE: Duration = Duration::from_millis(50);

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Conditions, one request after the other.
    Short,
    /// Races, lists and deletes, too.
    Whole,
}

/// What a store that keeps its conditions can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// It can update an object if that is unchanged.
    pub updates: bool,
}

/// What a store does that no volume can live with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// What was acknowledged is not there.
    Lost,
    /// It has no creates that need the object to be absent.
    CreateMissing,
    /// An object was created that existed.
    CreateIgnored,
    /// It said that the object existed, and overwrote it.
    CreateOverwrote,
    /// A version was updated that the object no longer had.
    UpdateIgnored,
    /// It said that the object had another version, and overwrote it.
    UpdateOverwrote,
    /// The version that the object has was refused.
    UpdateRefused,
    /// So many of those who created one object at once were told that they had.
    SeveralCreated(usize),
    /// Nobody creates an object when several try at once.
    NobodyCreated,
    /// So many of those who updated one version at once were told that they had.
    SeveralUpdated(usize),
    /// An object is not in the list.
    Unlisted,
    /// An object is there after it was deleted.
    Undeleted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Lost => "does not return what it has acknowledged",
            Self::CreateMissing => "has no condition \"create if absent\"",
            Self::CreateIgnored => "ignores the condition \"create if absent\"",
            Self::CreateOverwrote => "overwrites an object, and says that it exists",
            Self::UpdateIgnored => "ignores the condition \"update if unchanged\"",
            Self::UpdateOverwrote => "overwrites an object, and says that it was changed",
            Self::UpdateRefused => "does not update an object that is unchanged",
            Self::SeveralCreated(n) => return write!(f, "lets {n} of {RACERS} create the same object at once"),
            Self::NobodyCreated => "lets nobody create an object when several try at once",
            Self::SeveralUpdated(n) => return write!(f, "lets {n} of {RACERS} update the same version at once"),
            Self::Unlisted => "does not list an object that was created",
            Self::Undeleted => "returns an object that was deleted",
        };
        f.write_str(text)
    }
}

/// Why a store is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// It has given a wrong answer.
    #[error("{name} {why}: no volume can be kept there safely")]
    Refused {
        /// The store, as the user named it.
        name: String,
        /// What it did.
        why: Refusal,
    },
    /// It has given none.
    #[error("{name} does not answer what is asked before a volume is kept there: {source}")]
    NoAnswer {
        /// The store, as the user named it.
        name: String,
        /// What it answered instead.
        source: Error,
    },
}

/// Asks `store`, which the user named `name`, with objects below `under`, where nobody else has any. What is left of
/// them when this returns is of no use to anybody; a store that answers has none left. It asks again by itself, so the
/// store needs no retries of its own. To be called in a runtime with a clock, as [`crate::Border`] has it.
///
/// # Errors
/// The store is not fit for volumes, or gives no answer.
pub async fn probe(store: Arc<dyn ObjectStore>, name: &str, under: Path, depth: Depth) -> Result<Probed, ProbeError> {
    let mut pause = PAUSE;
    let mut attempt = 0;
    loop {
        let asker = Asker { store: &store, under: under.clone().join(format!("{attempt}")) };
        let found = asker.ask(depth).await;
        asker.clean().await;
        attempt += 1;
        match found {
            Ok(probed) => return Ok(probed),
            Err(Fault::Refused(why)) => return Err(ProbeError::Refused { name: name.to_owned(), why }),
            Err(Fault::Silent(source)) if attempt == ATTEMPTS || is_final(&source) => {
                return Err(ProbeError::NoAnswer { name: name.to_owned(), source });
            }
            Err(Fault::Silent(e)) => tracing::debug!("{name}: probed again: {e}"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// Whether the answer is the same as long as nobody gives other credentials.
fn is_final(e: &Error) -> bool {
    matches!(e, Error::Unauthenticated { .. } | Error::PermissionDenied { .. })
}

/// Why an attempt ended.
enum Fault {
    Refused(Refusal),
    /// An answer that says neither: whatever was asked may have been done or not.
    Silent(Error),
}

impl From<Refusal> for Fault {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

/// What came of a put with a condition.
enum Answer {
    Done(PutResult),
    /// The condition does not hold.
    Held,
    /// The store has no such condition.
    Unable,
    Silent(Error),
}

/// One attempt.
struct Asker<'a> {
    store: &'a Arc<dyn ObjectStore>,
    under: Path,
}

impl Asker<'_> {
    async fn ask(&self, depth: Depth) -> Result<Probed, Fault> {
        let probed = self.conditions().await?;
        if depth == Depth::Short {
            return Ok(probed);
        }
        for race in 0..RACES {
            self.race_of_creates(&format!("created-{race}")).await?;
            if probed.updates {
                self.race_of_updates(&format!("updated-{race}")).await?;
            }
        }
        self.list().await?;
        self.delete().await?;
        Ok(probed)
    }

    /// Two creates, and two updates of the version that the first one made.
    async fn conditions(&self) -> Result<Probed, Fault> {
        let first = match self.put(ONE, "first", PutMode::Create).await {
            Answer::Done(done) => UpdateVersion::from(done),
            // Nobody else has objects here. An answer that was lost and a request that was repeated look the same.
            Answer::Held => return Err(Fault::Silent(unexpected("a new object exists"))),
            Answer::Unable => return Err(Refusal::CreateMissing.into()),
            Answer::Silent(e) => return Err(Fault::Silent(e)),
        };
        self.expect(ONE, "first", Refusal::Lost).await?;
        match self.put(ONE, "second", PutMode::Create).await {
            Answer::Held => self.expect(ONE, "first", Refusal::CreateOverwrote).await?,
            Answer::Silent(e) => return Err(Fault::Silent(e)),
            Answer::Done(_) => return Err(Refusal::CreateIgnored.into()),
            Answer::Unable => return Err(Refusal::CreateMissing.into()),
        }
        match self.put(ONE, "third", PutMode::Update(first.clone())).await {
            Answer::Done(_) => self.expect(ONE, "third", Refusal::Lost).await?,
            Answer::Held => match self.get(ONE).await? {
                // It was made, its answer was lost, and somebody below repeated it.
                Some(bytes) if *bytes == *b"third" => {
                    return Err(Fault::Silent(unexpected("an update is refused that was made")));
                }
                _ => return Err(Refusal::UpdateRefused.into()),
            },
            Answer::Unable => return Ok(Probed { updates: false }),
            Answer::Silent(e) => return Err(Fault::Silent(e)),
        }
        match self.put(ONE, "fourth", PutMode::Update(first)).await {
            Answer::Held => self.expect(ONE, "third", Refusal::UpdateOverwrote).await?,
            Answer::Silent(e) => return Err(Fault::Silent(e)),
            Answer::Done(_) | Answer::Unable => return Err(Refusal::UpdateIgnored.into()),
        }
        Ok(Probed { updates: true })
    }

    async fn race_of_creates(&self, object: &str) -> Result<(), Fault> {
        let (winners, silent) = self.race(object, &PutMode::Create).await;
        match (&winners[..], silent) {
            ([_, _, ..], _) => Err(Refusal::SeveralCreated(winners.len()).into()),
            (_, Some(e)) => Err(Fault::Silent(e)),
            ([winner], None) => self.expect(object, winner, Refusal::Lost).await,
            ([], None) => match self.get(object).await? {
                // Each may have met another one that was under way.
                None => self.nobody(object).await,
                // The winner's answer was lost, and somebody below repeated its create.
                Some(_) => Err(Fault::Silent(unexpected("an object is there that nobody created"))),
            },
        }
    }

    /// After a race that had no winner: one of the next ones must have one.
    async fn nobody(&self, object: &str) -> Result<(), Fault> {
        for again in 1..=RACES {
            let object = format!("{object}-{again}");
            let (winners, silent) = self.race(&object, &PutMode::Create).await;
            match (&winners[..], silent) {
                ([_, _, ..], _) => return Err(Refusal::SeveralCreated(winners.len()).into()),
                (_, Some(e)) => return Err(Fault::Silent(e)),
                ([winner], None) => return self.expect(&object, winner, Refusal::Lost).await,
                ([], None) => {}
            }
        }
        Err(Refusal::NobodyCreated.into())
    }

    async fn race_of_updates(&self, object: &str) -> Result<(), Fault> {
        let version = match self.put(object, "first", PutMode::Create).await {
            Answer::Done(done) => UpdateVersion::from(done),
            Answer::Silent(e) => return Err(Fault::Silent(e)),
            Answer::Held => return Err(Fault::Silent(unexpected("a new object exists"))),
            Answer::Unable => return Err(Fault::Silent(unexpected(AT_TIMES))),
        };
        let (winners, silent) = self.race(object, &PutMode::Update(version)).await;
        match (&winners[..], silent) {
            ([_, _, ..], _) => Err(Refusal::SeveralUpdated(winners.len()).into()),
            (_, Some(e)) => Err(Fault::Silent(e)),
            ([winner], None) => self.expect(object, winner, Refusal::Lost).await,
            ([], None) => match self.get(object).await? {
                Some(bytes) if *bytes == *b"first" => Ok(()),
                // As with creates.
                Some(_) => Err(Fault::Silent(unexpected("an object has changed that nobody updated"))),
                None => Err(Refusal::Lost.into()),
            },
        }
    }

    /// Many put to `object` at once, under the same condition, each bytes of its own: those of the winners, and an
    /// answer that says nothing, if there was one.
    async fn race(&self, object: &str, mode: &PutMode) -> (Vec<String>, Option<Error>) {
        let racers: Vec<String> = (0..RACERS).map(|n| format!("of racer {n}")).collect();
        let answers = join_all(racers.iter().map(|bytes| self.put(object, bytes, mode.clone()))).await;
        let (mut winners, mut silent) = (Vec::new(), None);
        for (racer, answer) in racers.into_iter().zip(answers) {
            match answer {
                Answer::Done(_) => winners.push(racer),
                Answer::Held => {}
                Answer::Unable => silent = Some(unexpected(AT_TIMES)),
                Answer::Silent(e) => silent = Some(e),
            }
        }
        (winners, silent)
    }

    async fn list(&self) -> Result<(), Fault> {
        let listed = self.listed().await?;
        let is_there = listed.iter().any(|path| *path == self.path(ONE));
        if is_there { Ok(()) } else { Err(Refusal::Unlisted.into()) }
    }

    async fn delete(&self) -> Result<(), Fault> {
        self.store.delete(&self.path(ONE)).await.map_err(Fault::Silent)?;
        if self.get(ONE).await?.is_some() {
            return Err(Refusal::Undeleted.into());
        }
        Ok(())
    }

    /// `object` must hold `bytes`, or the store is refused for `why`.
    async fn expect(&self, object: &str, bytes: &str, why: Refusal) -> Result<(), Fault> {
        match self.get(object).await? {
            Some(found) if *found == *bytes.as_bytes() => Ok(()),
            Some(_) => Err(why.into()),
            None => Err(Refusal::Lost.into()),
        }
    }

    async fn get(&self, object: &str) -> Result<Option<Bytes>, Fault> {
        let got = match self.store.get(&self.path(object)).await {
            Ok(got) => got.bytes().await,
            Err(e) => Err(e),
        };
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(Fault::Silent(e)),
        }
    }

    async fn put(&self, object: &str, bytes: &str, mode: PutMode) -> Answer {
        let (path, bytes) = (self.path(object), bytes.to_owned());
        match self.store.put_opts(&path, bytes.into(), PutOptions::from(mode)).await {
            Ok(done) => Answer::Done(done),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Answer::Held,
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => Answer::Unable,
            Err(e) => Answer::Silent(e),
        }
    }

    async fn listed(&self) -> Result<Vec<Path>, Fault> {
        let objects = self.store.list(Some(&self.under)).map_ok(|meta| meta.location);
        objects.try_collect().await.map_err(Fault::Silent)
    }

    /// Deletes what this attempt has made. What cannot be deleted stays.
    async fn clean(&self) {
        let objects = match self.listed().await {
            Ok(objects) => objects,
            Err(Fault::Silent(e)) => return tracing::debug!("objects of the probe stay below {}: {e}", self.under),
            Err(Fault::Refused(_)) => return,
        };
        // Nothing is believed yet, a list least of all.
        for object in objects.into_iter().filter(|object| object.prefix_matches(&self.under)) {
            if let Err(e) = self.store.delete(&object).await {
                tracing::debug!("{object} stays: {e}");
            }
        }
    }

    fn path(&self, object: &str) -> Path {
        self.under.clone().join(object)
    }
}

/// A store that has a condition for one request and none for the next.
const AT_TIMES: &str = "it knows the condition only at times";

/// The object to which requests are made one after the other.
const ONE: &str = "one";

fn unexpected(what: &'static str) -> Error {
    Error::Generic { store: "probe", source: what.into() }
}
