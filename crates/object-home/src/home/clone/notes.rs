//! What a clone and its original know of each other, as text: a key and a value in each line.

use super::super::HomeError;
use crate::Bucket;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode, PutOptions};
use std::fmt::Write;
use uuid::Uuid;

const NOTE: &str = "ondol clone 1";
const ORIGIN: &str = "ondol origin 1";

/// No volume shares objects with so many others.
const MANY: usize = 10_000;

/// What an original knows of a clone: `clones/TOKEN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// As the user named it.
    pub(super) name: String,
    pub(super) prefix: Path,
}

/// What a clone knows of its originals: `origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The UUID that the clone is to have.
    pub(super) uuid: Uuid,
    /// The name of its notes.
    pub(super) token: String,
    /// The volumes whose objects it named when it was made.
    pub(super) originals: Vec<Path>,
}

impl Note {
    fn encode(&self) -> String {
        format!("{NOTE}\nname {}\nprefix {}\n", self.name.replace(char::is_control, "?"), self.prefix)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        if lines.next()? != NOTE {
            return None;
        }
        let name = lines.next()?.strip_prefix("name ")?;
        if name.contains(char::is_control) {
            return None;
        }
        let prefix = Path::parse(lines.next()?.strip_prefix("prefix ")?).ok()?;
        Some(Self { name: name.to_owned(), prefix })
    }

    /// Where it is at the original with this prefix.
    pub(super) fn place(original: &Path, token: &str) -> Path {
        original.clone().join("clones").join(token)
    }

    pub(super) async fn leave(&self, bucket: &Bucket, original: &Path, token: &str) -> Result<(), HomeError> {
        let put = bucket.store.put(&Self::place(original, token), self.encode().into()).await;
        put.map(drop).map_err(|e| HomeError::of_store(&bucket.name, "to note a clone", &e))
    }
}

impl Origin {
    fn encode(&self) -> String {
        let mut text = format!("{ORIGIN}\nuuid {}\ntoken {}\n", self.uuid, self.token);
        for original in &self.originals {
            // A string takes everything.
            let _ = writeln!(text, "of {original}");
        }
        text
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        if lines.next()? != ORIGIN {
            return None;
        }
        let uuid = lines.next()?.strip_prefix("uuid ")?.parse().ok()?;
        let token = lines.next()?.strip_prefix("token ")?;
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let originals = lines.map(|line| Path::parse(line.strip_prefix("of ")?).ok());
        let originals = originals.take(MANY).collect::<Option<Vec<_>>>()?;
        Some(Self { uuid, token: token.to_owned(), originals })
    }

    pub(super) fn place(bucket: &Bucket) -> Path {
        bucket.prefix.clone().join("origin")
    }

    /// Whose clone is at this place, if one is.
    pub(super) async fn read(bucket: &Bucket) -> Result<Option<Self>, HomeError> {
        let Some(bytes) = read(bucket, &Self::place(bucket)).await? else { return Ok(None) };
        let damaged = || HomeError::Damaged {
            name: bucket.name.clone(),
            what: "what says whose clone it is cannot be read".into(),
        };
        Self::decode(&bytes).map(Some).ok_or_else(damaged)
    }

    /// Says so where nobody else does.
    pub(super) async fn create(&self, bucket: &Bucket) -> Result<(), HomeError> {
        let options = PutOptions::from(PutMode::Create);
        match bucket.store.put_opts(&Self::place(bucket), self.encode().into(), options).await {
            Ok(_) => Ok(()),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                Err(HomeError::HalfMade { name: bucket.name.clone() })
            }
            Err(e) => Err(HomeError::of_store(&bucket.name, "to begin a clone", &e)),
        }
    }
}

/// What an object holds, if it is there.
pub(super) async fn read(bucket: &Bucket, path: &Path) -> Result<Option<Bytes>, HomeError> {
    let got = async { bucket.store.get(path).await?.bytes().await };
    match got.await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(HomeError::of_store(&bucket.name, "to read whose clone it is", &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were() {
        let note = Note { name: "s3://bucket/a two".into(), prefix: Path::from("a two") };
        assert_eq!(Note::decode(note.encode().as_bytes()), Some(note.clone()));
        let odd = Note { name: "a\nprefix b".into(), ..note };
        assert_eq!(Note::decode(odd.encode().as_bytes()).unwrap().name, "a?prefix b");
        let originals = vec![Path::from("a/b"), Path::default()];
        let origin = Origin { uuid: Uuid::from_bytes([7; 16]), token: "0a".into(), originals };
        assert_eq!(Origin::decode(origin.encode().as_bytes()), Some(origin));
    }

    #[test]
    fn other_text_is_no_note() {
        for text in ["", "ondol clone 1", "ondol clone 1\nname a\n", "ondol clone 2\nname a\nprefix b\n"] {
            assert_eq!(Note::decode(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Note::decode(b"ondol clone 1\nname a\x1b[2J\nprefix b\n"), None);
        assert_eq!(Note::decode(b"ondol clone 1\nname a\nprefix ../b\n"), None);
        let head = format!("ondol origin 1\nuuid {}\n", Uuid::from_bytes([7; 16]));
        assert!(Origin::decode(format!("{head}token 0a\n").as_bytes()).is_some());
        // A token is part of a name that is deleted.
        for rest in ["token \n", "token ../x\n", "token 0a\nof ../x\n", "token 0a\nelse\n"] {
            assert_eq!(Origin::decode(format!("{head}{rest}").as_bytes()), None, "{rest:?}");
        }
        assert_eq!(Origin::decode(&[0xff; 40]), None);
    }
}
