//! Bringing what is live of a file into it.
//!
//! A file is as the run left it if it is no shorter than when it became trusted, and its mtime or its ctime is not
//! before the times then and not after the horizon. One is enough: programs set mtimes, and a later chmod(2) or
//! rename(2) by others changes the ctime and no contents. Otherwise its bytes go, at their offsets, into a side file.
//!
//! A truncation that the kernel had begun by the cut it ends with the next mount, which gives the file that mount's
//! time. So a file that has the length of a logged truncation, and one time as mtime and ctime which lies right behind
//! the mount, is as the run left it, too.
//!
//! *Recovering* is published before the first write, and anew by each recovery and after half a minute. Where it was
//! there, a time up to a minute behind it, or two ticks of the kernel's clock before it, is recovery's own. Before it
//! is published again the file durably gets its newest record's time as mtime, so a crash between finds it in the
//! horizon.
//!
//! In the same boot, on the same device number, the page cache has outlived the program: where it agrees, nothing is
//! written. After a refused write-back its pages are dropped first: they are clean, and not on the disk.

use crate::Log;
use crate::error::{Result, RunLogError};
use crate::format::HORIZON_NS;
use crate::look::{self, Look, Times};
use crate::newest::Piece;
use crate::recover::elsewhere::Elsewhere;
use crate::recover::home::Home;
use crate::recover::place::{For, Place, to_write};
use crate::recover::{FoundFile, Outcome};
use crate::slot::Slot;
use rustix::fs::{Advice, Timespec};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How long a recovery may have written to a file before it was cut: nanoseconds.
const RECOVERY_NS: u64 = 60_000_000_000;

/// How far the clock that the kernel sets times by may be behind: nanoseconds, two ticks.
const TICKS_NS: u64 = 20_000_000;

/// How long after its mount the kernel may end truncations: nanoseconds.
const MOUNT_NS: u64 = 2_000_000_000;

/// Bytes of the longest name that a file may have.
const NAME_MAX: usize = 255;

/// How often a side file is made anew: somebody else may make one of its name meanwhile.
const TRIES: u32 = 3;

/// What is to be done with a file that was found.
enum Plan {
    Nothing,
    /// Its records are written; afterwards it has these times, unless its newest record gives it others.
    Write(Option<Times>),
    Beside,
}

/// The word that tells recovery's own writes from those of others, near to the file's mtime at any time.
struct Recovering<'l, 'c> {
    home: &'c dyn Home,
    slot: Slot<'l>,
    file: &'c FoundFile,
    /// What it says.
    begun: Option<u64>,
    /// It is of this recovery.
    ours: bool,
    clock: &'c dyn Fn() -> u64,
}

impl Recovering<'_, '_> {
    /// Before each change of the file.
    fn before_a_write(&mut self, target: &File) -> io::Result<()> {
        let now = (self.clock)();
        if let Some(begun) = self.begun {
            if self.ours && now.abs_diff(begun) <= RECOVERY_NS / 2 {
                return Ok(());
            }
            // What was written by now is ours by its mtime until the word tells it again.
            let ctime = self.file.newest.ctime;
            let mtime = Timespec { tv_sec: (ctime / 1_000_000_000) as i64, tv_nsec: (ctime % 1_000_000_000) as _ };
            let atime = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
            match self.home.set_times(target, Times { atime, mtime }) {
                // It is somebody else's file.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
                set => set?,
            }
            self.home.sync(target)?;
        }
        self.slot.begin_recovery(self.file.incarnation, now).map_err(io::Error::other)?;
        (self.begun, self.ours) = (Some(now), true);
        Ok(())
    }
}

/// Brings what is live into a file, at times that a clock tells: nanoseconds since 1970.
pub(super) fn bring(
    log: &Log,
    elsewhere: &mut Elsewhere<'_>,
    file: &FoundFile,
    same_boot: bool,
    clock: &dyn Fn() -> u64,
) -> Result<Outcome> {
    let Some(identity) = &file.identity else {
        return Ok(Outcome::Unreachable("the slot that names it is damaged".into()));
    };
    let (found, path) = match elsewhere.find(identity, For::Name) {
        Place::Here(found, path) => (found, path),
        Place::Gone => return Ok(Outcome::Gone),
        Place::Unknown(why) | Place::Hidden(why) => return Ok(Outcome::Unreachable(why)),
    };
    // Opening it may change its ctime.
    let files = elsewhere.home();
    let opened = files.look(&found).and_then(|look| Ok((look, to_write(files, &found)?)));
    let (look, target) = match opened {
        Ok(opened) => opened,
        Err(e) => return Ok(Outcome::Unreachable(format!("{}: {e}", identity.path.display()))),
    };
    let pieces = file.pieces();
    let slot = log.slot(file.slot);
    let begun = slot.recovering(file.incarnation)?;
    let mut recovering = Recovering { home: files, slot, file, begun, ours: false, clock };
    let mut home = |times| {
        let to = To { home: files, target: &target, times };
        write_after(&to, file, &pieces, || recovering.before_a_write(&target)).map(Outcome::Replayed)
    };
    let refused = slot.has_failed()?;
    // Where the page cache outlived the programs it may have everything.
    let same_cache = same_boot && look.dev == file.dev;
    let whole = if same_cache { has(&target, file, &pieces) } else { Ok(false) };
    let planned = whole.and_then(|whole| match whole {
        true => Ok(Plan::Nothing),
        false => plan(&look, file, same_cache, begun, || files.times(&target)),
    });
    let done = match planned {
        // The page cache has what the disk has refused, as if it were there.
        Ok(Plan::Nothing) if refused => forget(&target, &pieces).and_then(|()| home(None)),
        Ok(Plan::Write(times)) if refused => forget(&target, &pieces).and_then(|()| home(times)),
        Ok(Plan::Nothing) => files.sync(&target).map(|()| Outcome::Whole),
        Ok(Plan::Write(times)) => home(times),
        // Its times are somebody else's by now.
        Ok(Plan::Beside) if file.records.is_empty() => Ok(Outcome::Whole),
        Ok(Plan::Beside) => {
            let there = elsewhere.directory(identity, path);
            there.and_then(|(dir, path)| beside(files, &dir, &path, file, &log.mark()))
        }
        Err(e) => Err(e),
    };
    match done.map_err(io::Error::downcast::<RunLogError>) {
        Ok(outcome) => Ok(outcome),
        Err(Ok(log)) => Err(log),
        Err(Err(e)) => Ok(Outcome::Unreachable(format!("{}: {e}", identity.path.display()))),
    }
}

/// What is to be done with a file that looked like this before it was opened.
fn plan(
    now: &Look,
    file: &FoundFile,
    same_cache: bool,
    begun: Option<u64>,
    times: impl FnOnce() -> io::Result<Times>,
) -> io::Result<Plan> {
    let newest = &file.newest;
    let horizon = newest.ctime.saturating_add(if same_cache { 0 } else { HORIZON_NS });
    // The word has milliseconds. What others had written before it was published was no reason to begin.
    let written = |begun: u64| begun.saturating_sub(TICKS_NS)..=begun.saturating_add(RECOVERY_NS);
    let cut = now.mtime == now.ctime && file.is_cut_to(now.size);
    let mounted = if cut { look::mounted(now.dev) } else { None };
    let ended = |mounted: u64| mounted.saturating_sub(TICKS_NS)..=mounted.saturating_add(MOUNT_NS);
    let is_ours = |time: u64| {
        (newest.base_time..=horizon).contains(&time)
            || begun.is_some_and(|begun| written(begun).contains(&time))
            || mounted.is_some_and(|mounted| ended(mounted).contains(&time))
    };
    // Either time is enough: a program may set the mtime, and what leaves the contents as they are changes the ctime
    // alone.
    let ours = now.size >= newest.base_size && (is_ours(now.mtime) || is_ours(now.ctime));
    if !ours {
        return Ok(Plan::Beside);
    }
    // The mtime was set after all records.
    let set = if is_ours(now.mtime) { None } else { Some(times()?) };
    Ok(Plan::Write(set))
}

/// As much of a name as fits into so many bytes, without half of a character at its end.
fn fitting(name: &[u8], room: usize) -> &[u8] {
    let Some(short) = name.get(..room) else { return name };
    match std::str::from_utf8(short) {
        Err(e) if e.error_len().is_none() => short.get(..e.valid_up_to()).unwrap_or(short),
        _ => short,
    }
}

/// Writes what was logged of a file into one beside it, whose name has the log's mark: recovery of another pool never
/// writes to it, one that is repeated does.
pub(super) fn beside(home: &dyn Home, dir: &File, path: &Path, file: &FoundFile, mark: &str) -> io::Result<Outcome> {
    let suffix = format!("{mark}-{}", file.slot);
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = [fitting(name, NAME_MAX.saturating_sub(suffix.len())), suffix.as_bytes()].concat();
    write(home, &made_anew(home, dir, &name)?, file)?;
    home.sync(dir)?;
    Ok(Outcome::Beside(path.with_file_name(OsStr::from_bytes(&name))))
}

/// Makes a file for its owner alone, in place of what a recovery has left that was cut.
fn made_anew(home: &dyn Home, dir: &File, name: &[u8]) -> io::Result<File> {
    for _ in 0..TRIES {
        match home.create(dir, name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => home.unlink(dir, name)?,
            made => return made,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn part<'f>(file: &'f FoundFile, piece: &Piece) -> &'f [u8] {
    file.records.get(piece.record).and_then(|record| record.bytes.get(piece.part.clone())).unwrap_or_default()
}

/// The file has everything that was logged.
pub(super) fn has(target: &File, file: &FoundFile, pieces: &[Piece]) -> io::Result<bool> {
    if let Some((_, len)) = file.lengths()
        && target.metadata()?.len() != len
    {
        return Ok(false);
    }
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

/// Lets the page cache forget what the disk has refused: ext4 takes blocks whose first write has failed for written
/// ones as long as it has the pages, and what is written once more would read as zeros later.
fn forget(target: &File, pieces: &[Piece]) -> io::Result<()> {
    let page = rustix::param::page_size() as u64;
    for piece in pieces {
        let (start, end) = (piece.offset / page * page, piece.offset + piece.part.len() as u64);
        let len = NonZeroU64::new(end.next_multiple_of(page) - start);
        rustix::fs::fadvise(target, start, len, Advice::DontNeed)?;
    }
    Ok(())
}

/// Writes what was logged into the file, and syncs it; answers how many bytes.
pub(crate) fn write(home: &dyn Home, target: &File, file: &FoundFile) -> io::Result<u64> {
    write_after(&To { home, target, times: None }, file, &file.pieces(), || Ok(()))
}

/// A file that is written to.
struct To<'t> {
    home: &'t dyn Home,
    target: &'t File,
    /// Its times afterwards, unless its newest record gives it others.
    times: Option<Times>,
}

/// As [`write`], with something before each change of the file.
fn write_after(
    to: &To<'_>,
    file: &FoundFile,
    pieces: &[Piece],
    mut before: impl FnMut() -> io::Result<()>,
) -> io::Result<u64> {
    let To { home, target, times } = *to;
    let mut written = 0;
    if let Some((shortest, _)) = file.lengths()
        && target.metadata()?.len() > shortest
    {
        before()?;
        home.set_len(target, shortest)?;
    }
    for piece in pieces {
        before()?;
        home.write(target, part(file, piece), piece.offset)?;
        written += piece.part.len() as u64;
    }
    if let Some((_, len)) = file.lengths() {
        before()?;
        home.set_len(target, len)?;
    }
    if let Some(times) = file.newest.times.or(times) {
        before()?;
        match home.set_times(target, times) {
            // It is somebody else's file.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            given => given?,
        }
    }
    home.sync(target)?;
    Ok(written)
}
