//! The newest that this machine has seen of volumes, in a file beside the cache on the local disk.
//!
//! A bucket cannot say that it has lost what it acknowledged last: an older manifest looks like any other. A machine that remembers can. Text: `UUID EPOCH BATCH` in each line behind the
//! first, the latest first. The file is of no use to anybody else, and nothing but this is lost with it.

use super::HomeError;
use super::record::Header;
use crate::Disk;
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{Error, Read, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use uuid::Uuid;

const FIRST: &str = "ondol seen 1";

/// Of so many volumes.
const VOLUMES: usize = 1000;

/// No such file is longer.
const LONGEST: u64 = 1 << 20;

/// What was seen of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    uuid: Uuid,
    epoch: u64,
    batch: u64,
}

/// The file, if there is a cache to have it beside.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    file: PathBuf,
}

impl Seen {
    pub(super) fn beside(disk: Option<&Disk>) -> Option<Self> {
        let mut name: OsString = disk?.file.file_name()?.to_owned();
        name.push(".seen");
        Some(Self { file: disk?.file.with_file_name(name) })
    }

    /// Refuses a volume of which more was seen than is there now. `batch`: the newest, if it is known.
    pub(super) fn require(
        this: Option<&Self>,
        name: &str,
        header: &Header,
        epoch: u64,
        batch: Option<u64>,
    ) -> std::result::Result<(), HomeError> {
        let Some(seen) = this else { return Ok(()) };
        let uuid = Uuid::from_bytes(header.uuid);
        let Some(line) = seen.read().into_iter().find(|line| line.uuid == uuid) else { return Ok(()) };
        // The batches of an epoch follow those of all before.
        if epoch >= line.epoch && batch.is_none_or(|batch| batch >= line.batch) {
            return Ok(());
        }
        let what = match batch {
            Some(batch) if batch < line.batch => ("batch", batch, line.batch),
            _ => ("epoch", epoch, line.epoch),
        };
        let file = seen.file.display().to_string();
        Err(HomeError::Older { name: name.to_owned(), what: what.0, found: what.1, seen: what.2, file })
    }

    /// Remembers. What fails is lost.
    pub(super) fn note(this: Option<&Self>, uuid: [u8; 16], epoch: u64, batch: u64) {
        let Some(seen) = this else { return };
        let line = Line { uuid: Uuid::from_bytes(uuid), epoch, batch };
        let mut lines = vec![line];
        lines.extend(seen.read().into_iter().filter(|other| other.uuid != line.uuid).take(VOLUMES - 1));
        if let Err(e) = seen.write(&lines) {
            tracing::debug!("{} is not written: {e}", seen.file.display());
        }
    }

    fn read(&self) -> Vec<Line> {
        match self.text() {
            Ok(text) => decode(&text),
            Err(e) => {
                tracing::debug!("{} says nothing: {e}", self.file.display());
                vec![]
            }
        }
    }

    fn text(&self) -> Result<String> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&self.file)?;
        if !file.metadata()?.is_file() {
            return Err(Error::other("it is not a regular file"));
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Whole or not at all, for whoever reads it meanwhile.
    fn write(&self, lines: &[Line]) -> Result<()> {
        let new = self.file.with_extension(format!("seen.{}", std::process::id()));
        let mut options = OpenOptions::new();
        let opened: Result<File> = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&new);
        let written = opened.and_then(|mut file| file.write_all(encode(lines).as_bytes()));
        let done = written.and_then(|()| rename(&new, &self.file));
        if done.is_err() {
            // It may not have been made.
            let _ = remove_file(&new);
        }
        done
    }
}

fn encode(lines: &[Line]) -> String {
    let mut text = format!("{FIRST}\n");
    for Line { uuid, epoch, batch } in lines {
        // A string takes everything.
        let _ = writeln!(text, "{uuid} {epoch} {batch}");
    }
    text
}

/// What can be read of it.
fn decode(text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    if lines.next() != Some(FIRST) {
        return vec![];
    }
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (uuid, epoch, batch) = (words.next()?, words.next()?, words.next()?);
        let is_all = words.next().is_none();
        let line = Line { uuid: uuid.parse().ok()?, epoch: epoch.parse().ok()?, batch: batch.parse().ok()? };
        is_all.then_some(line)
    };
    lines.filter_map(line).take(VOLUMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u8) -> Line {
        Line { uuid: Uuid::from_bytes([n; 16]), epoch: n.into(), batch: u64::MAX - u64::from(n) }
    }

    #[test]
    fn lines_come_back_and_others_are_left_out() {
        let lines: Vec<Line> = (0..5).map(line).collect();
        assert_eq!(decode(&encode(&lines)), lines);
        let text = format!(
            "{}x y z\n{} 1\n{} 1 2 3\n{} -1 2\n",
            encode(&lines[..1]),
            line(1).uuid,
            line(2).uuid,
            line(3).uuid
        );
        assert_eq!(decode(&text), lines[..1]);
        assert_eq!((decode(""), decode("something else\n")), (vec![], vec![]));
    }

    #[test]
    fn what_was_seen_last_of_each_volume_is_kept_and_hostile_files_say_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk { file: dir.path().join("cache"), bytes: 0 };
        let seen = Seen::beside(Some(&disk)).unwrap();
        assert_eq!((seen.file.clone(), seen.read()), (dir.path().join("cache.seen"), vec![]));
        let note = |n: u8, epoch, batch| Seen::note(Some(&seen), [n; 16], epoch, batch);
        note(1, 1, 10);
        note(2, 5, 50);
        note(1, 2, 20);
        let found: Vec<_> = seen.read().iter().map(|line| (line.epoch, line.batch)).collect();
        assert_eq!(found, [(2, 20), (5, 50)]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::write(&seen.file, [0xff; 100]).unwrap();
        assert_eq!(seen.read(), []);
        remove_file(&seen.file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &seen.file).unwrap();
        assert_eq!(seen.read(), []);
        assert!(Seen::beside(None).is_none());
    }
}
