//! The newest that this machine has seen of volumes, beside the cache on the local disk.
//!
//! A bucket cannot say that it has lost what it acknowledged last: an older manifest looks like any other. A machine
//! that remembers can. `DIR/seen/UUID` has a volume's newest epoch and batch, as text.

use super::HomeError;
use super::disk::Disk;
use super::record::Header;
use std::fs::{create_dir_all, read_to_string, rename, write};
use std::io::Result;
use std::path::PathBuf;
use uuid::Uuid;

/// The directory of what was seen, if there is a cache to have it beside.
#[derive(Clone, Debug)]
pub(super) struct Seen(PathBuf);

impl Seen {
    pub(super) fn beside(disk: Option<&Disk>) -> Option<Self> {
        Some(Self(disk?.dir.join("seen")))
    }

    /// Refuses a volume of which more was seen than is there now. `batch`: the newest, if it is known.
    pub(super) fn require(
        this: Option<&Self>,
        name: &str,
        header: &Header,
        batch: Option<u64>,
    ) -> std::result::Result<(), HomeError> {
        let Some(seen) = this else { return Ok(()) };
        let Some((epoch, newest)) = seen.read(header.uuid) else { return Ok(()) };
        // The batches of an epoch follow those of all before.
        let (what, found, seen_there) = match batch {
            Some(batch) if batch < newest => ("batch", batch, newest),
            _ if header.epoch < epoch => ("epoch", header.epoch, epoch),
            _ => return Ok(()),
        };
        let file = seen.file(header.uuid).display().to_string();
        Err(HomeError::Older { name: name.to_owned(), what, found, seen: seen_there, file })
    }

    /// Remembers. What fails is lost.
    pub(super) fn note(this: Option<&Self>, uuid: [u8; 16], epoch: u64, batch: u64) {
        let Some(seen) = this else { return };
        if let Err(e) = seen.write(uuid, epoch, batch) {
            tracing::debug!("{} is not written: {e}", seen.file(uuid).display());
        }
    }

    fn file(&self, uuid: [u8; 16]) -> PathBuf {
        self.0.join(Uuid::from_bytes(uuid).to_string())
    }

    fn read(&self, uuid: [u8; 16]) -> Option<(u64, u64)> {
        let text = read_to_string(self.file(uuid)).ok()?;
        let (epoch, batch) = text.trim_end().split_once(' ')?;
        Some((epoch.parse().ok()?, batch.parse().ok()?))
    }

    /// Whole or not at all, for whoever reads it meanwhile.
    fn write(&self, uuid: [u8; 16], epoch: u64, batch: u64) -> Result<()> {
        create_dir_all(&self.0)?;
        let (file, new) = (self.file(uuid), self.0.join(format!("new.{}", std::process::id())));
        write(&new, format!("{epoch} {batch}\n"))?;
        rename(new, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_last_of_each_volume_is_kept_and_noise_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Seen::beside(Some(&Disk { dir: dir.path().into(), bytes: 0 })).unwrap();
        assert_eq!(seen.read([1; 16]), None);
        let note = |n: u8, epoch, batch| Seen::note(Some(&seen), [n; 16], epoch, batch);
        note(1, 1, 10);
        note(2, 5, 50);
        note(1, 2, u64::MAX);
        assert_eq!((seen.read([1; 16]), seen.read([2; 16])), (Some((2, u64::MAX)), Some((5, 50))));
        assert_eq!(std::fs::read_dir(dir.path().join("seen")).unwrap().count(), 2);
        for noise in [&[0xff; 100][..], b"", b"1", b"1 2 3", b"-1 2"] {
            write(seen.file([1; 16]), noise).unwrap();
            assert_eq!(seen.read([1; 16]), None);
        }
    }
}
