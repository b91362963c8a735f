//! `ondol run`: programs on the file systems that they have, whose synchronous writes end in a pool.
//!
//! [`start`] opens a pool, or makes it, brings home what an earlier run left in it, and answers a [`Run`]: what syncs
//! the files for real, step by step, while programs with the preloaded library work. [`recover`] does the bringing home
//! alone. `docs/design/run.md` says how.

use crate::machine::{pools, rights};
use crate::pool;
use crate::{Error, Remedy, Result};
use ondol_env::{Env, System};
use ondol_medium::{Access, AreaKind, Nvm, NvmError, NvmOptions, Pool, Whose, inspect};
use ondol_run_log::{Drain, Log, LogOptions, RunLogError, found, is_ext4, multigrain};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

pub use ondol_run_log::{Drained, Outcome, Recovered};

/// A pool that programs may use.
#[derive(Debug)]
pub struct Start {
    /// What syncs for real.
    pub run: Run,
    /// What an earlier run had left; none if others use the pool now.
    pub recovered: Option<Recovered>,
    /// Which crashes the pool survives.
    pub survives: &'static str,
    /// What an fsync takes there is that of a disk.
    pub on_disk: bool,
}

/// How often, and after what time each, a pool is tried to be opened that somebody else has to himself: five seconds
/// together.
const TRIES: u32 = 250;
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// A run: syncs files of programs for real, and gives the room of their writes back.
#[derive(Debug)]
pub struct Run {
    drain: Drain,
}

/// A file with writes that only the pool has.
#[derive(Clone, Debug, Serialize)]
pub struct FileInfo {
    /// Where it lay when it was synced first.
    pub path: String,
    /// Writes that were not synced for real.
    pub writes: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How long ago the last of them was made, in seconds.
    pub age: u64,
}

/// Opens the pool at `path`, or makes one of `size` bytes.
///
/// # Errors
/// It cannot be made or opened; what an earlier run left in it cannot be brought home.
pub fn start(path: &Path, size: u64) -> Result<Start> {
    for _ in 0..TRIES {
        match try_start(path, size) {
            // Another run that begins has it to itself for a moment.
            Err(Error::Nvm(NvmError::Locked { .. })) => std::thread::sleep(TRY_AGAIN),
            started => return started,
        }
    }
    try_start(path, size)
}

fn try_start(path: &Path, size: u64) -> Result<Start> {
    let recovered = match prepare(path, size) {
        Ok(recovered) => Some(recovered),
        Err(Error::Nvm(NvmError::Locked { .. })) => None,
        Err(e) => return Err(e),
    };
    let nvm = pools::open(path, &mine(Access::Joint))?;
    let log = Log::join(nvm)?;
    if log.machine() != LogOptions::here() {
        // Somebody had it locked when what is left in it was to be brought home.
        let what = "it is in use, from another PID namespace or to be looked at: try again, or use another pool";
        return Err(Error::state(path.display().to_string(), what).helped(Remedy::RunElsewhere));
    }
    let (survives, on_disk) = (log.nvm().describe(), log.nvm().domain() == pool::Domain::Msync);
    Ok(Start { run: Run { drain: Drain::new(log)? }, recovered, survives, on_disk })
}

/// For a pool that will hold what programs write to private files.
fn mine(access: Access) -> NvmOptions {
    NvmOptions { access, whose: Whose::Mine, ..NvmOptions::default() }
}

/// With nobody else in the pool: what is left goes home, and the log begins anew.
fn prepare(path: &Path, size: u64) -> Result<Recovered> {
    let allot = |pool: &mut Pool| Ok(Log::prepare(pool, &LogOptions::here()).map(drop)?);
    let mut pool = pools::open_or_make(path, size, &mine(Access::Write), &allot)?;
    let mut log = Log::prepare(&mut pool, &LogOptions::here())?.log;
    let recovered = bring_home(&log)?;
    if !recovered.is_complete() {
        let pool = path.display().to_string();
        let what = "it has writes for files that cannot be reached: recovering it names them, another pool goes on \
                    without them";
        return Err(Error::state(pool.clone(), what).helped(Remedy::RecoverRun { pool }));
    }
    log.reset(&LogOptions::here())?;
    Ok(recovered)
}

/// Whether there is a pool at `path` with a log of running programs. Changes nothing.
pub fn is_log(path: &Path) -> bool {
    // A pool that somebody uses is one.
    let opened = pools::open(path, &NvmOptions { access: Access::Read, ..NvmOptions::default() });
    let Ok(nvm) = opened else { return false };
    let report = inspect(&nvm);
    let header = report.as_ref().ok().and_then(|report| report.header(nvm.name(), nvm.size()).ok());
    header.is_some_and(|header| header.areas.iter().any(|area| area.kind == AreaKind::RUN_FILES))
}

/// Brings home what a run left in the pool at `path`, which nobody may use, with no more rights than the pool's owner
/// has. May be repeated. With `force`, gives up what files that cannot be reached have left there.
///
/// # Errors
/// It is in use, damaged, or may be somebody else's. What fails with one file is its [`Outcome`].
pub fn recover(path: &Path, force: bool) -> Result<Recovered> {
    let nvm = pools::open(path, &NvmOptions { whose: Whose::OneUsers, ..NvmOptions::default() })?;
    let (owner, name) = (nvm.owner(), nvm.name().to_owned());
    let mut pool = Pool::open(nvm)?;
    let (Some(owner), Some(_)) = (owner, pool.area(AreaKind::RUN_FILES)) else {
        return Err(RunLogError::NoArea { pool: name }.into());
    };
    // A pool says which bytes go into which files, and nobody can tell whether its owner has made that up.
    rights::with_those_of(owner, move || {
        let log = Log::prepare(&mut pool, &LogOptions::here())?.log;
        let recovered = bring_home(&log)?;
        if force {
            ondol_run_log::give_up(&log)?;
        }
        Ok(recovered)
    })?
}

fn bring_home(log: &Log) -> Result<Recovered> {
    Ok(if found(log)?.is_empty() { Recovered::default() } else { ondol_run_log::recover(log)? })
}

/// Why the first fsync of new files below `dir`, and that of directories, is not made faster; none if it is.
pub fn names_why_not(dir: &Path) -> Option<String> {
    match ondol_run_log::names_why_not(dir) {
        Ok(why) => why.map(Into::into),
        Err(e) => Some(e.to_string()),
    }
}

/// Why files below `dir` are not made faster; none if they are.
pub fn why_not(dir: &Path) -> Option<String> {
    let tried = is_ext4(dir).and_then(|ext4| Ok((ext4, multigrain(dir)?)));
    match tried {
        Ok((true, true)) => None,
        Ok((false, _)) => Some("it is not on ext4".into()),
        Ok((true, false)) => Some(
            "its file system does not tell all changes apart (multigrain timestamps: Linux 6.13, inodes of 256 bytes)"
                .into(),
        ),
        Err(e) => Some(e.to_string()),
    }
}

impl Run {
    /// Syncs for real what is due; everything if `now`.
    ///
    /// # Errors
    /// The pool fails, or is damaged.
    pub fn step(&mut self, now: bool) -> Result<Drained> {
        Ok(self.drain.step(now)?)
    }
}

/// Files with writes that only the pool has; none if programs never used it. Programs may go on meanwhile.
pub(crate) fn files(nvm: Nvm) -> Result<Vec<FileInfo>> {
    let log = match Log::join(nvm) {
        Ok(log) => log,
        Err(ondol_run_log::RunLogError::NoArea { .. }) => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let now = System.now().sec.cast_unsigned();
    let describe = |file: &ondol_run_log::FoundFile| FileInfo {
        path: file.identity.as_ref().map_or_else(String::new, |identity| identity.path.display().to_string()),
        writes: file.records.len() as u64,
        bytes: file.records.iter().map(|record| record.bytes.len() as u64).sum(),
        age: now.saturating_sub(file.newest.ctime / 1_000_000_000),
    };
    let names = |dir: &ondol_run_log::FoundDir| FileInfo {
        path: dir.identity.path.display().to_string(),
        writes: dir.records.len() as u64,
        bytes: 0,
        age: now.saturating_sub(dir.records.last().map_or(0, |record| record.ctime / 1_000_000_000)),
    };
    let found = found(&log)?;
    Ok(found.files.iter().map(describe).chain(found.dirs.iter().map(names)).collect())
}
