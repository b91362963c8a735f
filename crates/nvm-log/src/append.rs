//! Appending: room is promised, lines are claimed, the record is copied and complete.

use crate::error::{LogError, Result};
use crate::format::{HEAD, LINE};
use crate::log::Log;
use crate::pages::PageWrites;
use crate::ring::{Claim, VOIDS};

/// Room in a log for one record, whatever becomes of it: also where it is voided as often as can be, and for the commit
/// after it.
///
/// Dropping it gives the room back.
#[derive(Debug)]
#[must_use = "the room is given back"]
pub struct Promise<'l> {
    log: &'l Log,
    /// Lines of the record.
    lines: u64,
    /// Lines that are set aside.
    kept: u64,
}

/// Lines that nobody else has. What depends on a record, and is ordered after it by a lock, claims its own lines after
/// this one's.
///
/// Dropping it leaves a record of zeros.
#[derive(Debug)]
#[must_use = "commits wait until it is complete"]
pub struct Slot<'l> {
    promise: Promise<'l>,
    claim: Claim,
    is_complete: bool,
}

impl Log {
    /// Promises room for a record with so many bytes of contents. To be called before any lock is taken that somebody
    /// who makes room could need.
    ///
    /// # Errors
    /// `TooLarge`; `Full`: commit, write home what is committed, release it, and ask again; `Stopped`.
    pub fn promise(&self, bytes: u64) -> Result<Promise<'_>> {
        let most = self.most();
        if bytes > most {
            return Err(LogError::TooLarge { pool: self.area.name().into(), bytes, most });
        }
        if self.ring.has_failed() {
            return Err(LogError::Stopped { pool: self.area.name().into() });
        }
        let lines = lines_of(bytes);
        let kept = lines * (VOIDS + 1) + 1;
        if !self.space.take(kept) {
            let capacity = self.space.capacity();
            return Err(LogError::Full { pool: self.area.name().into(), lines: kept, capacity });
        }
        Ok(Promise { log: self, lines, kept })
    }
}

impl<'l> Promise<'l> {
    /// Claims lines for a record with so many bytes of contents, or as many as were promised if that is less. One
    /// atomic add.
    pub fn claim(mut self, bytes: u64) -> Slot<'l> {
        self.lines = self.lines.min(lines_of(bytes));
        let claim = self.log.ring.claim(self.lines, 0);
        Slot { promise: self, claim, is_complete: false }
    }
}

impl Slot<'_> {
    /// Bytes of contents that it has room for.
    pub fn room(&self) -> u64 {
        self.claim.lines * LINE - HEAD as u64
    }

    /// Copies the contents and makes the record durable: one fence. Returns its position, which is not committed yet.
    /// Where a commit has voided it meanwhile it is appended again, at most twice, behind that commit. A record that
    /// leaves lines unused ends with zeros.
    ///
    /// # Errors
    /// `TooLarge` for the lines that were claimed, which leaves a record of zeros; the memory's failure, after which
    /// the log is stopped.
    pub fn complete(self, contents: &[u8]) -> Result<u64> {
        self.complete_with(contents, None)
    }

    /// Where it is now: where it stays if no commit voids it.
    pub fn position(&self) -> u64 {
        self.claim.position
    }

    /// As [`Slot::complete`], and `pages` are durable under the same fence.
    ///
    /// # Errors
    /// As for [`Slot::complete`].
    pub fn complete_with(mut self, contents: &[u8], pages: Option<PageWrites<'_>>) -> Result<u64> {
        let (bytes, most) = (contents.len() as u64, self.room());
        if bytes > most {
            return Err(LogError::TooLarge { pool: self.promise.log.area.name().into(), bytes, most });
        }
        self.write(contents, pages)
    }

    fn write(&mut self, contents: &[u8], mut pages: Option<PageWrites<'_>>) -> Result<u64> {
        self.is_complete = true;
        let log = self.promise.log;
        loop {
            // The fence is this thread's; who sees the record complete may build on it.
            let beside = pages.take().map(|pages| pages.0);
            log.area.write_record(self.claim.position, self.claim.lines, contents, beside).map_err(|e| log.fail(e))?;
            self.promise.kept -= self.claim.lines;
            if log.ring.complete(&self.claim) {
                // The commit's line is given back with the commit.
                self.promise.kept -= 1;
                return Ok(self.claim.position);
            }
            self.claim = log.ring.claim(self.claim.lines, self.claim.voided + 1);
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            // A failure stops the log, and whoever commits next is told.
            let _stopped = self.write(&[], None);
        }
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.log.space.give(self.kept);
    }
}

fn lines_of(bytes: u64) -> u64 {
    (bytes + HEAD as u64).div_ceil(LINE)
}
