//! Committing: one line that says that what lies before it counts.

use crate::error::{LogError, Result};
use crate::log::Log;
use crate::ring::Span;
use ondol_env::sync::atomic::Ordering::Relaxed;

impl Log {
    /// Makes everything up to the record at `position` committed and durable; whoever asks for the same at the same
    /// time waits for one commit. One fence, or none where it was done before.
    ///
    /// # Errors
    /// The memory's failure, after which the log is stopped; `Stopped`.
    pub fn commit(&self, position: u64) -> Result<()> {
        self.commit_after(position, |_| Ok::<(), LogError>(()))
    }

    /// As [`Log::commit`]. What records name outside of the log is made durable by `barrier`, which whoever commits
    /// calls when all records that the commit covers are complete, and before it counts; it is told the position below
    /// which they lie. Nobody else commits meanwhile.
    ///
    /// # Errors
    /// As for [`Log::commit`], and those of `barrier`, after which the log is stopped.
    pub fn commit_after<E: From<LogError>>(
        &self,
        position: u64,
        barrier: impl FnOnce(u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let turn = self.ring.turn(position).map_err(|e| self.stopped(e))?;
        let Some(turn) = turn else { return Ok(()) };
        let unfinished = Unfinished(self);
        let span = self.ring.gather(turn, self.options.patience).map_err(|e| self.stopped(e))?;
        barrier(span.at)?;
        self.write(&span)?;
        std::mem::forget(unfinished);
        Ok(())
    }

    /// Lines that are claimed and not durable.
    pub fn uncommitted(&self) -> u64 {
        self.ring.claimed().saturating_sub(self.ring.durable())
    }

    /// Position of the newest record that is complete and not durable; `None` when there is none.
    pub fn newest(&self) -> Option<u64> {
        self.ring.newest()
    }

    /// As [`Log::commit`], for all records that are complete when it is called.
    ///
    /// # Errors
    /// As for [`Log::commit`].
    pub fn commit_all(&self) -> Result<()> {
        match self.newest() {
            Some(position) => self.commit(position),
            None => Ok(()),
        }
    }

    fn write(&self, span: &Span) -> Result<()> {
        let now = self.env.now();
        let time = u64::try_from(now.sec).unwrap_or(0).wrapping_mul(1_000_000_000).wrapping_add(now.nsec.into());
        let line = self.area.seal.encode_commit(span, time);
        // Each of the records was fenced by its thread before `gather` saw it complete.
        self.area.write_commit(&self.area.nvm().fenced_by_others(), span.at, &line)?;
        let add = |count: &ondol_env::sync::atomic::AtomicU64, n: u64| count.store(count.load(Relaxed) + n, Relaxed);
        add(&self.counts.commits, 1);
        add(&self.counts.records, span.records);
        add(&self.counts.lines, span.at + 1 - span.from);
        add(&self.counts.voided, span.gaps.len() as u64);
        self.ring.committed(span);
        Ok(())
    }
}

/// A commit that others wait for. If it does not come, they are told.
struct Unfinished<'l>(&'l Log);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.ring.fail();
    }
}
