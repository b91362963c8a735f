//! Where a volume's objects are: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `file:///DIR`.

mod open;
mod profile;

use crate::meter::{Counts, Meter};
use crate::{Depth, Requests, Wire};
use object_store::ObjectStore;
use object_store::path::Path;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Which kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Amazon S3, and what speaks its language.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// A directory of this machine.
    Directory,
}

/// A place, as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    name: String,
    kind: Kind,
    /// Bucket, container or directory.
    root: String,
    prefix: Path,
    snapshot: Option<String>,
}

/// A place whose store is at hand. It says how it is named and nothing else: stores know credentials.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) name: String,
    pub(crate) prefix: Path,
    pub(crate) depth: Depth,
    counts: Arc<Counts>,
    /// What is below the counting, and how it is called if two stores of this name are the same.
    below: Arc<dyn ObjectStore>,
    whole: Option<String>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Bucket {
    /// The objects of `store` below `prefix`, which the user named `name`.
    pub fn new(store: Arc<dyn ObjectStore>, name: &str, prefix: Path) -> Self {
        Self::watched(store, name, prefix, None)
    }

    /// The same of a store whose client lets `wire` see its answers.
    pub(crate) fn watched(store: Arc<dyn ObjectStore>, name: &str, prefix: Path, wire: Option<Wire>) -> Self {
        let counts = Arc::new(Counts::new(wire));
        let below = store.clone();
        let store = Arc::new(Meter::new(store, counts.clone()));
        Self { store, name: name.to_owned(), prefix, depth: Depth::Short, counts, below, whole: None }
    }

    /// The store is the same as any other of this name.
    pub(crate) fn named(self, whole: String) -> Self {
        Self { whole: Some(whole), ..self }
    }

    /// Another place in the same store, which the user named `name`. What is asked of both is counted together.
    #[must_use]
    pub fn beside(&self, name: &str, prefix: Path) -> Self {
        Self { name: name.to_owned(), prefix, ..self.clone() }
    }

    /// The same place, whose store is asked through another one.
    pub(crate) fn through(&self, store: Arc<dyn ObjectStore>) -> Self {
        Self { store, ..self.clone() }
    }

    /// Whether both are in one store.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.below, &other.below) || self.whole.is_some() && self.whole == other.whole
    }

    /// What was asked of the store through this and its clones.
    pub fn requests(&self) -> Requests {
        self.counts.requests()
    }

    /// How the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has the store probed more or less when a volume there is opened for writing.
    #[must_use]
    pub fn probed(self, depth: Depth) -> Self {
        Self { depth, ..self }
    }
}

/// Why a place is none, or cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It names no bucket.
    #[error("{name} names no {what}")]
    NoRoot {
        /// As the user named it.
        name: String,
        /// Bucket, container or directory.
        what: &'static str,
    },
    /// It has no prefix.
    #[error("{name} names no prefix: a volume does not take a whole bucket")]
    NoPrefix {
        /// As the user named it.
        name: String,
    },
    /// A part of it cannot be the name of an object.
    #[error("{name} cannot be part of the names of objects: {why}")]
    Prefix {
        /// As the user named it.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A user or password in it. The name is not repeated: messages are kept in logs.
    #[error(
        "a place in object storage may not have a user or password in its name: they would be seen in logs and lists \
         of processes"
    )]
    Secret,
    /// What is behind the question mark is not known.
    #[error("{name}: {parameter} is not known; only snapshot=NAME may stand behind the question mark")]
    Parameter {
        /// As the user named it.
        name: String,
        /// What stands there.
        parameter: String,
    },
    /// Only absolute directories are places.
    #[error("{name}: the directory must be absolute, as in file:///DIR")]
    Relative {
        /// As the user named it.
        name: String,
    },
    /// The directory is not there or cannot be made.
    #[error("cannot {what} the directory of {name}: {source}")]
    Directory {
        /// What was tried.
        what: &'static str,
        /// As the user named it.
        name: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Region, endpoint or credentials of the environment are of no use.
    #[error("the environment says not enough to reach {name}: {source}")]
    Environment {
        /// As the user named it.
        name: String,
        /// What is missing.
        source: object_store::Error,
    },
    /// The profile is not there or has no keys.
    #[error("profile {profile}: {why}")]
    Profile {
        /// Its name.
        profile: String,
        /// What is wrong.
        why: &'static str,
    },
}

const SCHEMES: [(&str, Kind); 4] =
    [("s3://", Kind::S3), ("gs://", Kind::Gcs), ("az://", Kind::Azure), ("file://", Kind::Directory)];

impl Place {
    /// Whether `target` is named like a place in object storage, well or badly.
    pub fn is_named(target: &str) -> bool {
        SCHEMES.iter().any(|(scheme, _)| target.starts_with(scheme))
    }

    /// Reads a name; none if it is not that of a place in object storage.
    ///
    /// # Errors
    /// It begins like one and is none.
    pub fn parse(target: &str) -> Option<Result<Self, PlaceError>> {
        let (scheme, kind) = SCHEMES.iter().find(|(scheme, _)| target.starts_with(scheme))?;
        Some(Self::of(target, *kind, &target[scheme.len()..]))
    }

    fn of(target: &str, kind: Kind, rest: &str) -> Result<Self, PlaceError> {
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(PlaceError::Secret);
        }
        let name = target.to_owned();
        let snapshot = match query.map(|query| query.split_once('=')) {
            None => None,
            Some(Some(("snapshot", snapshot))) if !snapshot.is_empty() => Some(snapshot.to_owned()),
            // What stands there is not repeated: it may be a signature.
            Some(found) => {
                let parameter = found.map_or("what stands there", |(key, _)| key).to_owned();
                let name = target.split('?').next().unwrap_or_default().to_owned();
                return Err(PlaceError::Parameter { name, parameter });
            }
        };
        let (root, prefix) = match kind {
            Kind::Directory if rest.starts_with('/') => (rest, ""),
            Kind::Directory => return Err(PlaceError::Relative { name }),
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        let what = match kind {
            Kind::Directory => "directory",
            Kind::Azure => "container",
            Kind::S3 | Kind::Gcs => "bucket",
        };
        if root.trim_matches('/').is_empty() {
            return Err(PlaceError::NoRoot { name, what });
        }
        let prefix = match Path::parse(prefix) {
            Ok(prefix) if prefix.as_ref().is_empty() && kind != Kind::Directory => {
                return Err(PlaceError::NoPrefix { name });
            }
            Ok(prefix) => prefix,
            Err(e) => return Err(PlaceError::Prefix { name, why: e.to_string() }),
        };
        Ok(Self { name, kind, root: root.to_owned(), prefix, snapshot })
    }

    /// As the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which kind of store it is in.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The snapshot that is meant, if one is.
    pub fn snapshot(&self) -> Option<&str> {
        self.snapshot.as_deref()
    }

    /// The directory, if it is one.
    pub fn directory(&self) -> Option<PathBuf> {
        (self.kind == Kind::Directory).then(|| PathBuf::from(&self.root))
    }
}

#[cfg(test)]
mod tests;
