//! What is live in a log after a crash, and bringing it into the files.

use crate::client::wall_ns;
use crate::error::Result;
use crate::format::{HORIZON_NS, SKIP};
use crate::handle::Handle;
use crate::look::{Identity, Look};
use crate::newest::{Piece, newest};
use crate::{Log, LogOptions};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A write that was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the order of all writes.
    pub sequence: u64,
    /// Where in the file.
    pub offset: u64,
    /// What was written.
    pub bytes: Vec<u8>,
    /// mtime of the file after it: nanoseconds.
    pub mtime: u64,
    /// mtime of the file when it became trusted.
    pub base_mtime: u64,
    /// Its size then.
    pub base_size: u64,
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
    /// By sequence.
    pub records: Vec<Record>,
}

/// What is live in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files with live records.
    pub files: Vec<FoundFile>,
}

impl Found {
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
    let mut files: BTreeMap<(u32, u64), Vec<Record>> = BTreeMap::new();
    for lane in log.lanes() {
        let mut at = lane.head()?;
        while let Some((head, bytes, behind)) = lane.record(at)? {
            at = behind;
            let index = head.slot.get();
            if index == SKIP || index >= log.header.slots {
                continue;
            }
            files.entry((index, head.incarnation.get().into())).or_default().push(Record {
                sequence: head.sequence.get(),
                offset: head.offset.get(),
                bytes,
                mtime: head.mtime.get(),
                base_mtime: head.base_mtime.get(),
                base_size: head.base_size.get(),
            });
        }
    }
    let mut found = Found::default();
    for ((index, incarnation), mut records) in files {
        let slot = log.slot(index);
        let named = slot.identity()?;
        if named.as_ref().is_some_and(|(now, ..)| *now != incarnation) {
            // The slot was given to another file, which it is only when nothing of this one is live.
            continue;
        }
        let retired = match slot.retired(incarnation) {
            Ok(retired) => retired,
            // A slot that was being named anew has the word of the file before, all of whose records are retired.
            Err(_) if named.is_none() => continue,
            Err(e) => return Err(e),
        };
        records.retain(|record| record.sequence > retired);
        records.sort_unstable_by_key(|record| record.sequence);
        if !records.is_empty() {
            let (identity, dev) = named.map_or((None, 0), |(_, dev, identity)| (Some(identity), dev));
            found.files.push(FoundFile { slot: index, incarnation, identity, dev, records });
        }
    }
    Ok(found)
}

impl Log {
    /// Gives up what is live of a file that a simulator has brought home.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn retire(&self, file: &FoundFile) -> Result<()> {
        let last = file.records.last().map_or(0, |record| record.sequence);
        self.slot(file.slot).retire(file.incarnation, last)
    }
}

/// Gives up what is live, of all files.
///
/// # Errors
/// A damaged word, or the medium's failure.
pub fn give_up(log: &Log) -> Result<()> {
    found(log)?.files.iter().try_for_each(|file| log.retire(file))
}

/// Brings what is live into the files, syncs them, and retires it. May be repeated; nobody else uses the log.
///
/// # Errors
/// A damaged word, or the medium's failure. What fails with one file is its [`Outcome`].
pub fn recover(log: &Log) -> Result<Recovered> {
    let same_boot = log.machine().boot == LogOptions::here().boot;
    let mut recovered = Recovered::default();
    for file in found(log)?.files {
        let path = file.identity.as_ref().map_or_else(PathBuf::new, |identity| identity.path.clone());
        let outcome = match &file.identity {
            None => Outcome::Unreachable("the slot that names it is damaged".into()),
            Some(identity) => bring(log, identity, &file, same_boot)?,
        };
        if !matches!(outcome, Outcome::Unreachable(_)) {
            log.retire(&file)?;
        }
        recovered.files.push((path, outcome));
    }
    Ok(recovered)
}

/// Where a file is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Open, and under this path if it has one that is known.
    Here(File, Option<PathBuf>),
    /// Its file system says that it is no more.
    Gone,
    /// Nobody knows.
    Unknown(String),
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// To be synced. For writing it could not be run as a program meanwhile.
    Sync,
    /// To be written to.
    Write,
}

/// Opens what lies at a path, if it is the file.
fn at_path(identity: &Identity, path: &Path, purpose: For) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(purpose == For::Write).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = Identity::of(file.as_fd(), identity.path.clone());
    Ok(Some(file).filter(|_| found.as_ref() == Some(identity)))
}

/// Looks for a file under another name in its directory: for those who may not open handles.
fn renamed(identity: &Identity, purpose: For) -> Option<(File, PathBuf)> {
    use std::os::unix::fs::DirEntryExt;
    let entries = std::fs::read_dir(identity.path.parent()?).ok()?.flatten();
    let mut paths = entries.filter(|entry| entry.ino() == identity.ino).map(|entry| entry.path());
    paths.find_map(|path| at_path(identity, &path, purpose).ok().flatten().map(|file| (file, path)))
}

/// Finds a file by its path, if that leads to it, else by its handle, else by its inode in its directory.
pub(crate) fn find(identity: &Identity, purpose: For) -> Place {
    let by_path = at_path(identity, &identity.path, purpose);
    let refused = by_path.as_ref().err().map(io::Error::to_string);
    if let Ok(Some(file)) = by_path {
        return Place::Here(file, Some(identity.path.clone()));
    }
    let why = |what: &str| Place::Unknown(format!("{what}; it lay at {}", identity.path.display()));
    let points = mount_points();
    let mounted = |point: &&PathBuf| rustix::fs::statvfs(point.as_path()).is_ok_and(|fs| fs.f_fsid == identity.fsid);
    let Some(point) = points.iter().find(mounted) else { return why("its file system is not mounted") };
    let opened = File::open(point).and_then(|mount| identity.handle.open(mount.as_fd(), purpose == For::Write));
    match opened {
        Ok(file) if Handle::of(file.as_fd()).is_ok_and(|handle| handle == identity.handle) => {
            let path = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).ok();
            Place::Here(file, path)
        }
        Ok(_) => Place::Gone,
        Err(e) if e.raw_os_error() == Some(Errno::STALE.raw_os_error()) => Place::Gone,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => match (renamed(identity, purpose), refused) {
            (Some((file, path)), _) => Place::Here(file, Some(path)),
            (None, Some(refused)) => {
                why(&format!("it is not at its path ({refused}), and only root may look for it elsewhere"))
            }
            (None, None) => why("another file is at its path, and only root may look for it elsewhere"),
        },
        Err(e) => why(&e.to_string()),
    }
}

/// A directory on the file's file system, as near to it as there is one.
pub(crate) fn beside_it(identity: &Identity) -> Option<File> {
    let on_it = |dir: &&Path| rustix::fs::statvfs(*dir).is_ok_and(|fs| fs.f_fsid == identity.fsid);
    identity.path.ancestors().skip(1).filter(on_it).find_map(|dir| File::open(dir).ok())
}

/// What is mounted where, by mountinfo's escapes.
fn mount_points() -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let unescape = |word: &[u8]| {
        let (mut out, mut rest) = (Vec::new(), word);
        while let Some((first, behind)) = rest.split_first() {
            let octal = rest.get(1..4).filter(|_| *first == b'\\').and_then(|d| std::str::from_utf8(d).ok());
            match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(byte) => (out, rest) = ([out, vec![byte]].concat(), rest.get(4..).unwrap_or_default()),
                None => (out, rest) = ([out, vec![*first]].concat(), behind),
            }
        }
        PathBuf::from(OsString::from_vec(out))
    };
    text.split(|b| *b == b'\n').filter_map(|line| line.split(|b| *b == b' ').nth(4)).map(unescape).collect()
}

/// How long a recovery may have written to a file before it was cut: nanoseconds.
const RECOVERY_NS: u64 = 60_000_000_000;

/// What is to be done with a file that was found.
enum Plan {
    Nothing,
    Write,
    Beside,
}

fn bring(log: &Log, identity: &Identity, file: &FoundFile, same_boot: bool) -> Result<Outcome> {
    let (target, path) = match find(identity, For::Write) {
        Place::Here(target, path) => (target, path),
        Place::Gone => return Ok(Outcome::Gone),
        Place::Unknown(why) => return Ok(Outcome::Unreachable(why)),
    };
    let pieces = newest(&file.records.iter().map(|r| (r.offset, r.bytes.len())).collect::<Vec<_>>());
    let slot = log.slot(file.slot);
    let begun = slot.recovering(file.incarnation)?;
    let done = match plan(&target, file, &pieces, same_boot, begun) {
        Ok(Plan::Nothing) => target.sync_all().map(|()| Outcome::Whole),
        Ok(Plan::Write) => {
            if begun.is_none() {
                slot.begin_recovery(file.incarnation, wall_ns())?;
            }
            write(&target, file, &pieces).map(Outcome::Replayed)
        }
        Ok(Plan::Beside) => beside(&path.unwrap_or_else(|| identity.path.clone()), file, &pieces, log.epoch()),
        Err(e) => Err(e),
    };
    Ok(done.unwrap_or_else(|e| Outcome::Unreachable(format!("{}: {e}", identity.path.display()))))
}

fn plan(target: &File, file: &FoundFile, pieces: &[Piece], same_boot: bool, begun: Option<u64>) -> io::Result<Plan> {
    let now = Look::at(target.as_fd())?;
    let same_cache = same_boot && now.dev == file.dev;
    if same_cache && has(target, file, pieces)? {
        return Ok(Plan::Nothing);
    }
    let Some(last) = file.records.last() else { return Ok(Plan::Nothing) };
    let horizon = last.mtime.saturating_add(if same_cache { 0 } else { HORIZON_NS });
    // The word has milliseconds.
    let by_recovery = begun.is_some_and(|begun| (begun..=begun.saturating_add(RECOVERY_NS)).contains(&now.mtime));
    let ours = now.size >= last.base_size && ((last.base_mtime..=horizon).contains(&now.mtime) || by_recovery);
    Ok(if ours { Plan::Write } else { Plan::Beside })
}

fn beside(path: &Path, file: &FoundFile, pieces: &[Piece], epoch: u64) -> io::Result<Outcome> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".ondol-{epoch}-{}", file.slot));
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    write(&options.open(&beside)?, file, pieces)?;
    if let Some(dir) = beside.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(Outcome::Beside(beside))
}

fn part<'f>(file: &'f FoundFile, piece: &Piece) -> &'f [u8] {
    file.records.get(piece.record).and_then(|record| record.bytes.get(piece.part.clone())).unwrap_or_default()
}

/// The file has everything that was logged.
fn has(target: &File, file: &FoundFile, pieces: &[Piece]) -> io::Result<bool> {
    for piece in pieces {
        let mut bytes = vec![0; piece.part.len()];
        match target.read_exact_at(&mut bytes, piece.offset) {
            Ok(()) if bytes == part(file, piece) => {}
            Ok(()) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

fn write(target: &File, file: &FoundFile, pieces: &[Piece]) -> io::Result<u64> {
    let mut written = 0;
    for piece in pieces {
        target.write_all_at(part(file, piece), piece.offset)?;
        written += piece.part.len() as u64;
    }
    target.sync_all()?;
    Ok(written)
}
