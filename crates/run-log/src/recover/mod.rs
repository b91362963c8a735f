//! What is live in a log after a crash, and bringing it into the files.

pub(crate) mod bring;
mod elsewhere;
mod home;
mod kept;
mod names;
mod place;
#[cfg(test)]
mod tests;
mod together;

use crate::error::{Result, RunLogError};
use crate::format::{RawTimes, RecordHead, SKIP, SlotKey};
use crate::look::{FileKind, Identity, Times};
use crate::name_record::NameRecord;
use crate::newest::{Piece, newest};
use crate::{Log, LogOptions};
use elsewhere::Elsewhere;
pub use home::{Home, Listed, Lookup, Mounted};
pub use kept::{Kept, Touched, touched};
pub use place::Tree;
pub(crate) use place::{For, Place, Trees};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zerocopy::FromBytes;

/// A write that was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the order of all writes.
    pub sequence: u64,
    /// Where in the file.
    pub offset: u64,
    /// What was written; nothing: the file was cut, or extended, to end here.
    pub bytes: Vec<u8>,
}

/// The newest live record of a file, of any kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    /// Its place in the order of all changes.
    pub sequence: u64,
    /// ctime of the file after it: nanoseconds.
    pub ctime: u64,
    /// The earlier of the file's mtime and ctime when it became trusted.
    base_time: u64,
    /// Its size then.
    base_size: u64,
    /// The times that it gives the file, if it is such a record.
    times: Option<Times>,
}

/// A file with live records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    slot: u32,
    incarnation: u64,
    /// What it is known by; none if that is damaged.
    pub identity: Option<Identity>,
    /// Its device number when the records were made.
    pub dev: u64,
    /// A real sync has retired some of what was logged: the rest does not make the file.
    in_part: bool,
    /// Writes and truncations, by sequence.
    pub records: Vec<Record>,
    /// The newest record.
    pub newest: Newest,
}

impl FoundFile {
    /// The newest bytes of it.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        newest(&self.records.iter().map(|r| (r.offset, r.bytes.len())).collect::<Vec<_>>())
    }

    /// The shortest that it ever was, as far as truncations were logged, and its length at the end.
    fn lengths(&self) -> Option<(u64, u64)> {
        let mut lengths = None;
        for record in &self.records {
            let end = record.offset + record.bytes.len() as u64;
            lengths = match (lengths, record.bytes.is_empty()) {
                (None, true) => Some((end, end)),
                (Some((shortest, _)), true) => Some((end.min(shortest), end)),
                (lengths, false) => lengths.map(|(shortest, len)| (shortest, end.max(len))),
            };
        }
        lengths
    }

    /// A truncation to this length is logged.
    fn is_cut_to(&self, len: u64) -> bool {
        self.records.iter().any(|record| record.bytes.is_empty() && record.offset == len)
    }
}

/// A directory with live records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDir {
    slot: u32,
    incarnation: u64,
    /// What it is known by.
    pub identity: Identity,
    /// Its device number when the records were made.
    pub dev: u64,
    /// By sequence.
    pub records: Vec<NameRecord>,
}

/// What is live in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files with live records.
    pub files: Vec<FoundFile>,
    /// Directories with live records.
    pub dirs: Vec<FoundDir>,
}

impl Found {
    /// Nothing is live.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.dirs.is_empty()
    }

    /// Bytes in live records.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.records).map(|record| record.bytes.len() as u64).sum()
    }
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many bytes were written, and synced.
    Replayed(u64),
    /// The kernel had not kept it: it was made again, with so many bytes.
    Made(u64),
    /// So many names in this directory were given or taken.
    Named(u64),
    /// Somebody else has changed this directory: so many of its changes of names were left.
    Changed(u64),
    /// It had everything, and was synced.
    Whole,
    /// It was removed.
    Gone,
    /// Somebody else has changed it: what was logged is in this file beside it.
    Beside(PathBuf),
    /// It cannot be reached, and why: the records stay.
    Unreachable(String),
}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Each file, by the path that was known, and what became of it.
    pub files: Vec<(PathBuf, Outcome)>,
}

impl Recovered {
    /// Nothing is left in the log.
    pub fn is_complete(&self) -> bool {
        self.files.iter().all(|(_, outcome)| !matches!(outcome, Outcome::Unreachable(_)))
    }
}

/// What is live in a log that nobody else uses. Changes nothing.
///
/// # Errors
/// A damaged word, or the medium's failure.
pub fn found(log: &Log) -> Result<Found> {
    let mut slots: BTreeMap<SlotKey, Vec<Raw>> = BTreeMap::new();
    for lane in log.lanes() {
        let mut at = lane.head().stored()?.value;
        while let Some((head, bytes, behind)) = lane.record(at)? {
            at = behind;
            if head.slot.get() == SKIP {
                continue;
            }
            for (n, key) in head.slots().enumerate().filter(|(_, key)| key.index < log.header.slots) {
                slots.entry(key).or_default().push(Raw { head, bytes: bytes.clone(), left: n > 0 });
            }
        }
    }
    let mut found = Found::default();
    for (SlotKey { index: slot, incarnation }, mut records) in slots {
        let named = log.slot(slot).identity()?;
        if named.as_ref().is_some_and(|(now, ..)| *now != incarnation) {
            // The slot was given to another file, which it is only when nothing of this one is live.
            continue;
        }
        let retired = match log.slot(slot).retired(incarnation).stored() {
            Ok(retired) => retired.value,
            // A slot that was being named anew has the word of the file before, all of whose records are retired.
            Err(_) if named.is_none() => continue,
            Err(e) => return Err(e),
        };
        records.retain(|raw| raw.head.sequence.get() > retired);
        records.sort_unstable_by_key(|raw| raw.head.sequence.get());
        if records.is_empty() {
            continue;
        }
        let senseless =
            |path: &Path| RunLogError::Names { pool: log.nvm.name().into(), directory: path.display().to_string() };
        match named {
            Some((_, dev, identity)) if identity.kind == FileKind::Directory => {
                let records = records.iter().map(Raw::names).collect::<Option<_>>();
                let records = records.ok_or_else(|| senseless(&identity.path))?;
                found.dirs.push(FoundDir { slot, incarnation, identity, dev, records });
            }
            // Only directories are moved from and to.
            Some((_, _, identity)) if records.iter().any(|raw| raw.head.slots().count() > 1) => {
                return Err(senseless(&identity.path));
            }
            named => {
                let (identity, dev) = named.map_or((None, 0), |(_, dev, identity)| (Some(identity), dev));
                let newest = records.last().map(Raw::newest).unwrap_or_default();
                let records = records.into_iter().filter_map(Raw::of_a_file).collect();
                found.files.push(FoundFile { slot, incarnation, identity, dev, in_part: retired > 0, records, newest });
            }
        }
    }
    Ok(found)
}

/// A record as it lies in a lane, for one of its slots.
struct Raw {
    head: RecordHead,
    bytes: Vec<u8>,
    /// For the directory that a file has left.
    left: bool,
}

impl Raw {
    fn names(&self) -> Option<NameRecord> {
        let ctime = if self.left { self.head.base_time } else { self.head.ctime };
        NameRecord::decode(self.head.sequence.get(), ctime.get(), &self.bytes, self.left)
    }

    fn newest(&self) -> Newest {
        let Self { head, bytes, .. } = self;
        let times = if self.head.gives_times() { RawTimes::read_from_bytes(bytes).ok() } else { None };
        Newest {
            sequence: head.sequence.get(),
            ctime: head.ctime.get(),
            base_time: head.base_time.get(),
            base_size: head.base_size.get(),
            times: times.map(Times::from),
        }
    }

    /// A write or a truncation.
    fn of_a_file(self) -> Option<Record> {
        let Self { head, bytes, .. } = self;
        let record = Record { sequence: head.sequence.get(), offset: head.offset.get(), bytes };
        (!head.gives_times()).then_some(record)
    }
}

impl Log {
    /// Gives up what is live of a file that a simulator has brought home.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn retire(&self, file: &FoundFile) -> Result<()> {
        self.slot(file.slot).retire(file.incarnation, file.newest.sequence)
    }

    /// Gives up what is live of a directory that a simulator has brought home.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn retire_dir(&self, dir: &FoundDir) -> Result<()> {
        let last = dir.records.last().map_or(0, |record| record.sequence);
        self.slot(dir.slot).retire(dir.incarnation, last)
    }
}

/// Gives up what is live, of all files.
///
/// # Errors
/// A damaged word, or the medium's failure.
pub fn give_up(log: &Log) -> Result<()> {
    let Found { files, dirs } = found(log)?;
    dirs.iter().try_for_each(|dir| log.retire_dir(dir))?;
    files.iter().try_for_each(|file| log.retire(file))
}

/// Brings what is live into the directories and files, syncs them, and retires it. May be repeated; nobody else uses
/// the log.
///
/// # Errors
/// A damaged word, or the medium's failure. What fails with one file is its [`Outcome`].
pub fn recover(log: &Log) -> Result<Recovered> {
    recover_to(log, &Mounted)
}

/// As [`recover`], into the files of a simulator.
///
/// # Errors
/// As [`recover`].
pub fn recover_to(log: &Log, home: &dyn Home) -> Result<Recovered> {
    let same_boot = log.machine().boot == LogOptions::here().boot;
    // Each directory with records is open for a while.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
    let Found { mut files, dirs } = found(log)?;
    let mut recovered = Recovered::default();
    let named = |dir: &FoundDir| {
        let (fsid, inodes) = (dir.identity.fsid, dir.records.iter().map(|record| record.ino));
        inodes.chain([dir.identity.ino]).map(|ino| (fsid, ino)).collect::<Vec<_>>()
    };
    // Of all directories before anything is changed in one.
    let mut elsewhere = Elsewhere::new(home, dirs.iter().flat_map(named));
    let mut plans = Vec::new();
    for dir in &dirs {
        plans.push((dir, names::plan(log, &mut elsewhere, dir, same_boot)?));
    }
    for group in names::groups(plans) {
        let slots: Vec<&FoundDir> = group.iter().map(|(dir, _)| *dir).collect();
        let (told, done) = names::bring(log, &mut elsewhere, group, &mut files)?;
        if !told.iter().any(|(_, outcome)| matches!(outcome, Outcome::Unreachable(_))) {
            // Their files first: it is known still that they stand there.
            done.iter().try_for_each(|file| log.retire(file))?;
            slots.into_iter().try_for_each(|dir| log.retire_dir(dir))?;
        }
        recovered.files.extend(told);
    }
    let known = files.iter().filter_map(|file| file.identity.as_ref()).map(|known| (known.fsid, known.ino));
    let mut elsewhere = Elsewhere::new(home, known);
    for file in files {
        let path = file.identity.as_ref().map_or_else(PathBuf::new, |identity| identity.path.clone());
        let outcome = bring::bring(log, &mut elsewhere, &file, same_boot, &|| home.now_ns())?;
        if !matches!(outcome, Outcome::Unreachable(_)) {
            log.retire(&file)?;
        }
        recovered.files.push((path, outcome));
    }
    if recovered.is_complete() {
        log.go_on()?;
    }
    Ok(recovered)
}
