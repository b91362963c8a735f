//! A log that is in use.

use crate::area::Area;
use crate::contents::Contents;
use crate::error::{LogError, Result};
use crate::format::Tail;
use crate::pages::PageArea;
use crate::ring::{Failed, Ring};
use crate::space::Space;
use ondol_env::Env;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};

/// How a log is used.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A commit looks so often whether a record is complete, then voids it. Some microseconds: a thread that has its
    /// processor is done before that.
    pub patience: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience: 50 }
    }
}

/// What was done, and how full it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Commits since it was started.
    pub commits: u64,
    /// Records that they committed.
    pub records: u64,
    /// Lines that they took, of commits and of what was voided, too.
    pub lines: u64,
    /// Reservations that were voided.
    pub voided: u64,
    /// Lines that are promised or used now.
    pub used: u64,
    /// Lines of the ring.
    pub capacity: u64,
}

/// A log in NVM. Any number of threads append, commit and read at the same time.
///
/// Dropping it leaves what is committed where it is, for [`Contents::open`].
pub struct Log {
    pub(crate) area: Area,
    pages: Option<PageArea>,
    pub(crate) ring: Ring,
    pub(crate) space: Space,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) options: Options,
    pub(crate) counts: Counts,
    /// Where it begins.
    tail: Mutex<Tail>,
}

/// Written by committers alone, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commits: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) lines: AtomicU64,
    pub(crate) voided: AtomicU64,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("pool", &self.area.name()).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Log {
    /// Starts it, empty: what `contents` has of commits is durable elsewhere, says the caller, and is forgotten when
    /// this returns. After a crash before that all of it is found again.
    ///
    /// # Errors
    /// The memory's failure; `Spent` when its positions are used up.
    pub fn start(contents: Contents, env: Arc<dyn Env>, options: &Options) -> Result<Self> {
        let (area, pages, tail) = contents.forget()?;
        let lines = area.lines();
        Ok(Self {
            ring: Ring::new(lines, tail.position, tail.number),
            space: Space::new(lines),
            env,
            options: *options,
            counts: Counts::default(),
            tail: Mutex::new(tail),
            area,
            pages,
        })
    }

    /// The pages that its records may name, if its pool has any. None is in use when the log is started.
    pub fn pages(&self) -> Option<&PageArea> {
        self.pages.as_ref()
    }

    /// The position behind the newest durable commit. Positions below it are committed.
    pub fn durable(&self) -> u64 {
        self.ring.durable()
    }

    /// Where it begins: what lies below was released.
    pub fn tail(&self) -> u64 {
        self.begins().position
    }

    /// Where it begins, and the number of the commit before.
    pub(crate) fn begins(&self) -> Tail {
        *self.tail.lock()
    }

    /// Bytes that the contents of one record can have.
    pub fn most(&self) -> u64 {
        self.area.most()
    }

    /// What was done, and how full it is.
    pub fn stats(&self) -> LogStats {
        LogStats {
            commits: self.counts.commits.load(Relaxed),
            records: self.counts.records.load(Relaxed),
            lines: self.counts.lines.load(Relaxed),
            voided: self.counts.voided.load(Relaxed),
            used: self.space.used(),
            capacity: self.space.capacity(),
        }
    }

    /// Has the log begin behind commits whose records are durable elsewhere; their lines are free when this returns. In
    /// the order of their positions, each once.
    ///
    /// # Errors
    /// `OutOfTurn`, which changes nothing; the memory's failure, after which they are not free and the log may begin
    /// here or there.
    pub fn release(&self, batches: &[crate::Batch]) -> Result<()> {
        let mut tail = self.tail.lock();
        let (mut next, mut lines) = (*tail, 0);
        for batch in batches {
            if batch.from != next.position {
                return Err(LogError::OutOfTurn {
                    pool: self.area.name().into(),
                    tail: next.position,
                    from: batch.from,
                });
            }
            next = Tail { position: batch.commit + 1, number: batch.number };
            // Each record was promised a line for a commit, and all of them had this one.
            lines += next.position - batch.from + (batch.records.len() as u64).saturating_sub(1);
        }
        if next == *tail {
            return Ok(());
        }
        self.area.write_tail(next)?;
        *tail = next;
        self.space.free(lines);
        Ok(())
    }

    pub(crate) fn stopped(&self, _: Failed) -> LogError {
        LogError::Stopped { pool: self.area.name().into() }
    }

    /// Nothing becomes durable any more: nobody can tell what the memory has kept.
    pub(crate) fn fail(&self, why: LogError) -> LogError {
        self.ring.fail();
        why
    }
}
